"""One port, two protocols: the first bytes decide, and everything else is as with one protocol."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from penstock.broker.kafka.fetch_sessions import FetchSessions
from penstock.broker.kafka.session import KafkaSession
from penstock.broker.kafka.share_sessions import ShareSessions
from penstock.model.limits import MIB
from penstock.net.address import TcpAddress
from penstock.net.connection import Connection
from penstock.net.protocol_switch import ProtocolSwitch
from penstock.net.server import Server, ServerConfig
from penstock.net.strangers import Port
from penstock.protocol.frame import ERROR_TYPE, encode_head
from penstock.protocol.kafka.apis import API_VERSIONS
from penstock.protocol.kafka.messages.api_versions import ApiVersionsRequest
from penstock.protocol.penstock_pb2 import CALL_PING
from tests.kit.broker.kafka_client import KafkaClient, connect, encode_request, kafka_running
from tests.kit.broker.running import ManualClock, batch, running

REQUEST = encode_request(API_VERSIONS, 3, 1, ApiVersionsRequest())
PING = encode_head(CALL_PING, 7, b"")


async def slowly(client: KafkaClient, *parts: bytes) -> None:
    """Each part in a read of its own."""
    for part in parts:
        client.writer.write(part)
        await client.writer.drain()
        for _ in range(5):
            await asyncio.sleep(0)


@pytest.mark.parametrize("cut", [1, 2, 3, 5, 6, 13])
async def test_the_first_bytes_may_come_one_by_one(cut: int) -> None:
    """R-NET-5: a byte alone says nothing, two say it, wherever the rest is cut."""
    async with kafka_running() as (broker, kafka):
        await slowly(kafka, REQUEST[:1], REQUEST[1:cut], REQUEST[cut:])
        assert (await kafka.answer(API_VERSIONS, 3, 1)).error_code == 0
        native = await connect(broker)
        await slowly(native, PING[:1], PING[1:cut], PING[cut:])
        head = await native.reader.readexactly(4)
        assert head[:2] == b"PS"
        assert head[3] != ERROR_TYPE
        await native.close()


async def test_both_protocols_at_once() -> None:
    """R-NET-5: clients of both, on one port and one topic."""
    async with running() as (broker, native):
        await native.create("orders")
        kafka = await connect(broker)
        for number in range(3):
            await native.produce("orders", batch([b"%d" % number]))
            assert (await kafka.call(API_VERSIONS, 4, ApiVersionsRequest())).error_code == 0
        assert await native.values("orders") == [b"0", b"1", b"2"]
        await kafka.close()


@pytest.mark.parametrize(
    "garbage",
    [b"\x16\x03\x01\x02\x00\x01", bytes(64), b"\xff" * 64],
    ids=["TLS", "zeros", "ones"],
)
async def test_what_is_neither_is_closed(garbage: bytes, caplog: pytest.LogCaptureFixture) -> None:
    async with kafka_running() as (_, client):
        client.writer.write(garbage)
        assert await client.is_closed()
    assert not [record for record in caplog.records if record.exc_info]


@pytest.mark.parametrize(
    "method", ["GET", "POST", "OPTIONS", "HEAD", "MKCOL", "VERSION-CONTROL", "get", "head"]
)
async def test_http_is_told_what_this_port_is(
    method: str, caplog: pytest.LogCaptureFixture
) -> None:
    """In HTTP, and in one sentence of the log, not as a Kafka frame of 1195725856 bytes."""
    caplog.set_level(logging.INFO)
    async with kafka_running() as (_, client):
        await slowly(client, method[:1].encode(), f"{method[1:]} / HTTP/1.1\r\n\r\n".encode())
        head, _, body = (await client.reader.read()).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 ")
    assert (b"speaks Kafka's protocol and Penstock's own" in body) == (method.upper() != "HEAD")
    (told,) = [each.getMessage() for each in caplog.records if "disconnected" in each.message]
    assert "it speaks HTTP, and this port Kafka's protocol" in told


@pytest.mark.parametrize(
    ("sent", "shown"),
    [
        (b"SSH-2.0-OpenSSH_9.6\r\n", "'SSH-2.0-OpenSSH_9.6'"),
        (b"*1\r\n$4\r\nPING\r\n", "'*1'"),
        (b"stats\n", "'stats'"),
        (b"ab\x1b[31m\xff" + bytes(100), "'ab\\x1b[31m\\xff\\x00"),
        (b"x" * 100, f"'{'x' * 32}'"),
    ],
    ids=["SSH", "Redis", "memcached", "letters", "long"],
)
async def test_text_is_shown_and_no_length_of_a_frame(
    sent: bytes, shown: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Whatever begins with letters; in one line of the log, whatever follows them."""
    caplog.set_level(logging.INFO)
    async with kafka_running() as (_, client):
        await slowly(client, sent[:1], sent[1:])
        assert await client.reader.read() == b""
    (told,) = [each.getMessage() for each in caplog.records if "disconnected" in each.message]
    assert f"it begins with {shown}" in told
    assert "this port speaks Kafka's protocol and Penstock's own" in told
    assert "frame" not in told
    assert told.isprintable()


