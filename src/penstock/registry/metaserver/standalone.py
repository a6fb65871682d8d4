"""A meta server in a process of its own: a port, and nothing else behind it (R-REP-5).

Not the command (`cli.commands.metaserver`). The invariant: it answers Hello, Ping, what meta
servers say to each other and what brokers ask of them; everything else is refused with a sentence,
HTTP too.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Final, Self

from penstock import __version__
from penstock.model.limits import FRAME_BYTES_MAX
from penstock.net.address import parse_address
from penstock.net.call import Call
from penstock.net.channel import Channel
from penstock.net.clock import SystemClock
from penstock.net.connection import Connection
from penstock.net.protocol_switch import ProtocolSwitch
from penstock.net.server import Server
from penstock.net.strangers import Port
from penstock.protocol import calls
from penstock.protocol import penstock_pb2 as pb
from penstock.registry.metaserver.server import MetaServer
from penstock.registry.metaserver.service import SESSION_TIMEOUT_MS
from penstock.replication.disk.driver import Driver
from penstock.replication.disk.flusher import ThreadFlusher
from penstock.replication.parcels.wire import decode
from penstock.storage.files.files import Directory

_DRAIN_S: Final = 5.0
_PORT: Final = Port(
    speaks="only what meta servers and brokers say to each other",
    advice="use the address of a broker",
)


class StandaloneMetaServer:
    """`async with`, in its own process or a test's."""

    def __init__(
        self,
        data: Directory,
        me: int,
        voters: Mapping[int, str],
        listen: str,
        *,
        session_timeout_ms: int = SESSION_TIMEOUT_MS,
    ) -> None:
        self._data = data
        self._me = me
        self._voters = voters
        self._listen = parse_address(listen)
        self._session_timeout_ms = session_timeout_ms
        self._running = contextlib.AsyncExitStack()
        self._meta: MetaServer | None = None
        self.address = ""

    async def __aenter__(self) -> Self:
        async with contextlib.AsyncExitStack() as starting:
            flusher = ThreadFlusher(asyncio.get_running_loop(), 1)
            flusher.start()
            starting.callback(flusher.stop)
            driver = Driver()
            meta = self._meta = MetaServer(
                self._data,
                self._me,
                self._voters,
                driver=driver,
                flusher=flusher,
                clock=SystemClock(),
                session_timeout_ms=self._session_timeout_ms,
            )

            def make_native(connection: Connection) -> Channel:
                return Channel(connection, self._serve, on_read_end=driver.end_turn)

            def make_session(connection: Connection) -> ProtocolSwitch:
                return ProtocolSwitch(connection, _PORT, make_native=make_native)

            server = Server([self._listen], make_session)
            starting.push_async_callback(meta.stop)
            await meta.start()
            starting.push_async_callback(server.drain, _DRAIN_S)
            # Before the server drains: who waits for news would keep it.
            starting.callback(meta.begin_stopping)
            await server.start()
            self.address = str(server.addresses[0])
            self._running = starting.pop_all()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._running.aclose()

    def _serve(
        self,
        channel: Channel,
        call: int,
        message_id: int,
        envelope: memoryview,
        payload: memoryview,
    ) -> None:
        assert self._meta is not None
        if call == calls.RAFT.number:
            self._meta.receive(decode(envelope, payload))
            channel.leave_unanswered()
            return
        asked: Call[Any] = Call(channel, calls.CALLS[call], message_id, envelope, payload)
        if call == calls.HELLO.number:
            asked.answer(
                pb.HelloResponse(
                    cluster_id=self._meta.cluster_id,
                    broker_id=self._me,
                    software=f"penstock/{__version__}",
                    frame_bytes_max=FRAME_BYTES_MAX,
                )
            )
        else:
            self._meta.serve(asked)
