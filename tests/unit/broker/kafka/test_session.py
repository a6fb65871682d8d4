"""A Kafka client's connection: answers in order, one request after another, nothing left behind."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import socket
from collections.abc import Iterator

import pytest

from penstock.broker.kafka import session as session_module
from penstock.broker.kafka.call import Call
from penstock.broker.kafka.fetch_sessions import FetchSessions
from penstock.broker.kafka.session import KafkaSession
from penstock.broker.kafka.share_sessions import ShareSessions
from penstock.model.errors import InvalidRequest
from penstock.model.limits import MIB
from penstock.net.connection import Connection, Pause
from penstock.net.receive_pool import ReceivePool
from penstock.protocol.kafka import apis
from penstock.protocol.kafka.errors import ErrorCode
from penstock.protocol.kafka.messages.api_versions import ApiVersionsRequest
from penstock.protocol.kafka.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from penstock.protocol.kafka.messages.metadata import MetadataRequest, MetadataResponse
from tests.kit.broker.kafka_client import connect, encode_request, kafka_running
from tests.kit.broker.kafka_talk import (
    LONG_MS,
    PRODUCE_BY_NAME,
    create,
    fetch_request,
    fill,
    parts_of,
    produce_request,
    settled,
    values_of,
)
from tests.kit.broker.running import batch

LATEST = ListOffsetsRequest(
    topics=[ListOffsetsTopic("orders", [ListOffsetsPartition(0, timestamp=-1)])]
)


API_VERSIONS = encode_request(apis.API_VERSIONS, 0, 99, ApiVersionsRequest())


@pytest.fixture
def only_new_objects() -> Iterator[None]:
    """What was there before the test is not looked at."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


def alive(kind: str) -> int:
    """How many objects of this class something still refers to."""
    gc.collect()
    return sum(type(thing).__name__ == kind for thing in gc.get_objects())


async def until_alive(kind: str, count: int) -> None:
    async with asyncio.timeout(10):
        while alive(kind) != count:
            await asyncio.sleep(0.001)


@pytest.mark.parametrize("durability", ["os", "fsync"])
async def test_pipelined_produce_requests_are_answered_in_order(durability: str) -> None:
    """R-NET-5: acks 0, 1 and all mixed, over partitions whose commits come in any order; those
    with acks 0 have no answer."""
    async with kafka_running() as (_, client):
        await create(client, partitions=3, penstock_durability=durability)
        expected = []
        for number in range(60):
            acks = (0, 1, -1)[number % 3]
            request = produce_request(
                batch([b"%d" % number]), acks=acks, first_partition=number * 7 % 3
            )
            sent = await client.send(apis.PRODUCE, PRODUCE_BY_NAME, request)
            if acks:
                expected.append((sent, number))
        for sent, _ in expected:
            response = await client.answer(apis.PRODUCE, PRODUCE_BY_NAME, sent)
            assert response.responses[0].partition_responses[0].error_code == ErrorCode.NONE
        response = await client.call(apis.FETCH, 12, fetch_request([0, 0, 0]))
        values = [value for part in parts_of(response).values() for value in values_of(part)]
        assert len(values) == 60
        assert set(values) == {b"%d" % number for number in range(60)}


async def test_a_request_sees_what_the_produce_requests_before_it_did() -> None:
    """As in Kafka: also with acks 0, and while the disk still flushes."""
    async with kafka_running() as (_, client):
        await create(client)
        for count in (1, 2, 3):
            await client.send(apis.PRODUCE, PRODUCE_BY_NAME, produce_request(batch([b"a"]), acks=0))
            response = await client.call(apis.LIST_OFFSETS, 7, LATEST)
            assert response.topics[0].partitions[0].offset == count


