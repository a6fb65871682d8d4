"""Lines of a file, a pipe or a terminal, as the event loop has time for them.

What is there is taken at once, so a line typed at a terminal is sent when it is entered. A line
ends at a newline byte; everything before it, also a carriage return, belongs to the line. The
last line needs no newline.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from typing import Final

from penstock.model.errors import InvalidRequest
from penstock.model.limits import BATCH_BYTES_MAX, MIB

_CHUNK_BYTES: Final = 1 * MIB


class LineSplitter:
    """Bytes in, lines out. The invariant: it holds at most the beginning of one line."""

    def __init__(self, line_bytes_max: int = BATCH_BYTES_MAX) -> None:
        self._line_bytes_max = line_bytes_max
        self._beginning: list[bytes] = []
        self._beginning_bytes = 0

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that the chunk completes."""
        *lines, rest = chunk.split(b"\n")
        if lines and self._beginning:
            lines[0] = b"".join((*self._beginning, lines[0]))
            self._beginning, self._beginning_bytes = [], 0
        if rest:
            self._beginning.append(rest)
            self._beginning_bytes += len(rest)
            if self._beginning_bytes > self._line_bytes_max:
                raise InvalidRequest(
                    f"A line is longer than {self._line_bytes_max} bytes, the most that a message "
                    "can have: is the input made of lines?"
                )
        return lines

    def finish(self) -> list[bytes]:
        """The last line, if the input did not end with a newline."""
        last = [b"".join(self._beginning)] if self._beginning else []
        self._beginning, self._beginning_bytes = [], 0
        return last


async def read_lines(descriptor: int) -> AsyncIterator[list[bytes]]:
    """The lines of an open file, as many at a time as are there."""
    splitter = LineSplitter()
    async for chunk in _chunks(descriptor):
        lines = splitter.feed(chunk)
        if lines:
            yield lines
    last = splitter.finish()
    if last:
        yield last


async def _chunks(descriptor: int) -> AsyncIterator[bytes]:
    loop = asyncio.get_running_loop()
    try:
        while chunk := await _read_when_ready(loop, descriptor):
            yield chunk
    except PermissionError:
        # A file on disk cannot be waited for and need not be: reading it never waits for long.
        while chunk := os.read(descriptor, _CHUNK_BYTES):
            yield chunk
            await asyncio.sleep(0)  # let the sender send


async def _read_when_ready(loop: asyncio.AbstractEventLoop, descriptor: int) -> bytes:
    """What is there, as soon as there is something; empty at the end. It never blocks the loop:
    it reads once, at the moment it is told that it can."""
    chunk: asyncio.Future[bytes] = loop.create_future()

    def read() -> None:
        loop.remove_reader(descriptor)
        try:
            chunk.set_result(os.read(descriptor, _CHUNK_BYTES))
        except OSError as error:
            chunk.set_exception(error)

    loop.add_reader(descriptor, read)
    try:
        return await chunk
    finally:
        loop.remove_reader(descriptor)
