"""What children write, as lines that say whose they are: `broker 2 | ...`.

`Lines` takes bytes apart, `LogPrinter` writes. The invariant: a line is written whole and once, and
however much a child writes without ending one, no more than `LINE_BYTES_MAX` of it are held.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TextIO

import typer

# A traceback's or a log's line is far below; longer ones come in pieces.
LINE_BYTES_MAX: Final = 16 * 1024
_COLOURS: Final = ("cyan", "green", "yellow", "magenta", "blue", "bright_cyan", "bright_green")


class Lines:
    """Bytes in as they are read, whole lines out."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> list[str]:
        """The lines that the data completes."""
        *whole, self._rest = (self._rest + data).split(b"\n")
        lines = [line for each in whole for line in _pieces(each)]
        if len(self._rest) > LINE_BYTES_MAX:
            lines += _pieces(self._rest)
            self._rest = b""
        return lines

    def end(self) -> list[str]:
        """What is left when no more data comes."""
        rest, self._rest = self._rest, b""
        return _pieces(rest) if rest else []


class LogPrinter:
    """Writes lines of several children to one stream, in colour if it is a terminal."""

    def __init__(self, stream: TextIO, names: Sequence[str]) -> None:
        self._stream: TextIO | None = stream
        width = max(map(len, names))
        self._prefixes = {name: f"{name:<{width}} |" for name in names}
        if stream.isatty():
            for place, name in enumerate(names):
                colour = _COLOURS[place % len(_COLOURS)]
                self._prefixes[name] = typer.style(self._prefixes[name], fg=colour)

    def write(self, name: str, line: str) -> None:
        """A line of the one that has this name."""
        if self._stream is None:
            return
        try:
            print(self._prefixes[name], line, file=self._stream, flush=True)
        except OSError:
            # Whoever read it is gone: that is no reason to stop a cluster.
            self._stream = None


def _pieces(line: bytes) -> list[str]:
    starts = range(0, max(len(line), 1), LINE_BYTES_MAX)
    return [
        line[start : start + LINE_BYTES_MAX].decode(errors="replace").rstrip("\r")
        for start in starts
    ]
