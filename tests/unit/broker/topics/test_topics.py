"""Every kind of call that waits at a topic is answered when the topic is deleted (R-PRO-1), though
the disk never ends what it has under way, and long before the call's own time is over.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Final

import pytest

from penstock.broker.broker import Broker
from penstock.broker.partitions.readers import Readers
from penstock.model.error_codes import from_code
from penstock.model.errors import Busy, NotLeader, PenstockError, UnknownTopic
from penstock.protocol import calls
from penstock.protocol import penstock_pb2 as pb
from penstock.protocol.kafka import apis
from penstock.protocol.kafka.errors import ErrorCode
from penstock.protocol.kafka.messages import share_fetch as share
from penstock.protocol.kafka.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from penstock.protocol.kafka.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from tests.kit.broker.kafka_client import KafkaClient, connect
from tests.kit.broker.kafka_talk import (
    FETCH_BY_NAME,
    PRODUCE_BY_NAME,
    fetch_request,
    produce_request,
    settled,
    topic_id,
)
from tests.kit.broker.push_client import pushed, until
from tests.kit.broker.running import RawClient, another_client, batch, running
from tests.kit.simulated_disk import SimulatedFile

LONG_MS: Final = 60_000
GONE: Final = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@dataclass
class Stage:
    """A broker with a topic `orders`, of which a test holds up some flushes."""

    broker: Broker
    client: RawClient
    kafka: KafkaClient
    staged: int = 0
    is_asked: bool = True
    """What is going to wait was sent."""


@dataclass
class Held:
    """Flushes of files below a folder do not end before `go_on`."""

    folder: str = ""
    count: int = 0
    """How many were begun."""
    go_on: threading.Event = field(default_factory=threading.Event)


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Held:
    found, flush = Held(), SimulatedFile.flush

    def flush_later(file: SimulatedFile) -> None:
        if found.folder and found.folder in file.path:
            found.count += 1
            found.go_on.wait(30)
        flush(file)

    monkeypatch.setattr(SimulatedFile, "flush", flush_later)
    return found


@pytest.fixture
def readers(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Whoever began to wait for more of a partition."""
    found: list[object] = []
    wait = Readers.wait

    def note(readers: Readers, waiter: object, wake: Callable[[], None]) -> None:
        found.append(waiter)
        wait(readers, waiter, wake)

    monkeypatch.setattr(Readers, "wait", note)
    return found


async def produce(at: Stage) -> object:
    return await at.client.produce("orders", batch([b"late"]))


async def kafka_produce(at: Stage) -> object:
    request = produce_request(batch([b"late"]))
    answer = await at.kafka.call(apis.PRODUCE, PRODUCE_BY_NAME, request)
    return answer.responses[0].partition_responses[0].error_code


async def kafka_delete_records(at: Stage) -> object:
    wanted = DeleteRecordsTopic("orders", [DeleteRecordsPartition(0, 1)])
    answer = await at.kafka.call(apis.DELETE_RECORDS, 2, DeleteRecordsRequest([wanted]))
    return answer.topics[0].partitions[0].error_code


async def commit_staged(at: Stage) -> object:
    """Waits until what it has staged can be read."""
    request = pb.CommitStagedRequest(write="w", max_wait_ms=LONG_MS)
    request.attempts.add(attempt="a", batches=1)
    answer, _ = await at.client.channel.call(calls.COMMIT_STAGED, request)
    return answer


async def fetch(at: Stage) -> object:
    return await at.client.fetch("orders", 1, min_bytes=1, max_wait_ms=LONG_MS)


async def filtered_fetch(at: Stage) -> object:
    request = pb.FetchRequest(
        topic="orders",
        offset=1,
        filter=pb.Filter(tags=["rare"]),
        max_bytes=1 << 20,
        min_bytes=1,
        max_wait_ms=LONG_MS,
    )
    return await at.client.channel.call(calls.FETCH, request)


async def kafka_fetch(at: Stage) -> object:
    request = fetch_request([1], max_wait_ms=LONG_MS)
    answer = await at.kafka.call(apis.FETCH, FETCH_BY_NAME, request)
    return answer.responses[0].partitions[0].error_code


async def join_shared(at: Stage) -> None:
    """A group begins at the beginning."""
    joining = pb.GroupHeartbeatRequest(
        group="g",
        member_id="m",
        shared=True,
        topics=["orders"],
        settings=pb.SharedSettings(lease_ms=LONG_MS),
        is_full=True,
    )
    await at.client.channel.call(calls.GROUP_HEARTBEAT, joining)


async def lease(at: Stage) -> object:
    at.is_asked = False
    await join_shared(at)
    request = pb.LeaseRequest(
        group="g",
        member_id="m",
        topic="orders",
        messages_max=1,
        bytes_max=1 << 20,
        max_wait_ms=LONG_MS,
    )
    await at.client.channel.call(calls.LEASE, request)
    at.is_asked = True
    return await at.client.channel.call(calls.LEASE, request)


