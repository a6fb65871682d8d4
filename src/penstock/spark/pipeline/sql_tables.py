"""Which tables a SQL text reads: the names after FROM and JOIN.

Not a SQL parser: Spark's own judges the text when the pipeline is built. Here it is only asked what
a step depends on. The invariant: a name is given only where it must be a table of the pipeline;
what may be something else (a function, a qualified name, a file) is left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from penstock.model.errors import InvalidConfig

_TOKEN: Final = re.compile(
    r"""(?P<blank>\s+|--[^\n]*|/\*.*?\*/)
      | (?P<text>'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.)*")
      | (?P<quoted>`(?:[^`]|``)*`)
      | (?P<word>[A-Za-z_][A-Za-z0-9_]*)
      | (?P<number>[0-9][0-9A-Za-z_.]*)
      | (?P<open>['"`]|/\*)
      | (?P<mark>.)""",
    re.VERBOSE | re.DOTALL,
)
_PAIRS: Final = {")": "(", "]": "[", "}": "{"}
# `FROM` within these is a part of a function: extract(year FROM at).
_FUNCTIONS_WITH_FROM: Final = frozenset({"extract", "trim", "substring", "substr", "overlay"})
# What follows FROM and is no table.
_NO_TABLES: Final = frozenset({"lateral", "values", "select", "stream", "identifier"})


class _Token(NamedTuple):
    kind: str
    text: str

    @property
    def lower(self) -> str:
        return self.text.lower() if self.kind == "word" else self.text

    @property
    def name(self) -> str | None:
        """The identifier it is, if it is one."""
        if self.kind == "quoted":
            return self.text[1:-1].replace("``", "`")
        return self.text if self.kind == "word" else None


def tables_of(sql: str) -> list[str]:
    """The tables read, in order, each once. InvalidConfig for a text that cannot be SQL: a quote or
    bracket without its partner."""
    tokens = list(_tokens(sql))
    if not tokens:
        raise InvalidConfig("there is no SQL in it.")
    _check_brackets(tokens)
    common = {name.lower() for name in _common_tables(tokens)}
    names = (name for name in _read_tables(tokens) if name.lower() not in common)
    return list(dict.fromkeys(names))


def _tokens(sql: str) -> Iterator[_Token]:
    for found in _TOKEN.finditer(sql):
        kind = found.lastgroup
        assert kind is not None
        if kind == "open":
            raise InvalidConfig(f"its {found[0]} is not closed.")
        if kind != "blank":
            yield _Token(kind, found[0])


def _check_brackets(tokens: list[_Token]) -> None:
    waiting: list[str] = []
    for token in tokens:
        if token.kind != "mark":
            continue
        if token.text in _PAIRS.values():
            waiting.append(token.text)
        elif token.text in _PAIRS and (not waiting or waiting.pop() != _PAIRS[token.text]):
            raise InvalidConfig(f"it has a {token.text} too many.")
    if waiting:
        raise InvalidConfig(f"its {waiting[-1]} is not closed.")


def _common_tables(tokens: list[_Token]) -> Iterator[str]:
    """The names that WITH gives: `name AS (`, or `name (columns) AS (`."""
    if not any(token.lower == "with" for token in tokens):
        return
    for index, token in enumerate(tokens[:-2]):
        if token.name is None:
            continue
        after = index + 1
        if tokens[after].text == "(":
            while after < len(tokens) - 1 and tokens[after].text != ")":
                after += 1
            after += 1
        following = [each.lower for each in tokens[after : after + 2]]
        if following == ["as", "("]:
            yield token.name


def _read_tables(tokens: list[_Token]) -> Iterator[str]:
    functions: list[str] = []  # what each open bracket belongs to
    index = 0
    while index < len(tokens):
        token = tokens[index]
        if token.text == "(":
            functions.append(tokens[index - 1].lower if index else "")
        elif token.text == ")":
            functions.pop()
        elif token.lower == "join":
            yield from _table_at(tokens, index + 1)
        elif token.lower == "from" and not _is_of_function(tokens, index, functions):
            yield from _list_at(tokens, index + 1)
        index += 1


def _is_of_function(tokens: list[_Token], index: int, functions: list[str]) -> bool:
    """Whether this FROM is of `extract(… FROM …)` or of `IS DISTINCT FROM`."""
    if functions and functions[-1] in _FUNCTIONS_WITH_FROM:
        return True
    return index > 0 and tokens[index - 1].lower == "distinct"


def _list_at(tokens: list[_Token], index: int) -> Iterator[str]:
    """The tables of a FROM: several with commas, each perhaps with an alias."""
    while True:
        yield from _table_at(tokens, index)
        if index < len(tokens) and tokens[index].text == "(":
            return  # what is inside is found by itself; nobody mixes it with a list of names
        index += 1
        if index < len(tokens) and tokens[index].lower == "as":
            index += 1
        if index + 1 < len(tokens) and tokens[index].name and tokens[index + 1].text == ",":
            index += 1
        if index >= len(tokens) or tokens[index].text != ",":
            return
        index += 1


def _table_at(tokens: list[_Token], index: int) -> Iterator[str]:
    if index >= len(tokens):
        return
    token = tokens[index]
    name = token.name
    following = tokens[index + 1].text if index + 1 < len(tokens) else ""
    if name and following not in ("(", ".") and token.lower not in _NO_TABLES:
        yield name
