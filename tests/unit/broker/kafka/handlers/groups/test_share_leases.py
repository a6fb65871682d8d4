"""ShareFetch and ShareAcknowledge (KIP-932): messages leased to Kafka consumers, over the wire."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from penstock.broker.broker import Broker
from penstock.model.message_headers import DEAD_REASON, PRIORITY
from penstock.protocol import calls
from penstock.protocol import penstock_pb2 as pb
from penstock.protocol.kafka import apis
from penstock.protocol.kafka.errors import ErrorCode
from penstock.protocol.kafka.messages import share_acknowledge as acknowledging
from penstock.protocol.kafka.messages import share_fetch as fetching
from penstock.protocol.kafka.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from penstock.records import BatchBuilder, Message, decode_messages
from penstock.records.view import batches
from tests.kit.broker.kafka_client import KafkaClient, connect
from tests.kit.broker.shared_groups import LEASE_MS, Stage, stage
from tests.kit.simulated_disk import SimulatedDisk

GAP, ACCEPT, RELEASE, REJECT, RENEW = 0, 1, 2, 3, 4
Batch = tuple[int, int, Sequence[int]]


class Consumer:
    """A member of group `g`, as librdkafka and Java are: one connection, epochs that rise."""

    def __init__(self, client: KafkaClient, topic_id: bytes, name: str, version: int = 2) -> None:
        self.client = client
        self.topic_id = topic_id
        self.name = name
        self.version = version
        self.epoch = 0

    async def join(self) -> None:
        request = ShareGroupHeartbeatRequest("g", self.name, 0, subscribed_topic_names=["orders"])
        answer = await self.client.call(apis.SHARE_GROUP_HEARTBEAT, 1, request)
        assert answer.error_code == ErrorCode.NONE, answer.error_message

    def request(
        self,
        *batches: Batch,
        partitions: Sequence[int] = (0,),
        epoch: int | None = None,
        **how: Any,
    ) -> fetching.ShareFetchRequest:
        made = [fetching.AcknowledgementBatch(*batch) for batch in batches]
        topics = [
            fetching.FetchTopic(
                self.topic_id,
                [fetching.FetchPartition(number, made) for number in partitions],
            )
        ]
        limits = {"max_wait_ms": 20_000, "min_bytes": 1, "max_bytes": 50 << 20, "max_records": 500}
        if epoch is None:
            epoch, self.epoch = self.epoch, self.epoch + 1
        return fetching.ShareFetchRequest("g", self.name, epoch, topics=topics, **(limits | how))

    async def answer(self, *batches: Batch, **how: Any) -> fetching.ShareFetchResponse:
        request = self.request(*batches, **how)
        answer = await self.client.call(apis.SHARE_FETCH, self.version, request)
        assert isinstance(answer, fetching.ShareFetchResponse)
        return answer

    async def fetch(self, *batches: Batch, **how: Any) -> list[Message]:
        """What partition 0 has, after a look at whether it makes sense."""
        answer = await self.answer(*batches, **how)
        assert (answer.error_code, answer.error_message) == (ErrorCode.NONE, None)
        parts = parts_of(answer)
        return [] if not parts else messages_of(parts[0])

    async def settle(self, *batches: Batch, epoch: int | None = None, **how: Any) -> int:
        """The code, of the request or of the partition."""
        made = [fetching.AcknowledgementBatch(*batch) for batch in batches]
        partition = acknowledging.AcknowledgePartition(0, made)
        topics = [acknowledging.AcknowledgeTopic(self.topic_id, [partition])] if batches else []
        if epoch is None:
            epoch, self.epoch = self.epoch, self.epoch + 1
        request = acknowledging.ShareAcknowledgeRequest("g", self.name, epoch, topics=topics, **how)
        answer = await self.client.call(apis.SHARE_ACKNOWLEDGE, self.version, request)
        for topic in answer.responses:
            for part in topic.partitions:
                return int(part.error_code)
        return int(answer.error_code)


def parts_of(answer: fetching.ShareFetchResponse) -> dict[int, fetching.PartitionData]:
    return {part.partition_index: part for topic in answer.responses for part in topic.partitions}


def messages_of(part: fetching.PartitionData) -> list[Message]:
    """Consumers walk through the batches and the ranges together, so both must rise."""
    assert isinstance(part.records, memoryview)
    messages = decode_messages(part.records, "orders", 0, 0)
    ranges = [(one.first_offset, one.last_offset) for one in part.acquired_records]
    told = [offset for first, last in ranges for offset in range(first, last + 1)]
    assert [message.offset for message in messages] == told == sorted(told)
    return messages


def offsets(messages: Sequence[Message]) -> list[int]:
    return [message.offset for message in messages]


class KafkaStage:
    def __init__(self, here: Stage, topic_id: bytes) -> None:
        self.here = here
        self.topic_id = topic_id
        self._clients: list[KafkaClient] = []

    @property
    def broker(self) -> Broker:
        return self.here.broker

    async def consumer(self, name: str = "m", version: int = 2) -> Consumer:
        client = await connect(self.broker)
        self._clients.append(client)
        consumer = Consumer(client, self.topic_id, name, version)
        await consumer.join()
        return consumer

    async def close(self) -> None:
        for client in self._clients:
            await client.close()


@contextlib.asynccontextmanager
async def kafka_stage(
    partitions: int = 1, disk: SimulatedDisk | None = None, lease_ms: int = LEASE_MS
) -> AsyncIterator[KafkaStage]:
    async with stage(disk, is_new=False) as here:
        await here.client.create("orders", partitions=partitions)
        # A group has the settings of its first member; it begins at the beginning so.
        await here.member("ours", lease_ms=lease_ms)
        topic_id = bytes.fromhex((await here.client.describe("orders")).id)
        kafka = KafkaStage(here, topic_id)
        try:
            yield kafka
        finally:
            await kafka.close()


@pytest.mark.parametrize("version", [1, 2])
async def test_a_consumer_takes_all_and_acknowledges_with_the_next_fetch(version: int) -> None:
    """R-DEL-3: as the real ones do it, and what is acknowledged does not come again."""
    async with kafka_stage() as at:
        await at.here.publish(10)
        consumer = await at.consumer(version=version)
        answer = await consumer.answer(max_records=4)
        assert answer.acquisition_lock_timeout_ms == LEASE_MS - 1
        [part] = parts_of(answer).values()
        assert offsets(messages_of(part)) == [0, 1, 2, 3]
        assert [one.delivery_count for one in part.acquired_records] == [1]
        assert offsets(await consumer.fetch((0, 3, [ACCEPT]))) == list(range(4, 10))
        assert await consumer.settle((4, 9, [ACCEPT]), epoch=-1) == ErrorCode.NONE
        again = await at.consumer("n", version)
        assert await again.fetch(max_wait_ms=1) == []


async def test_a_fetch_waits_for_messages() -> None:
    async with kafka_stage() as at:
        consumer = await at.consumer()
        assert await consumer.fetch(max_wait_ms=1) == []
        asked = asyncio.create_task(consumer.fetch(max_wait_ms=60_000))
        await asyncio.sleep(0.01)
        assert not asked.done()
        await at.here.publish(3)
        assert offsets(await asked) == [0, 1, 2]


async def test_who_never_waits_gets_messages_too() -> None:
    """Before the first of them is leased a write must be durable: it is made though whoever wanted
    it is gone by then. So a partition does not starve beside others that are never empty."""
    async with kafka_stage() as at:
        consumer = await at.consumer()
        await at.here.publish(10)
        got = await consumer.fetch(max_wait_ms=60_000)
        await at.here.publish(500)
        async with asyncio.timeout(5):
            while len(got) < 510:
                got += await consumer.fetch(max_wait_ms=0)
        assert offsets(got) == list(range(510))


async def test_ours_and_kafkas_are_members_of_one_group() -> None:
    async with kafka_stage() as at:
        await at.here.publish(6)
        ours, theirs = await at.here.member("a"), await at.consumer()
        assert offsets(await theirs.fetch(max_records=2)) == [0, 1]
        assert offsets(await ours.lease(2)) == [2, 3]
        assert offsets(await theirs.fetch((0, 1, [ACCEPT]), max_records=2)) == [4, 5]
        assert await theirs.settle((2, 3, [ACCEPT])) == ErrorCode.INVALID_RECORD_STATE
        assert await ours.settle(2, 3) == 0


async def test_released_ones_come_again_and_die_at_last() -> None:
    """R-DEL-9: each release was an attempt, as with Kafka's limit of deliveries."""
    async with kafka_stage() as at:
        await at.here.publish(1)
        consumer = await at.consumer()
        for attempt in range(1, 6):
            [part] = parts_of(await consumer.answer()).values()
            assert [one.delivery_count for one in part.acquired_records] == [attempt]
            assert await consumer.settle((0, 0, [RELEASE])) == ErrorCode.NONE
        [letter] = await at.here.dead_letters()
        assert letter.value == b"value 0"
        assert dict(letter.headers)[DEAD_REASON] == b"Released by its consumer."
        assert await consumer.fetch(max_wait_ms=1) == []


