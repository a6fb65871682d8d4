"""Real socket pairs, receivers that record, a clock that tests set: the tools of these tests."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable
from dataclasses import dataclass, field

from penstock.model.errors import PenstockError, ProtocolError
from penstock.net.channel import Channel, Serve
from penstock.net.connection import Connection
from penstock.net.receive_pool import ReceivePool
from penstock.protocol.frame import Frame, encode_head, measure
from tests.kit.net.frames import FrameDecoder

WAIT_S = 5.0


async def until(condition: Callable[[], bool]) -> None:
    """Turn the loop until the condition holds. No fixed waits: sockets here are all local."""
    async with asyncio.timeout(WAIT_S):
        while not condition():
            await asyncio.sleep(0)


async def turns(count: int = 20) -> None:
    """Turn the loop a few times, to see that something does not happen."""
    for _ in range(count):
        await asyncio.sleep(0)


def free_ports(count: int) -> list[int]:
    """That nobody listens at now."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def socket_pair(buffer_bytes: int = 0) -> tuple[socket.socket, socket.socket]:
    """Two connected non-blocking sockets, with small kernel buffers where asked for."""
    pair = socket.socketpair()
    for end in pair:
        end.setblocking(False)
        if buffer_bytes:
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, buffer_bytes)
            end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer_bytes)
    return pair


def tcp_pair() -> tuple[socket.socket, socket.socket]:
    """Two ends of a TCP connection, for what only TCP does (a reset)."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        near = socket.create_connection(listening.getsockname())
        far, _ = listening.accept()
    near.setblocking(False)
    far.setblocking(False)
    return near, far


def frame(payload: bytes, message_id: int = 1, kind: int = 2, envelope: bytes = b"") -> bytes:
    return encode_head(kind, message_id, envelope, len(payload)) + payload


async def read_exactly(source: socket.socket, byte_count: int) -> bytes:
    received = bytearray()
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(WAIT_S):
        while len(received) < byte_count:
            chunk = await loop.sock_recv(source, min(byte_count - len(received), 1 << 20))
            assert chunk, f"the stream ended after {len(received)} of {byte_count} bytes"
            received += chunk
    return bytes(received)


async def read_to_end(source: socket.socket) -> bytes:
    received = bytearray()
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(WAIT_S):
        while chunk := await loop.sock_recv(source, 1 << 20):
            received += chunk
    return bytes(received)


@dataclass
class Recorder:
    """A Receiver that writes down what it is told."""

    frames: list[bytes] = field(default_factory=list)
    views: list[memoryview] = field(default_factory=list)
    read_ends: int = 0
    errors: list[ProtocolError] = field(default_factory=list)
    closed: list[PenstockError | None] = field(default_factory=list)
    then: Callable[[memoryview], None] | None = None

    def measure(self, view: memoryview, start: int, end: int) -> int:
        return measure(view, start, end)

    def on_frame(self, frame: memoryview) -> None:
        self.frames.append(bytes(frame))
        self.views.append(frame)
        if self.then is not None:
            self.then(frame)

    def on_read_end(self) -> None:
        self.read_ends += 1

    def on_protocol_error(self, error: ProtocolError) -> None:
        self.errors.append(error)

    def on_closed(self, error: PenstockError | None) -> None:
        self.closed.append(error)


@dataclass
class Slice:
    """A part of a real file, as storage has them; or of one without a descriptor."""

    file: int
    position: int
    length: int
    has_descriptor: bool = True

    def fileno(self) -> int:
        return self.file if self.has_descriptor else -1

    def read(self) -> bytes:
        return os.pread(self.file, self.length, self.position)


@dataclass
class FakeClock:
    """A clock that stands still until a test moves it."""

    seconds: float = 1000.0

    def now_ms(self) -> int:
        return int(self.seconds * 1000)

    def monotonic(self) -> float:
        return self.seconds


def serve_nothing(
    channel: Channel, number: int, message_id: int, envelope: memoryview, payload: memoryview
) -> None:
    raise AssertionError(f"call {number} came, none was expected")


def channel_pair(
    serve_near: Serve = serve_nothing, serve_far: Serve = serve_nothing
) -> tuple[Channel, Channel]:
    """Two channels that speak to each other: a client's and a server's."""
    near_socket, far_socket = socket_pair()
    pool = ReceivePool()
    near_connection = Connection(near_socket, pool=pool, keep_frames=True, reads_while_full=True)
    far_connection = Connection(far_socket, pool=pool)
    near, far = Channel(near_connection, serve_near), Channel(far_connection, serve_far)
    near_connection.start(near)
    far_connection.start(far)
    return near, far


class Held:
    """Serves by writing down the calls, to answer them later."""

    def __init__(self) -> None:
        self.ids: list[int] = []

    def __call__(
        self,
        channel: Channel,
        number: int,
        message_id: int,
        envelope: memoryview,
        payload: memoryview,
    ) -> None:
        self.ids.append(message_id)


async def answers_to(theirs: socket.socket, count: int) -> list[Frame]:
    decoder = FrameDecoder()
    frames: list[Frame] = []
    while len(frames) < count:
        frames += decoder.feed(await read_exactly(theirs, 1))
    return frames
