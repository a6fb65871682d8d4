"""Batches that are opened before one goes on with them: nobody waits for another's large ones."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from penstock.broker.broker import Broker
from penstock.broker.topics import openings
from penstock.model.errors import Busy, InvalidBatch
from penstock.model.limits import MIB, RECORD_HEADERS_MAX
from penstock.protocol import calls
from penstock.protocol import penstock_pb2 as pb
from penstock.protocol.kafka import apis
from penstock.protocol.kafka.errors import ErrorCode
from penstock.protocol.kafka.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from penstock.records.header import check_batch
from penstock.records.plain import plain_batch
from tests.kit.broker.kafka_client import KafkaClient, connect
from tests.kit.broker.kafka_talk import PRODUCE_BY_NAME, produce, produce_request, settled
from tests.kit.broker.openings import Watch, tiny_headers, zeros
from tests.kit.broker.running import RawClient, another_client, batch, running

LARGE = {
    "zeros": [zeros(), zeros()],
    "headers": [tiny_headers(), tiny_headers()],
    "many": [tiny_headers(100, 500)] * 40,
}
TOPICS = {
    "gzip": {"compression_type": "gzip"},
    "compact": {"cleanup_policy": "compact"},
    "mine": {"compression_type": "gzip", "exclusive_producer": "yes"},
    "plain": {},
}


async def appended(client: RawClient, payload: bytearray) -> int:
    return (await client.produce("orders", payload)).base_offset


async def send(broker: Broker, client: RawClient, way: str, payloads: list[bytearray]) -> None:
    """Each batch, by this way in, behind another at once."""
    if way == "kafka":
        theirs = await connect(broker)
        data = [PartitionProduceData(0, memoryview(payload)) for payload in payloads]
        topics = [TopicProduceData("orders", partition_data=data)]
        sent = ProduceRequest(None, -1, 60_000, topics)
        answer = await theirs.call(apis.PRODUCE, PRODUCE_BY_NAME, sent)
        for one in answer.responses[0].partition_responses:
            assert one.error_message is None, one.error_message
        await theirs.close()
        return
    call = client.channel.call
    if way == "claimed":
        claiming = pb.ClaimTopicRequest(topic="orders", claimant="a", client_name="a")
        claim = (await call(calls.CLAIM_TOPIC, claiming))[0].claim
    requests: list[tuple[Any, Any]] = []
    for number in range(len(payloads)):
        match way:
            case "native":
                request = pb.ProduceRequest(topic="orders", acks=-1)
                requests.append((calls.PRODUCE, request))
            case "claimed":
                request = pb.ProduceRequest(topic="orders", acks=-1, claim=claim)
                requests.append((calls.PRODUCE, request))
            case "stage":
                staging = pb.StageRequest(write="w", attempt="a", topic="orders", sequence=number)
                requests.append((calls.STAGE, staging))
            case "delay":
                delaying = pb.DelayRequest(topic="orders", due_ms=[60_000], is_relative=True)
                requests.append((calls.DELAY, delaying))
    await asyncio.gather(
        *(
            call(how, request, [payload])
            for (how, request), payload in zip(requests, payloads, strict=True)
        )
    )


@pytest.mark.parametrize("large", LARGE)
@pytest.mark.parametrize(
    ("way", "topic"),
    [
        ("native", "gzip"),
        ("native", "compact"),
        ("kafka", "gzip"),
        ("kafka", "compact"),
        ("claimed", "mine"),
        ("stage", "gzip"),
        ("stage", "compact"),
        ("delay", "plain"),
        ("delay", "gzip"),
    ],
)
async def test_nobody_waits_for_what_others_send(
    monkeypatch: pytest.MonkeyPatch, way: str, topic: str, large: str
) -> None:
    """R-NET-5: a few kilobytes that open to megabytes, or many that open to some each, are opened
    by threads, and in turns, whichever way they come in."""
    payloads = LARGE[large]
    if way == "delay" and large == "headers":
        payloads = [tiny_headers(RECORD_HEADERS_MAX, 150)]  # it may have so many
    async with running() as (broker, client):
        await client.create("orders", 1, **TOPICS[topic])
        if way == "delay":
            await send(broker, client, way, [batch([b"x"])])  # makes the topic that they wait in
        watch = Watch(monkeypatch)
        await send(broker, client, way, payloads)
        watch.check()
        opened = sum(watch.on_loop) + sum(watch.by_threads)
        assert opened >= sum(len(plain(payload)) for payload in payloads)


def plain(payload: bytearray) -> memoryview:
    view = memoryview(payload)
    return plain_batch(check_batch(view), view, 1 << 30).records


async def test_many_at_once_are_opened_in_many_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half a megabyte of one call, of batches that are small and open to 100 kB each."""
    async with running() as (broker, client):
        await client.create("orders", 1, compression_type="gzip")
        watch = Watch(monkeypatch)
        await send(broker, client, "kafka", [tiny_headers(100, 500)] * 100)
        watch.check()
        assert len(watch.on_loop) > 10


