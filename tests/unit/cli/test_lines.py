"""Lines of files and pipes: whole, in pieces, without a last newline, too long."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from penstock.cli.lines import LineSplitter, read_lines
from penstock.model.errors import InvalidRequest

TEXT = b"one\n\nthree\r\n\xff\x00four"
LINES = [b"one", b"", b"three\r", b"\xff\x00four"]


def test_whole() -> None:
    splitter = LineSplitter()
    assert splitter.feed(TEXT) + splitter.finish() == LINES


def test_byte_by_byte() -> None:
    splitter = LineSplitter()
    lines = [line for byte in TEXT for line in splitter.feed(bytes([byte]))]
    assert lines + splitter.finish() == LINES


def test_a_last_newline_is_no_further_line() -> None:
    splitter = LineSplitter()
    assert splitter.feed(b"a\n") == [b"a"]
    assert splitter.finish() == []


def test_an_endless_line_is_refused_before_it_fills_the_memory() -> None:
    splitter = LineSplitter(line_bytes_max=10)
    assert splitter.feed(b"0123456789") == []
    with pytest.raises(InvalidRequest, match="longer than 10 bytes"):
        splitter.feed(b"x")


async def test_a_file(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_bytes(TEXT)
    with path.open("rb") as file:
        assert [line async for lines in read_lines(file.fileno()) for line in lines] == LINES


async def test_a_pipe_gives_its_lines_as_they_come() -> None:
    reading, writing = os.pipe()
    try:
        batches = read_lines(reading)
        os.write(writing, b"one\ntwo\nth")
        assert await anext(batches) == [b"one", b"two"]
        waiting = asyncio.ensure_future(anext(batches))
        for _ in range(10):  # with nothing to read, the loop goes on
            await asyncio.sleep(0)
        os.write(writing, b"ree")
        os.close(writing)
        assert await waiting == [b"three"]
        assert [batch async for batch in batches] == []
    finally:
        os.close(reading)