async def kafka_share_fetch(at: Stage) -> object:
    at.is_asked = False
    await join_shared(at)
    joining = ShareGroupHeartbeatRequest("g", "k", 0, subscribed_topic_names=["orders"])
    await at.kafka.call(apis.SHARE_GROUP_HEARTBEAT, 1, joining)
    topic = share.FetchTopic(await topic_id(at.kafka), [share.FetchPartition(0)])
    for epoch in range(2):
        at.is_asked = epoch > 0
        request = share.ShareFetchRequest(
            "g", "k", epoch, max_wait_ms=LONG_MS, min_bytes=1, max_records=1, topics=[topic]
        )
        answer = await at.kafka.call(apis.SHARE_FETCH, 2, request)
    return answer.responses[0].partitions[0].error_code


async def push(at: Stage) -> object:
    async with pushed(at.broker) as client:
        await client.open(offset=1)
        await until(lambda: bool(client.endings))
        raise from_code(client.endings[0].error.code, client.endings[0].error.message)


Ask = Callable[[Stage], Awaitable[object]]


async def told(asking: Awaitable[object]) -> object:
    """The answer, or the type of the error."""
    try:
        return await asyncio.wait_for(asking, 5)
    except PenstockError as error:
        return type(error)


async def delete(client: RawClient) -> None:
    await client.channel.call(calls.DELETE_TOPIC, pb.DeleteTopicRequest(name="orders"))


@contextlib.asynccontextmanager
async def standing(held: Held) -> AsyncIterator[tuple[Stage, RawClient]]:
    """And a client beside it, to delete the topic by."""
    async with running(flush_threads=2) as (broker, client), another_client(broker) as deleter:
        kafka = await connect(broker)
        try:
            yield await stand(broker, client, kafka), deleter
        finally:
            held.go_on.set()
            await kafka.close()


async def stand(broker: Broker, client: RawClient, kafka: KafkaClient) -> Stage:
    await client.create("orders", durability="fsync")
    await client.produce("orders", batch([b"first"]))
    at = Stage(broker, client, kafka)
    await stage(at)
    return at


@pytest.mark.parametrize(
    ("ask", "expected"),
    [
        (produce, UnknownTopic),
        (kafka_produce, GONE),
        (kafka_delete_records, GONE),
        # To be tried again, and then done with: what is staged for a topic that is gone is dropped.
        (commit_staged, Busy),
    ],
)
async def test_who_waits_for_the_disk_hears_that_the_topic_is_deleted(
    ask: Ask, expected: object, held: Held
) -> None:
    async with standing(held) as (at, deleter):
        held.folder = "topics/orders"
        asking = asyncio.create_task(told(ask(at)))
        await until(lambda: held.count > 0)
        deleting = asyncio.create_task(delete(deleter))
        assert await asking == expected
        held.go_on.set()
        await deleting


@pytest.mark.parametrize(
    ("ask", "expected"),
    [
        (fetch, UnknownTopic),
        (filtered_fetch, UnknownTopic),
        (kafka_fetch, GONE),
        # Whoever asks next who leads it hears that nobody does.
        (lease, NotLeader),
        (kafka_share_fetch, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (push, UnknownTopic),
    ],
)
async def test_who_waits_for_more_hears_that_the_topic_is_deleted(
    ask: Ask, expected: object, held: Held, readers: list[Any]
) -> None:
    async with standing(held) as (at, deleter):
        readers.clear()
        asking = asyncio.create_task(told(ask(at)))
        await until(lambda: at.is_asked and bool(readers))
        await settled()
        await delete(deleter)
        assert await asking == expected


async def commit_offset(at: Stage) -> object:
    await at.client.commit("g", 1)
    return "committed"


async def stage(at: Stage) -> object:
    request = pb.StageRequest(write="w", attempt="a", sequence=at.staged, topic="orders")
    at.staged += 1
    return await at.client.channel.call(calls.STAGE, request, [batch([b"late"])])


async def delay(at: Stage) -> object:
    request = pb.DelayRequest(topic="orders", due_ms=[LONG_MS], is_relative=True)
    return await at.client.channel.call(calls.DELAY, request, [batch([b"late"])])


@pytest.mark.parametrize(
    ("ask", "folder"),
    [(commit_offset, "__offsets"), (stage, "__staged"), (delay, "__delayed")],
)
async def test_who_waits_for_another_log_about_the_topic_is_answered_by_that_log(
    ask: Ask, folder: str, held: Held
) -> None:
    """A place in a topic, rows and messages for it are kept elsewhere: the deletion does not wait
    for them, they do not wait for it, and the answer says what became of them there."""
    async with standing(held) as (at, deleter):
        await ask(at)
        held.folder = f"topics/{folder}"
        asking = asyncio.create_task(told(ask(at)))
        await until(lambda: held.count > 0)
        await asyncio.wait_for(delete(deleter), 10)
        assert not asking.done()
        held.go_on.set()
        assert not isinstance(await asking, type)
        # And the connection goes on.
        assert await told(ask(at)) is UnknownTopic
