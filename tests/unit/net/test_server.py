"""Listening, accepting, limits, and what the sweep notices."""

from __future__ import annotations

import asyncio
import os
import resource
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.model.errors import Busy, ConnectionLost, InvalidConfig
from penstock.net.address import Address, TcpAddress, UnixAddress
from penstock.net.channel import Channel, connect_channel
from penstock.net.connection import Connection
from penstock.net.server import Server, ServerConfig, Session
from penstock.net.sockets import connect
from penstock.protocol import penstock_pb2 as pb
from penstock.protocol.calls import FETCH, PING
from penstock.protocol.frame import encode_head
from tests.kit.net.frames import FrameDecoder
from tests.kit.net.sockets import FakeClock, Held, frame, read_exactly, read_to_end, turns, until

LOCAL = TcpAddress("127.0.0.1", 0)
REQUEST = pb.FetchRequest(topic="orders")


class Setup:
    """A server whose time stands still, and the sessions it made."""

    def __init__(self, *addresses: Address, config: ServerConfig | None = None) -> None:
        self.clock = FakeClock()
        self.held = Held()
        self.channels: list[Channel] = []
        self.server = Server(
            addresses or [LOCAL], self._make_session, config=config, clock=self.clock
        )

    def _make_session(self, connection: Connection) -> Session:
        self.channels.append(Channel(connection, self.held))
        return self.channels[-1]

    async def connect(self) -> socket.socket:
        """A bare socket, once the server has accepted it."""
        count = len(self.channels)
        connected = await connect(self.server.addresses[0], timeout_s=5)
        await until(lambda: len(self.channels) > count)
        return connected

    async def pass_seconds(self, seconds: int) -> None:
        for _ in range(seconds):
            self.clock.seconds += 1
            self.server.sweep()
        await turns(5)