async def test_a_fetch_that_waits_holds_its_connection_and_no_other() -> None:
    """R-DEL-6: requests of one connection are handled one after another."""
    async with kafka_running() as (broker, client):
        await create(client)
        fetching = await client.send(apis.FETCH, 12, fetch_request(max_wait_ms=LONG_MS))
        later = await client.send(apis.LIST_OFFSETS, 7, LATEST)
        answer = asyncio.create_task(client.answer(apis.FETCH, 12, fetching))
        other = await connect(broker)
        assert (await other.call(apis.METADATA, 12, MetadataRequest(None))).topics
        await settled()
        assert not answer.done()
        await fill(other, b"a")
        assert values_of(parts_of(await answer)[0]) == [b"a"]
        response = await client.answer(apis.LIST_OFFSETS, 7, later)
        assert response.topics[0].partitions[0].offset == 1, "handled after the fetch"
        await other.close()


@pytest.mark.usefixtures("only_new_objects")
async def test_a_client_that_vanishes_while_it_waits_leaves_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """At once, not when its wait is over."""
    async with kafka_running() as (broker, client):
        await create(client, partitions=3)
        leaving = await connect(broker)
        await leaving.send(apis.FETCH, 12, fetch_request([0, 0, 0], max_wait_ms=LONG_MS))
        await until_alive("_Watch", 3)
        await leaving.close()
        await until_alive("_Watch", 0)
        await until_alive("KafkaSession", 1)
        assert not alive("_Fetch")
        await fill(client, b"a")
    assert not caplog.records


async def test_what_comes_while_a_request_waits_is_not_read_on() -> None:
    """R-NET-4: a client that sends on and on fills its own buffers, not the broker's."""
    async with alone() as (session, client, calls):
        client.setblocking(False)
        client.sendall(encode_request(apis.FETCH, 12, 1, fetch_request(max_wait_ms=LONG_MS)))
        await settled()
        assert not session.connection.is_paused_for(Pause.CALLS_IN_FLIGHT)
        with contextlib.suppress(BlockingIOError):
            for _ in range(1_000):
                client.send(API_VERSIONS * 1000)
                await settled()
        assert session.connection.is_paused_for(Pause.CALLS_IN_FLIGHT)
        assert session.connection.bytes_received < MIB
        assert len(calls) == 1
        calls[0].answer_nothing()
        await settled()
        assert len(calls) == 2, "one after another"


async def test_a_stop_answers_those_who_wait() -> None:
    """With what there is, and takes no further requests."""
    async with kafka_running() as (broker, client):
        await create(client)
        await fill(client, b"a")
        request = fetch_request(max_wait_ms=LONG_MS, min_bytes=1 << 20)
        fetching = await client.send(apis.FETCH, 12, request)
        await client.send(apis.LIST_OFFSETS, 7, LATEST)
        await settled()
        stopping = asyncio.create_task(broker.stop())
        response = await client.answer(apis.FETCH, 12, fetching)
        assert values_of(parts_of(response)[0]) == [b"a"]
        assert await client.is_closed()
        await client.close()
        await stopping


async def test_a_stop_waits_for_what_is_under_way() -> None:
    """R-STO-1: what was appended is acknowledged before the connection ends."""
    async with kafka_running() as (broker, client):
        await create(client)
        sent = [
            await client.send(apis.PRODUCE, PRODUCE_BY_NAME, produce_request(batch([b"a"])))
            for _ in range(10)
        ]
        await settled()
        stopping = asyncio.create_task(broker.stop())
        for number in sent:
            response = await client.answer(apis.PRODUCE, PRODUCE_BY_NAME, number)
            assert response.responses[0].partition_responses[0].error_code == ErrorCode.NONE
        assert await client.is_closed()
        await client.close()
        await stopping


@pytest.mark.parametrize(
    ("key", "version"),
    [
        (apis.FETCH.key, 3),
        (apis.FETCH.key, 99),
        (apis.METADATA.key, -1),
        (9999, 0),
        (-1, 0),
        (7, 0),
    ],
)
async def test_what_we_do_not_speak_ends_the_connection(key: int, version: int) -> None:
    """R-NET-1: as in Kafka, which has no other answer."""
    async with kafka_running() as (_, client):
        head = key.to_bytes(2, signed=True) + version.to_bytes(2, signed=True)
        client.writer.write((10).to_bytes(4) + head + b"\0\0\0\1\xff\xff")
        assert await client.is_closed()


