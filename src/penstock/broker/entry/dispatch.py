"""From a call's number to its handler.

Two kinds of handlers: those that answer by themselves, at once or by callback (the hot ones), and
those that are awaited in a task of their own. What a direct handler raises is answered by the
channel, what an awaited one raises is answered here, so every call is answered whatever happens.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine
from typing import Any, Final

from google.protobuf.message import Message

from penstock.broker.clients.session import Session
from penstock.broker.context import Context
from penstock.broker.entry.gate import Doorway
from penstock.broker.handlers import (
    clients,
    cluster,
    delay,
    fetch,
    leases,
    produce,
    push,
    removals,
    replies,
    staging,
    topics,
)
from penstock.broker.handlers.groups import exclusivity as claims
from penstock.broker.handlers.groups import find_coordinator as coordinators
from penstock.broker.handlers.groups import groups
from penstock.broker.handlers.groups import members as group_members
from penstock.broker.handlers.groups import settings as group_settings
from penstock.broker.handlers.groups import shared as share_groups
from penstock.broker.turns.handler_tasks import HandlerTasks
from penstock.model.errors import InternalError, PenstockError
from penstock.protocol import calls
from penstock.protocol.calls import CALLS, CallType, parse

logger = logging.getLogger(__name__)

DirectHandler = Callable[[Context, Session, int, memoryview, memoryview], None]
# The request's class differs from handler to handler, so the table cannot name it.
AwaitedHandler = Callable[[Context, Any], Coroutine[Any, Any, Message]]

_DIRECT: Final[dict[int, DirectHandler]] = {
    calls.PRODUCE.number: produce.produce,
    calls.FETCH.number: fetch.fetch,
    calls.FIND_OFFSET.number: fetch.find_offset,
    calls.STAGE.number: staging.stage,
    calls.COPY.number: staging.copy,
    calls.GROUP_HEARTBEAT.number: group_members.group_heartbeat,
    calls.REPLY.number: replies.reply,
    calls.DELAY.number: delay.delay,
    calls.APPEND_DUE.number: delay.deliver_due,
    calls.LEASE.number: leases.lease,
    calls.SETTLE.number: leases.settle,
    calls.OPEN_PUSH.number: push.open_push,
    calls.GIVE_CREDIT.number: push.give_credit,
    calls.CLOSE_PUSH.number: push.close_push,
    calls.RESUME_PUSH.number: push.resume_push,
}
_AWAITED: Final[dict[int, AwaitedHandler]] = {
    calls.METADATA.number: topics.metadata,
    calls.INIT_PRODUCER.number: produce.init_producer,
    calls.CREATE_TOPIC.number: topics.create_topic,
    calls.DELETE_TOPIC.number: topics.delete_topic,
    calls.DESCRIBE_TOPIC.number: topics.describe_topic,
    calls.ALTER_TOPIC.number: topics.alter_topic,
    calls.ADD_PARTITIONS.number: topics.add_partitions,
    calls.FIND_COORDINATOR.number: coordinators.find_coordinator,
    calls.COMMIT_OFFSETS.number: groups.commit_offsets,
    calls.FETCH_OFFSETS.number: groups.fetch_offsets,
    calls.LIST_GROUPS.number: groups.list_groups,
    calls.DESCRIBE_GROUP.number: groups.describe_group,
    calls.DELETE_GROUP.number: groups.delete_group,
    calls.LIST_SUBSCRIPTIONS.number: groups.subscriptions,
    calls.ALTER_GROUP_SETTINGS.number: group_settings.alter_group_settings,
    calls.GROUP_SETTINGS.number: group_settings.group_settings,
    calls.COMMIT_STAGED.number: staging.commit_staged,
    calls.ABORT_STAGED.number: staging.abort_staged,
    calls.COMMITTED_EPOCH.number: staging.committed_epoch,
    calls.LIST_REMOVALS.number: removals.list_removals,
    calls.LIST_DELETED_TOPICS.number: removals.list_deleted_topics,
    calls.DESCRIBE_CLUSTER.number: cluster.describe_cluster,
    calls.CHANGE_PLACEMENT.number: cluster.change_placement,
    calls.ELECT_LEADERS.number: cluster.elect_leaders,
    calls.DESCRIBE_BROKER.number: cluster.describe_broker,
    calls.DEAD_LETTER.number: leases.dead_letter,
    calls.READ_SHARE.number: share_groups.read_share,
    calls.WRITE_SHARE.number: share_groups.write_share,
    calls.CLAIM_TOPIC.number: claims.claim_topic,
    calls.RELEASE_TOPIC.number: claims.release_topic,
    calls.CHECK_CLAIM.number: claims.check_claim,
    calls.CANCEL_DELAYED.number: delay.cancel_delayed,
    calls.DESCRIBE_DELAYED.number: delay.describe_delayed,
    calls.PUT_SCHEDULE.number: delay.put_schedule,
    calls.DELETE_SCHEDULE.number: delay.delete_schedule,
    calls.LIST_SCHEDULES.number: delay.list_schedules,
    calls.LIST_CLIENTS.number: clients.list_clients,
    calls.STEER_CLIENT.number: clients.steer_client,
}


class Dispatcher:
    """One per broker. Owns the tasks of awaited handlers."""

    def __init__(self, context: Context, doorway: Doorway) -> None:
        self._context = context
        self._doorway = doorway
        self.tasks = HandlerTasks(context.loop)

    def dispatch(
        self,
        session: Session,
        call: int,
        message_id: int,
        envelope: memoryview,
        payload: memoryview,
    ) -> None:
        """Let the call's handler answer it. What this raises is the answer."""
        direct = _DIRECT.get(call)
        if direct is not None:
            direct(self._context, session, message_id, envelope, payload)
            return
        awaited = _AWAITED.get(call)
        if awaited is None:
            self._doorway.serve(session, call, message_id, envelope, payload)
            return
        call_type = CALLS[call]
        request = parse(call_type.request, envelope)
        answer = self._answer(session, call_type, message_id, awaited(self._context, request))
        self.tasks.start(answer)

    async def _answer(
        self,
        session: Session,
        call_type: CallType[Any, Any],
        message_id: int,
        handling: Coroutine[Any, Any, Message],
    ) -> None:
        try:
            response = await handling
        except PenstockError as error:
            session.channel.answer_error(message_id, error)
        except Exception:
            logger.exception("The handler of %s failed", call_type.name)
            session.channel.answer_error(message_id, InternalError())
        else:
            session.channel.answer(message_id, call_type.number, response.SerializeToString())
