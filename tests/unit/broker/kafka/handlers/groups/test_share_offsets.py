"""Where share groups stand, in Kafka's words (KIP-932): told, changed and forgotten."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from penstock.broker.handlers.groups.shared_places import beginning_at
from penstock.coordination.delivery.shared_state import (
    SavedKind,
    SavedRun,
    ShareState,
    decode_share_state,
    encode_share_state,
)
from penstock.model.errors import UnknownGroup
from penstock.protocol import calls
from penstock.protocol import penstock_pb2 as pb
from penstock.protocol.kafka import apis
from penstock.protocol.kafka.errors import ErrorCode
from penstock.protocol.kafka.messages import alter_share_group_offsets as altering
from penstock.protocol.kafka.messages import delete_share_group_offsets as deleting
from penstock.protocol.kafka.messages import describe_share_group_offsets as describing
from penstock.protocol.kafka.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from tests.kit.broker.kafka_client import KafkaClient, connect
from tests.kit.broker.running import RawClient, batch, running


class Scene:
    """A topic of two partitions, a shared group, and who leads the first partition."""

    def __init__(self, client: KafkaClient, native: RawClient, topic: Any) -> None:
        self.client = client
        self.native = native
        self._partition = topic.partitions[0]
        self.topic_id = topic.id
        self._incarnation = ""

    async def beat(self, member_epoch: int) -> None:
        topics = ["orders"] if member_epoch == 0 else None
        request = ShareGroupHeartbeatRequest("g", "m", member_epoch, None, topics)
        response = await self.client.call(apis.SHARE_GROUP_HEARTBEAT, 1, request)
        assert response.error_code == ErrorCode.NONE

    async def read(self) -> bytes:
        request = pb.ReadShareRequest(
            group="g", topic_id=self.topic_id, leader_term=self._partition.term
        )
        response, _ = await self.native.channel.call(calls.READ_SHARE, request)
        self._incarnation = response.incarnation
        return response.state

    async def write(self, state: bytes) -> None:
        request = pb.WriteShareRequest(
            group="g",
            topic_id=self.topic_id,
            leader_term=self._partition.term,
            state=state,
            incarnation=self._incarnation,
        )
        await self.native.channel.call(calls.WRITE_SHARE, request)

    async def describe(self, group: str, wanted: dict[str, list[int]] | None = None) -> Any:
        topics = None
        if wanted is not None:
            topics = [
                describing.DescribeShareGroupOffsetsRequestTopic(name, numbers)
                for name, numbers in wanted.items()
            ]
        named = describing.DescribeShareGroupOffsetsRequestGroup(group, topics)
        request = describing.DescribeShareGroupOffsetsRequest([named, named])
        response = await self.client.call(apis.DESCRIBE_SHARE_GROUP_OFFSETS, 1, request)
        [found] = response.groups
        return found

    async def alter(self, group: str, *wanted: tuple[str, int, int]) -> Any:
        topics = [
            altering.AlterShareGroupOffsetsRequestTopic(
                name, [altering.AlterShareGroupOffsetsRequestPartition(number, offset)]
            )
            for name, number, offset in wanted
        ]
        request = altering.AlterShareGroupOffsetsRequest(group, topics)
        return await self.client.call(apis.ALTER_SHARE_GROUP_OFFSETS, 0, request)

    async def forget(self, group: str, *topics: str) -> Any:
        named = [deleting.DeleteShareGroupOffsetsRequestTopic(topic) for topic in topics]
        request = deleting.DeleteShareGroupOffsetsRequest(group, named)
        return await self.client.call(apis.DELETE_SHARE_GROUP_OFFSETS, 0, request)


@contextlib.asynccontextmanager
async def scene() -> AsyncIterator[Scene]:
    async with running() as (broker, native):
        await native.create("orders", partitions=2)
        await native.produce("orders", batch([b"value"] * 10))
        known, _ = await native.channel.call(calls.METADATA, pb.MetadataRequest(topics=["orders"]))
        client = await connect(broker)
        yield Scene(client, native, known.topics[0])
        await client.close()


class TestTold:
    async def test_places_with_their_lag(self) -> None:
        async with scene() as at:
            await at.beat(0)
            await at.read()
            runs = [SavedRun(1, SavedKind.FREE), SavedRun(2, SavedKind.DONE)]
            await at.write(encode_share_state(ShareState(start=3, ceiling=8, runs=runs)))
            found = await at.describe("g")
            assert (found.group_id, found.error_code) == ("g", ErrorCode.NONE)
            [topic] = found.topics
            assert (topic.topic_name, topic.topic_id.hex()) == ("orders", at.topic_id)
            [partition] = topic.partitions
            assert (partition.partition_index, partition.start_offset) == (0, 3)
            assert partition.lag == 10 - 3 - 2

    async def test_where_the_group_has_not_been(self) -> None:
        async with scene() as at:
            await at.beat(0)
            await at.read()
            assert list((await at.describe("g")).topics) == [], "it was only asked for"
            found = await at.describe("g", {"orders": [1, 1, 2], "nothing": [0]})
            orders, nothing = found.topics
            told = [
                (one.partition_index, one.start_offset, one.lag, one.error_code)
                for topic in (orders, nothing)
                for one in topic.partitions
            ]
            unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            assert told == [(1, -1, -1, 0), (2, -1, -1, unknown), (0, -1, -1, unknown)]

    async def test_a_place_that_cannot_be_read(self) -> None:
        async with scene() as at:
            await at.beat(0)
            await at.read()
            await at.write(b"\xff")
            [topic] = (await at.describe("g")).topics
            assert topic.partitions[0].error_code == ErrorCode.CORRUPT_MESSAGE

    async def test_an_unknown_group(self) -> None:
        async with scene() as at:
            found = await at.describe("nobody")
            assert found.error_code == ErrorCode.GROUP_ID_NOT_FOUND


class TestChanged:
    async def test_the_group_goes_on_from_there(self) -> None:
        async with scene() as at:
            await at.beat(0)
            await at.read()
            await at.write(beginning_at(9))
            refused = await at.alter("g", ("orders", 0, 4))
            assert refused.error_code == ErrorCode.NON_EMPTY_GROUP
            await at.beat(-1)
            altered = await at.alter(
                "g", ("orders", 0, 4), ("orders", 1, -1), ("nothing", 0, 4), ("orders", 2, 0)
            )
            orders, nothing = altered.responses
            assert (orders.topic_id.hex(), nothing.topic_id) == (at.topic_id, bytes(16))
            unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            assert [(one.partition_index, one.error_code) for one in orders.partitions] == [
                (0, ErrorCode.NONE),
                (1, ErrorCode.INVALID_REQUEST),
                (2, unknown),
            ]
            assert [one.error_code for one in nothing.partitions] == [unknown]
            with pytest.raises(UnknownGroup, match="read it again"):
                await at.write(beginning_at(10))
            assert decode_share_state(await at.read()).start == 4
            [topic] = (await at.describe("g")).topics
            assert [one.start_offset for one in topic.partitions] == [4]

    async def test_a_group_that_is_not_there_is_made(self) -> None:
        """As Kafka does, so that a group begins where it should when its first member comes."""
        async with scene() as at:
            altered = await at.alter("g", ("orders", 0, 4))
            assert altered.error_code == ErrorCode.NONE
            [orders] = altered.responses
            assert [one.error_code for one in orders.partitions] == [ErrorCode.NONE]
            [topic] = (await at.describe("g")).topics
            assert [(one.start_offset, one.lag) for one in topic.partitions] == [(4, 6)]
            await at.beat(0)
            assert decode_share_state(await at.read()).start == 4

    async def test_the_name_of_another_kind_of_group(self) -> None:
        async with scene() as at:
            await at.native.channel.call(
                calls.COMMIT_OFFSETS,
                pb.CommitOffsetsRequest(group="g", offsets=[pb.GroupOffset(topic="orders")]),
            )
            refused = await at.alter("g", ("orders", 0, 4))
            assert refused.error_code == ErrorCode.GROUP_ID_NOT_FOUND
            assert "no shared group" in refused.error_message


class TestForgotten:
    async def test_the_group_begins_anew(self) -> None:
        async with scene() as at:
            assert (await at.forget("g", "orders")).error_code == ErrorCode.GROUP_ID_NOT_FOUND
            await at.beat(0)
            await at.read()
            await at.write(beginning_at(5))
            refused = await at.forget("g", "orders")
            assert refused.error_code == ErrorCode.NON_EMPTY_GROUP
            assert "has members" in refused.error_message
            await at.beat(-1)
            forgotten = await at.forget("g", "orders", "nothing", "orders")
            assert [(one.topic_name, one.error_code) for one in forgotten.responses] == [
                ("orders", ErrorCode.NONE),
                ("nothing", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
            ]
            assert forgotten.responses[0].topic_id.hex() == at.topic_id
            assert await at.read() == b""
