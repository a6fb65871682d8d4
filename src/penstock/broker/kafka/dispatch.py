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
from importlib import import_module
from typing import Any, Final

from penstock.broker.context import Context
from penstock.broker.kafka.call import Call
from penstock.broker.turns.handler_tasks import HandlerTasks
from penstock.model.errors import InternalError, PenstockError
from penstock.protocol.kafka import apis
from penstock.protocol.kafka.apis import Api
from penstock.protocol.kafka.errors import code_of
from penstock.protocol.kafka.schema import wire_of

logger = logging.getLogger(__name__)

# Responses differ from API to API, so the table cannot name them.
Handler = Callable[[Context, Call], Any]

# Which module of `broker.kafka.handlers` answers what, by a function that is called as its API.
_MODULES: Final[dict[str, tuple[Api, ...]]] = {
    "cluster": (
        apis.ALTER_REPLICA_LOG_DIRS,
        apis.DESCRIBE_ACLS,
        apis.DESCRIBE_CLUSTER,
        apis.DESCRIBE_LOG_DIRS,
    ),
    "configs": (
        apis.ALTER_CONFIGS,
        apis.DESCRIBE_CONFIGS,
        apis.INCREMENTAL_ALTER_CONFIGS,
        apis.LIST_CONFIG_RESOURCES,
    ),
    "groups.consumer": (apis.CONSUMER_GROUP_DESCRIBE, apis.CONSUMER_GROUP_HEARTBEAT),
    "fetch": (apis.FETCH,),
    "groups.offsets": (apis.OFFSET_COMMIT, apis.OFFSET_DELETE, apis.OFFSET_FETCH),
    "features": (apis.UPDATE_FEATURES,),
    "groups.classic": (
        apis.DELETE_GROUPS,
        apis.DESCRIBE_GROUPS,
        apis.FIND_COORDINATOR,
        apis.HEARTBEAT,
        apis.JOIN_GROUP,
        apis.LEAVE_GROUP,
        apis.LIST_GROUPS,
        apis.SYNC_GROUP,
    ),
    "metadata": (apis.METADATA,),
    "offsets": (apis.LIST_OFFSETS, apis.OFFSET_FOR_LEADER_EPOCH),
    "produce": (apis.PRODUCE,),
    "producers": (apis.DESCRIBE_PRODUCERS, apis.INIT_PRODUCER_ID),
    "quorum": (apis.DESCRIBE_QUORUM,),
    "reassignments": (
        apis.ALTER_PARTITION_REASSIGNMENTS,
        apis.ELECT_LEADERS,
        apis.LIST_PARTITION_REASSIGNMENTS,
    ),
    "records": (apis.DELETE_RECORDS,),
    "groups.share_offsets": (
        apis.ALTER_SHARE_GROUP_OFFSETS,
        apis.DELETE_SHARE_GROUP_OFFSETS,
        apis.DESCRIBE_SHARE_GROUP_OFFSETS,
    ),
    "groups.share": (apis.SHARE_GROUP_DESCRIBE, apis.SHARE_GROUP_HEARTBEAT),
    "groups.share_leases": (apis.SHARE_ACKNOWLEDGE, apis.SHARE_FETCH),
    "topics": (
        apis.CREATE_PARTITIONS,
        apis.CREATE_TOPICS,
        apis.DELETE_TOPICS,
        apis.DESCRIBE_TOPIC_PARTITIONS,
    ),
    "versions": (apis.API_VERSIONS,),
}


def _found_when_called(module: str, api: Api) -> Handler:
    """A handler that is imported for its first request, and takes its own place then."""

    def find(context: Context, call: Call) -> Any:
        imported = import_module(f"penstock.broker.kafka.handlers.{module}")
        handler = HANDLERS[api.key] = getattr(imported, api.word)
        return handler(context, call)

    return find


HANDLERS: Final[dict[int, Handler]] = {
    api.key: _found_when_called(module, api) for module, of_it in _MODULES.items() for api in of_it
}


class KafkaDispatcher:
    """One per broker. Owns the tasks of handlers that wait."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self.tasks = HandlerTasks(context.loop)

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
                self.tasks.start(self._answer(call, result))
            else:
                call.answer(result)

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
