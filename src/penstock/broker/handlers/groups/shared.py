"""Shared groups: their members, and where they stand in partitions (R-DEL-3).

A member's heartbeat comes from a client; ReadShare and WriteShare come from the leader of a
partition. The invariant: only who leads the partition as far as this broker knows may change where
a group stands in it.
"""

from __future__ import annotations

import uuid

from penstock.broker.bounds import check_count
from penstock.broker.context import Context
from penstock.broker.groups.coordinator import Answer
from penstock.broker.handlers.groups.answers import answered
from penstock.coordination.group.assignors.assignment import Assignment
from penstock.coordination.group.shared.messages import (
    ShareHeartbeat,
    ShareHeartbeatAnswer,
    SharePlace,
    ShareReadAnswer,
)
from penstock.coordination.group.shared.settings import (
    SharedFilter,
    SharedSettings,
    WantedSettings,
)
from penstock.model.errors import InvalidRequest, StaleTerm, UnknownTerm, UnknownTopic
from penstock.protocol import penstock_pb2 as pb
from penstock.registry.image import ClusterImage


def share_heartbeat(context: Context, request: pb.GroupHeartbeatRequest) -> ShareHeartbeat:
    """A member of a shared group joins, stays or leaves."""
    check_count("topics", len(request.topics))
    if request.claims or request.assignor or request.HasField("instance_id"):
        raise InvalidRequest(
            "A member of a shared group has no assignor, no claims and no instance id: leave them "
            "out."
        )
    is_told = bool(request.topics) or request.is_full
    return ShareHeartbeat(
        member_id=request.member_id,
        member_epoch=request.member_epoch,
        new_incarnation=uuid.uuid4().hex,
        client_id=request.client_name,
        topic_names=frozenset(request.topics) if is_told else None,
        settings=_wanted(context, request.settings) if request.HasField("settings") else None,
        is_point_to_point=request.point_to_point,
    )


def share_response(context: Context, told: ShareHeartbeatAnswer) -> pb.GroupHeartbeatResponse:
    response = pb.GroupHeartbeatResponse(
        member_epoch=told.member_epoch, heartbeat_interval_ms=told.heartbeat_interval_ms
    )
    if told.assignment is not None:
        response.has_assignment = True
        response.assignment.extend(named(context.registry.image, told.assignment))
    return response


async def read_share(context: Context, request: pb.ReadShareRequest) -> pb.ReadShareResponse:
    """Where the group stands, for the leader of the partition."""
    place = _place(context, request)

    def ask(answer: Answer) -> None:
        context.groups.submit(
            answer, lambda groups, _: groups.shared.read(answer, request.group, place)
        )

    found: ShareReadAnswer = await answered(context, ask)
    return pb.ReadShareResponse(
        is_known=bool(found.state),
        state=found.state,
        settings=settings_message(found.settings),
        incarnation=found.incarnation,
        sequence=found.sequence,
        start_ago_ms=found.start_ago_ms,
    )


async def write_share(context: Context, request: pb.WriteShareRequest) -> pb.WriteShareResponse:
    """Where the group stands from now on. Answered when it is durable."""
    place = _place(context, request)

    def ask(answer: Answer) -> None:
        context.groups.submit(
            answer,
            lambda groups, _: groups.shared.write(
                answer, request.group, request.incarnation, place, request.state
            ),
        )

    settings: SharedSettings = await answered(context, ask)
    return pb.WriteShareResponse(lease_ms=settings.lease_ms, attempts_max=settings.attempts_max)


def settings_message(settings: SharedSettings) -> pb.SharedSettings:
    """All of them, none left out."""
    wanted = settings.filter
    return pb.SharedSettings(
        ordered_by_key=settings.ordered_by_key,
        lease_ms=settings.lease_ms,
        attempts_max=settings.attempts_max,
        backoff_ms=settings.backoff_ms,
        backoff_ms_max=settings.backoff_ms_max,
        filter=pb.Filter(
            tags=wanted.tags,
            key=wanted.key,
            key_prefix=wanted.key_prefix,
            expression=wanted.expression,
        ),
        start_latest=settings.start_latest,
    )


def named(image: ClusterImage, partitions: Assignment) -> list[pb.OwnedTopic]:
    """With the topics' names; a topic that was deleted meanwhile has none, and is left out."""
    names = ((image.names_by_id.get(bytes.fromhex(one)), one) for one in partitions)
    return [
        pb.OwnedTopic(topic=name, partitions=partitions[topic_id])
        for name, topic_id in names
        if name is not None
    ]


def _wanted(context: Context, settings: pb.SharedSettings) -> WantedSettings:
    wanted = settings.filter
    check_count("tags", len(wanted.tags))
    if wanted.ByteSize():
        # So that whoever writes it is told what is wrong with it.
        context.delivery.filters.compiled(wanted)
    return WantedSettings(
        ordered_by_key=settings.ordered_by_key,
        lease_ms=settings.lease_ms or None,
        attempts_max=settings.attempts_max or None,
        backoff_ms=settings.backoff_ms if settings.HasField("backoff_ms") else None,
        backoff_ms_max=settings.backoff_ms_max or None,
        filter=SharedFilter(
            tags=tuple(sorted(set(wanted.tags))),
            key=wanted.key if wanted.HasField("key") else None,
            key_prefix=wanted.key_prefix if wanted.HasField("key_prefix") else None,
            expression=wanted.expression,
        ),
        start_latest=settings.start_latest,
    )


def _place(context: Context, request: pb.ReadShareRequest | pb.WriteShareRequest) -> SharePlace:
    """Checked against what the leaders tell every broker: a term that nobody leads in would shut
    out those who do."""
    topic = context.registry.image.topic_by_id(_topic_id(request.topic_id))
    if request.partition >= len(topic.partitions):
        raise UnknownTopic(f"There is no partition {request.partition} of {topic.name!r}.")
    known = context.leaders.of(topic, request.partition)
    if request.leader_term > known.term:
        raise UnknownTerm(
            f"This broker knows of no leader of {topic.name}-{request.partition} in term "
            f"{request.leader_term}: try again."
        )
    if request.leader_term < known.term:
        raise StaleTerm(
            f"{topic.name}-{request.partition} is led in term {known.term}, and this is a leader "
            f"of term {request.leader_term}."
        )
    return SharePlace(
        topic=topic.name,
        topic_id=topic.id,
        partition=request.partition,
        leader_term=request.leader_term,
        sequence=request.sequence if isinstance(request, pb.WriteShareRequest) else 0,
    )


def _topic_id(text: str) -> bytes:
    try:
        return bytes.fromhex(text)
    except ValueError:
        raise InvalidRequest(f"{text[:80]!r} is not the id of a topic.") from None
