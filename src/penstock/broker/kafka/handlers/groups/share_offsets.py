"""Where share groups stand (KIP-932): told, changed and forgotten by operators."""

from __future__ import annotations

import uuid

from penstock.broker.bounds import check_count
from penstock.broker.context import Context
from penstock.broker.handlers.groups.shared_places import (
    StandingPlace,
    beginning_at,
    standing_place,
)
from penstock.broker.kafka.call import Call
from penstock.broker.kafka.handlers.groups.answers import describe_each, group_code
from penstock.coordination.group.coordinator import Coordinator
from penstock.coordination.group.effects import Effects
from penstock.coordination.group.shared.messages import ShareReset
from penstock.model.errors import InvalidRequest, PenstockError, UnknownTopic
from penstock.protocol.kafka.errors import code_and_message
from penstock.protocol.kafka.messages import alter_share_group_offsets as altering
from penstock.protocol.kafka.messages import delete_share_group_offsets as deleting
from penstock.protocol.kafka.messages import describe_share_group_offsets as describing
from penstock.protocol.kafka.schema import ZERO_UUID
from penstock.registry.image import TopicImage

_Place = tuple[str, int]

# --- told --------------------------------------------------------------------------------------


def describe_share_group_offsets(context: Context, call: Call) -> None:
    request: describing.DescribeShareGroupOffsetsRequest = call.request
    wanted = {group.group_id: _wanted(group) for group in request.groups}
    describe_each(
        context,
        call,
        wanted,
        lambda groups, name: _described(context, groups, name, wanted[name]),
        _not_described,
        describing.DescribeShareGroupOffsetsResponse,
    )


def _wanted(group: describing.DescribeShareGroupOffsetsRequestGroup) -> list[_Place] | None:
    """None: all that there are."""
    if group.topics is None:
        return None
    places = dict.fromkeys(
        (topic.topic_name, number) for topic in group.topics for number in topic.partitions
    )
    check_count("partitions", len(places))
    return list(places)


def _described(
    context: Context, groups: Coordinator, name: str, wanted: list[_Place] | None
) -> describing.DescribeShareGroupOffsetsResponseGroup:
    kept = {(one.topic, one.partition): one for one in groups.shared.places(name)}
    topics: dict[str, describing.DescribeShareGroupOffsetsResponseTopic] = {}
    for place in sorted(kept) if wanted is None else wanted:
        topic, number = place
        if place in kept:
            found = standing_place(context, kept[place])
        else:
            found = _no_place(context, topic, number)
        if topic not in topics:
            topic_id = bytes.fromhex(found.topic_id) or ZERO_UUID
            topics[topic] = describing.DescribeShareGroupOffsetsResponseTopic(topic, topic_id, [])
        partitions = topics[topic].partitions
        assert isinstance(partitions, list)
        partitions.append(_partition(found))
    return describing.DescribeShareGroupOffsetsResponseGroup(name, list(topics.values()))


def _no_place(context: Context, topic: str, number: int) -> StandingPlace:
    """The group has not been there; perhaps nobody can."""
    try:
        topic_id = _find(context, topic, number).id
    except PenstockError as error:
        return StandingPlace(topic=topic, topic_id="", partition=number, error=error)
    return StandingPlace(topic=topic, topic_id=topic_id, partition=number)


def _partition(place: StandingPlace) -> describing.DescribeShareGroupOffsetsResponsePartition:
    code, message = code_and_message(place.error)
    return describing.DescribeShareGroupOffsetsResponsePartition(
        partition_index=place.partition,
        start_offset=place.start,
        leader_epoch=place.leader_term,
        lag=place.lag,
        error_code=code,
        error_message=message,
    )


def _not_described(
    name: str, error: PenstockError
) -> describing.DescribeShareGroupOffsetsResponseGroup:
    return describing.DescribeShareGroupOffsetsResponseGroup(
        name, error_code=group_code(error), error_message=error.message
    )


# --- changed -----------------------------------------------------------------------------------


