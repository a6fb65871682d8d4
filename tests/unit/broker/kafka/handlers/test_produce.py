"""Produce: what is accepted, what each refusal is called, and what is told of it."""

from __future__ import annotations

import asyncio
import errno
from typing import Any

import pytest

from penstock.broker.partitions.leaders import Leaders
from penstock.broker.partitions.partition import Partition
from penstock.model.errors import NotLeader
from penstock.model.limits import COPY_PRODUCER_ID_MIN, GAP_MS_MAX, MIB
from penstock.protocol.kafka import apis
from penstock.protocol.kafka.errors import ErrorCode
from penstock.protocol.kafka.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from penstock.protocol.kafka.messages.delete_topics import DeleteTopicsRequest
from penstock.protocol.kafka.messages.init_producer_id import InitProducerIdRequest
from penstock.protocol.kafka.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from penstock.protocol.kafka.schema import ZERO_UUID
from tests.kit.broker.kafka_client import KafkaClient, connect, kafka_running
from tests.kit.broker.kafka_talk import (
    PRODUCE_BY_NAME,
    create,
    fetch,
    produce,
    produce_request,
    topic_id,
    values_of,
)
from tests.kit.broker.running import ManualClock, batch
from tests.kit.simulated_disk import SimulatedDisk


async def test_batches_get_their_offsets() -> None:
    """R-PRO-1."""
    async with kafka_running() as (_, client):
        await create(client)
        for expected in (0, 2, 4):
            answer = await produce(client, batch([b"a", b"b"]))
            assert (answer.error_code, answer.base_offset) == (ErrorCode.NONE, expected)
            assert (answer.log_start_offset, answer.log_append_time_ms) == (0, -1)
            assert answer.error_message is None


@pytest.mark.parametrize("version", range(apis.PRODUCE.version_min, apis.PRODUCE.version_max + 1))
async def test_every_version_appends(version: int) -> None:
    async with kafka_running() as (_, client):
        await create(client)
        request = produce_request(batch([b"a"]), acks=1)
        if version >= 13:
            topic = TopicProduceData(
                "", await topic_id(client), request.topic_data[0].partition_data
            )
            request.topic_data = [topic]
        response = await client.call(apis.PRODUCE, version, request)
        assert response.responses[0].partition_responses[0].error_code == ErrorCode.NONE
        assert response.responses[0].topic_id == request.topic_data[0].topic_id
        assert values_of((await fetch(client))[0]) == [b"a"]


def bad_crc() -> bytearray:
    data = batch([b"value"])
    data[-1] ^= 1
    return data


REFUSED: list[Any] = [
    pytest.param(
        batch([b"a"]), {"topic": "nothing"}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, id="topic"
    ),
    pytest.param(
        batch([b"a"]), {"first_partition": 1}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, id="partition"
    ),
    pytest.param(
        batch([b"a"]), {"first_partition": -1}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, id="negative"
    ),
    pytest.param(
        batch([b"a"]),
        {"topic": "__offsets"},
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        id="internal",
    ),
    pytest.param(bad_crc(), {}, ErrorCode.CORRUPT_MESSAGE, id="checksum"),
    pytest.param(batch([b"a"]) * 2, {}, ErrorCode.INVALID_RECORD, id="two batches"),
    pytest.param(None, {}, ErrorCode.INVALID_RECORD, id="null"),
    pytest.param(b"", {}, ErrorCode.INVALID_RECORD, id="no batch"),
    pytest.param(batch([b"a"])[:40], {}, ErrorCode.INVALID_RECORD, id="half a batch"),
    pytest.param(batch([b"a"])[:16] + b"\1" + bytes(60), {}, ErrorCode.INVALID_RECORD, id="magic"),
    pytest.param(batch([b"x" * 2 * MIB]), {}, ErrorCode.MESSAGE_TOO_LARGE, id="too large"),
    pytest.param(
        batch([b"a"], producer=(COPY_PRODUCER_ID_MIN, 0, 0)),
        {},
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        id="producer of a copy",
    ),
    pytest.param(batch([b"a"]), {"acks": 7}, ErrorCode.INVALID_REQUIRED_ACKS, id="acks 7"),
    pytest.param(batch([b"a"]), {"acks": -2}, ErrorCode.INVALID_REQUIRED_ACKS, id="acks -2"),
    pytest.param(
        batch([b"a"]),
        {"transactional_id": "t"},
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        id="transaction",
    ),
    pytest.param(
        batch([b"a"], producer=(5, 0, 3)), {}, ErrorCode.UNKNOWN_PRODUCER_ID, id="no producer"
    ),
    pytest.param(
        batch([b"a"], timestamp_ms=2**60), {}, ErrorCode.INVALID_TIMESTAMP, id="timestamp"
    ),
]


