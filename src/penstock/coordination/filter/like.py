"""LIKE: `%` stands for any characters, `_` for one. No backtracking, whatever the pattern.

A pattern is cut at its `%`; the first piece must begin the text and the last one end it, and the
others are found one after another, each at its first place from where the one before ended: if any
way fits, that one does. The invariant: the work is at most the text's length times the pattern's.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import AnyStr, Final, Generic, NamedTuple

from penstock.model.limits import FILTER_LIKE_BYTES_MAX

Matcher = Callable[[bytes], bool | None]

# What one look costs, in comparisons of other kinds; and each character of a piece that has `_` and
# is looked for all over a text of the longest kind.
COST: Final = 8
_COST_PER_CHARACTER: Final = 16


class BadPattern(Exception):
    """The pattern makes no sense; the text says why."""


class Like(NamedTuple):
    """A pattern made ready."""

    matches: Matcher
    cost: int


class _Piece(ABC, Generic[AnyStr]):
    """What stands between two `%`."""

    __slots__ = ("length",)
    length: int

    @abstractmethod
    def is_at(self, text: AnyStr, position: int) -> bool: ...

    @abstractmethod
    def find(self, text: AnyStr, start: int, end: int) -> int:
        """The first place of it that is whole between the two; -1 if there is none."""


class _Plain(_Piece[bytes]):
    """Looked for as bytes: in UTF-8 no character is found inside another."""

    __slots__ = ("_content",)

    def __init__(self, characters: list[str | None]) -> None:
        self._content = "".join(each for each in characters if each is not None).encode()
        self.length = len(self._content)

    def is_at(self, text: bytes, position: int) -> bool:
        return text.startswith(self._content, position)

    def find(self, text: bytes, start: int, end: int) -> int:
        return text.find(self._content, start, end)


class _Wild(_Piece[str]):
    """With `_` in it: of one length, so that nothing is ever tried twice at one place."""

    __slots__ = ("_expression",)

    def __init__(self, characters: list[str | None]) -> None:
        source = "".join("." if each is None else re.escape(each) for each in characters)
        self._expression = re.compile(source, re.DOTALL)
        self.length = len(characters)

    def is_at(self, text: str, position: int) -> bool:
        return self._expression.match(text, position) is not None

    def find(self, text: str, start: int, end: int) -> int:
        found = self._expression.search(text, start, end)
        return -1 if found is None else found.start()


def like(pattern: str, escape: str | None) -> Like:
    """The pattern made ready, or BadPattern."""
    cut = _cut(pattern, escape)
    middle = [piece for piece in cut[1:-1] if piece]
    is_wild = any(None in piece for piece in cut)
    cost = COST + _COST_PER_CHARACTER * sum(len(piece) for piece in middle if is_wild)
    pieces = cut if len(cut) == 1 else [cut[0], *middle, cut[-1]]
    if is_wild:
        fits = _fitting([_Wild(piece) for piece in pieces])
        return Like(_limited(lambda content: fits(content.decode(errors="replace"))), cost)
    return Like(_limited(_fitting([_Plain(piece) for piece in pieces])), cost)


def _limited(fits: Callable[[bytes], bool]) -> Matcher:
    def matches(content: bytes) -> bool | None:
        return None if len(content) > FILTER_LIKE_BYTES_MAX else fits(content)

    return matches


def _fitting(pieces: Sequence[_Piece[AnyStr]]) -> Callable[[AnyStr], bool]:
    """Whether a text is the only piece, or has them in this order, the outer ones at its ends."""
    first, last = pieces[0], pieces[-1]
    if len(pieces) == 1:
        return lambda text: len(text) == first.length and first.is_at(text, 0)
    middle = pieces[1:-1]
    length_min = sum(piece.length for piece in pieces)

    def fits(text: AnyStr) -> bool:
        end = len(text) - last.length
        if len(text) < length_min or not first.is_at(text, 0) or not last.is_at(text, end):
            return False
        position = first.length
        for piece in middle:
            position = piece.find(text, position, end)
            if position < 0:
                return False
            position += piece.length
        return True

    return fits


def _cut(pattern: str, escape: str | None) -> list[list[str | None]]:
    """The pieces between `%`, as characters, None where any one may stand."""
    pieces: list[list[str | None]] = [[]]
    characters = iter(pattern)
    for character in characters:
        if character == escape:
            escaped = next(characters, None)
            if escaped is None or escaped not in ("%", "_", escape):
                raise BadPattern(
                    f"the escape character '{escape}' must stand before %, _ or itself"
                )
            pieces[-1].append(escaped)
        elif character == "%":
            pieces.append([])
        else:
            pieces[-1].append(None if character == "_" else character)
    return pieces