def alter_share_group_offsets(context: Context, call: Call) -> None:
    """The group, which has no members, goes on from these offsets; it is made if there is none."""
    request: altering.AlterShareGroupOffsetsRequest = call.request
    wanted = {
        (topic.topic_name, partition.partition_index): partition.start_offset
        for topic in request.topics
        for partition in topic.partitions
    }
    check_count("partitions", len(wanted))
    resets: list[ShareReset] = []
    topics: dict[str, altering.AlterShareGroupOffsetsResponseTopic] = {}
    for (name, number), offset in wanted.items():
        error, topic_id = None, ""
        try:
            reset = _reset(context, name, number, offset)
            topic_id = reset.topic_id
            resets.append(reset)
        except PenstockError as problem:
            error = problem
        if name not in topics:
            topics[name] = altering.AlterShareGroupOffsetsResponseTopic(name, ZERO_UUID, [])
        answered = topics[name]
        answered.topic_id = bytes.fromhex(topic_id) or answered.topic_id
        assert isinstance(answered.partitions, list)
        answered.partitions.append(
            altering.AlterShareGroupOffsetsResponsePartition(number, *code_and_message(error))
        )

    def answer(what: PenstockError | None) -> None:
        if what is not None:
            response = altering.AlterShareGroupOffsetsResponse(
                error_code=group_code(what), error_message=what.message
            )
        else:
            response = altering.AlterShareGroupOffsetsResponse(responses=list(topics.values()))
        call.answer(response)

    def begin(groups: Coordinator, now_ms: int) -> Effects:
        incarnation = uuid.uuid4().hex
        return groups.shared.begin(answer, request.group_id, incarnation, resets, now_ms)

    context.groups.submit(answer, begin)


def _reset(context: Context, name: str, number: int, offset: int) -> ShareReset:
    topic = _find(context, name, number)
    if offset < 0:
        raise InvalidRequest(f"A group cannot begin at offset {offset} of {name}-{number}.")
    return ShareReset(topic=name, topic_id=topic.id, partition=number, state=beginning_at(offset))


# --- forgotten ---------------------------------------------------------------------------------


def delete_share_group_offsets(context: Context, call: Call) -> None:
    """The group begins anew in these topics, as if it had never been there."""
    request: deleting.DeleteShareGroupOffsetsRequest = call.request
    names = list(dict.fromkeys(topic.topic_name for topic in request.topics))
    check_count("topics", len(names))
    results = [_deleted(context, name) for name in names]

    def resets(groups: Coordinator) -> list[ShareReset]:
        return [
            ShareReset(
                topic=kept.topic, topic_id=kept.topic_id, partition=kept.partition, state=b""
            )
            for kept in groups.shared.places(request.group_id)
            if kept.topic in names
        ]

    def answer(what: PenstockError | None) -> None:
        if what is not None:
            response = deleting.DeleteShareGroupOffsetsResponse(
                error_code=group_code(what), error_message=what.message
            )
        else:
            response = deleting.DeleteShareGroupOffsetsResponse(responses=results)
        call.answer(response)

    def reset(groups: Coordinator, now_ms: int) -> Effects:
        incarnation = uuid.uuid4().hex
        found = resets(groups)
        return groups.shared.reset(answer, request.group_id, incarnation, found, now_ms)

    context.groups.submit(answer, reset)


def _deleted(context: Context, name: str) -> deleting.DeleteShareGroupOffsetsResponseTopic:
    try:
        topic = context.registry.image.topic(name)
    except PenstockError as error:
        code, message = code_and_message(error)
        return deleting.DeleteShareGroupOffsetsResponseTopic(name, ZERO_UUID, code, message)
    return deleting.DeleteShareGroupOffsetsResponseTopic(name, bytes.fromhex(topic.id))


# --- helpers -----------------------------------------------------------------------------------


def _find(context: Context, name: str, number: int) -> TopicImage:
    topic = context.registry.image.topic(name)
    if not 0 <= number < len(topic.partitions):
        raise UnknownTopic(f"There is no partition {number} of {name!r}.")
    return topic