@pytest.mark.parametrize("cut", [3, 4, 5])
async def test_a_method_may_come_one_by_one(cut: int) -> None:
    """Two letters say that it is a stranger, and its first word who."""
    request = b"GET / HTTP/1.1\r\n\r\n"
    async with kafka_running() as (_, client):
        await slowly(client, request[:2], request[2:cut], request[cut:])
        assert (await client.reader.read()).startswith(b"HTTP/1.1 400 ")


async def test_tls_is_named_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with kafka_running() as (_, client):
        await slowly(client, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")
        assert await client.is_closed()
    (told,) = [each.getMessage() for each in caplog.records if "disconnected" in each.message]
    assert "it begins with TLS, which this port does not speak" in told


@asynccontextmanager
async def switching(clock: ManualClock) -> AsyncIterator[tuple[Server, TcpAddress]]:
    """A server of Kafka sessions alone, on a clock of the test's."""

    def make_kafka(connection: Connection) -> KafkaSession:
        return KafkaSession(
            connection,
            lambda call: None,
            on_read_end=lambda: None,
            frame_bytes_max=MIB,
            fetch_sessions=FetchSessions(clock.now_ms, lambda: 1),
            share_sessions=ShareSessions(),
        )

    def make_session(connection: Connection) -> ProtocolSwitch:
        port = Port(speaks="Kafka's protocol", advice="use a Kafka client")
        return ProtocolSwitch(connection, port, make_native=make_kafka, make_kafka=make_kafka)

    config = ServerConfig(first_frame_timeout_s=10, frame_timeout_s=30)
    async with Server([TcpAddress("127.0.0.1", 0)], make_session, config=config, clock=clock) as it:
        address = it.addresses[0]
        assert isinstance(address, TcpAddress)
        yield it, address


@pytest.mark.parametrize("sent", [b"", b"\0", b"P", b"\0\0", REQUEST[:5], REQUEST[:9]])
async def test_who_begins_and_waits_is_closed_in_time(sent: bytes) -> None:
    """R-NET-4: also before it is known which protocol it is."""
    clock = ManualClock()
    async with switching(clock) as (server, address):
        client = KafkaClient(*await asyncio.open_connection(address.host, address.port))
        await slowly(client, sent)
        server.sweep()
        assert server.connection_count == 1
        clock.time_ms += 31_000
        server.sweep()
        assert await client.is_closed()
        assert server.connection_count == 0
        await client.close()


async def test_a_drain_before_the_first_byte_closes() -> None:
    async with switching(ManualClock()) as (server, address):
        client = KafkaClient(*await asyncio.open_connection(address.host, address.port))
        begun = KafkaClient(*await asyncio.open_connection(address.host, address.port))
        await slowly(begun, b"\0")
        draining = asyncio.create_task(server.drain(10))
        assert await client.is_closed()
        assert await begun.is_closed()
        await draining
        await client.close()
        await begun.close()
