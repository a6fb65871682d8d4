"""Clients that mean harm or make mistakes: answered or closed in time, and others are served."""

from __future__ import annotations

import re
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.model.errors import FrameTooLarge, MalformedFrame, UnknownCall, UnsupportedVersion
from penstock.protocol import penstock_pb2 as pb
from penstock.protocol.calls import CALLS, error_from
from penstock.protocol.frame import ERROR_TYPE, encode_head
from tests.kit.broker.running import batch
from tests.kit.net.frames import FrameDecoder
from tests.kit.processes.brokers import BrokerProcess

MIB = 1 << 20
TIMEOUT_S = 1.0


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    settings = ("first_frame_timeout_ms=1000", "frame_timeout_ms=1000")
    with BrokerProcess(tmp_path_factory.mktemp("hostile"), *settings) as process:
        with connect(process) as client:
            for topic in ("orders", "others"):
                assert exchange(client, pb.CALL_CREATE_TOPIC, pb.CreateTopicRequest(name=topic))
        yield process


def connect(broker: BrokerProcess) -> socket.socket:
    client = socket.create_connection(("127.0.0.1", broker.port), timeout=20)
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return client


def read_frame(client: socket.socket) -> tuple[int, bytes]:
    """The type and envelope of the next frame."""
    decoder = FrameDecoder()
    while True:
        data = client.recv(1 << 16)
        if not data:
            raise EOFError
        for frame in decoder.feed(data):
            return frame.type, bytes(frame.envelope)


def exchange(client: socket.socket, call: int, request: object, payload: bytes = b"") -> bool:
    """Call and be answered; False if the answer is an error."""
    envelope = request.SerializeToString()  # type: ignore[attr-defined]
    client.sendall(encode_head(call, 7, envelope, len(payload)) + payload)
    return read_frame(client)[0] != ERROR_TYPE


def assert_serves_others(broker: BrokerProcess) -> None:
    """On a topic of their own: a frame found by chance may delete the other, as it may."""
    with connect(broker) as client:
        request = pb.ProduceRequest(topic="others", acks=-1)
        assert exchange(client, pb.CALL_PRODUCE, request, bytes(batch([b"fine"])))


def frame(
    *, magic: int = 0x5053, version: int = 1, kind: int = 4, length: int | None = None, body: bytes
) -> bytes:
    length = len(body) if length is None else length
    return struct.pack(">HBBII", magic, version, kind, 7, length) + body


def body(envelope: bytes, payload: bytes = b"", envelope_length: int | None = None) -> bytes:
    length = len(envelope) if envelope_length is None else envelope_length
    return struct.pack(">I", length) + envelope + payload


@pytest.mark.parametrize("byte_by_byte", [False, True])
@pytest.mark.parametrize(
    ("data", "error", "closes"),
    [
        (frame(version=2, body=body(b"")), UnsupportedVersion, True),
        (frame(length=2**32 - 1, body=b""), FrameTooLarge, True),
        (frame(kind=99, body=body(b"")), UnknownCall, False),
        (frame(body=b""), MalformedFrame, False),
        (frame(body=b"\0\0"), MalformedFrame, False),
        (frame(body=body(b"", envelope_length=1000)), MalformedFrame, False),
        (frame(body=body(b"\xff\xff\xff")), MalformedFrame, False),
    ],
    ids=["version", "4 GiB", "type", "no body", "short body", "envelope", "protobuf"],
)
def test_a_wrong_frame_is_answered_with_a_typed_error(
    broker: BrokerProcess, data: bytes, error: type[Exception], closes: bool, byte_by_byte: bool
) -> None:
    """R-NET-1: never a hang."""
    with connect(broker) as client:
        for part in [data[i : i + 1] for i in range(len(data))] if byte_by_byte else [data]:
            client.sendall(part)
        kind, envelope = read_frame(client)
        assert kind == ERROR_TYPE
        assert type(error_from(envelope)) is error
        if closes:
            assert client.recv(1) == b""
        else:
            assert exchange(client, pb.CALL_PING, pb.PingRequest())
    assert_serves_others(broker)


@pytest.mark.parametrize(
    ("data", "answer"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", rb"HTTP/1\.1 400 .*no HTTP.*"),
        (b"\x16\x03\x01\x02\x00", b""),
        (b"\0" * 64, b""),
    ],
)
def test_a_foreign_protocol_is_closed(broker: BrokerProcess, data: bytes, answer: bytes) -> None:
    """R-NET-1: foreign magic."""
    with connect(broker) as client:
        client.sendall(data)
        told = b"".join(iter(lambda: client.recv(1000), b""))
        assert re.fullmatch(answer, told, re.DOTALL)
    assert_serves_others(broker)


