"""Words of an expression, with their places."""

from __future__ import annotations

import pytest

from penstock.coordination.filter.lexer import Kind, tokens
from penstock.model.errors import InvalidFilter


def test_each_kind_of_word() -> None:
    found = tokens("""price>=1.5e3 and "with-dash" <> 'it''s' (""")
    assert [(each.kind, each.text, each.position) for each in found] == [
        (Kind.NAME, "price", 0),
        (Kind.SIGN, ">=", 5),
        (Kind.NUMBER, "1.5e3", 7),
        (Kind.KEYWORD, "AND", 13),
        (Kind.QUOTED_NAME, "with-dash", 17),
        (Kind.SIGN, "<>", 29),
        (Kind.TEXT, "it's", 32),
        (Kind.SIGN, "(", 40),
        (Kind.END, "", 41),
    ]


@pytest.mark.parametrize("name", ["a", "_a1", "trace.id", "$x", "größe", "Android", "inside"])
def test_names(name: str) -> None:
    word, end = tokens(name)
    assert (word.kind, word.text, end.kind) == (Kind.NAME, name, Kind.END)


def test_a_quoted_name_may_be_any() -> None:
    assert tokens('"a ""b"" AND"')[0].text == 'a "b" AND'
    assert tokens('"and"')[0].kind is Kind.QUOTED_NAME


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a = 'x", "at character 5: this text has no closing '"),
        ('a = "x', 'at character 5: this header name has no closing "'),
        ("a ; b", "at character 3: there is no use for ';'"),
        ("a \x1b b", r"at character 3: there is no use for U\+001B"),
        ("a ! b", "at character 3: there is no use for '!'"),
    ],
)
def test_what_is_no_word_is_pointed_at(text: str, message: str) -> None:
    with pytest.raises(InvalidFilter, match=message):
        tokens(text)
