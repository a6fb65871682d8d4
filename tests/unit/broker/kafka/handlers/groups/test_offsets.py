"""Committed offsets in Kafka's words, in every version (R-DEL-10)."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from penstock.coordination.group import coordinator
from penstock.protocol import calls
from penstock.protocol import penstock_pb2 as pb
from penstock.protocol.kafka import apis
from penstock.protocol.kafka.errors import ErrorCode
from penstock.protocol.kafka.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
)
from penstock.protocol.kafka.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from penstock.protocol.kafka.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from penstock.protocol.kafka.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from tests.kit.broker.kafka_client import KafkaClient, connect
from tests.kit.broker.running import ManualClock, RawClient, running
from tests.kit.simulated_disk import SimulatedDisk

UNKNOWN_ID = bytes(15) + b"x"


class Topics:
    """The topics of a test, by name and by id."""

    def __init__(self, native: RawClient) -> None:
        self._native = native
        self.ids: dict[str, bytes] = {"nowhere": UNKNOWN_ID}

    async def make(self, *names: str) -> None:
        for name in names:
            await self._native.create(name, partitions=2)
            self.ids[name] = bytes.fromhex((await self._native.describe(name)).id)

    def name(self, topic: Any) -> str:
        """Of a topic in an answer of any version."""
        return topic.name or next(name for name, id_ in self.ids.items() if id_ == topic.topic_id)


@contextlib.asynccontextmanager
async def set_up(**settings: Any) -> AsyncIterator[tuple[KafkaClient, Topics, RawClient]]:
    async with running(**settings) as (broker, native):
        topics = Topics(native)
        await topics.make("orders", "events")
        client = await connect(broker)
        yield client, topics, native
        await client.close()


async def commit(
    client: KafkaClient,
    topics: Topics,
    version: int,
    places: dict[tuple[str, int], int],
    metadata: str | None = "note",
    **changes: Any,
) -> dict[tuple[str, int], int]:
    """The error of each place."""
    request = OffsetCommitRequest(
        topics=[
            OffsetCommitRequestTopic(
                topic,
                topics.ids[topic],
                [OffsetCommitRequestPartition(partition, offset, 3, metadata)],
            )
            for (topic, partition), offset in places.items()
        ],
        **{"group_id": "g", **changes},
    )
    response = await client.call(apis.OFFSET_COMMIT, version, request)
    return {
        (topics.name(topic), part.partition_index): part.error_code
        for topic in response.topics
        for part in topic.partitions
    }


Found = dict[tuple[str, int], tuple[int, int, str, int]]


async def fetch(
    client: KafkaClient,
    topics: Topics,
    version: int,
    places: list[tuple[str, int]] | None,
    group: str = "g",
) -> tuple[int, Found]:
    """The group's error, and what was found: offset, leader epoch, metadata, error."""
    if version < 8:
        old = None if places is None else [OffsetFetchRequestTopic(t, [p]) for t, p in places]
        response = await client.call(apis.OFFSET_FETCH, version, OffsetFetchRequest(group, old))
    else:
        new = None
        if places is not None:
            new = [OffsetFetchRequestTopics(t, topics.ids[t], [p]) for t, p in places]
        groups = [OffsetFetchRequestGroup(group, topics=new)]
        request = OffsetFetchRequest(groups=groups, require_stable=True)
        response = await client.call(apis.OFFSET_FETCH, version, request)
        [response] = response.groups
    found = {
        (topics.name(topic), part.partition_index): (
            part.committed_offset,
            part.committed_leader_epoch,
            part.metadata,
            part.error_code,
        )
        for topic in response.topics
        for part in topic.partitions
    }
    return response.error_code, found


@pytest.mark.parametrize("version", range(2, 11))
async def test_every_version_can_commit(version: int) -> None:
    """R-DEL-10: each partition has its own error, and what is right is kept."""
    async with set_up() as (client, topics, native):
        places = {("orders", 1): 5, ("orders", 2): 1, ("events", 0): 6, ("nowhere", 0): 7}
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert await commit(client, topics, version, places) == {
            ("orders", 1): ErrorCode.NONE,
            ("orders", 2): unknown,
            ("events", 0): ErrorCode.NONE,
            ("nowhere", 0): unknown if version < 10 else ErrorCode.UNKNOWN_TOPIC_ID,
        }
        epoch = 3 if version >= 6 else -1
        assert await fetch(client, topics, 9, None) == (
            ErrorCode.NONE,
            {("orders", 1): (5, epoch, "note", 0), ("events", 0): (6, epoch, "note", 0)},
        )
        del native