@pytest.mark.parametrize("way", ["native", "kafka", "stage", "delay"])
async def test_headers_beyond_reason_are_refused(way: str) -> None:
    """With a sentence: nobody looks into such a record, one after another, for millions."""
    async with running() as (broker, client):
        await client.create("orders", 1, compression_type="gzip", cleanup_policy="compact")
        payload = tiny_headers(RECORD_HEADERS_MAX + 1, 1)
        if way == "kafka":
            theirs = await connect(broker)
            answer = await produce(theirs, payload)
            assert answer.error_code == ErrorCode.INVALID_RECORD
            assert "1000 are the most" in str(answer.error_message)
            await theirs.close()
        else:
            with pytest.raises(InvalidBatch, match="1000 are the most"):
                await send(broker, client, way, [payload])


async def test_a_call_that_delays_has_no_more_headers_than_fit_in_memory() -> None:
    async with running() as (broker, client):
        await client.create("orders")
        with pytest.raises(InvalidBatch, match="200000 is the limit"):
            await send(broker, client, "delay", [tiny_headers(RECORD_HEADERS_MAX, 201)])


async def test_what_comes_behind_is_appended_behind() -> None:
    """R-PRO-2: of an idempotent producer, too; and everything is there as it was sent."""
    async with running() as (_, client):
        await client.create("orders", compression_type="uncompressed", batch_bytes_max=str(8 * MIB))
        sent = [
            zeros(MIB, 0),
            batch([b"small"], producer=(7, 0, 1)),
            zeros(2 * MIB, 2),
            batch([b"last"], producer=(7, 0, 3)),
        ]
        assert await asyncio.gather(*(appended(client, one) for one in sent)) == [0, 1, 2, 3]
        lengths: list[int] = []
        while len(lengths) < len(sent):
            found = await client.fetch("orders", len(lengths))
            lengths += [len(message.value or b"") for message in found]
        assert lengths == [MIB, 5, 2 * MIB, 4]


async def test_what_cannot_be_opened_is_refused_and_the_next_is_not() -> None:
    """More than 64 MiB, or more than the topic takes as it wants it."""
    async with running() as (_, client):
        await client.create("orders", compression_type="uncompressed")
        outcomes = await asyncio.gather(
            appended(client, zeros(65 * MIB)),
            appended(client, zeros(2 * MIB)),
            appended(client, batch([b"small"])),
            return_exceptions=True,
        )
        assert isinstance(outcomes[0], InvalidBatch)
        assert "larger" in str(outcomes[1])
        assert outcomes[2] == 0


async def test_what_waits_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running() as (_, client):
        await client.create("orders", compression_type="gzip")
        one = zeros(MIB)
        monkeypatch.setattr(openings, "OPENING_BYTES_MAX", len(one))
        outcomes = await asyncio.gather(
            appended(client, one), appended(client, zeros(MIB)), return_exceptions=True
        )
        assert outcomes[0] == 0
        assert isinstance(outcomes[1], Busy)
        assert await appended(client, zeros(MIB)) == 1


