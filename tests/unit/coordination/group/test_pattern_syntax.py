"""What is no topic pattern is refused with the place where it goes wrong."""

from __future__ import annotations

import pytest

from penstock.coordination.group.pattern_syntax import ALPHABET, Chars, Repeat, parse
from penstock.model.errors import InvalidRegularExpression


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("(a", "a '\\(' is not closed, at character 2"),
        ("a)", "a '\\)' without its '\\(', at character 1"),
        ("[a", "ends too early"),
        ("a\\", "ends too early"),
        ("*a", "nothing before the '\\*'"),
        ("a|+", "nothing before the '\\+'"),
        ("a**", "a repetition is repeated"),
        ("a{2}{3}", "a repetition is repeated"),
        ("a{3,2}", "not from 0 to 1000 times"),
        ("a{1001}", "not from 0 to 1000 times"),
        ("a(?=b)", "opens nothing that is known"),
        ("(?<!a)b", "opens nothing that is known"),
        ("(a)\\1", r"\\1 has no meaning here"),
        ("\\bword", r"\\b has no meaning here"),
        ("[z-a]", "the range z-a is empty"),
        ("[[:nothing:]]", "names no set"),
        ("(" * 41 + ")" * 41, "nested more than 40 deep"),
        ("a" * 4097, "has 4097 characters"),
    ],
)
def test_refused(pattern: str, reason: str) -> None:
    with pytest.raises(InvalidRegularExpression, match=reason):
        parse(pattern)


def test_a_set_holds_only_what_topic_names_are_made_of() -> None:
    assert parse(".") == Chars(ALPHABET)
    assert parse("[^a-z]") == Chars(ALPHABET - frozenset("abcdefghijklmnopqrstuvwxyz"))
    assert parse("é") == Chars(frozenset())


def test_repetitions() -> None:
    a = Chars(frozenset("a"))
    assert parse("a{2,}") == Repeat(a, 2, None)
    assert parse("a{2}?") == Repeat(a, 2, 2)
    assert parse("a+") == Repeat(a, 1, None)
