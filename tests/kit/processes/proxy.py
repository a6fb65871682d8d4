"""A network in user space that can be cut: a proxy before each server, who knows whom it carries.

Whoever connects is known by the process that holds the other end of the socket, so nothing is asked
of the servers but to be told the proxy's address. A cut is what a network does and a closed socket
is not: bytes from one to the other do not arrive, and neither does the end of a connection; when it
is healed, what was on the way arrives late, as TCP would send it again. The invariant: everything
that passes in a direction passes in order, once.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections import defaultdict
from collections.abc import Callable, Coroutine, Iterable, Mapping
from glob import glob
from typing import Any, Self, TypeVar

Name = int | str
"""A broker's number, or what else there is."""
OUTSIDE: Name = "outside"
"""Whoever connects and is nobody that the network knows: clients."""

_READ_BYTES = 64 * 1024
_SECONDS_MAX = 10
_TURNS = 10

T = TypeVar("T")


class Network:
    """`with Network() as network`: in a thread of its own."""

    def __init__(self) -> None:
        # Who is which process now: for whoever connects from here on.
        self.processes: Callable[[], Mapping[Name, int]] = dict
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="network", daemon=True)
        # Set while bytes pass from the one to the other.
        self._gates: dict[tuple[Name, Name], asyncio.Event] = defaultdict(_open_gate)
        self._servers: list[asyncio.Server] = []
        self._carried: set[asyncio.Task[None]] = set()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._run(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_SECONDS_MAX)
        self._loop.close()

    def front(self, name: Name, address: str) -> str:
        """Where the server of that name is reached from now on, which listens at the address."""
        return self._run(self._front(name, address))

    def cut(self, senders: Iterable[Name], receivers: Iterable[Name]) -> None:
        """Nothing that these say reaches those, from now on. Not the other way round."""
        self._run(self._set([(one, other) for one in senders for other in receivers], False))

    def cut_off(self, name: Name, others: Iterable[Name]) -> None:
        """In both directions."""
        others = list(others)
        self.cut([name], others)
        self.cut(others, [name])

    def heal(self) -> None:
        """Everything passes again, also what was held back."""
        self._run(self._set(list(self._gates), True))

    # --- in the loop -----------------------------------------------------------------------------

    def _run(self, step: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(step, self._loop).result(_SECONDS_MAX)

    async def _set(self, pairs: list[tuple[Name, Name]], is_open: bool) -> None:
        for one, other in pairs:
            if one == other:
                continue
            gate = self._gates[one, other]
            if is_open:
                gate.set()
            else:
                gate.clear()

    async def _front(self, name: Name, address: str) -> str:
        def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = self._loop.create_task(self._carry(name, address, reader, writer))
            self._carried.add(task)
            # Not by the task: one that is cancelled before it began does nothing.
            task.add_done_callback(lambda _: writer.transport.abort())
            task.add_done_callback(self._carried.discard)

        server = await asyncio.start_server(accept, "127.0.0.1", 0)
        self._servers.append(server)
        return f"127.0.0.1:{server.sockets[0].getsockname()[1]}"

    async def _carry(
        self,
        name: Name,
        address: str,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        """One connection, from its beginning to its end."""
        whose = self._whose(writer)
        there, back = self._gates[whose, name], self._gates[name, whose]
        # A connection needs both directions to come about.
        await there.wait()
        await back.wait()
        host, port = address.rsplit(":", 1)
        with contextlib.suppress(OSError):
            far_reader, far_writer = await asyncio.open_connection(host, int(port))
            try:
                await asyncio.gather(
                    _pump(reader, far_writer, there), _pump(far_reader, writer, back)
                )
            finally:
                far_writer.transport.abort()

    def _whose(self, writer: asyncio.StreamWriter) -> Name:
        """The process at the other end of an accepted connection."""
        inode = _socket_inode(writer.get_extra_info("peername"), writer.get_extra_info("sockname"))
        for name, process_id in self.processes().items():
            for path in glob(f"/proc/{process_id}/fd/*"):
                # It may be closed while it is looked at.
                with contextlib.suppress(OSError):
                    if os.readlink(path) == f"socket:[{inode}]":
                        return name
        return OUTSIDE

    async def _close(self) -> None:
        # No more are accepted first: a server that is closed between accepting a connection and
        # making its transport forgets both, open (asyncio of Python 3.11).
        for server in self._servers:
            for listening in server.sockets:
                self._loop.remove_reader(listening.fileno())
        # What was accepted is being carried a few turns later; so it is with closing what is
        # aborted. Turns and not time: on a busy machine any time may be over in one turn.
        await _pass_turns()
        for server in self._servers:
            server.close()
        while self._carried:
            for task in self._carried:
                task.cancel()
            await asyncio.wait(self._carried)
        await _pass_turns()


async def _pass_turns() -> None:
    for _ in range(_TURNS):
        await asyncio.sleep(0)


async def _pump(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, gate: asyncio.Event
) -> None:
    while True:
        try:
            content = await reader.read(_READ_BYTES)
        except ConnectionError:
            content = b""
        await gate.wait()
        if not content:
            # Also a reset: the other side learns that it is over, and how does not matter.
            writer.write_eof() if writer.can_write_eof() else writer.close()
            return
        writer.write(content)
        await writer.drain()


def _open_gate() -> asyncio.Event:
    gate = asyncio.Event()
    gate.set()
    return gate


def _socket_inode(local: tuple[str, int], remote: tuple[str, int]) -> str:
    """Of the socket of this machine that has these ends; empty if it is gone."""
    ends = [_in_hex(*local), _in_hex(*remote)]
    with open("/proc/net/tcp", encoding="ascii") as table:
        for line in table:
            fields = line.split()
            if fields[1:3] == ends:
                return fields[9]
    return ""


def _in_hex(host: str, port: int) -> str:
    first, second, third, fourth = map(int, host.split("."))
    return f"{fourth:02X}{third:02X}{second:02X}{first:02X}:{port:04X}"