@pytest.mark.parametrize("version", [5, 99, -1])
async def test_an_unknown_version_of_api_versions_is_answered(version: int) -> None:
    """KIP-511: in version 0, so that the client learns what it may say; then it goes on."""
    async with kafka_running() as (_, client):
        head = apis.API_VERSIONS.key.to_bytes(2) + version.to_bytes(2, signed=True)
        client.writer.write((14).to_bytes(4) + head + b"\0\0\0\1\xff\xff" + b"what")
        response = await client.answer(apis.API_VERSIONS, 0, 1)
        assert response.error_code == ErrorCode.UNSUPPORTED_VERSION
        assert {one.api_key for one in response.api_keys} == set(apis.APIS)
        again = await client.call(apis.API_VERSIONS, 4, ApiVersionsRequest())
        assert again.error_code == ErrorCode.NONE


@pytest.mark.parametrize(
    "frame",
    [
        (2**31 - 1).to_bytes(4) + b"\0\0",
        (9 * MIB).to_bytes(4) + apis.METADATA.key.to_bytes(2),
        (-5).to_bytes(4, signed=True) + b"\0\0",
        (4).to_bytes(4) + b"\0\0\0\0",
        encode_request(apis.METADATA, 12, 1, MetadataRequest())[:-1] + b"\x7f",
        encode_request(apis.METADATA, 8, 1, MetadataRequest([]))[:-7] + b"\x7f" * 7,
        (14).to_bytes(4) + b"\0\x12\0\0" + b"\0\0\0\1" + b"\x7f\xff" + b"name",
    ],
    ids=["2 GiB", "9 MiB", "negative", "no head", "tags", "elements", "client's name"],
)
async def test_a_malformed_frame_ends_the_connection(
    frame: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """R-NET-1: no traceback, and those before it are answered."""
    async with kafka_running() as (_, client):
        client.writer.write(API_VERSIONS + frame)
        assert (await client.answer(apis.API_VERSIONS, 0, 99)).error_code == ErrorCode.NONE
        assert await client.is_closed()
    assert not [record for record in caplog.records if record.exc_info]


async def test_frames_may_come_byte_by_byte() -> None:
    async with kafka_running() as (_, client):
        for byte in API_VERSIONS * 2:
            client.writer.write(bytes([byte]))
            await asyncio.sleep(0)
        for _ in range(2):
            assert (await client.answer(apis.API_VERSIONS, 0, 99)).error_code == ErrorCode.NONE


async def test_only_so_many_produce_requests_are_under_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """R-NET-4: the rest is not read before."""
    monkeypatch.setattr(session_module, "KAFKA_PRODUCES_IN_FLIGHT_MAX", 3)
    async with alone() as (session, client, calls):
        frame = encode_request(apis.PRODUCE, PRODUCE_BY_NAME, 1, produce_request(batch([b"a"])))
        client.sendall(frame * 5 + API_VERSIONS)
        await settled()
        assert len(calls) == 3
        for call in calls[:3]:
            call.answer_nothing()
        await settled()
        assert [call.api for call in calls[3:]] == [apis.PRODUCE] * 2, "the last one sees them"
        assert session.connection.is_paused_for(Pause.CALLS_IN_FLIGHT)
        for call in calls[3:]:
            call.answer_nothing()
        await settled()
        assert calls[5].api is apis.API_VERSIONS


class alone:  # noqa: N801
    """A session on its own: (session, the client's socket, the calls that arrive)."""

    async def __aenter__(self) -> tuple[KafkaSession, socket.socket, list[Call]]:
        ours, self._theirs = socket.socketpair()
        ours.setblocking(False)
        calls: list[Call] = []
        self._connection = Connection(ours, pool=ReceivePool())
        session = KafkaSession(
            self._connection,
            calls.append,
            on_read_end=lambda: None,
            frame_bytes_max=MIB,
            fetch_sessions=FetchSessions(lambda: 0, lambda: 1),
            share_sessions=ShareSessions(),
        )
        self._connection.start(session)
        return session, self._theirs, calls

    async def __aexit__(self, *_: object) -> None:
        self._connection.abort()
        self._theirs.close()
        await settled()


async def received(client: socket.socket) -> bytes:
    """Everything until the session closes."""
    await settled()
    client.settimeout(10)
    data = b""
    while more := client.recv(1 << 16):
        data += more
    return data


async def test_a_refused_call_ends_the_connection_after_the_answers_before_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    async with alone() as (_, client, calls):
        client.sendall(
            encode_request(apis.PRODUCE, PRODUCE_BY_NAME, 1, produce_request(batch([b"a"]))) * 3
        )
        await settled()
        first, second, third = calls
        second.refuse(InvalidRequest("It makes no sense."))
        third.answer_nothing()
        await settled()
        first.answer(apis.PRODUCE.response())
        assert len(await received(client)) > 8, "the first one's answer, then the end"
    assert "It makes no sense." in caplog.text


@pytest.mark.parametrize("garbage", [b"\xff" * 20, (10).to_bytes(4) + b"\x7f" * 10])
async def test_what_came_before_garbage_is_answered(garbage: bytes) -> None:
    async with alone() as (session, client, calls):
        good = encode_request(apis.PRODUCE, PRODUCE_BY_NAME, 1, produce_request(batch([b"a"])))
        client.sendall(good + garbage + good)
        await settled()
        assert len(calls) == 1
        assert not session.connection.is_closed
        calls[0].answer(apis.PRODUCE.response())
        assert len(await received(client)) > 8


async def test_an_answer_that_cannot_be_written_ends_the_connection(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A bug of ours: its client must not wait for ever, nor whoever answered fail with it."""
    async with alone() as (_, client, calls):
        client.sendall(encode_request(apis.METADATA, 12, 1, MetadataRequest()))
        await settled()
        calls[0].answer(MetadataResponse(controller_id=2**40))
        assert await received(client) == b""
    assert "cannot be written" in caplog.text


async def test_a_call_is_answered_once() -> None:
    async with alone() as (_, client, calls):
        client.sendall(API_VERSIONS)
        await settled()
        calls[0].answer_nothing()
        for again in (calls[0].answer_nothing, lambda: calls[0].refuse(InvalidRequest())):
            with pytest.raises(AssertionError, match="twice"):
                again()


async def test_an_answer_to_a_client_that_is_gone_goes_nowhere() -> None:
    async with alone() as (session, client, calls):
        client.sendall(API_VERSIONS)
        await settled()
        client.close()
        session.connection.abort()
        await settled()
        calls[0].answer(apis.API_VERSIONS.response())


async def test_a_silent_client_is_closed_after_a_long_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Kafka has no ping; a client that waits for an answer is not silent."""
    async with alone() as (session, client, calls):
        assert not session.ping()
        assert not session.connection.is_closed
        client.sendall(API_VERSIONS)
        await settled()
        monkeypatch.setattr(session_module, "IDLE_S_MAX", -1)
        session.ping()
        assert not session.connection.is_closed
        calls[0].answer_nothing()
        session.ping()
        assert session.connection.is_closed


@pytest.mark.parametrize(("listen", "host"), [("127.0.0.1:0", "/127.0.0.1"), ("[::1]:0", "/::1")])
async def test_a_clients_host_is_shown_as_kafka_shows_it(
    listen: str, host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    hosts: list[str] = []
    on_frame = KafkaSession.on_frame

    def watched(session: KafkaSession, frame: memoryview) -> None:
        hosts.append(session.client_host)
        on_frame(session, frame)

    monkeypatch.setattr(KafkaSession, "on_frame", watched)
    async with kafka_running(listen=(listen,)) as (_, client):
        await client.call(apis.API_VERSIONS, 4, ApiVersionsRequest())
    assert hosts == [host]


async def test_what_follows_a_request_is_not_looked_at() -> None:
    """librdkafka 2.16 asks for all topics with four bytes where one is meant."""
    async with kafka_running() as (_, client):
        await create(client)
        body = bytes.fromhex("00000000010000")
        head = apis.METADATA.key.to_bytes(2) + (13).to_bytes(2) + (7).to_bytes(4) + b"\0\0\0"
        client.writer.write((len(head) + len(body)).to_bytes(4) + head + body)
        response = await client.answer(apis.METADATA, 13, 7)
        assert [topic.name for topic in response.topics] == ["orders"]