async def test_rejected_ones_are_dead_letters() -> None:
    async with kafka_stage() as at:
        await at.here.publish(3)
        consumer = await at.consumer()
        await consumer.fetch()
        assert await consumer.settle((0, 2, [ACCEPT, REJECT, ACCEPT])) == ErrorCode.NONE
        [letter] = await at.here.dead_letters()
        assert letter.value == b"value 1"


async def test_what_a_consumer_did_not_find_is_not_acknowledged() -> None:
    """R-DEL-3, R-DEL-9: what is leased is there, so whoever calls it a gap has lost it: it comes
    again, and not for ever."""
    async with kafka_stage() as at:
        await at.here.publish(3)
        consumer = await at.consumer()
        await consumer.fetch()
        assert await consumer.settle((0, 2, [ACCEPT, GAP, ACCEPT])) == ErrorCode.NONE
        for attempt in range(2, 6):
            [part] = parts_of(await consumer.answer()).values()
            assert offsets(messages_of(part)) == [1]
            assert [one.delivery_count for one in part.acquired_records] == [attempt]
            assert await consumer.settle((1, 1, [GAP])) == ErrorCode.NONE
        [letter] = await at.here.dead_letters()
        assert letter.value == b"value 1"
        reason = dict(letter.headers)[DEAD_REASON]
        assert reason == b"Not found by its consumer in what it was sent."


