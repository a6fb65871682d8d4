"""Fetch: what comes, how much of it, when, and what a session leaves out."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from penstock.protocol.kafka import apis
from penstock.protocol.kafka.errors import ErrorCode
from penstock.protocol.kafka.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from penstock.protocol.kafka.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from penstock.protocol.kafka.messages.fetch import FetchRequest, ForgottenTopic
from tests.kit.broker.kafka_client import KafkaClient, connect, kafka_running
from tests.kit.broker.kafka_talk import (
    LONG_MS,
    create,
    fetch,
    fetch_request,
    fill,
    parts_of,
    produce,
    settled,
    topic_id,
    values_of,
)
from tests.kit.broker.running import allow_small_segments, batch

BATCH_BYTES = len(batch([b"x" * 100]))


def waiting_fetch(
    client: KafkaClient, offsets: list[int] | None = None, version: int = 12, **how: Any
) -> asyncio.Task[Any]:
    request = fetch_request(offsets or [0], max_wait_ms=LONG_MS, **how)
    return asyncio.create_task(client.call(apis.FETCH, version, request))


# --- what comes --------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(apis.FETCH.version_min, apis.FETCH.version_max + 1))
async def test_every_version_brings_the_batches(version: int) -> None:
    """R-DEL-6: from the batch that holds the offset on."""
    async with kafka_running() as (_, client):
        await create(client)
        await fill(client, b"a", b"b", b"c")
        topic: str | bytes = await topic_id(client) if version >= 13 else "orders"
        part = (await fetch(client, [1], version, topic=topic))[0]
        assert values_of(part, 1) == [b"b", b"c"]
        assert (part.high_watermark, part.last_stable_offset) == (3, 3)
        assert part.log_start_offset == (0 if version >= 5 else -1)
        assert part.preferred_read_replica == -1


async def test_several_topics_and_partitions() -> None:
    async with kafka_running() as (_, client):
        await create(client, "orders", 2)
        await create(client, "others")
        await fill(client, b"a", partition=1)
        await fill(client, b"b", topic="others")
        request = fetch_request([0, 0])
        request.topics = [*request.topics, *fetch_request(topic="others").topics]
        response = await client.call(apis.FETCH, 12, request)
        assert [topic.topic for topic in response.responses] == ["orders", "others"]
        orders, others = (topic.partitions for topic in response.responses)
        assert [values_of(part) for part in orders] == [[], [b"a"]]
        assert [values_of(part) for part in others] == [[b"b"]]


@pytest.mark.parametrize(("isolation", "aborted"), [(0, None), (1, [])])
async def test_everything_committed_is_stable(isolation: int, aborted: list[Any] | None) -> None:
    """`read_committed`: there are no transactions, so none was aborted."""
    async with kafka_running() as (_, client):
        await create(client)
        await fill(client, b"a")
        part = (await fetch(client, isolation_level=isolation))[0]
        assert part.aborted_transactions == aborted
        assert part.last_stable_offset == part.high_watermark == 1
        assert values_of(part) == [b"a"]


@pytest.mark.parametrize(
    ("topic", "partition", "offset", "code"),
    [
        ("nothing", 0, 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("orders", 1, 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("orders", -1, 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("orders", 0, 2, ErrorCode.OFFSET_OUT_OF_RANGE),
        ("orders", 0, -1, ErrorCode.OFFSET_OUT_OF_RANGE),
        ("orders", 0, 2**63 - 1, ErrorCode.OFFSET_OUT_OF_RANGE),
        ("orders", 0, -(2**63), ErrorCode.OFFSET_OUT_OF_RANGE),
    ],
)
async def test_errors_come_at_once(
    topic: str, partition: int, offset: int, code: ErrorCode
) -> None:
    """Also where the client would wait."""
    async with kafka_running() as (_, client):
        await create(client)
        await fill(client, b"a")
        parts = await fetch(client, {partition: offset}, topic=topic, max_wait_ms=LONG_MS)
        part = parts[partition]
        assert ErrorCode(part.error_code) is code
        assert (part.high_watermark, part.last_stable_offset, part.log_start_offset) == (-1, -1, -1)
        assert part.records is not None
        assert values_of(part) == []


async def test_an_error_keeps_back_nothing_of_the_others() -> None:
    async with kafka_running() as (_, client):
        await create(client, partitions=3)
        await fill(client, b"a", partition=2)
        parts = await fetch(client, [0, 7, 0], max_wait_ms=LONG_MS)
        assert [part.error_code for part in parts.values()] == [0, ErrorCode.OFFSET_OUT_OF_RANGE, 0]
        assert values_of(parts[2]) == [b"a"]


# --- how much ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("max_bytes", "partition_max_bytes", "expected"),
    [
        (1 << 20, 1 << 20, [5, 5, 5]),
        (1 << 20, 2 * BATCH_BYTES + 10, [2, 2, 2]),
        (3 * BATCH_BYTES, 2 * BATCH_BYTES, [2, 1, 0]),
        (3 * BATCH_BYTES, 1 << 20, [3, 0, 0]),
        (1, 1 << 20, [1, 0, 0]),
        (0, 1 << 20, [1, 0, 0]),
        (-1, 1 << 20, [1, 0, 0]),
        (1 << 20, 1, [1, 0, 0]),
        (1 << 20, 0, [1, 0, 0]),
        (1 << 20, -1, [1, 0, 0]),
    ],
)
async def test_limits_are_kept_but_the_first_batch_always_comes(
    max_bytes: int, partition_max_bytes: int, expected: list[int]
) -> None:
    """KIP-74: so that a consumer gets on whatever its limits are."""
    async with kafka_running() as (_, client):
        await create(client, partitions=3)
        for partition in range(3):
            await fill(client, *[b"x" * 100] * 5, partition=partition)
        parts = await fetch(
            client, [0, 0, 0], max_bytes=max_bytes, partition_max_bytes=partition_max_bytes
        )
        assert [len(values_of(part)) for part in parts.values()] == expected


# --- when --------------------------------------------------------------------------------------


async def test_the_next_message_answers_a_fetch_that_waits() -> None:
    """R-DEL-6: long polling over several partitions."""
    async with kafka_running() as (broker, client):
        await create(client, partitions=3)
        other = await connect(broker)
        fetching = waiting_fetch(client, [0, 0, 0])
        await settled()
        assert not fetching.done()
        await fill(other, b"a", partition=1)
        parts = parts_of(await fetching)
        assert [values_of(part) for part in parts.values()] == [[], [b"a"], []]
        await other.close()


async def test_a_fetch_waits_for_enough_of_all_its_partitions_together() -> None:
    async with kafka_running() as (broker, client):
        await create(client, partitions=2)
        await fill(client, b"x" * 100)
        other = await connect(broker)
        fetching = waiting_fetch(client, [0, 0], min_bytes=3 * BATCH_BYTES)
        await fill(other, b"x" * 100, partition=1)
        await settled()
        assert not fetching.done()
        await fill(other, b"x" * 100)
        parts = parts_of(await fetching)
        assert [len(values_of(part)) for part in parts.values()] == [2, 1]
        await other.close()


async def test_enough_may_lie_in_several_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    """A read ends with its segment: what it finds is sent, since there is enough in all."""
    allow_small_segments(monkeypatch)
    async with kafka_running() as (_, client):
        await create(client, segment_bytes=str(BATCH_BYTES))
        await fill(client, *[b"x" * 100] * 5)
        part = (await fetch(client, min_bytes=4 * BATCH_BYTES, max_wait_ms=LONG_MS))[0]
        assert len(values_of(part)) == 1


@pytest.mark.parametrize("wait_ms", [0, -1, 1])
async def test_a_wait_ends_with_what_there_is(wait_ms: int) -> None:
    async with kafka_running() as (_, client):
        await create(client)
        await fill(client, b"a")
        part = (await fetch(client, min_bytes=1 << 20, max_wait_ms=wait_ms))[0]
        assert values_of(part) == [b"a"]


@pytest.mark.parametrize("min_bytes", [0, -1])
async def test_who_wants_nothing_does_not_wait(min_bytes: int) -> None:
    async with kafka_running() as (_, client):
        await create(client)
        part = (await fetch(client, min_bytes=min_bytes, max_wait_ms=LONG_MS))[0]
        assert values_of(part) == []
        response = await client.call(apis.FETCH, 12, fetch_request([], max_wait_ms=LONG_MS))
        assert response.responses == [], "nor who asks for no partition"


@pytest.mark.parametrize(
    ("version", "code"),
    [(12, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), (13, ErrorCode.UNKNOWN_TOPIC_ID)],
)
async def test_a_fetch_that_waits_hears_of_its_topics_end(version: int, code: ErrorCode) -> None:
    async with kafka_running() as (broker, client):
        await create(client)
        topic: str | bytes = await topic_id(client) if version >= 13 else "orders"
        other = await connect(broker)
        fetching = waiting_fetch(client, version=version, topic=topic)
        await settled()
        delete = DeleteTopicsRequest([DeleteTopicState("orders")])
        await other.call(apis.DELETE_TOPICS, 6, delete)
        assert parts_of(await fetching)[0].error_code == code
        await other.close()


async def test_a_fetch_that_waits_may_find_its_offset_gone() -> None:
    """Records are deleted up to beyond it; the next message wakes it."""
    async with kafka_running() as (broker, client):
        await create(client)
        await fill(client, b"a", b"b")
        other = await connect(broker)
        fetching = waiting_fetch(client, [1], min_bytes=1 << 20)
        await settled()
        topics = [DeleteRecordsTopic("orders", [DeleteRecordsPartition(0, -1)])]
        await other.call(apis.DELETE_RECORDS, 2, DeleteRecordsRequest(topics))
        await fill(other, b"c")
        assert parts_of(await fetching)[0].error_code == ErrorCode.OFFSET_OUT_OF_RANGE
        await other.close()


async def test_many_wait_for_one_partition() -> None:
    async with kafka_running() as (broker, client):
        await create(client)
        others = [await connect(broker) for _ in range(10)]
        fetching = [waiting_fetch(other) for other in others]
        await settled()
        await fill(client, b"a")
        for response in await asyncio.gather(*fetching):
            assert values_of(parts_of(response)[0]) == [b"a"]
        for other in others:
            await other.close()


# --- sessions ----------------------------------------------------------------------------------


class Consumer:
    """A client with a session, as KIP-227 has it."""

    def __init__(self, client: KafkaClient, version: int = 12) -> None:
        self.client = client
        self.version = version
        self.session_id = 0
        self.epoch = 0

    async def __call__(
        self, offsets: dict[int, int] | None = None, forget: tuple[int, ...] = (), **how: Any
    ) -> Any:
        request = fetch_request(
            offsets or {}, session_id=self.session_id, session_epoch=self.epoch, **how
        )
        if forget:
            request.forgotten_topics_data = [ForgottenTopic("orders", partitions=forget)]
        response = await self.client.call(apis.FETCH, self.version, request)
        self.session_id = response.session_id
        self.epoch += 1
        return response


async def test_a_session_brings_only_news() -> None:
    """KIP-227."""
    async with kafka_running() as (_, client):
        await create(client, partitions=3)
        consume = Consumer(client)
        first = await consume({0: 0, 1: 0, 2: 0})
        assert first.session_id > 0
        assert set(parts_of(first)) == {0, 1, 2}, "the first answer names them all"
        assert parts_of(await consume()) == {}
        await fill(client, b"a", partition=1)
        second = await consume()
        assert second.session_id == first.session_id
        assert values_of(parts_of(second)[1]) == [b"a"]
        assert set(parts_of(second)) == {1}
        assert set(parts_of(await consume())) == {1}, "its offset was not moved"
        assert parts_of(await consume({1: 1})) == {}, "now it was"


async def test_a_new_high_watermark_is_news() -> None:
    """Even where its records do not come."""
    async with kafka_running() as (_, client):
        await create(client, partitions=2)
        consume = Consumer(client)
        await consume({0: 0, 1: 0})
        await fill(client, b"a")
        await fill(client, b"b", partition=1)
        parts = parts_of(await consume(max_bytes=1))
        assert [len(values_of(part)) for part in parts.values()] == [1, 0]
        assert parts[1].high_watermark == 1


async def test_deleted_records_are_news() -> None:
    async with kafka_running() as (_, client):
        await create(client)
        await fill(client, b"a", b"b")
        consume = Consumer(client)
        await consume({0: 2})
        topics = [DeleteRecordsTopic("orders", [DeleteRecordsPartition(0, 1)])]
        await client.call(apis.DELETE_RECORDS, 2, DeleteRecordsRequest(topics))
        assert parts_of(await consume())[0].log_start_offset == 1
        assert parts_of(await consume()) == {}


async def test_an_error_and_its_end_are_news() -> None:
    async with kafka_running() as (_, client):
        await create(client)
        consume = Consumer(client)
        assert parts_of(await consume({0: 5}))[0].error_code == ErrorCode.OFFSET_OUT_OF_RANGE
        assert parts_of(await consume())[0].error_code == ErrorCode.OFFSET_OUT_OF_RANGE
        assert parts_of(await consume({0: 0}))[0].error_code == ErrorCode.NONE
        assert parts_of(await consume()) == {}


async def test_what_was_told_in_a_discarded_look_is_still_news() -> None:
    """A fetch that waits has looked before, and told nobody."""
    async with kafka_running() as (broker, client):
        await create(client, partitions=2)
        consume = Consumer(client)
        await consume({0: 0, 1: 0})
        other = await connect(broker)
        await fill(other, b"a")
        fetching = asyncio.create_task(consume(min_bytes=BATCH_BYTES, max_wait_ms=LONG_MS))
        await settled()
        assert not fetching.done()
        await fill(other, b"x" * 100, partition=1)
        assert [len(values_of(part)) for part in parts_of(await fetching).values()] == [1, 1]
        await other.close()


async def test_a_session_waits_and_is_woken() -> None:
    async with kafka_running() as (broker, client):
        await create(client, partitions=2)
        consume = Consumer(client)
        await consume({0: 0, 1: 0})
        other = await connect(broker)
        fetching = asyncio.create_task(consume(max_wait_ms=LONG_MS))
        await settled()
        await fill(other, b"a")
        assert set(parts_of(await fetching)) == {0}
        await other.close()


async def test_partitions_come_and_go() -> None:
    async with kafka_running() as (_, client):
        await create(client, partitions=3)
        for partition in range(3):
            await fill(client, b"a", partition=partition)
        consume = Consumer(client)
        assert set(parts_of(await consume({0: 0}))) == {0}
        assert set(parts_of(await consume({1: 0, 2: 0}))) == {0, 1, 2}
        assert set(parts_of(await consume(forget=(0, 2)))) == {1}
        end = await consume(forget=(1,), max_wait_ms=LONG_MS)
        assert end.session_id == 0, "it ended with its last partition, and waits for nothing"


async def test_no_partition_starves_under_a_limit() -> None:
    """KIP-74: those that got nothing come first next time."""
    async with kafka_running() as (_, client):
        await create(client, partitions=3)
        for partition in range(3):
            await fill(client, *[b"x" * 100] * 9, partition=partition)
        consume = Consumer(client)
        offsets = dict.fromkeys(range(3), 0)
        wanted: dict[int, int] = dict(offsets)
        for _ in range(9):
            got = parts_of(await consume(wanted, max_bytes=BATCH_BYTES))
            (served,) = [number for number, part in got.items() if values_of(part)]
            offsets[served] += 1
            wanted = {served: offsets[served]}
        assert offsets == {0: 3, 1: 3, 2: 3}


async def test_refused_sessions() -> None:
    async with kafka_running() as (_, client):
        await create(client)
        consume = Consumer(client)
        await consume({0: 0})
        session_id = consume.session_id
        for session, epoch, version, code in (
            (session_id ^ 1, 1, 12, ErrorCode.FETCH_SESSION_ID_NOT_FOUND),
            (session_id, 2, 12, ErrorCode.INVALID_FETCH_SESSION_EPOCH),
            (session_id, 1, 13, ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR),
        ):
            request = FetchRequest(session_id=session, session_epoch=epoch)
            response = await client.call(apis.FETCH, version, request)
            assert (response.error_code, response.session_id) == (code, 0)
        assert (await consume()).error_code == ErrorCode.NONE, "it is still there"
        closing = fetch_request(session_id=session_id, session_epoch=-1)
        response = await client.call(apis.FETCH, 12, closing)
        assert (response.error_code, response.session_id) == (ErrorCode.NONE, 0)
        assert (await consume()).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


async def test_two_connections_share_a_session(caplog: pytest.LogCaptureFixture) -> None:
    """One waits for a partition that the other forgets: nothing of either fails."""
    async with kafka_running() as (broker, client):
        await create(client, partitions=2)
        consume = Consumer(client)
        await consume({0: 0, 1: 0})
        fetching = asyncio.create_task(consume(max_wait_ms=LONG_MS))
        await settled()
        other = Consumer(await connect(broker))
        other.session_id, other.epoch = consume.session_id, 2
        assert (await other(forget=(0,))).error_code == ErrorCode.NONE
        await fill(other.client, b"a")
        assert values_of(parts_of(await fetching)[0]) == [b"a"]
        await fill(other.client, b"b", partition=1)
        assert set(parts_of(await other())) == {1}
        await other.client.close()
    assert not caplog.records


async def test_a_produced_duplicate_wakes_nobody() -> None:
    async with kafka_running() as (broker, client):
        await create(client)
        other = await connect(broker)
        await produce(other, batch([b"a"], producer=(3, 0, 0)))
        fetching = waiting_fetch(client, [1])
        await settled()
        await produce(other, batch([b"a"], producer=(3, 0, 0)))
        await settled()
        assert not fetching.done()
        await produce(other, batch([b"b"], producer=(3, 0, 1)))
        assert values_of(parts_of(await fetching)[0], 1) == [b"b"]
        await other.close()