@pytest.mark.parametrize("version", range(1, 11))
async def test_every_version_can_fetch(version: int) -> None:
    """What was not committed is -1; a group that nobody knows has committed nothing."""
    async with set_up() as (client, topics, _):
        await commit(client, topics, 10, {("orders", 1): 5})
        epoch = 3 if version >= 5 else -1
        code, found = await fetch(client, topics, version, [("orders", 0), ("orders", 1)])
        assert code == ErrorCode.NONE
        assert found == {("orders", 1): (5, epoch, "note", 0), ("orders", 0): (-1, -1, "", 0)}
        unknown = ErrorCode.UNKNOWN_TOPIC_ID if version >= 10 else ErrorCode.NONE
        code, found = await fetch(client, topics, version, [("nowhere", 0)])
        assert (code, found) == (0, {("nowhere", 0): (-1, -1, "", unknown)})
        code, found = await fetch(client, topics, version, [("orders", 1)], group="nobody")
        assert (code, found) == (0, {("orders", 1): (-1, -1, "", 0)})
        if version >= 2:
            code, found = await fetch(client, topics, version, None)
            assert (code, found) == (0, {("orders", 1): (5, epoch, "note", 0)})


@pytest.mark.parametrize("version", range(1, 11))
async def test_what_is_wrong_with_the_group_is_said_where_the_version_has_a_place(
    version: int,
) -> None:
    async with set_up() as (client, topics, _):
        code, found = await fetch(client, topics, version, [("orders", 0)], group="")
        if version == 1:
            assert found["orders", 0][3] == ErrorCode.INVALID_GROUP_ID
        else:
            assert code == ErrorCode.INVALID_GROUP_ID


async def test_several_groups_at_once() -> None:
    async with set_up() as (client, topics, native):
        await native.commit("one", 1)
        await native.commit("two", 2)
        groups = [OffsetFetchRequestGroup(name, topics=None) for name in ("one", "two", "")]
        response = await client.call(apis.OFFSET_FETCH, 9, OffsetFetchRequest(groups=groups))
        assert [group.error_code for group in response.groups] == [0, 0, ErrorCode.INVALID_GROUP_ID]
        assert [
            part.committed_offset
            for group in response.groups
            for topic in group.topics
            for part in topic.partitions
        ] == [1, 2]
        del topics


async def test_all_offsets_of_a_group_are_answered_once() -> None:
    """A short request must not make an answer of gigabytes."""
    async with set_up() as (client, topics, native):
        await native.commit("one", 1)
        some = [OffsetFetchRequestTopics("orders", topics.ids["orders"], [0])]
        groups = [OffsetFetchRequestGroup("one", topics=None)] * 3
        groups += [OffsetFetchRequestGroup("one", topics=some)] * 2
        response = await client.call(apis.OFFSET_FETCH, 9, OffsetFetchRequest(groups=groups))
        assert [len(group.topics) for group in response.groups] == [1, 1, 1]