async def test_parts_of_a_batch_are_batches_that_do_not_overlap() -> None:
    """R-DEL-3: clients that go by the headers of batches would pass over what they have had by
    those, and it would be lost to them."""
    async with kafka_stage() as at:
        await at.here.publish(30, codec=4)
        consumer = await at.consumer()
        assert len(await consumer.fetch()) == 30
        kinds = [RELEASE if number % 7 in (1, 2, 4) else ACCEPT for number in range(30)]
        assert await consumer.settle((0, 29, kinds)) == ErrorCode.NONE
        [part] = parts_of(await consumer.answer()).values()
        again = [number for number in range(30) if number % 7 in (1, 2, 4)]
        assert offsets(messages_of(part)) == again
        assert isinstance(part.records, memoryview)
        headers = [one.header for one in batches(part.records)]
        covered = [offset for one in headers for offset in range(one.base_offset, one.next_offset)]
        assert covered == again


async def test_leases_are_renewed() -> None:
    """KIP-1222"""
    async with kafka_stage() as at:
        await at.here.publish(2)
        consumer = await at.consumer()
        await consumer.fetch()
        at.here.clock.time_ms += LEASE_MS - 1
        nothing = {"max_wait_ms": 0, "min_bytes": 0, "max_bytes": 0, "max_records": 0}
        answer = await consumer.answer((0, 0, [RENEW]), is_renew_ack=True, **nothing)
        assert parts_of(answer)[0].acknowledge_error_code == ErrorCode.NONE
        at.here.clock.time_ms += 2
        assert await consumer.settle((0, 0, [ACCEPT])) == ErrorCode.NONE
        assert await consumer.settle((1, 1, [ACCEPT])) == ErrorCode.INVALID_RECORD_STATE


async def test_what_a_lost_connection_held_is_for_others() -> None:
    async with kafka_stage() as at:
        await at.here.publish(4)
        first, second = await at.consumer("a"), await at.consumer("b")
        await first.fetch()
        assert await second.fetch(max_wait_ms=1) == []
        asked = asyncio.create_task(second.fetch(max_wait_ms=60_000))
        await first.client.close()
        assert offsets(await asked) == [0, 1, 2, 3]


async def test_what_is_left_when_a_session_is_closed_was_no_attempt() -> None:
    async with kafka_stage() as at:
        await at.here.publish(4)
        first, second = await at.consumer("a"), await at.consumer("b")
        await first.fetch()
        assert await first.settle((0, 0, [ACCEPT]), epoch=-1) == ErrorCode.NONE
        [part] = parts_of(await second.answer()).values()
        assert offsets(messages_of(part)) == [1, 2, 3]
        assert {one.delivery_count for one in part.acquired_records} == {1}
        assert await first.settle(epoch=5) == ErrorCode.SHARE_SESSION_NOT_FOUND
        # By a fetch it is closed too.
        last = await second.answer((1, 1, [ACCEPT]), epoch=-1)
        assert parts_of(last)[0].acknowledge_error_code == ErrorCode.NONE
        assert await second.settle(epoch=2) == ErrorCode.SHARE_SESSION_NOT_FOUND