@pytest.fixture
def open_files_limit() -> Iterator[tuple[int, int]]:
    """The limit of open files, put back afterwards."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield limit
    resource.setrlimit(resource.RLIMIT_NOFILE, limit)


# --- life ------------------------------------------------------------------------------------


async def test_it_serves_on_every_address(tmp_path: Path) -> None:
    """R-NET-4: TCP over v4 and v6, and a Unix socket, at once."""
    path = tmp_path / "s"
    async with Setup(LOCAL, TcpAddress("::1", 0), UnixAddress(str(path))).server as server:
        assert len(server.addresses) == 3
        for address in server.addresses:
            channel = await connect_channel(address)
            await channel.call(PING, pb.PingRequest())
        assert server.connection_count == 3
    assert server.connection_count == 0
    assert not path.exists()
    await turns()


async def test_an_address_that_cannot_be_had_leaves_none_open() -> None:
    async with Setup().server as other:
        taken = other.addresses[0]
        server = Setup(LOCAL, taken).server
        with pytest.raises(InvalidConfig, match="another process listens there"):
            await server.start()
        assert server.addresses == []


async def test_drain_lets_answers_out_and_nobody_in() -> None:
    setup = Setup()
    await setup.server.start()
    address = setup.server.addresses[0]
    busy, idle = await connect_channel(address), await connect_channel(address)
    await idle.call(PING, pb.PingRequest())
    call = asyncio.create_task(busy.call(FETCH, REQUEST))
    await until(lambda: len(setup.held.ids) == 1)
    draining = asyncio.create_task(setup.server.drain(timeout_s=60))
    await until(lambda: idle.connection.is_closed)
    with pytest.raises(ConnectionLost):
        await connect(address, timeout_s=5)
    assert not call.done()
    (taken,) = [channel for channel in setup.channels if channel.calls_in_flight]
    taken.answer(setup.held.ids[0], FETCH.number, b"")
    await call
    await draining
    assert setup.server.connection_count == 0
    await until(lambda: busy.connection.is_closed)


async def test_drain_cuts_off_what_does_not_end(caplog: pytest.LogCaptureFixture) -> None:
    setup = Setup()
    await setup.server.start()
    channel = await connect_channel(setup.server.addresses[0])
    call = asyncio.create_task(channel.call(FETCH, REQUEST))
    await until(lambda: len(setup.held.ids) == 1)
    await setup.server.drain(timeout_s=0.001)
    with pytest.raises(ConnectionLost):
        await call
    assert "1 connections had unfinished calls" in caplog.text


# --- limits ----------------------------------------------------------------------------------


async def test_one_connection_too_many_is_told_so(caplog: pytest.LogCaptureFixture) -> None:
    """R-NET-4: the others are served."""
    setup = Setup(config=ServerConfig(connections_max=2))
    async with setup.server as server:
        address = server.addresses[0]
        channels = [await connect_channel(address) for _ in range(2)]
        for channel in channels:
            await channel.call(PING, pb.PingRequest())
        for _ in range(3):
            refused = await connect_channel(address)
            call = asyncio.create_task(refused.call(PING, pb.PingRequest()))
            with pytest.raises((Busy, ConnectionLost)):  # the reset may overtake the reason
                await call
        assert caplog.text.count("2 connections are the limit") == 1
        bare = await connect(address, timeout_s=5)
        (reason,) = FrameDecoder().feed(await read_to_end(bare))
        assert b"limit of 2 connections" in bytes(reason.envelope)
        bare.close()
        channels.pop().close()
        await until(lambda: server.connection_count == 1)
        again = await connect_channel(address)
        await again.call(PING, pb.PingRequest())
    await turns()


async def test_without_descriptors_it_waits_and_does_not_spin(
    open_files_limit: tuple[int, int],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr("penstock.net.server.ACCEPT_PAUSE_S", 0.01)
    setup = Setup()
    async with setup.server as server:
        waiting = socket.socket()
        waiting.setblocking(False)
        next_descriptor = os.dup(waiting.fileno())
        os.close(next_descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, (next_descriptor, open_files_limit[1]))
        waiting.connect_ex(("127.0.0.1", server.addresses[0].port))  # type: ignore[union-attr]
        await until(lambda: "Cannot accept connections: too many open files" in caplog.text)
        await turns(200)
        assert caplog.text.count("Cannot accept") <= 3
        resource.setrlimit(resource.RLIMIT_NOFILE, open_files_limit)
        await until(lambda: server.connection_count == 1)
        waiting.close()
        await until(lambda: server.connection_count == 0)


# --- the sweep -------------------------------------------------------------------------------


async def test_a_thousand_peers_that_say_nothing_are_closed(
    open_files_limit: tuple[int, int],
) -> None:
    """R-NET-1, R-NET-4: never a hang; and the one that speaks is served meanwhile."""
    soft, hard = open_files_limit
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 4096)), hard))
    setup = Setup()
    async with setup.server as server:
        silent = []
        for _ in range(1000):
            peer = socket.socket()
            peer.setblocking(False)
            peer.connect_ex(("127.0.0.1", server.addresses[0].port))  # type: ignore[union-attr]
            silent.append(peer)
        await until(lambda: server.connection_count == 1000)
        speaking = await connect_channel(server.addresses[0])
        await speaking.call(PING, pb.PingRequest())
        await setup.pass_seconds(10)
        assert server.connection_count == 1001
        await setup.pass_seconds(1)
        await until(lambda: server.connection_count == 1)
        await speaking.call(PING, pb.PingRequest())
        for peer in silent:
            peer.close()
    await turns()


async def test_a_frame_that_does_not_end_is_not_waited_for() -> None:
    """Also not if a byte comes now and then."""
    setup = Setup()
    async with setup.server as server:
        peer = await setup.connect()
        peer.send(frame(b"") + frame(b"x" * 1000)[:20])
        await until(lambda: server.connection_count == 1 and bool(setup.channels))
        await read_exactly(peer, 16)
        for _ in range(3):
            await setup.pass_seconds(10)
            assert server.connection_count == 1
            peer.send(b"x")
            await turns()
        await setup.pass_seconds(2)
        await turns(5)
        assert server.connection_count == 0
        peer.close()


async def test_a_large_frame_on_a_slow_line_is_waited_for() -> None:
    """At 64 KiB a second the frame takes a minute; it is served, for it goes forward."""
    setup = Setup()
    async with setup.server as server:
        peer = await setup.connect()
        await asyncio.get_running_loop().sock_sendall(peer, frame(b""))
        await read_exactly(peer, 16)
        data = frame(bytes(60 * 65536), kind=FETCH.number)
        (channel,) = setup.channels
        for start in range(0, len(data), 65536):
            await asyncio.get_running_loop().sock_sendall(peer, data[start : start + 65536])
            expected = 16 + min(start + 65536, len(data))
            await until(lambda expected=expected: channel.connection.bytes_received == expected)  # type: ignore[misc]
            await setup.pass_seconds(1)
        await until(lambda: len(setup.held.ids) == 1)
        assert server.connection_count == 1
        peer.close()


async def test_a_large_frame_that_stops_is_not_waited_for() -> None:
    """However much of it came before: it holds memory that others may need."""
    setup = Setup()
    async with setup.server as server:
        peer = await setup.connect()
        data = frame(bytes(20 * 65536), kind=FETCH.number)[:-1]
        await asyncio.get_running_loop().sock_sendall(peer, data)
        await until(lambda: setup.channels[0].connection.bytes_received == len(data))
        await setup.pass_seconds(30)
        assert server.connection_count == 1
        await setup.pass_seconds(2)
        assert server.connection_count == 0
        peer.close()


async def test_an_idle_peer_is_pinged_and_stays_if_it_answers() -> None:
    """R-NET-2: the broker calls on the connection that the client opened."""
    setup = Setup()
    async with setup.server as server:
        client = await connect_channel(server.addresses[0])
        await client.call(PING, pb.PingRequest())
        received = client.connection.frames_received
        for _ in range(5):
            await setup.pass_seconds(65)
            await until(lambda: all(not channel.pending_calls for channel in setup.channels))
        assert client.connection.frames_received - received == 5
        assert server.connection_count == 1
    await turns()


async def test_an_idle_peer_that_does_not_answer_a_ping_is_closed() -> None:
    setup = Setup()
    async with setup.server as server:
        peer = await setup.connect()
        peer.send(frame(b""))
        await read_exactly(peer, 16)
        await setup.pass_seconds(62)
        assert await read_exactly(peer, 16) == encode_head(PING.number, 1, b"")
        await setup.pass_seconds(9)
        assert server.connection_count == 1
        await setup.pass_seconds(2)
        assert server.connection_count == 0
        peer.close()


async def test_a_peer_that_waits_for_us_is_not_blamed() -> None:
    """Its calls are all taken: that we do not read from it is our doing."""
    setup = Setup()
    async with setup.server as server:
        peer = await setup.connect()
        sending = asyncio.create_task(
            asyncio.get_running_loop().sock_sendall(
                peer, frame(b"", kind=FETCH.number) * 10_000 + frame(b"")[:10]
            )
        )
        await until(lambda: len(setup.held.ids) == 10_000)
        await sending
        await setup.pass_seconds(300)
        assert server.connection_count == 1
        peer.close()


async def test_the_sweep_runs_by_itself_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.net.server.SWEEP_INTERVAL_S", 0.001)
    monkeypatch.setattr("penstock.net.server.SWEEP_STEP_S", 0.0)
    monkeypatch.setattr("penstock.net.server.SWEEP_STEP_CONNECTIONS", 2)
    setup = Setup()
    async with setup.server as server:
        silent = [await setup.connect() for _ in range(5)]
        setup.clock.seconds += 11
        await until(lambda: server.connection_count == 0)
        late = await setup.connect()
        setup.clock.seconds += 11
        await until(lambda: server.connection_count == 0)
        for peer in (*silent, late):
            peer.close()