async def test_commits_survive_a_crash() -> None:
    """R-DEL-10: what was answered is there, whole."""
    disk = SimulatedDisk()
    async with set_up(disk=disk.root) as (client, topics, _):
        await commit(client, topics, 9, {("orders", 0): 5, ("events", 1): 6})
        before = await fetch(client, topics, 9, None)
        crashed = disk.after_crash("lost")
    async with running(crashed.root) as (broker, _):
        client = await connect(broker)
        assert await fetch(client, topics, 9, None) == before
        await client.close()


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"member_id": "m", "generation_id_or_member_epoch": 4}, ErrorCode.ILLEGAL_GENERATION),
        ({"group_id": ""}, ErrorCode.INVALID_GROUP_ID),
    ],
)
async def test_what_is_wrong_with_the_group_is_said_of_every_partition(
    changes: dict[str, Any], code: ErrorCode
) -> None:
    async with set_up() as (client, topics, _):
        places = {("orders", 0): 1, ("events", 1): 2, ("nowhere", 0): 3}
        assert await commit(client, topics, 8, places, **changes) == {
            ("orders", 0): code,
            ("events", 1): code,
            ("nowhere", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        }


async def test_a_newer_client_hears_that_the_group_is_not_there() -> None:
    async with set_up() as (client, topics, _):
        member: dict[str, Any] = {"member_id": "m", "generation_id_or_member_epoch": 4}
        codes = await commit(client, topics, 9, {("orders", 0): 1}, **member)
        assert codes == {("orders", 0): ErrorCode.GROUP_ID_NOT_FOUND}


@pytest.mark.parametrize("offset", [-1, -2, -7, -(2**63)])
async def test_a_negative_offset_is_kept_as_it_is_and_nobody_stands_there(offset: int) -> None:
    """R-DEL-10: Kafka takes any; clients say so that they have none, or find it out themselves."""
    async with set_up() as (client, topics, native):
        await commit(client, topics, 9, {("orders", 0): 4})
        assert await commit(client, topics, 9, {("orders", 0): offset}) == {("orders", 0): 0}
        for asked in ([("orders", 0)], None):
            found = await fetch(client, topics, 9, asked)
            assert found == (0, {("orders", 0): (offset, 3, "note", 0)}), found
        ours, _ = await native.channel.call(calls.FETCH_OFFSETS, pb.FetchOffsetsRequest(group="g"))
        assert not ours.offsets
        told, _ = await native.channel.call(
            calls.DESCRIBE_GROUP, pb.DescribeGroupRequest(group="g")
        )
        assert [place.offset for place in told.places] == [-1]


async def test_offsets_that_cannot_be_kept() -> None:
    async with set_up() as (client, topics, _):
        assert await commit(client, topics, 9, {("orders", 0): 5}, "x" * 5000) == {
            ("orders", 0): ErrorCode.OFFSET_METADATA_TOO_LARGE
        }
        assert await commit(client, topics, 9, {("orders", 0): 5}, None) == {("orders", 0): 0}
        assert (await fetch(client, topics, 9, None))[1] == {("orders", 0): (5, 3, "", 0)}


async def test_a_topic_made_again_has_not_been_read() -> None:
    """R-DEL-10: nor by its old id."""
    async with set_up() as (client, topics, native):
        await commit(client, topics, 9, {("orders", 0): 5})
        await native.channel.call(calls.DELETE_TOPIC, pb.DeleteTopicRequest(name="orders"))
        for version in (7, 9):
            code, found = await fetch(client, topics, version, [("orders", 0)])
            assert (code, found) == (0, {("orders", 0): (-1, -1, "", 0)})
        await topics.make("orders")
        for version in (7, 9, 10):
            code, found = await fetch(client, topics, version, [("orders", 0)])
            assert (code, found) == (0, {("orders", 0): (-1, -1, "", 0)})
        assert await fetch(client, topics, 10, None) == (0, {})


async def test_a_commit_may_say_for_how_long_it_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """OffsetCommit up to version 4."""
    monkeypatch.setattr(coordinator, "_SWEEP_INTERVAL_MS", 1)
    clock = ManualClock()
    disk = SimulatedDisk()
    async with set_up(disk=disk.root, clock=clock) as (client, topics, _):
        await commit(client, topics, 4, {("orders", 0): 5}, retention_time_ms=1_000)
        await commit(client, topics, 4, {("events", 0): 6})
    clock.time_ms += 1_000
    async with running(disk.root, clock=clock) as (broker, _):
        client = await connect(broker)
        found: Found = {("orders", 0): (5, -1, "note", 0)}
        while ("orders", 0) in found:
            clock.time_ms += 1
            _, found = await fetch(client, topics, 9, None)
        assert found == {("events", 0): (6, -1, "note", 0)}
        await client.close()


async def test_offsets_are_deleted() -> None:
    async with set_up(group_initial_rebalance_delay_ms=0) as (client, topics, _):
        await commit(client, topics, 9, {("orders", 0): 5, ("events", 0): 6})
        request = OffsetDeleteRequest(
            "g",
            [
                OffsetDeleteRequestTopic(name, [OffsetDeleteRequestPartition(0)])
                for name in ("orders", "events", "nowhere")
            ],
        )
        join = JoinGroupRequest(
            "g",
            10_000,
            10_000,
            "",
            None,
            "consumer",
            [JoinGroupRequestProtocol("range", b"\0\0\0\0\0\1\0\6orders\xff\xff\xff\xff")],
        )
        assert (await client.call(apis.JOIN_GROUP, 3, join)).error_code == ErrorCode.NONE
        response = await client.call(apis.OFFSET_DELETE, 0, request)
        assert response.error_code == ErrorCode.NONE
        codes = {topic.name: topic.partitions[0].error_code for topic in response.topics}
        assert codes == {
            "orders": ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,
            "events": ErrorCode.NONE,
            "nowhere": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        }
        assert (await fetch(client, topics, 9, None))[1].keys() == {("orders", 0)}
        request.group_id = "nobody"
        response = await client.call(apis.OFFSET_DELETE, 0, request)
        assert response.error_code == ErrorCode.GROUP_ID_NOT_FOUND


async def test_a_disk_that_is_full_is_said_of_every_partition() -> None:
    disk = SimulatedDisk()
    async with set_up(disk=disk.root) as (client, topics, _):
        await commit(client, topics, 9, {("orders", 0): 5})
        disk.capacity_bytes = sum(map(len, disk.files().values()))
        code = ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert await commit(client, topics, 9, {("orders", 0): 6}) == {("orders", 0): code}
        assert (await fetch(client, topics, 9, None))[1] == {("orders", 0): (5, 3, "note", 0)}
        disk.capacity_bytes = None