async def test_a_member_that_comes_back_on_another_connection_holds_nothing() -> None:
    """And the end of the first one, seen later, takes nothing from it."""
    async with kafka_stage() as at:
        await at.here.publish(4)
        first = await at.consumer()
        await first.fetch(max_records=2)
        second = await at.consumer()
        assert offsets(await second.fetch()) == [0, 1, 2, 3]
        await first.client.close()
        await asyncio.sleep(0.01)
        assert await second.settle((0, 3, [ACCEPT])) == ErrorCode.NONE


async def test_messages_come_in_the_order_of_the_log_whatever_their_priority() -> None:
    async with kafka_stage() as at:
        builder = BatchBuilder(1 << 20, 0)
        for priority in (0, 5, 0, 9, 0):
            builder.append(1, None, b"%d" % priority, [(PRIORITY, b"%d" % priority)])
        await at.here.client.produce("orders", bytearray(builder.build()))
        consumer = await at.consumer()
        assert [one.value for one in await consumer.fetch(max_records=2)] == [b"5", b"9"]
        assert offsets(await consumer.fetch()) == [0, 2, 4]


async def test_several_partitions_share_what_a_fetch_takes() -> None:
    """None of them starves behind one that is never empty: as soon as all are open, none is served
    twice in a row while another has something."""
    async with kafka_stage(partitions=3) as at:
        consumer = await at.consumer()
        builder = BatchBuilder(1 << 20, 0)
        for number in range(20):
            builder.append(1, None, b"%d" % number, ())
        batch = builder.build()
        for partition in range(3):
            await at.here.client.produce("orders", bytearray(batch), partition=partition)
        left = {0: 20, 1: 20, 2: 20}
        last: set[int] = set()
        how: dict[str, Any] = {"partitions": (0, 1, 2)}
        for _ in range(60):
            parts = parts_of(await consumer.answer(max_records=3, max_wait_ms=100, **how))
            how = {"partitions": ()}
            is_choice = all(count < 20 for count in left.values()) and min(left.values()) > 0
            assert not (is_choice and last & parts.keys()), (last, left)
            last = set(parts)
            for number, part in parts.items():
                left[number] -= len(messages_of(part))
            if not any(left.values()):
                break
        assert left == {0: 0, 1: 0, 2: 0}


async def test_a_large_answer_is_cut_and_the_rest_follows() -> None:
    async with kafka_stage() as at:
        for _ in range(3):
            await at.here.publish(2)
        consumer = await at.consumer()
        assert offsets(await consumer.fetch(max_bytes=1)) == [0, 1], "one batch at least"
        assert offsets(await consumer.fetch()) == [2, 3, 4, 5]


async def test_partitions_that_are_not_there_do_not_hold_up_the_others() -> None:
    async with kafka_stage() as at:
        await at.here.publish(1)
        consumer = await at.consumer()
        await consumer.fetch(max_wait_ms=100)
        await at.here.publish(1)
        request = consumer.request(partitions=(0, 7))
        request.topics = [
            *request.topics,
            fetching.FetchTopic(b"x" * 16, [fetching.FetchPartition(0, [])]),
        ]
        answer = await consumer.client.call(apis.SHARE_FETCH, 2, request)
        codes = {
            (topic.topic_id, part.partition_index): part.error_code
            for topic in answer.responses
            for part in topic.partitions
        }
        assert codes == {
            (at.topic_id, 0): ErrorCode.NONE,
            (at.topic_id, 7): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            (b"x" * 16, 0): ErrorCode.UNKNOWN_TOPIC_ID,
        }


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"group_id": ""}, ErrorCode.INVALID_GROUP_ID),
        ({"member_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"member_id": None}, ErrorCode.INVALID_REQUEST),
        ({"max_wait_ms": -1}, ErrorCode.INVALID_REQUEST),
        ({"share_acquire_mode": 9}, ErrorCode.INVALID_REQUEST),
        ({"share_session_epoch": 3}, ErrorCode.SHARE_SESSION_NOT_FOUND),
        ({"share_session_epoch": -1}, ErrorCode.SHARE_SESSION_NOT_FOUND),
        ({"share_session_epoch": -(2**31)}, ErrorCode.SHARE_SESSION_NOT_FOUND),
    ],
)
async def test_requests_that_make_no_sense(changes: dict[str, Any], code: ErrorCode) -> None:
    async with kafka_stage() as at:
        consumer = await at.consumer()
        request = consumer.request()
        for name, value in changes.items():
            setattr(request, name, value)
        answer = await consumer.client.call(apis.SHARE_FETCH, 2, request)
        assert answer.error_code == code
        assert not answer.responses


