"""LIKE patterns: what they match, and that no pattern takes long."""

from __future__ import annotations

import itertools
import re

import pytest

from penstock.coordination.filter.like import BadPattern, like


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


def test_bytes_that_are_no_text_match_as_one_character_each() -> None:
    assert like("_%", None).matches(b"\xff\xfe")
    assert like("%b%", None).matches(b"\xffb")


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


def test_the_worst_pattern_is_weighed_as_what_it_costs() -> None:
    """R-DEL-12: no blow-up; and what is slow, though bounded, is looked at in small portions."""
    assert like("%" + "a%" * 1000 + "b", None).matches(b"a" * 4000) is False
    hard = like("%" + "a_" * 500 + "b%", None)
    assert hard.matches(b"a" * 4096) is False
    assert hard.cost > 1000 * like("%a%", None).cost