async def test_what_a_client_left_behind_is_appended() -> None:
    async with running() as (broker, client):
        await client.create("orders", compression_type="gzip")
        async with another_client(broker) as leaving:
            request = pb.ProduceRequest(topic="orders", acks=0)
            leaving.channel.tell(pb.CALL_PRODUCE, request.SerializeToString(), [zeros(MIB)])
            await leaving.channel.call(calls.PING, pb.PingRequest())
        async with asyncio.timeout(10):
            while not await client.fetch("orders"):
                await asyncio.sleep(0)


# --- refused, or changed, while it waited --------------------------------------------------------


@contextlib.asynccontextmanager
async def waiting(
    monkeypatch: pytest.MonkeyPatch, payload: bytearray
) -> AsyncIterator[tuple[RawClient, KafkaClient, Callable[[], Awaitable[Any]]]]:
    """A Kafka producer's batch that is being opened for a topic of gzip until its answer is waited
    for."""
    async with running() as (broker, client):
        await client.create("orders", 1, compression_type="gzip")
        theirs = await connect(broker)
        watch = Watch(monkeypatch)
        watch.gate.clear()

        async def answer() -> Any:
            watch.gate.set()
            answered = await theirs.answer(apis.PRODUCE, PRODUCE_BY_NAME, number)
            return answered.responses[0].partition_responses[0]

        try:
            number = await theirs.send(apis.PRODUCE, PRODUCE_BY_NAME, produce_request(payload))
            async with asyncio.timeout(10):
                while not watch.waiting_count:
                    await asyncio.sleep(0)
            yield client, theirs, answer
        finally:
            watch.gate.set()
            await theirs.close()


async def alter(client: RawClient, **settings: str) -> None:
    request = pb.AlterTopicRequest(name="orders", set=settings)
    await client.channel.call(calls.ALTER_TOPIC, request)


async def test_what_is_refused_for_now_may_come_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """R-PRO-2: an idempotent producer's next batch waits for it, as it does for one that was not
    opened: UNKNOWN_PRODUCER_ID is the end of a librdkafka producer."""
    async with waiting(monkeypatch, zeros(sequence=0)) as (client, theirs, answer):
        await alter(client, min_insync_replicas="2")
        assert (await answer()).error_code == ErrorCode.NOT_ENOUGH_REPLICAS
        await alter(client, min_insync_replicas="1")
        following = batch([b"x"], producer=(7, 0, 1))
        assert (await produce(theirs, following)).error_code == ErrorCode.REQUEST_TIMED_OUT
        assert (await produce(theirs, zeros(sequence=0))).base_offset == 0
        assert (await produce(theirs, following)).base_offset == 1


async def test_settings_that_change_meanwhile_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    """A message without a key must not get into a topic that is compacted by now."""
    async with waiting(monkeypatch, zeros(key=None)) as (client, theirs, answer):
        await alter(client, cleanup_policy="compact")
        refused = await answer()
        assert refused.error_code == ErrorCode.INVALID_RECORD
        assert "no key" in refused.error_message
        assert (await produce(theirs, zeros())).base_offset == 0


async def test_nothing_overtakes_when_batches_are_no_longer_opened(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with waiting(monkeypatch, zeros(sequence=0)) as (client, theirs, answer):
        await alter(client, compression_type="producer")
        following = produce_request(batch([b"x"], producer=(7, 0, 1)))
        number = await theirs.send(apis.PRODUCE, PRODUCE_BY_NAME, following)
        await settled()
        assert (await answer()).base_offset == 0
        answered = await theirs.answer(apis.PRODUCE, PRODUCE_BY_NAME, number)
        assert answered.responses[0].partition_responses[0].base_offset == 1