async def test_hostile_acknowledgements_change_nothing() -> None:
    """Of what nobody leased, of another's, twice, overlapping, of types that there are not; and a
    request of 200,000 of them is refused before it costs anything."""
    async with kafka_stage() as at:
        await at.here.publish(4)
        consumer, other = await at.consumer("a"), await at.consumer("b")
        await consumer.fetch(max_records=2)
        await other.fetch(max_records=1)
        lost, invalid = ErrorCode.INVALID_RECORD_STATE, ErrorCode.INVALID_REQUEST
        assert await consumer.settle((0, 2**63 - 1, [ACCEPT])) == lost
        assert await consumer.settle((2, 2, [ACCEPT])) == lost
        assert await consumer.settle((3, 3, [REJECT])) == lost
        assert await consumer.settle((0, 1, [ACCEPT]), (1, 1, [ACCEPT])) == invalid
        assert await consumer.settle((0, 0, [77])) == invalid
        assert await consumer.settle((0, 0, [RENEW])) == invalid
        types = [ACCEPT, REJECT] * 50_000
        assert await consumer.settle((0, len(types) - 1, types)) == invalid
        # Whose epoch is one behind now, since that one was not taken.
        consumer.epoch -= 1
        assert await consumer.settle((0, 1, [ACCEPT])) == ErrorCode.NONE
        assert await consumer.settle((0, 1, [ACCEPT])) == lost


async def test_an_unknown_group_is_said_to_be_so() -> None:
    async with kafka_stage() as at:
        consumer = await at.consumer()
        request = consumer.request()
        request.group_id = "nobody"
        answer = await consumer.client.call(apis.SHARE_FETCH, 2, request)
        assert parts_of(answer)[0].error_code == ErrorCode.GROUP_ID_NOT_FOUND


async def test_a_broker_that_stops_lets_nobody_wait() -> None:
    async with kafka_stage() as at:
        consumer = await at.consumer()
        asked = asyncio.create_task(consumer.answer(max_wait_ms=300_000))
        await asyncio.sleep(0.02)
        await asyncio.wait_for(at.broker.stop(), 5)
        [part] = parts_of(await asked).values()
        assert part.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_what_an_operator_decides_holds_for_the_leases_that_follow() -> None:
    """R-DEL-3: on a group that runs: the leader of a partition hears of it as it goes on."""
    async with kafka_stage() as at:
        await at.here.publish(10)
        consumer = await at.consumer()
        assert (await consumer.answer(max_records=2)).acquisition_lock_timeout_ms == LEASE_MS - 1
        decided = {"share.record.lock.duration.ms": "20000", "share.delivery.count.limit": "2"}
        request = pb.AlterGroupSettingsRequest(group="g", set=decided)
        await at.here.client.channel.call(calls.ALTER_GROUP_SETTINGS, request)
        assert await consumer.settle((0, 0, [ACCEPT]), (1, 1, [RELEASE])) == 0
        answer = await consumer.answer(max_records=2)
        assert answer.acquisition_lock_timeout_ms == 20_000 - 1
        assert offsets(messages_of(parts_of(answer)[0])) == [1, 2]
        assert await consumer.settle((1, 1, [RELEASE]), (2, 2, [ACCEPT])) == 0
        # The second attempt was the last.
        [letter] = await at.here.dead_letters()
        assert letter.value == b"value 1"


@pytest.mark.parametrize(
    ("reset", "first"), [("earliest", 0), ("latest", 10), ("by_duration:PT1M", 5)]
)
async def test_a_group_begins_where_an_operator_says(reset: str, first: int) -> None:
    async with kafka_stage() as at:
        await at.here.publish(5)
        at.here.clock.time_ms += 120_000
        await at.here.publish(5, timestamp_ms=at.here.clock.time_ms)
        decided = {"share.auto.offset.reset": reset}
        request = pb.AlterGroupSettingsRequest(group="g", set=decided)
        await at.here.client.channel.call(calls.ALTER_GROUP_SETTINGS, request)
        consumer = await at.consumer()
        found = offsets(await consumer.fetch(max_wait_ms=1, max_records=1))
        while not found:
            # The end is where that was when the group was first asked for.
            await at.here.publish(1)
            found = offsets(await consumer.fetch(max_wait_ms=100, max_records=1))
        assert found[0] == first or (reset == "latest" and found[0] > first)
