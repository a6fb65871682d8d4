"""GroupHeartbeat: members of groups that speak our own protocol join, stay and leave (R-DEL-4).

They are members like Kafka's: the same machine assigns to both, and one group may have some of
each. What differs: topics go by their names, a member may claim partitions, and one whose
connection ends has only a moment to come back. The invariant: every heartbeat is answered, once.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Final

from penstock.broker.bounds import check_count
from penstock.broker.call import Call
from penstock.broker.clients.session import Session
from penstock.broker.context import Context
from penstock.broker.handlers.groups.shared import share_heartbeat, share_response
from penstock.coordination.group.assignors.assignment import Assignment, collect
from penstock.coordination.group.consumer.membership import MANUAL
from penstock.coordination.group.consumer.messages import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    TEMPORARY_LEAVE_EPOCH,
    ConsumerHeartbeat,
    ConsumerHeartbeatAnswer,
)
from penstock.coordination.group.consumer.pace import native_interval_ms
from penstock.coordination.group.coordinator import Coordinator
from penstock.coordination.group.effects import Effects
from penstock.coordination.group.shared.messages import ShareHeartbeatAnswer
from penstock.coordination.group.subscriptions import lose_member
from penstock.coordination.group.table import GroupTable
from penstock.model.errors import (
    FencedMemberEpoch,
    InvalidRequest,
    PenstockError,
    TooManySubscriptions,
    UnknownMember,
)
from penstock.model.limits import (
    CLIENT_NAME_LENGTH_MAX,
    MEMBER_LOST_MS_MAX,
    MEMBERSHIPS_PER_CONNECTION_MAX,
)
from penstock.protocol import penstock_pb2 as pb

# Of who is in the group no longer, or never was.
_NO_MEMBER: Final = (UnknownMember, FencedMemberEpoch)


def group_heartbeat(context: Context, call: Call[pb.GroupHeartbeatRequest]) -> None:
    request, session = call.request, call.session
    if request.shared:
        shared = share_heartbeat(context, request)

        def beat(groups: Coordinator, now_ms: int) -> Effects:
            facts = context.groups.topic_facts()
            return groups.shared.heartbeat(answer, request.group, shared, facts, now_ms)
    else:
        exclusive = _heartbeat(context, call)

        def beat(groups: Coordinator, now_ms: int) -> Effects:
            facts = context.groups.topic_facts()
            return groups.consumer_heartbeat(answer, request.group, exclusive, facts, now_ms)

    membership = (request.group, request.member_id)
    is_leaving = request.member_epoch in (LEAVE_EPOCH, TEMPORARY_LEAVE_EPOCH)

    def act(groups: Coordinator, now_ms: int) -> Effects:
        if not is_leaving:
            # Before the answer, which may take a while: the connection may end first.
            _remember(context, session, membership, groups.table)
        return beat(groups, now_ms)

    def answer(what: ConsumerHeartbeatAnswer | ShareHeartbeatAnswer | PenstockError) -> None:
        if isinstance(what, PenstockError):
            if isinstance(what, _NO_MEMBER) or request.member_epoch == JOIN_EPOCH:
                session.memberships.discard(membership)
            call.refuse(what)
            return
        if is_leaving:
            session.memberships.discard(membership)
        if isinstance(what, ShareHeartbeatAnswer):
            response = share_response(context, what)
        else:
            response = _response(context, what)
        call.answer(response)

    context.groups.submit(answer, act)


def _heartbeat(context: Context, call: Call[pb.GroupHeartbeatRequest]) -> ConsumerHeartbeat:
    request = call.request
    check_count("topics", len(request.topics))
    for owned in (request.claims, request.owned):
        check_count("partitions", sum(len(topic.partitions) for topic in owned))
    if not request.member_id:
        raise InvalidRequest("The member id is empty: a member makes its own.")
    is_full = request.is_full
    claims = None
    if is_full and request.assignor == MANUAL:
        claims = tuple(
            sorted({(one.topic, number) for one in request.claims for number in one.partitions})
        )
    return ConsumerHeartbeat(
        member_id=request.member_id,
        member_epoch=request.member_epoch,
        instance_id=request.instance_id if request.HasField("instance_id") else None,
        client_id=request.client_name[:CLIENT_NAME_LENGTH_MAX],
        client_host=call.client_host,
        rebalance_timeout_ms=request.rebalance_timeout_ms if is_full else None,
        topic_names=frozenset(request.topics) if is_full else None,
        assignor=request.assignor or None if is_full else None,
        claims=claims,
        owned=_by_id(context, request.owned),
        is_point_to_point=is_full and request.point_to_point,
    )


def _by_id(context: Context, owned: Iterable[pb.OwnedTopic]) -> Assignment:
    """A topic that is gone is nobody's any more."""
    facts = context.groups.topic_facts()
    return collect(
        {
            (facts[one.topic].topic_id, number)
            for one in owned
            if one.topic in facts
            for number in one.partitions
        }
    )


def _response(context: Context, answer: ConsumerHeartbeatAnswer) -> pb.GroupHeartbeatResponse:
    config = context.config
    response = pb.GroupHeartbeatResponse(
        member_epoch=answer.member_epoch,
        heartbeat_interval_ms=native_interval_ms(
            answer, config.group_consumer_heartbeat_interval_ms
        ),
        session_timeout_ms=config.group_consumer_session_timeout_ms,
        lost_ms=MEMBER_LOST_MS_MAX,
        has_assignment=answer.assignment is not None,
    )
    names = context.registry.image.names_by_id
    for topic_id, partitions in (answer.assignment or {}).items():
        name = names.get(bytes.fromhex(topic_id))
        if name is not None:
            response.assignment.add(topic=name, partitions=partitions)
    return response


def _remember(
    context: Context, session: Session, membership: tuple[str, str], table: GroupTable
) -> None:
    """The member speaks on this connection: its group is told when that ends."""
    memberships = session.memberships
    if membership in memberships:
        return
    if len(memberships) >= MEMBERSHIPS_PER_CONNECTION_MAX:
        # Some may have been removed since, or have come back on another connection and left there.
        memberships -= {one for one in memberships if not table.has_member(*one)}
    if len(memberships) >= MEMBERSHIPS_PER_CONNECTION_MAX:
        raise TooManySubscriptions(
            f"{len(memberships)} members of groups speak on this connection, which is the limit: "
            "use another one for more."
        )
    memberships.add(membership)
    session.on_close(_remember, partial(_lost, context, session))


def groups_of(context: Context, session: Session) -> list[str]:
    """The groups that members who speak on this connection are in, as far as it is this broker that
    looks after groups."""
    found: list[str] = []

    def look(groups: Coordinator) -> None:
        is_member = groups.table.has_member
        found.extend(sorted({one[0] for one in session.memberships if is_member(*one)}))

    context.groups.ask(lambda _: None, look)
    return found


def _lost(context: Context, session: Session) -> None:
    """The connection has ended of members that have not left."""

    def done(what: PenstockError | None) -> None:
        del what  # where this broker does not look after the groups any more, another one does

    def lose(group: str, member_id: str) -> None:
        context.groups.submit(
            done,
            lambda groups, now_ms: lose_member(groups.table, done, group, member_id, now_ms),
        )

    for group, member_id in session.memberships:
        lose(group, member_id)
