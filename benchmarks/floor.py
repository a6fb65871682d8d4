"""The floor: a bare broker of the product's core idea, and nothing else. It reads Kafka's Produce
v7 for one partition, checks the batch's CRC, patches the base offset, writes, answers.

Not a broker to use: no topics, no indexes, no recovery, no limits. It is the yardstick of every
ratio in the table: what Python and uvloop can do at best on the machine at hand. So it must stay
as it is; making it faster or slower moves every budget.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import struct
import sys
from typing import cast

import crc32c
import uvloop

_BUFFER_BYTES = 2 * 1024 * 1024  # the largest frame that fits
_READ_BYTES = 256 * 1024
_HEAD = struct.Struct(">hhih")  # key, version, correlation id, length of the client id
_ANSWER_HEAD = struct.Struct(">ii")  # length, correlation id
# One partition: its number, error code, base offset, append time, log start; then the throttle.
_ANSWER_TAIL = struct.Struct(">iihqqqi")


class Log:
    """The one file that everything goes to."""

    __slots__ = ("file", "next_offset")

    def __init__(self, path: str) -> None:
        self.file = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
        self.next_offset = 0


class Connection(asyncio.BufferedProtocol):
    """Frames are handled where they were received: nothing is copied on the way to the file."""

    transport: asyncio.Transport

    def __init__(self, log: Log) -> None:
        self._log = log
        self._view = memoryview(bytearray(_BUFFER_BYTES))
        self._end = 0
        self._read_end = _READ_BYTES

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop's is no subclass

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002
        return self._view[self._end : self._read_end]

    def buffer_updated(self, nbytes: int) -> None:
        self._end += nbytes
        view, answers = self._view, []
        start, end, following = 0, self._end, 0
        while end - start >= 4:
            following = start + 4 + int.from_bytes(view[start : start + 4], "big")
            if following > end:
                break
            answers.append(self._produce(start + 4))
            start = following
        if answers:
            self.transport.write(b"".join(answers))
            view[: end - start] = view[start:end]
            self._end = end - start
        # A frame that has begun is read to its end and no further, so that a large one stands at
        # the start of the buffer when it is whole, and is not copied.
        self._read_end = max(following - start, self._end + 4) if self._end else _READ_BYTES

    def _produce(self, position: int) -> bytes:
        view = self._view
        _, _, correlation_id, client_bytes = _HEAD.unpack_from(view, position)
        position += 10 + client_bytes + 8 + 4  # transaction, acks, timeout; one topic
        name_bytes = int.from_bytes(view[position : position + 2], "big")
        topic = view[position - 4 : position + 2 + name_bytes]  # the count and the name
        position += 2 + name_bytes + 8  # one partition, its number
        batch_bytes = int.from_bytes(view[position : position + 4], "big")
        batch = view[position + 4 : position + 4 + batch_bytes]
        if crc32c.crc32c(batch[21:]) != int.from_bytes(batch[17:21], "big"):
            raise ValueError("the batch is damaged")
        log = self._log
        offset = log.next_offset
        log.next_offset += int.from_bytes(batch[23:27], "big") + 1
        batch[:8] = offset.to_bytes(8, "big")
        os.write(log.file, batch)
        length = 4 + len(topic) + _ANSWER_TAIL.size
        head = _ANSWER_HEAD.pack(length, correlation_id)
        return head + topic + _ANSWER_TAIL.pack(1, 0, 0, offset, -1, 0, 0)


async def serve(path: str) -> None:
    log = Log(path)
    server = await asyncio.get_running_loop().create_server(lambda: Connection(log), "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    print(f"listening on {host}:{port}", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Run the bare broker that others are measured by.")
    parser.add_argument("path", help="the file to append to")
    uvloop.run(serve(parser.parse_args(sys.argv[1:]).path))
