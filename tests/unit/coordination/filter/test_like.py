"""LIKE patterns: what they match, and that no pattern takes long."""

from __future__ import annotations

import itertools
import re

import pytest

from penstock.coordination.filter.filters import Filter, parse_filter
from penstock.coordination.filter.like import BadPattern, like
from penstock.model.errors import InvalidFilter
from penstock.model.limits import FILTER_COST_MAX


def by_regular_expression(pattern: str, text: str) -> bool:
    """The same by the definition."""
    signs = {"%": ".*", "_": "."}
    source = "".join(signs.get(each) or re.escape(each) for each in pattern)
    return re.fullmatch(source, text, re.DOTALL) is not None


def test_every_small_pattern_on_every_small_text() -> None:
    """R-DEL-12: `%` for any characters, `_` for one."""
    texts = ["".join(each) for n in range(6) for each in itertools.product("ab", repeat=n)]
    patterns = ["".join(each) for n in range(5) for each in itertools.product("ab%_", repeat=n)]
    for pattern in patterns:
        matches = like(pattern, None).matches
        for text in texts:
            found = matches(text.encode())
            assert found == by_regular_expression(pattern, text), (pattern, text)


@pytest.mark.parametrize(
    ("pattern", "text", "matches"),
    [
        ("_", "é", True),
        ("__", "é", False),
        ("%é%", "café au lait", True),
        ("a_c", "a\nc", True),
        ("eu-%", "eu-west", True),
        ("eu-%", "EU-west", False),
        ("a.c", "abc", False),
    ],
)
def test_characters_are_characters(pattern: str, text: str, matches: bool) -> None:
    assert like(pattern, None).matches(text.encode()) is matches


@pytest.mark.parametrize(
    ("pattern", "content", "matches"),
    [
        ("_%", b"\xff\xfe", True),
        ("__", b"\xff\xfe", True),
        ("_", b"\xff\xfe", False),
        ("%b%", b"\xffb", True),
        # The same with and without a `_`.
        ("%é%", b"caf\xc3\xa9\xff", True),
        ("%é_", b"caf\xc3\xa9\xff", True),
        ("%\ufffd_", b"ab\xff\xff", False),
    ],
)
def test_bytes_that_are_no_text_match_as_one_character_each(
    pattern: str, content: bytes, matches: bool
) -> None:
    assert like(pattern, None).matches(content) is matches


@pytest.mark.parametrize(
    ("pattern", "text", "matches"),
    [("50!%", "50%", True), ("50!%", "500", False), ("a!!b", "a!b", True), ("!_", "x", False)],
)
def test_an_escape_takes_the_meaning_away(pattern: str, text: str, matches: bool) -> None:
    assert like(pattern, "!").matches(text.encode()) is matches


@pytest.mark.parametrize("pattern", ["a!", "!a", "%!"])
def test_an_escape_of_nothing_is_refused(pattern: str) -> None:
    with pytest.raises(BadPattern, match="must stand before"):
        like(pattern, "!")


def test_a_longer_text_is_unknown() -> None:
    assert like("%a", None).matches(b"a" * 4096) is True
    assert like("%a", None).matches(b"a" * 4097) is None


@pytest.mark.parametrize("length", [1, 3, 9, 12, 200])
def test_long_pieces_are_found_as_short_ones_are(length: int) -> None:
    """They are looked for in another way."""
    piece = ("ab.é" * 60)[:length]
    for pattern, text in (("%{}%", "x{}y{}"), ("%{}_%{}", "{}.{}{}"), ("{}%", "{}a"), ("{}", "{}")):
        shown = text.replace("{}", piece)
        matches = like(pattern.replace("{}", piece), None).matches
        for each in (shown, shown[:-1], shown[1:], shown.replace(".", "x")):
            found = by_regular_expression(pattern.replace("{}", piece), each)
            assert matches(each.encode()) is found, (pattern, each)


class Work:
    """What holding a text against a pattern takes at most, counted as it would be done by hand.
    What a step takes was measured once: here it is counted, as time would differ each time."""

    def __init__(self, pattern: str, content: bytes) -> None:
        self.pieces = self.decoded_bytes = self.searched_bytes = self.steps = 0
        text = content.decode(errors="replace")
        cut = pattern.split("%")
        if "_" in pattern and (len(cut) > 1 or len(content) <= 4 * len(pattern)):
            self.decoded_bytes = len(content)
        middle = [piece for piece in cut[1:-1] if piece]
        self.pieces = 2
        position, end = len(cut[0]), len(text) - len(cut[-1])
        for piece in middle:
            self.pieces += 1
            found = self._search(piece, text, position, end)
            if found < 0:
                return
            position = found + len(piece)

    def _search(self, piece: str, text: str, start: int, end: int) -> int:
        for place in range(start, end - len(piece) + 1):
            if "_" not in piece:
                self.searched_bytes += 1
                if text.startswith(piece, place):
                    return place
                continue
            self.steps += 2
            for sign, character in zip(piece, text[place:], strict=False):
                self.steps += 1
                if sign not in ("_", character):
                    break
            else:
                return place
        return -1

    @property
    def cost(self) -> float:
        """In comparisons of a tenth of a microsecond."""
        return (
            4 * self.pieces + self.decoded_bytes / 64 + self.searched_bytes / 32 + self.steps / 32
        )


WORST_CONTENTS = [b"a" * 4096, b"ab" * 2048, b"\xff" * 4096, "é".encode() * 2048]


@pytest.mark.parametrize(
    "pattern",
    [
        "%" + "a%b%" * 60,
        "%" + "%".join("ab" * 950) + "%",
        "%" + "a%" * 1000 + "b",
        "%" + "a" * 97 + "baa%",
        "%" + "a" * 1250 + "baa%",
        "%" + "a_" * 500 + "b%",
        "%_b%",
        "_%b%",
        "%a_a%" + "a" * 50 + "_b%",
        "_",
        "%_",
        "_" * 4096,
    ],
)
def test_no_value_costs_more_than_is_told(pattern: str) -> None:
    """R-DEL-12: no blow-up; and what is slow, though bounded, is looked at in small portions. By
    counting work, not time."""
    made = like(pattern, None)
    for content in WORST_CONTENTS:
        made.matches(content)
        assert Work(pattern, content).cost <= made.cost


def test_the_dearest_patterns_are_refused() -> None:
    """R-DEL-12: a message is never looked at for longer than FILTER_COST_MAX."""
    dear = "%" + "a_" * 40 + "b%"
    assert like(dear, None).cost > FILTER_COST_MAX
    with pytest.raises(InvalidFilter, match="at character 8: LIKE may take too long on values of"):
        parse_filter(Filter(expression=f"h LIKE '{dear}'"))
    with pytest.raises(InvalidFilter, match="LIKE may take too long"):
        parse_filter(Filter(expression=" OR ".join(["h LIKE '%a_b%'"] * 20)))
    with pytest.raises(InvalidFilter, match=r"more than 256 .* and % of patterns"):
        parse_filter(Filter(expression="h LIKE '" + "a%" * 300 + "'"))
    assert parse_filter(Filter(expression="h LIKE '%San%_o%'")).cost < FILTER_COST_MAX


def test_a_value_that_cannot_fit_is_not_decoded() -> None:
    """What costs little is told to."""
    assert like("A_7", None).cost < 20
    assert like("A_7", None).matches("AéééééééééÄ7".encode()) is False
    assert like("eu-%", None).cost < 20
    assert like("%_", None).cost > like("_", None).cost
