"""In which line of a TOML file each key stands, which Python's own reader does not tell.

Not a TOML reader: the text has been read by `tomllib` before, so it is known to be TOML. Only what
begins a line is looked at (headers and keys); keys of an inline table are in their table's line.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Final

Path = tuple[str | int, ...]
"""The way to a table or key; a number counts the tables of an array, as in ("steps", 0, "sql")."""

_PART: Final = r"""(?:[A-Za-z0-9_-]+|"(?:[^"\\]|\\.)*"|'[^']*')"""
_NAME: Final = rf"{_PART}(?:\s*\.\s*{_PART})*"
_HEADER: Final = re.compile(rf"\s*(\[\[?)\s*({_NAME})\s*\]")
_KEY: Final = re.compile(rf"\s*({_NAME})\s*=")
_STRINGS: Final = re.compile(
    r'''"""(?:[^\\]|\\.)*?"""|\'\'\'.*?\'\'\'|"(?:[^"\\\n]|\\.)*"|'[^'\n]*'|\#[^\n]*''',
    re.DOTALL,
)


def key_lines(text: str) -> dict[Path, int]:
    """The line, from 1 on, of every table and every key."""
    lines: dict[Path, int] = {}
    tables: Counter[Path] = Counter()
    table: Path = ()
    depth = 0
    for number, (line, bare) in enumerate(_paired(text), 1):
        if depth == 0:
            if header := _HEADER.match(line):
                table = _parts(header[2])
                if header[1] == "[[":
                    tables[table] += 1
                    lines.setdefault(table, number)
                    table = (*table, tables[table] - 1)
                lines.setdefault(table, number)
                continue
            if key := _KEY.match(line):
                for end in range(1, len(parts := _parts(key[1])) + 1):
                    lines.setdefault((*table, *parts[:end]), number)
        # Inside an array or an inline table of several lines nothing begins a key of ours.
        depth += sum(bare.count(mark) for mark in "[{") - sum(bare.count(mark) for mark in "]}")
    return lines


def line_of(lines: dict[Path, int], path: Path) -> int | None:
    """The line of this key, or of the nearest thing around it."""
    while path:
        if path in lines:
            return lines[path]
        path = path[:-1]
    return None


def _paired(text: str) -> list[tuple[str, str]]:
    """Each line as it is, and without strings and comments. Lines within a string are empty."""
    bare = _STRINGS.sub(lambda found: "\n" * found[0].count("\n"), text)
    inside: set[int] = set()
    for found in _STRINGS.finditer(text):
        first = text.count("\n", 0, found.start())
        inside.update(range(first + 1, first + 1 + found[0].count("\n")))
    return [
        ("" if number in inside else line, without)
        for number, (line, without) in enumerate(
            zip(text.split("\n"), bare.split("\n"), strict=True)
        )
    ]


def _parts(name: str) -> tuple[str, ...]:
    return tuple(part.strip("\"'") for part in re.findall(_PART, name))
