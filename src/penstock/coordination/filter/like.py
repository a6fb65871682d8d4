"""LIKE: `%` stands for any characters, `_` for one. No backtracking, whatever the pattern.

A pattern is cut at its `%`; the first piece must begin the text and the last one end it, and the
others are found one after another, each at its first place from where the one before ended: if any
way fits, that one does. What is no UTF-8 is taken byte by byte. The invariant: the work is at most
the text's length times that of the longest piece, and never more than the cost that is told.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import AnyStr, Final, Generic, NamedTuple

from penstock.model.limits import FILTER_LIKE_BYTES_MAX

Matcher = Callable[[bytes], bool | None]

# What a look costs, in comparisons of other kinds, and each piece that is looked for in it.
_LOOK_COST: Final = 8
_PIECE_COST: Final = 4
# In the time of one comparison: bytes that are decoded; bytes in which a piece without `_` is
# looked for; and characters that are held against one of a piece that has `_`, where beginning at a
# place takes as long as so many.
_DECODED_BYTES_PER_COST: Final = 64
_SEARCHED_BYTES_PER_COST: Final = 32
_STEPS_PER_COST: Final = 32
_STEPS_PER_PLACE: Final = 2
# `find` of Python tries a piece at each place anew, so it is for short ones.
_SHORT_LENGTH_MAX: Final = 8
# Of a character in UTF-8.
_CHARACTER_BYTES_MAX: Final = 4


class BadPattern(Exception):
    """The pattern makes no sense; the text says why."""


class Like(NamedTuple):
    """A pattern made ready."""

    matches: Matcher
    cost: int
    """What holding the worst value against it takes, in comparisons."""


class _Piece(ABC, Generic[AnyStr]):
    """What stands between two `%`, of one length: so nothing is tried twice at one place."""

    __slots__ = ("length",)
    length: int

    @abstractmethod
    def is_at(self, text: AnyStr, position: int) -> bool: ...

    @abstractmethod
    def find(self, text: AnyStr, start: int, end: int) -> int:
        """The first place of it that is whole between the two; -1 if there is none."""


class _Short(_Piece[AnyStr]):
    """Without `_`."""

    __slots__ = ("_content",)

    def __init__(self, content: AnyStr) -> None:
        self._content: AnyStr = content
        self.length = len(content)

    def is_at(self, text: AnyStr, position: int) -> bool:
        return text.startswith(self._content, position)

    def find(self, text: AnyStr, start: int, end: int) -> int:
        return text.find(self._content, start, end)


class _Long(_Piece[AnyStr]):
    """A regular expression: one of nothing but characters is looked for in linear time (Knuth,
    Morris, Pratt)."""

    __slots__ = ("_expression",)

    def __init__(self, source: AnyStr, length: int) -> None:
        self._expression: re.Pattern[AnyStr] = re.compile(source, re.DOTALL)
        self.length = length

    def is_at(self, text: AnyStr, position: int) -> bool:
        return self._expression.match(text, position) is not None

    def find(self, text: AnyStr, start: int, end: int) -> int:
        found = self._expression.search(text, start, end)
        return -1 if found is None else found.start()


def like(pattern: str, escape: str | None) -> Like:
    """The pattern made ready, or BadPattern."""
    cut = _cut(pattern, escape)
    middle = [piece for piece in cut[1:-1] if piece]
    pieces = cut if len(cut) == 1 else [cut[0], *middle, cut[-1]]
    is_wild = any(None in piece for piece in pieces)
    length = sum(map(len, pieces))
    # A longer value cannot fit.
    bytes_max = FILTER_LIKE_BYTES_MAX
    if len(cut) == 1:
        bytes_max = min(bytes_max, length * _CHARACTER_BYTES_MAX)
    of_bytes = _fitting([_of_bytes(piece) for piece in pieces])
    cost = _LOOK_COST + _PIECE_COST * len(pieces) + max(map(_search_cost, middle), default=0)
    fits = of_bytes
    if is_wild:
        fits = _decoding(of_bytes, _fitting([_of_text(piece) for piece in pieces]))
        cost += bytes_max // _DECODED_BYTES_PER_COST

    def matches(content: bytes) -> bool | None:
        if length <= len(content) <= bytes_max:
            return fits(content)
        return None if len(content) > FILTER_LIKE_BYTES_MAX else False

    return Like(matches, cost)


def _search_cost(piece: list[str | None]) -> int:
    """Of looking for it all over the longest value. Those that are looked for one after another
    share the value, so the dearest counts."""
    if None not in piece:
        return FILTER_LIKE_BYTES_MAX // _SEARCHED_BYTES_PER_COST
    return FILTER_LIKE_BYTES_MAX * (len(piece) + _STEPS_PER_PLACE) // _STEPS_PER_COST


def _of_text(piece: list[str | None]) -> _Piece[str]:
    if None not in piece and len(piece) <= _SHORT_LENGTH_MAX:
        return _Short("".join(filter(None, piece)))
    source = "".join("." if each is None else re.escape(each) for each in piece)
    return _Long(source, len(piece))


def _of_bytes(piece: list[str | None]) -> _Piece[bytes]:
    """In UTF-8 no character is found inside another."""
    characters = [None if each is None else each.encode() for each in piece]
    length = sum(1 if each is None else len(each) for each in characters)
    if None not in piece and length <= _SHORT_LENGTH_MAX:
        return _Short(b"".join(filter(None, characters)))
    source = b"".join(b"." if each is None else re.escape(each) for each in characters)
    return _Long(source, length)


def _decoding(
    of_bytes: Callable[[bytes], bool], of_text: Callable[[str], bool]
) -> Callable[[bytes], bool]:
    def fits(content: bytes) -> bool:
        if content.isascii():  # as nearly all are, and then both are the same
            return of_bytes(content)
        try:
            text = content.decode()
        except UnicodeDecodeError:
            return of_bytes(content)
        return of_text(text)

    return fits


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