@pytest.mark.parametrize(("payload", "how", "code"), REFUSED)
async def test_each_refusal_has_its_code(
    payload: bytearray | None, how: dict[str, Any], code: ErrorCode
) -> None:
    """R-PRO-1: with a sentence that says why, and nothing is appended."""
    async with kafka_running() as (_, client):
        await create(client)
        answer = await produce(client, payload, **how)
        assert ErrorCode(answer.error_code) is code
        assert (answer.base_offset, answer.log_start_offset) == (-1, -1)
        assert answer.error_message
        assert (await fetch(client))[0].high_watermark == 0


@pytest.mark.parametrize(
    ("payload", "how", "code"), [case for case in REFUSED if "acks" not in case.values[1]]
)
async def test_a_refusal_that_is_not_answered_closes(
    payload: bytearray | None, how: dict[str, Any], code: ErrorCode
) -> None:
    """acks 0: as in Kafka, or the producer would never know. Answers before it still come."""
    async with kafka_running() as (_, client):
        await create(client)
        before = produce_request(batch([b"a"]), acks=1)
        sent = await client.send(apis.PRODUCE, PRODUCE_BY_NAME, before)
        request = produce_request(payload, **(how | {"acks": 0}))
        await client.send(apis.PRODUCE, PRODUCE_BY_NAME, request)
        response = await client.answer(apis.PRODUCE, PRODUCE_BY_NAME, sent)
        assert response.responses[0].partition_responses[0].error_code == ErrorCode.NONE, code
        assert await client.is_closed()


async def test_an_unknown_id() -> None:
    async with kafka_running() as (_, client):
        await create(client)
        for unknown in (ZERO_UUID, b"\1" * 16):
            data = [PartitionProduceData(0, memoryview(batch([b"a"])))]
            topics = [TopicProduceData("", unknown, data)]
            response = await client.call(apis.PRODUCE, 13, ProduceRequest(None, 1, 1, topics))
            assert response.responses[0].topic_id == unknown
            part = response.responses[0].partition_responses[0]
            assert part.error_code == ErrorCode.UNKNOWN_TOPIC_ID


async def test_too_few_replicas_in_sync() -> None:
    """R-REP-3: refused only to those who wait for all of them."""
    async with kafka_running() as (_, client):
        await create(client, min_insync_replicas="2")
        assert (await produce(client, batch([b"a"]))).error_code == ErrorCode.NOT_ENOUGH_REPLICAS
        assert (await produce(client, batch([b"a"]), acks=1)).error_code == ErrorCode.NONE


async def test_a_request_may_succeed_in_part() -> None:
    """Each partition is answered for itself, in the order of the request."""
    async with kafka_running() as (_, client):
        await create(client, partitions=3)
        request = produce_request(batch([b"a"]), bad_crc(), batch([b"c"]), batch([b"d"]))
        response = await client.call(apis.PRODUCE, PRODUCE_BY_NAME, request)
        answers = response.responses[0].partition_responses
        assert [(answer.index, answer.error_code, answer.base_offset) for answer in answers] == [
            (0, ErrorCode.NONE, 0),
            (1, ErrorCode.CORRUPT_MESSAGE, -1),
            (2, ErrorCode.NONE, 0),
            (3, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1),
        ]
        parts = await fetch(client, [0, 0, 0])
        assert [part.high_watermark for part in parts.values()] == [1, 0, 1]


async def test_a_repeated_batch_is_answered_like_the_first() -> None:
    """R-PRO-2."""
    async with kafka_running() as (_, client):
        await create(client)
        response = await client.call(apis.INIT_PRODUCER_ID, 4, InitProducerIdRequest(None))
        producer_id = response.producer_id
        await produce(client, batch([b"other"]))
        for sequence, expected in ((0, 1), (0, 1), (2, 3), (0, 1), (2, 3)):
            answer = await produce(client, batch([b"a", b"b"], producer=(producer_id, 0, sequence)))
            assert (answer.error_code, answer.base_offset) == (ErrorCode.NONE, expected)
        gap = await produce(client, batch([b"a"], producer=(producer_id, 0, 9)))
        assert gap.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        fenced = await produce(client, batch([b"a"], producer=(producer_id, 1, 0)))
        assert fenced.error_code == ErrorCode.NONE
        old = await produce(client, batch([b"a"], producer=(producer_id, 0, 4)))
        assert old.error_code == ErrorCode.INVALID_PRODUCER_EPOCH


