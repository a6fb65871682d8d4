"""OffsetCommit, OffsetFetch and OffsetDelete: how far groups have read (R-DEL-10)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from penstock.broker.bounds import check_count
from penstock.broker.context import Context
from penstock.broker.kafka.call import Call
from penstock.broker.kafka.handlers.groups.answers import group_code
from penstock.coordination.group.coordinator import CommitRequest, Coordinator, Outcomes
from penstock.coordination.group.offsets import (
    CommittedOffset,
    GroupOffsets,
    Place,
    check_metadata,
)
from penstock.model.errors import PenstockError, UnknownTopic
from penstock.protocol.kafka.errors import ErrorCode
from penstock.protocol.kafka.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from penstock.protocol.kafka.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from penstock.protocol.kafka.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from penstock.registry.image import ClusterImage, TopicImage

_NO_OFFSET: Final = -1
_NO_RETENTION: Final = -1
# The first versions with a list of groups, and with topics by their ids.
_FETCH_GROUPS_SINCE: Final = 8
_TOPIC_IDS_SINCE: Final = 10
# The first version whose clients understand what a group of the next generation answers.
_EPOCHS_SINCE: Final = 9


# --- commit ------------------------------------------------------------------------------------


def offset_commit(context: Context, call: Call) -> None:
    """Offsets of partitions that are not there are refused one by one, and the rest is kept."""
    request: OffsetCommitRequest = call.request
    check_count("offsets", sum(len(topic.partitions) for topic in request.topics))
    image = context.registry.image
    now_ms = context.clock.now_ms()
    retention_ms = request.retention_time_ms
    expires_ms = None if retention_ms == _NO_RETENTION else now_ms + retention_ms
    topics = []
    offsets: list[CommittedOffset] = []
    # The answers of what was not refused already.
    submitted: list[OffsetCommitResponsePartition] = []
    for topic in request.topics:
        found = _topic_of(image, call.version, topic)
        parts = []
        for wanted in topic.partitions:
            part = OffsetCommitResponsePartition(wanted.partition_index)
            parts.append(part)
            try:
                committed = _committed(found, wanted, now_ms, expires_ms)
                check_metadata(committed)
            except PenstockError as error:
                part.error_code = group_code(error)
            else:
                offsets.append(committed)
                submitted.append(part)
        topics.append(OffsetCommitResponseTopic(topic.name, topic.topic_id, parts))
    response = OffsetCommitResponse(topics=topics)
    if not offsets:
        call.answer(response)
        return
    commit = CommitRequest(
        group=request.group_id,
        offsets=offsets,
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        generation=request.generation_id_or_member_epoch,
        knows_epochs=call.version >= _EPOCHS_SINCE,
    )

    def answer(what: PenstockError | None) -> None:
        if what is not None:
            code = group_code(what)
            for part in submitted:
                part.error_code = code
        call.answer(response)

    context.groups.submit(answer, lambda groups, now_ms: groups.commit(answer, commit, now_ms))


def _topic_of(
    image: ClusterImage, version: int, topic: OffsetCommitRequestTopic
) -> TopicImage | PenstockError:
    try:
        if version >= _TOPIC_IDS_SINCE:
            return image.topic_by_id(topic.topic_id)
        return image.topic(topic.name)
    except PenstockError as error:
        return error


def _committed(
    topic: TopicImage | PenstockError,
    wanted: OffsetCommitRequestPartition,
    now_ms: int,
    expires_ms: int | None,
) -> CommittedOffset:
    partition = wanted.partition_index
    if isinstance(topic, PenstockError):
        raise topic
    if not 0 <= partition < len(topic.partitions):
        raise UnknownTopic(f"There is no partition {partition} of {topic.name}.")
    return CommittedOffset(
        topic.name,
        topic.id,
        partition,
        wanted.committed_offset,
        wanted.committed_leader_epoch,
        wanted.committed_metadata or "",
        now_ms,
        expires_ms,
    )


# --- fetch -------------------------------------------------------------------------------------


def offset_fetch(context: Context, call: Call) -> None:
    request: OffsetFetchRequest = call.request
    version = call.version
    wanted = _wanted(request.groups) if version >= _FETCH_GROUPS_SINCE else [_only_group(request)]
    check_count("groups", len(wanted))
    check_count(
        "partitions",
        sum(len(topic.partition_indexes) for group in wanted for topic in group.topics or ()),
    )
    image = context.registry.image

    def fetch(groups: Coordinator) -> list[OffsetFetchResponseGroup]:
        return [_fetched(groups, image, version, group) for group in wanted]

    def answer(what: list[OffsetFetchResponseGroup] | PenstockError) -> None:
        if isinstance(what, PenstockError):
            what = [_not_fetched(group, what) for group in wanted]
        if version >= _FETCH_GROUPS_SINCE:
            call.answer(OffsetFetchResponse(groups=what))
        else:
            call.answer(_only_response(what[0]))

    # Answered behind everything that was committed before, so nothing that is found is unstable.
    context.groups.ask(answer, fetch)


def _wanted(groups: Sequence[OffsetFetchRequestGroup]) -> list[OffsetFetchRequestGroup]:
    """Who asks for all offsets of a group is told them once, or a short request would make an
    answer of gigabytes."""
    places = enumerate(groups)
    return list(
        {
            (one.group_id, place if one.topics is not None else -1): one for place, one in places
        }.values()
    )


def _only_group(request: OffsetFetchRequest) -> OffsetFetchRequestGroup:
    """The request of an earlier version in the words of the later ones."""
    topics = None
    if request.topics is not None:
        topics = [
            OffsetFetchRequestTopics(topic.name, partition_indexes=topic.partition_indexes)
            for topic in request.topics
        ]
    return OffsetFetchRequestGroup(request.group_id, topics=topics)


def _only_response(group: OffsetFetchResponseGroup) -> OffsetFetchResponse:
    """The answer in the words of the earlier versions, of which the first has no error of its own
    and so says it for each partition."""
    return OffsetFetchResponse(
        error_code=group.error_code,
        topics=[
            OffsetFetchResponseTopic(
                topic.name,
                [
                    OffsetFetchResponsePartition(
                        part.partition_index,
                        part.committed_offset,
                        part.committed_leader_epoch,
                        part.metadata,
                        part.error_code or group.error_code,
                    )
                    for part in topic.partitions
                ],
            )
            for topic in group.topics
        ],
    )


def _fetched(
    groups: Coordinator, image: ClusterImage, version: int, wanted: OffsetFetchRequestGroup
) -> OffsetFetchResponseGroup:
    try:
        offsets = groups.fetch(wanted.group_id, wanted.member_id, wanted.member_epoch)
    except PenstockError as error:
        return _not_fetched(wanted, error)
    if wanted.topics is None:
        topics = _all_topics(image, offsets)
    else:
        topics = [_topic(image, version, offsets, topic) for topic in wanted.topics]
    return OffsetFetchResponseGroup(wanted.group_id, topics)


def _not_fetched(wanted: OffsetFetchRequestGroup, error: PenstockError) -> OffsetFetchResponseGroup:
    topics = [
        OffsetFetchResponseTopics(
            topic.name,
            topic.topic_id,
            [_nothing(partition) for partition in topic.partition_indexes],
        )
        for topic in wanted.topics or ()
    ]
    return OffsetFetchResponseGroup(wanted.group_id, topics, group_code(error))


def _all_topics(image: ClusterImage, offsets: GroupOffsets) -> list[OffsetFetchResponseTopics]:
    by_topic: dict[str, list[OffsetFetchResponsePartitions]] = {}
    for committed in sorted(offsets):
        topic = image.topics.get(committed.topic)
        if topic is not None and topic.id == committed.topic_id and not topic.deleting:
            by_topic.setdefault(topic.name, []).append(_found(committed))
    return [
        OffsetFetchResponseTopics(name, bytes.fromhex(image.topics[name].id), parts)
        for name, parts in by_topic.items()
    ]


def _topic(
    image: ClusterImage, version: int, offsets: GroupOffsets, wanted: OffsetFetchRequestTopics
) -> OffsetFetchResponseTopics:
    name, code = wanted.name, ErrorCode.NONE
    if version >= _TOPIC_IDS_SINCE:
        name = image.names_by_id.get(wanted.topic_id, "")
        if not name:
            code = ErrorCode.UNKNOWN_TOPIC_ID
    topic = image.topics.get(name)
    parts = []
    for partition in wanted.partition_indexes:
        committed = None if topic is None else offsets.get(name, partition)
        # An offset of an earlier topic of this name says nothing about this one.
        if committed is None or topic is None or committed.topic_id != topic.id or topic.deleting:
            parts.append(_nothing(partition, code))
        else:
            parts.append(_found(committed))
    return OffsetFetchResponseTopics(name, wanted.topic_id, parts)


def _found(committed: CommittedOffset) -> OffsetFetchResponsePartitions:
    return OffsetFetchResponsePartitions(
        committed.partition, committed.offset, committed.leader_epoch, committed.metadata
    )


def _nothing(partition: int, code: ErrorCode = ErrorCode.NONE) -> OffsetFetchResponsePartitions:
    return OffsetFetchResponsePartitions(partition, _NO_OFFSET, -1, "", code)


# --- delete ------------------------------------------------------------------------------------


def offset_delete(context: Context, call: Call) -> None:
    request: OffsetDeleteRequest = call.request
    check_count("offsets", sum(len(topic.partitions) for topic in request.topics))
    topics = []
    places: list[Place] = []
    submitted: list[OffsetDeleteResponsePartition] = []
    for topic in request.topics:
        is_known = context.groups.topic_id(topic.name) is not None
        parts = []
        for wanted in topic.partitions:
            part = OffsetDeleteResponsePartition(wanted.partition_index)
            parts.append(part)
            if is_known:
                places.append((topic.name, wanted.partition_index))
                submitted.append(part)
            else:
                part.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        topics.append(OffsetDeleteResponseTopic(topic.name, parts))

    def answer(what: Outcomes | PenstockError) -> None:
        if isinstance(what, PenstockError):
            call.answer(OffsetDeleteResponse(error_code=group_code(what)))
            return
        for part, error in zip(submitted, what, strict=True):
            if error is not None:
                part.error_code = group_code(error)
        call.answer(OffsetDeleteResponse(topics=topics))

    context.groups.submit(
        answer, lambda groups, _: groups.delete_offsets(answer, request.group_id, places)
    )
