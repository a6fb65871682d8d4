"""From one of Kafka's requests to its handler.

A handler either answers the call itself, at once or by callback (the hot ones); or returns the
response; or returns a coroutine that does, which becomes a task. The invariant: every call is
answered whatever happens, or its connection is closed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from dataclasses import fields
from typing import Any, Final

from penstock.broker.context import Context
from penstock.broker.kafka.call import Call
from penstock.broker.kafka.handlers import (
    cluster,
    configs,
    consumer_groups,
    fetch,
    group_offsets,
    groups,
    metadata,
    offsets,
    produce,
    producers,
    records,
    topics,
    versions,
)
from penstock.model.errors import InternalError, PenstockError
from penstock.protocol.kafka import apis
from penstock.protocol.kafka.errors import code_of
from penstock.protocol.kafka.schema import wire_of

logger = logging.getLogger(__name__)

# Responses differ from API to API, so the table cannot name them.
Handler = Callable[[Context, Call], Any]

HANDLERS: Final[dict[int, Handler]] = {
    apis.PRODUCE.key: produce.produce,
    apis.FETCH.key: fetch.fetch,
    apis.LIST_OFFSETS.key: offsets.list_offsets,
    apis.METADATA.key: metadata.metadata,
    apis.OFFSET_COMMIT.key: group_offsets.offset_commit,
    apis.OFFSET_FETCH.key: group_offsets.offset_fetch,
    apis.FIND_COORDINATOR.key: groups.find_coordinator,
    apis.JOIN_GROUP.key: groups.join_group,
    apis.HEARTBEAT.key: groups.heartbeat,
    apis.LEAVE_GROUP.key: groups.leave_group,
    apis.SYNC_GROUP.key: groups.sync_group,
    apis.DESCRIBE_GROUPS.key: groups.describe_groups,
    apis.LIST_GROUPS.key: groups.list_groups,
    apis.API_VERSIONS.key: versions.api_versions,
    apis.CREATE_TOPICS.key: topics.create_topics,
    apis.DELETE_TOPICS.key: topics.delete_topics,
    apis.DELETE_RECORDS.key: records.delete_records,
    apis.INIT_PRODUCER_ID.key: producers.init_producer_id,
    apis.OFFSET_FOR_LEADER_EPOCH.key: offsets.offset_for_leader_epoch,
    apis.DESCRIBE_CONFIGS.key: configs.describe_configs,
    apis.ALTER_CONFIGS.key: configs.alter_configs,
    apis.DESCRIBE_LOG_DIRS.key: cluster.describe_log_dirs,
    apis.CREATE_PARTITIONS.key: topics.create_partitions,
    apis.DELETE_GROUPS.key: groups.delete_groups,
    apis.INCREMENTAL_ALTER_CONFIGS.key: configs.incremental_alter_configs,
    apis.OFFSET_DELETE.key: group_offsets.offset_delete,
    apis.DESCRIBE_CLUSTER.key: cluster.describe_cluster,
    apis.DESCRIBE_PRODUCERS.key: producers.describe_producers,
    apis.CONSUMER_GROUP_HEARTBEAT.key: consumer_groups.consumer_group_heartbeat,
    apis.CONSUMER_GROUP_DESCRIBE.key: consumer_groups.consumer_group_describe,
    apis.LIST_CONFIG_RESOURCES.key: configs.list_config_resources,
    apis.DESCRIBE_TOPIC_PARTITIONS.key: topics.describe_topic_partitions,
}


class KafkaDispatcher:
    """One per broker. Owns the tasks of handlers that wait."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._tasks: set[asyncio.Task[None]] = set()

    def dispatch(self, call: Call) -> None:
        try:
            result = HANDLERS[call.api.key](self._context, call)
        except PenstockError as error:
            _refuse(call, error)
        except Exception:
            logger.exception("The handler of Kafka's %s failed", call.api.name)
            _refuse(call, InternalError())
        else:
            if result is None:
                return  # it answers by itself
            if asyncio.iscoroutine(result):
                task = self._context.loop.create_task(self._answer(call, result))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
            else:
                call.answer(result)

    async def finish(self, timeout_s: float) -> None:
        """Wait for the handlers that are under way, but not for ever."""
        if self._tasks:
            _, late = await asyncio.wait(self._tasks, timeout=timeout_s)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)

    async def _answer(self, call: Call, handling: Coroutine[Any, Any, object]) -> None:
        try:
            call.answer(await handling)
        except PenstockError as error:
            _refuse(call, error)
        except Exception:
            logger.exception("The handler of Kafka's %s failed", call.api.name)
            _refuse(call, InternalError())


def _refuse(call: Call, error: PenstockError) -> None:
    """Answer with nothing but the error, where the response has a place for it."""
    response = call.api.response
    names = {
        field.name for field in fields(response) if wire_of(field.metadata).is_in(call.version)
    }
    if "error_code" not in names:
        call.refuse(error)
        return
    answer = response(error_code=code_of(error))
    if "error_message" in names:
        answer.error_message = error.message
    call.answer(answer)