async def test_repetitions_on_the_way_at_once_are_one() -> None:
    """R-PRO-2: the repetition is not answered before the first."""
    async with kafka_running() as (_, client):
        await create(client)
        request = produce_request(batch([b"a"], producer=(7, 0, 0)))
        sent = [await client.send(apis.PRODUCE, PRODUCE_BY_NAME, request) for _ in range(5)]
        for number in sent:
            response = await client.answer(apis.PRODUCE, PRODUCE_BY_NAME, number)
            assert response.responses[0].partition_responses[0].base_offset == 0
        assert values_of((await fetch(client))[0]) == [b"a"]


async def test_the_brokers_time_is_told_where_it_counts() -> None:
    clock = ManualClock()
    async with kafka_running(clock=clock) as (_, client):
        await create(client, message_timestamp_type="LogAppendTime")
        answer = await produce(client, batch([b"a"], timestamp_ms=1))
        assert answer.log_append_time_ms == clock.time_ms


async def test_no_topics_at_all() -> None:
    async with kafka_running() as (_, client):
        response = await client.call(apis.PRODUCE, 9, ProduceRequest(acks=-1))
        assert response.responses == []


async def test_a_disk_that_fails_is_told() -> None:
    """R-STO-1: nothing is acknowledged that is not on the disk."""
    disk = SimulatedDisk()
    async with kafka_running(disk=disk.root) as (_, client):
        await create(client)
        assert (await produce(client, batch([b"a"]))).error_code == ErrorCode.NONE
        disk.fail_next("flush")
        answer = await produce(client, batch([b"b"]))
        assert answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert (answer.base_offset, answer.log_append_time_ms) == (-1, -1)


async def test_a_client_may_leave_before_its_answer(caplog: pytest.LogCaptureFixture) -> None:
    async with kafka_running() as (broker, client):
        await create(client)
        leaving = await connect(broker)
        for _ in range(10):
            await leaving.send(apis.PRODUCE, PRODUCE_BY_NAME, produce_request(batch([b"a"])))
        await leaving.close()
        async with asyncio.timeout(10):
            while (await fetch(client))[0].high_watermark < 10:
                await asyncio.sleep(0)
    assert not caplog.records


SEQUENCED = [bytes(batch([b"value"], producer=(7, 0, sequence))) for sequence in range(4)]


async def code_of(client: KafkaClient, sequence: int, acks: int = 1) -> tuple[ErrorCode, int]:
    answer = await produce(client, bytearray(SEQUENCED[sequence]), acks=acks)
    return ErrorCode(answer.error_code), answer.base_offset


async def test_what_follows_a_batch_that_was_turned_away_is_to_come_again() -> None:
    """R-PRO-2: Kafka's producers would take "out of order" for the end of their identity, and send
    under another what may be here already."""
    refused, early = (ErrorCode.NOT_ENOUGH_REPLICAS, -1), (ErrorCode.REQUEST_TIMED_OUT, -1)
    async with kafka_running() as (_, client):
        await create(client, min_insync_replicas="2")
        assert await code_of(client, 0, acks=-1) == refused
        assert await code_of(client, 1) == early, "its first batch comes again"
        assert [await code_of(client, number) for number in range(2)] == [
            (ErrorCode.NONE, 0),
            (ErrorCode.NONE, 1),
        ]
        assert await code_of(client, 3) == (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1)
        assert await code_of(client, 2, acks=-1) == refused
        answer = await produce(client, bytearray(SEQUENCED[3]), acks=1)
        assert answer.error_message is not None
        assert "its sequence 2 was turned away lately" in answer.error_message
        assert [await code_of(client, number) for number in (2, 3)] == [
            (ErrorCode.NONE, 2),
            (ErrorCode.NONE, 3),
        ]


async def test_what_follows_a_batch_that_was_not_written_is_to_come_again() -> None:
    disk = SimulatedDisk()
    async with kafka_running(disk=disk.root) as (_, client):
        await create(client)
        disk.fail_next("append", errno.ENOSPC)
        assert await code_of(client, 0) == (ErrorCode.KAFKA_STORAGE_ERROR, -1)
        assert await code_of(client, 1) == (ErrorCode.REQUEST_TIMED_OUT, -1)
        assert await code_of(client, 0) == (ErrorCode.NONE, 0)
        assert await code_of(client, 1) == (ErrorCode.NONE, 1)