envelopes = st.one_of(
    st.binary(max_size=80),
    st.builds(
        lambda topic, partition, acks: pb.ProduceRequest(
            topic=topic, partition=partition, acks=acks
        ).SerializeToString(),
        st.sampled_from(["orders", "nowhere", "", "../../etc", "x" * 300]),
        st.integers(0, 2**32 - 1),
        st.integers(-(2**31), 2**31 - 1),
    ),
    st.builds(
        lambda offset, max_bytes, min_bytes: pb.FetchRequest(
            topic="orders", offset=offset, max_bytes=max_bytes, min_bytes=min_bytes
        ).SerializeToString(),
        st.integers(-(2**63), 2**63 - 1),
        st.integers(0, 2**32 - 1),
        st.integers(0, 2**32 - 1),
    ),
)
payloads = st.one_of(
    st.binary(max_size=200),
    st.integers(0, 70).map(lambda cut: bytes(batch([b"value"]))[:cut]),
    st.tuples(st.integers(0, 70), st.integers(0, 7)).map(lambda flip: _flipped(*flip)),
)


def _flipped(position: int, bit: int) -> bytes:
    data = batch([b"value"])
    data[position % len(data)] ^= 1 << bit
    return bytes(data)


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    kind=st.one_of(st.sampled_from(sorted(CALLS)), st.integers(0, 255)),
    envelope=envelopes,
    payload=payloads,
    envelope_length=st.one_of(st.none(), st.integers(0, 2**32 - 1)),
    cut=st.one_of(st.none(), st.integers(0, 60)),
    byte_by_byte=st.booleans(),
)
def test_any_frame_is_answered_or_closed(
    broker: BrokerProcess,
    kind: int,
    envelope: bytes,
    payload: bytes,
    envelope_length: int | None,
    cut: int | None,
    byte_by_byte: bool,
) -> None:
    """R-NET-1: whatever comes, a ping behind it is answered, or the connection ends in time."""
    data = frame(kind=kind, body=body(envelope, payload, envelope_length))[:cut]
    ping = encode_head(pb.CALL_PING, 8, b"")
    parts = [data[i : i + 1] for i in range(len(data))] if byte_by_byte else [data]
    with connect(broker) as client:
        try:
            for part in [*parts, ping]:
                client.sendall(part)
            client.shutdown(socket.SHUT_WR)
            while client.recv(1 << 16):
                pass
        except ConnectionError:
            pass
    assert broker.process.poll() is None


def test_a_thousand_silent_connections_are_closed_and_others_served(
    broker: BrokerProcess,
) -> None:
    """R-NET-4: connections that send nothing cost little and end within the timeout."""
    before_bytes, descriptors = broker.resident_bytes(), broker.descriptors()
    with ExitStack() as stack:
        silent = [stack.enter_context(connect(broker)) for _ in range(1000)]
        assert_serves_others(broker)
        assert broker.resident_bytes() - before_bytes < 16 * MIB
        for client in silent:
            assert client.recv(1) == b"", "closed within the timeout"
    until(lambda: broker.descriptors() <= descriptors + 5)
    assert_serves_others(broker)


def test_large_claims_do_not_take_memory(broker: BrokerProcess) -> None:
    """R-NET-4: memory follows the bytes that arrive, not the length that is claimed."""
    before_bytes = broker.resident_bytes()
    with ExitStack() as stack:
        clients = [stack.enter_context(connect(broker)) for _ in range(200)]
        for client in clients:
            client.sendall(frame(length=60 * MIB, body=b"x" * 1000))
        assert_serves_others(broker)
        assert broker.resident_bytes() - before_bytes < 64 * MIB
        for client in clients:
            assert client.recv(1) == b"", "a frame that does not end in time closes"
    assert_serves_others(broker)


def test_a_slow_reader_is_not_buffered_for(broker: BrokerProcess) -> None:
    """A slow reader stops being read from: answers do not pile up in the broker."""
    with connect(broker) as client:
        request = pb.ProduceRequest(topic="others", acks=-1)
        big = bytes(batch([b"x" * 50_000]))
        for _ in range(20):
            assert exchange(client, pb.CALL_PRODUCE, request, big)
    before_bytes = broker.resident_bytes()
    fetch = pb.FetchRequest(topic="others", max_bytes=MIB)
    asking = encode_head(pb.CALL_FETCH, 7, fetch.SerializeToString())
    with connect(broker) as client:
        client.settimeout(TIMEOUT_S)
        sent = 0
        try:
            while sent < 64 * MIB:
                sent += client.send(asking * 1000)
        except TimeoutError:
            pass
        assert sent < 64 * MIB, "the broker stopped reading"
        assert broker.resident_bytes() - before_bytes < 48 * MIB
        assert_serves_others(broker)


def test_too_many_connections_are_told_so(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path, "connections_max=3") as broker, ExitStack() as stack:
        clients = [stack.enter_context(connect(broker)) for _ in range(3)]
        for client in clients:
            assert exchange(client, pb.CALL_PING, pb.PingRequest())
        with connect(broker) as extra:
            kind, envelope = read_frame(extra)
            assert kind == ERROR_TYPE
            assert "3 connections" in error_from(envelope).message
        clients[0].close()
        until(lambda: _is_served(broker))


def _is_served(broker: BrokerProcess) -> bool:
    with connect(broker) as client:
        return exchange(client, pb.CALL_PING, pb.PingRequest())


def until(condition: object, timeout_s: float = 10.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < deadline, "it did not come true"
        time.sleep(0.02)
