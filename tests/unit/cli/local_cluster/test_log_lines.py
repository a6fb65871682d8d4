"""Lines of several children on one stream."""

from __future__ import annotations

import io

from hypothesis import given
from hypothesis import strategies as st

from penstock.cli.local_cluster.log_lines import LINE_BYTES_MAX, Lines, LogPrinter


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class ClosedPipe(io.StringIO):
    writes = 0

    def write(self, text: str) -> int:
        self.writes += 1
        raise BrokenPipeError


@given(st.binary(max_size=200), st.integers(1, 10))
def test_whole_or_in_pieces_the_lines_are_the_same(data: bytes, step: int) -> None:
    whole, pieces = Lines(), Lines()
    at_once = whole.feed(data) + whole.end()
    bit_by_bit = [
        line for at in range(0, len(data), step) for line in pieces.feed(data[at : at + step])
    ]
    assert bit_by_bit + pieces.end() == at_once


def test_a_line_is_told_when_it_ends() -> None:
    lines = Lines()
    assert lines.feed(b"one\ntw") == ["one"]
    assert lines.feed(b"o\r\n\n\xff") == ["two", ""]
    assert lines.end() == ["�"]
    assert lines.end() == []


def test_a_line_without_an_end_is_held_up_to_a_bound() -> None:
    lines = Lines()
    got = [line for _ in range(10) for line in lines.feed(b"x" * LINE_BYTES_MAX)] + lines.end()
    assert "".join(got) == "x" * 10 * LINE_BYTES_MAX
    assert max(map(len, got)) == LINE_BYTES_MAX


def test_each_line_says_whose_it_is() -> None:
    stream = io.StringIO()
    printer = LogPrinter(stream, ["broker 9", "broker 10"])
    printer.write("broker 9", "hello")
    printer.write("broker 10", "[markup] stays")
    assert stream.getvalue() == "broker 9  | hello\nbroker 10 | [markup] stays\n"


def test_colours_are_for_terminals() -> None:
    stream = Terminal()
    LogPrinter(stream, ["broker 1"]).write("broker 1", "hello")
    assert stream.getvalue() == "\x1b[36mbroker 1 |\x1b[0m hello\n"


def test_a_reader_that_is_gone_ends_the_writing_alone() -> None:
    stream = ClosedPipe()
    printer = LogPrinter(stream, ["broker 1"])
    printer.write("broker 1", "hello")
    printer.write("broker 1", "again")
    assert stream.writes == 1
