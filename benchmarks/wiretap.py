"""What brokers say to each other, counted on the wire: a relay in front of each, which the others
are told to use.

Not a client, and it changes nothing: bytes go through as they come. It reads only the frames that
go to the broker, and of those only what one broker's replicas say to another's; meta servers inside
the brokers have connections of their own. Invariant: what is counted has been sent by one broker
and is on its way to the other.
"""

from __future__ import annotations

import asyncio
import contextlib
import struct
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final, Self

from penstock.protocol import penstock_pb2 as messages

Pair = tuple[int, int]
"""Who says it, and to whom."""

_HEADER: Final = struct.Struct(">HBBII")
_MAGIC: Final = 0x5053
_READ_BYTES: Final = 64 * 1024


class Wiretap:
    """Relays to these addresses, by broker: `with Wiretap(addresses) as tap`."""

    def __init__(self, addresses: Mapping[int, tuple[str, int]]) -> None:
        self.addresses: dict[int, str] = {}
        """Where each broker is reached through its relay."""
        self.parcels: Counter[Pair] = Counter()
        self.heartbeats: Counter[Pair] = Counter()
        self._targets = dict(addresses)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._servers: list[asyncio.Server] = []
        self._relaying: set[asyncio.Task[None]] = set()

    def __enter__(self) -> Self:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result()
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def clear(self) -> None:
        """Count from now on."""
        self.parcels.clear()
        self.heartbeats.clear()

    async def _listen(self) -> None:
        for broker_id, target in self._targets.items():

            async def serve(
                reader: asyncio.StreamReader,
                writer: asyncio.StreamWriter,
                target: tuple[str, int] = target,
            ) -> None:
                task = asyncio.current_task()
                assert task is not None
                self._relaying.add(task)
                try:
                    await self._relay(reader, writer, target)
                except (OSError, asyncio.CancelledError):
                    pass  # one of the two is gone, or all of it is over
                finally:
                    self._relaying.discard(task)
                    writer.close()

            server = await asyncio.start_server(serve, "127.0.0.1", 0)
            self._servers.append(server)
            host, port = server.sockets[0].getsockname()
            self.addresses[broker_id] = f"{host}:{port}"

    async def _relay(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        target: tuple[str, int],
    ) -> None:
        there_reader, there_writer = await asyncio.open_connection(*target)
        with contextlib.closing(there_writer):
            async with asyncio.TaskGroup() as ways:
                ways.create_task(self._carry(reader, there_writer, _Frames()))
                ways.create_task(self._carry(there_reader, writer, None))

    async def _carry(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, frames: _Frames | None
    ) -> None:
        while piece := await reader.read(_READ_BYTES):
            writer.write(piece)
            await writer.drain()
            for request in frames.feed(piece) if frames is not None else ():
                pair = (request.sender.broker, request.receiver.broker)
                self.parcels[pair] += 1
                self.heartbeats[pair] += request.HasField("heartbeat")
        writer.close()

    async def _close(self) -> None:
        for server in self._servers:
            server.close()
        for task in self._relaying:
            task.cancel()
        if self._relaying:
            await asyncio.wait(self._relaying)


class _Frames:
    """One connection's frames, as far as they are what replicas say."""

    def __init__(self) -> None:
        self._kept = b""
        self._is_ours = True

    def feed(self, piece: bytes) -> Iterator[messages.RaftRequest]:
        self._kept += piece
        while self._is_ours and len(self._kept) >= _HEADER.size:
            magic, _, kind, _, body_bytes = _HEADER.unpack_from(self._kept)
            self._is_ours = magic == _MAGIC  # or else it is a Kafka client
            end = _HEADER.size + body_bytes
            if not self._is_ours or len(self._kept) < end:
                break
            body, self._kept = self._kept[_HEADER.size : end], self._kept[end:]
            if kind == messages.CALL_RAFT:
                envelope_bytes = int.from_bytes(body[:4], "big")
                yield messages.RaftRequest.FromString(body[4 : 4 + envelope_bytes])
        if not self._is_ours:
            self._kept = b""