async def test_what_was_sent_to_a_copy_before_it_led_is_to_come_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(leaders: Leaders, topic: str, number: int) -> Partition:
        raise NotLeader(f"{leaders} has no leader of {topic}-{number}.")

    async with kafka_running() as (_, client):
        await create(client)
        with monkeypatch.context() as before_it_leads:
            before_it_leads.setattr(Leaders, "find", refuse)
            assert await code_of(client, 0) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)
        assert await code_of(client, 1) == (ErrorCode.REQUEST_TIMED_OUT, -1)
        assert await code_of(client, 0) == (ErrorCode.NONE, 0)
        assert await code_of(client, 1) == (ErrorCode.NONE, 1)


async def test_what_another_leader_may_have_turned_away_is_to_come_first() -> None:
    """R-PRO-2: librdkafka sends those that never left at once, and those that the former leader
    turned away, or wrote without saying so, a little later. A gap that stays is one."""
    disk, clock = SimulatedDisk(), ManualClock()
    early = ErrorCode.REQUEST_TIMED_OUT, -1
    async with kafka_running(disk=disk.root, clock=clock) as (_, client):
        await create(client)
        assert [await code_of(client, 0), await code_of(client, 2)] == [
            (ErrorCode.NONE, 0),
            (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1),
        ]
    async with kafka_running(disk=disk.root, clock=clock) as (_, client):
        assert [await code_of(client, number) for number in (3, 2)] == [early, early]
        assert [await code_of(client, number) for number in (0, 1)] == [
            (ErrorCode.NONE, 0),
            (ErrorCode.NONE, 1),
        ]
        gap = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1
        assert await code_of(client, 3) == gap, "nobody else led since the one before it"
    async with kafka_running(disk=disk.root, clock=clock) as (_, client):
        assert await code_of(client, 3) == early
        clock.time_ms += GAP_MS_MAX
        assert await code_of(client, 3) == early
        clock.time_ms += 1
        assert await code_of(client, 3) == gap


async def test_a_producer_goes_on_in_a_topic_that_was_made_anew() -> None:
    """R-PRO-2, KIP-360: it does not know that its topic is another, and counts on. Not before the
    earliest that it has on its way has come: what overtook that would let it be lost."""
    async with kafka_running() as (_, client):

        async def send(sequence: int) -> tuple[ErrorCode, int]:
            answer = await produce(client, batch([b"%d" % sequence], producer=(5, 0, sequence)))
            return ErrorCode(answer.error_code), answer.base_offset

        await create(client)
        assert await send(0) == (ErrorCode.NONE, 0)
        await make_anew(client)
        again = ErrorCode.REQUEST_TIMED_OUT, -1
        assert await send(2) == again, "the one before it may come yet"
        assert await send(1) == again
        assert await send(2) == again
        assert await send(1) == (ErrorCode.NONE, 0)
        assert await send(2) == (ErrorCode.NONE, 1)
        assert await send(1) == (ErrorCode.NONE, 0), "it is known from now on"
        assert await send(4) == (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1)
        assert values_of((await fetch(client))[0]) == [b"1", b"2"]


async def test_whoever_may_have_been_forgotten_does_not_go_on() -> None:
    """R-PRO-2: where messages are gone, it may have written what it sends again."""
    async with kafka_running() as (_, client):
        await create(client)
        await make_anew(client)
        await produce(client, batch([b"a"]))
        partition = DeleteRecordsPartition(0, 1)
        request = DeleteRecordsRequest([DeleteRecordsTopic("orders", [partition])], 1_000)
        response = await client.call(apis.DELETE_RECORDS, 2, request)
        assert response.topics[0].partitions[0].low_watermark == 1
        for _ in range(2):
            answer = await produce(client, batch([b"a"], producer=(5, 0, 3)))
            assert ErrorCode(answer.error_code) is ErrorCode.UNKNOWN_PRODUCER_ID


async def make_anew(client: KafkaClient) -> None:
    request = DeleteTopicsRequest(topic_names=["orders"])
    response = await client.call(apis.DELETE_TOPICS, 5, request)
    assert response.responses[0].error_code == ErrorCode.NONE
    await create(client)
