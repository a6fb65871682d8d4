"""Topics and groups, for people and tools: made, described, changed, listed.

One call each, no state. The invariant: a call that changes something is not repeated where the
broker may have done it, so an answer that was lost shows as an error and not as a second change.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

from penstock.client.concurrency.tasks import in_parts
from penstock.client.connection.routes import GROUPS, NO_LEADER, Routes
from penstock.client.consuming.committer import commit_offsets, fetch_offsets
from penstock.client.consuming.starts import Start, check_start, find_request
from penstock.client.reading.missing_topics import nearest_topic
from penstock.model.error_codes import from_code
from penstock.model.errors import (
    MalformedFrame,
    NotLeader,
    PenstockError,
    UnavailableError,
    UnknownTopic,
)
from penstock.model.ids import TopicPartition, check_topic_name
from penstock.model.removal import REMOVAL_CAUSES, DeletedPartition, DeletedTopic, Removal
from penstock.protocol import penstock_pb2 as pb
from penstock.protocol.calls import (
    ADD_PARTITIONS,
    ALTER_TOPIC,
    CREATE_TOPIC,
    DELETE_TOPIC,
    DESCRIBE_TOPIC,
    FIND_OFFSET,
    LIST_DELETED_TOPICS,
    LIST_GROUPS,
    LIST_REMOVALS,
)

# Whoever describes a topic waits so long for leaders that are being elected, and no longer: it may
# be a person who wants to know what is wrong.
_ELECTION_S_MAX: Final = 3.0
_LOOK_S: Final = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSummary:
    """A topic in a list."""

    name: str
    topic_id: str
    partition_count: int
    error: PenstockError | None
    """Why the topic cannot be used now, if it cannot."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionDescription:
    """One partition of a topic, as its leader sees it."""

    partition: int
    leader: int
    """Its broker; -1 if there is none now."""
    replicas: tuple[int, ...]
    """Which brokers are to have a copy, the preferred leader first."""
    in_sync: tuple[int, ...]
    """Which of them have everything that is committed."""
    log_start_offset: int
    high_watermark: int
    log_end_offset: int
    size_bytes: int
    segment_count: int
    error: PenstockError | None
    """Why the partition cannot be written or is offline, if so: its disk is full, or has failed."""

    @property
    def is_offline(self) -> bool:
        """Whether nobody leads it, or its log could not be opened: its offsets are not known."""
        return self.error is not None and self.segment_count == 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDescription:
    """A topic with its settings and partitions."""

    name: str
    topic_id: str
    config: Mapping[str, str]
    changed: tuple[str, ...]
    """The settings that differ from the broker's defaults."""
    partitions: tuple[PartitionDescription, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupLag:
    """How far a group is behind in one partition."""

    topic: str
    partition: int
    committed: int
    """The next offset the group reads."""
    log_start: int
    """Where the partition begins: what was committed before it is gone unread."""
    end: int
    lag: int
    """From `committed` to `end`; 0 where the group is beyond the end, which a crash may cut."""


class Admin:
    """Made by `Client.admin`."""

    def __init__(self, routes: Routes) -> None:
        self._routes = routes

    async def create_topic(
        self,
        name: str,
        partitions: int = 0,
        config: Mapping[str, str] | None = None,
        *,
        replicas: int = 0,
    ) -> TopicSummary:
        """Create a topic; 0 partitions or replicas: as many as the broker makes by default."""
        check_topic_name(name)
        request = pb.CreateTopicRequest(
            name=name, partitions=partitions, config=config, replicas=replicas
        )
        answer = await self._routes.call_any(CREATE_TOPIC, request, repeatable=False)
        return TopicSummary(
            name=name, topic_id=answer.id, partition_count=answer.partitions, error=None
        )

    async def delete_topic(self, name: str) -> None:
        """Delete a topic and its messages."""
        request = pb.DeleteTopicRequest(name=name)
        await self._routes.call_any(DELETE_TOPIC, request, repeatable=False)
        self._routes.forget(name)

    async def describe_topic(self, name: str) -> TopicDescription:
        """The topic, each partition as its leader tells it."""
        request = pb.DescribeTopicRequest(name=name)
        loop = asyncio.get_running_loop()
        give_up_at_s = loop.time() + _ELECTION_S_MAX
        while True:
            try:
                answer = await self._routes.call_any(DESCRIBE_TOPIC, request)
            except UnknownTopic as error:
                near = await nearest_topic(self._routes, name)
                if near is None:
                    raise
                raise UnknownTopic(f"{error.message} Did you mean {near!r}?") from None
            told = await self._told_by_leaders(request, answer)
            if len(told) == len(answer.partitions) or loop.time() >= give_up_at_s:
                break
            await asyncio.sleep(_LOOK_S)
        return TopicDescription(
            name=answer.name,
            topic_id=answer.id,
            config=dict(answer.config),
            changed=tuple(answer.changed),
            partitions=tuple(
                _partition(told.get(entry.partition) or _leaderless(answer, entry))
                for entry in answer.partitions
            ),
        )

    async def _told_by_leaders(
        self, request: pb.DescribeTopicRequest, answer: pb.DescribeTopicResponse
    ) -> dict[int, pb.DescribeTopicResponse.Partition]:
        """The partitions by number, of those whose leaders could be asked: each of them once."""
        others = {entry.leader for entry in answer.partitions} - {answer.broker, NO_LEADER}
        answers = await asyncio.gather(*(self._ask_broker(other, request) for other in others))
        return {
            entry.partition: entry
            for each in (answer, *answers)
            if each is not None
            for entry in each.partitions
            if entry.leader == each.broker
        }

    async def _ask_broker(
        self, broker_id: int, request: pb.DescribeTopicRequest
    ) -> pb.DescribeTopicResponse | None:
        try:
            channel = await self._routes.broker(broker_id)
            answer, _ = await channel.call(DESCRIBE_TOPIC, request, timeout_s=_ELECTION_S_MAX)
        except (UnavailableError, UnknownTopic):
            return None  # it is down, or does not know the topic yet
        return answer

    async def alter_topic(
        self, name: str, config: Mapping[str, str] | None = None, reset: Collection[str] = ()
    ) -> None:
        """Change settings of a topic, and set others back to the broker's defaults."""
        request = pb.AlterTopicRequest(name=name, set=config, reset=reset)
        await self._routes.call_any(ALTER_TOPIC, request)

    async def add_partitions(self, name: str, total: int) -> None:
        """Let the topic have so many partitions in all. Keys may go elsewhere from then on."""
        await self._routes.call_any(
            ADD_PARTITIONS, pb.AddPartitionsRequest(name=name, total=total), repeatable=False
        )
        await self._routes.topic(name, refresh=True)

    async def list_topics(self) -> list[TopicSummary]:
        """Every topic, by name."""
        answer = await self._routes.metadata(all_topics=True)
        topics = [
            TopicSummary(
                name=topic.name,
                topic_id=topic.id,
                partition_count=len(topic.partitions),
                error=_error(topic.error) if topic.HasField("error") else None,
            )
            for topic in answer.topics
        ]
        return sorted(topics, key=lambda topic: topic.name)

    async def find_offset(self, topic: str, partition: int, at: Start) -> int:
        """The first offset, the next to be written ("latest"), or the first of a moment."""
        request = find_request(topic, partition, check_start(at))
        if request is None:
            assert isinstance(at, int)
            return at
        leader = TopicPartition(topic, partition)
        return (await self._routes.call_leader(leader, FIND_OFFSET, request)).offset

    async def list_groups(self) -> list[str]:
        """Every group that has committed an offset, by name."""
        answer = await self._routes.call_coordinator(GROUPS, LIST_GROUPS, pb.ListGroupsRequest())
        return sorted(answer.groups)

    async def group_offsets(
        self, group: str, topics: Collection[str] = ()
    ) -> dict[TopicPartition, int]:
        """The next offset to read, of each partition the group has one for."""
        return await fetch_offsets(self._routes, group, topics)

    async def commit_offsets(self, group: str, offsets: Mapping[tuple[str, int], int]) -> None:
        """Set a group's place. A consumer of the group that runs will set it again."""
        await commit_offsets(self._routes, group, offsets)

    async def group_lag(self, group: str) -> list[GroupLag]:
        """How far the group is behind, in each partition it has a place in; by topic and number.

        A partition that is offline has no end to be behind of, and is left out.
        """
        offsets = await self.group_offsets(group)
        lags = []
        for topic in sorted({partition.topic for partition in offsets}):
            try:
                described = await self.describe_topic(topic)
            except UnknownTopic:
                continue  # deleted in this moment, and the group's place with it
            for entry in described.partitions:
                committed = offsets.get(TopicPartition(topic, entry.partition))
                if committed is None or entry.is_offline:
                    continue
                lags.append(
                    GroupLag(
                        topic=topic,
                        partition=entry.partition,
                        committed=committed,
                        log_start=entry.log_start_offset,
                        end=entry.high_watermark,
                        lag=max(entry.high_watermark - committed, 0),
                    )
                )
        return lags

    async def topic_groups(self, topic: str) -> dict[str, dict[int, int]]:
        """The groups that have a place in the topic: the next offset to read, by partition."""
        groups = await self.list_groups()
        answers = await in_parts(lambda group: self.group_offsets(group, [topic]), groups)
        return {
            group: {place.partition: offset for place, offset in offsets.items()}
            for group, offsets in zip(groups, answers, strict=True)
            if offsets
        }

    async def removals(self, topic: str, partition: int) -> list[Removal]:
        """Why offsets of the partition are gone, oldest first. The broker remembers the latest."""
        request = pb.ListRemovalsRequest(topic=topic, partition=partition)
        leader = TopicPartition(topic, partition)
        answer = await self._routes.call_leader(leader, LIST_REMOVALS, request)
        return [_removal(entry) for entry in answer.removals]

    async def deleted_topics(self, name: str | None = None) -> list[DeletedTopic]:
        """The latest deletions of topics, or of topics of one name, oldest first."""
        request = pb.ListDeletedTopicsRequest(name=name or "")
        answer = await self._routes.call_any(LIST_DELETED_TOPICS, request)
        return [
            DeletedTopic(
                name=topic.name,
                topic_id=topic.id,
                at_ms=topic.at_ms,
                partitions=tuple(
                    DeletedPartition(entry.partition, entry.start_offset, entry.end_offset)
                    for entry in topic.partitions
                ),
            )
            for topic in answer.topics
        ]


def _partition(entry: pb.DescribeTopicResponse.Partition) -> PartitionDescription:
    return PartitionDescription(
        partition=entry.partition,
        leader=entry.leader,
        replicas=tuple(entry.replicas),
        in_sync=tuple(entry.in_sync),
        log_start_offset=entry.log_start_offset,
        high_watermark=entry.high_watermark,
        log_end_offset=entry.log_end_offset,
        size_bytes=entry.bytes,
        segment_count=entry.segments,
        error=_error(entry.error) if entry.HasField("error") else None,
    )


def _leaderless(
    answer: pb.DescribeTopicResponse, entry: pb.DescribeTopicResponse.Partition
) -> pb.DescribeTopicResponse.Partition:
    """Of a copy that does not lead nobody knows how far it is behind."""
    name = f"{answer.name}-{entry.partition}"
    if entry.leader == NO_LEADER:
        error = NotLeader(f"{name} has no leader now: see whether its brokers are up.")
    else:
        error = NotLeader(f"{name} is led by broker {entry.leader}, which cannot be reached now.")
    return pb.DescribeTopicResponse.Partition(
        partition=entry.partition,
        leader=entry.leader,
        replicas=entry.replicas,
        in_sync=entry.in_sync,
        error=pb.Error(code=error.code, message=error.message),
    )


def _error(error: pb.Error) -> PenstockError:
    return from_code(error.code, error.message)


def _removal(entry: pb.ListRemovalsResponse.Removal) -> Removal:
    for cause in REMOVAL_CAUSES:
        if cause == entry.cause:
            return Removal(
                first_offset=entry.first_offset,
                end_offset=entry.end_offset,
                cause=cause,
                at_ms=entry.at_ms,
                detail=entry.detail,
            )
    raise MalformedFrame(f"The broker names a cause of removal that is unknown: {entry.cause!r}.")
