"""Which tables a SQL text reads: the names after FROM and JOIN.

Not a SQL parser: Spark's own judges the text when the pipeline is built. Here it is only asked what
a step depends on. The invariant: a name is given only where it must be a table of the pipeline;
what may be something else (a function, a qualified name, a file) is left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
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
# What may stand where a table is awaited, and is none.
_NO_TABLES: Final = frozenset(
    {"lateral", "values", "select", "from", "with", "table", "stream", "identifier"}
)
# What ends a FROM: a comma after it is followed by no table. `|` begins `|>`.
_ENDS: Final = frozenset(
    {"where", "group", "having", "order", "sort", "cluster", "distribute", "window", "qualify"}
    | {"limit", "offset", "union", "except", "minus", "intersect", "select", "|"}
)


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
    return list(dict.fromkeys(_read_tables(tokens)))


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


@dataclass(slots=True, kw_only=True)
class _Scope:
    """What is known within one pair of brackets, up to the token at hand."""

    function: str = ""
    """The word before the brackets."""
    common: set[str] = field(default_factory=set)
    """The names that WITH has given, in lower case."""
    is_list: bool = False
    """Whether this is a FROM's list, in which a table follows a comma."""
    is_table_awaited: bool = False
    is_name_awaited: bool = False
    """Whether WITH gives a name next."""
    is_recursive: bool = False
    named: str | None = None
    """The name that WITH gives to what is being read: it is known behind it, and not within,
    unless WITH is recursive."""

    def inner(self, function: str, *, is_table: bool) -> _Scope:
        common = set(self.common)
        if self.is_recursive and self.named is not None:
            common.add(self.named)
        # In the place of a table, brackets hold a query, or tables again.
        return _Scope(function=function, common=common, is_list=is_table, is_table_awaited=is_table)

    def keep_name(self) -> None:
        """What WITH named has been read."""
        if self.named is not None:
            self.common.add(self.named)
            self.named = None


def _read_tables(tokens: list[_Token]) -> Iterator[str]:
    scopes = [_Scope()]
    for index, token in enumerate(tokens):
        before = tokens[index - 1].lower if index else ""
        if token.text == ")":
            scopes.pop()
            continue
        scope = scopes[-1]
        is_table, scope.is_table_awaited = scope.is_table_awaited, False
        if token.text == "(":
            if before == ")":
                scope.keep_name()
            scopes.append(scope.inner(before, is_table=is_table))
        elif scope.is_name_awaited:
            scope.is_recursive |= token.lower == "recursive"
            scope.is_name_awaited = token.lower == "recursive"
            scope.named = (token.name or "").lower()
        elif is_table and (name := _table_at(tokens, index)) is not None:
            if name.lower() not in scope.common:
                yield name
        else:
            _follow(scope, token.lower, before, is_table=is_table)


def _follow(scope: _Scope, word: str, before: str, *, is_table: bool) -> None:
    """What a word or a mark makes of the words behind it."""
    if word in ("select", "from", "values"):
        scope.keep_name()
    if word == "with":
        scope.is_name_awaited = True
    elif word == "," and scope.named is not None:
        scope.keep_name()
        scope.is_name_awaited = True
    elif word == ",":
        scope.is_table_awaited = scope.is_list
    elif word == "join":
        scope.is_table_awaited = True
    elif word == "from":
        # Neither `extract(… FROM …)` nor `IS DISTINCT FROM` reads a table.
        if scope.function not in _FUNCTIONS_WITH_FROM and before != "distinct":
            scope.is_list = scope.is_table_awaited = True
    elif word in _ENDS or (word == "lateral" and not is_table):
        scope.is_list = False


def _table_at(tokens: list[_Token], index: int) -> str | None:
    token = tokens[index]
    following = tokens[index + 1].text if index + 1 < len(tokens) else ""
    if following in ("(", ".") or token.lower in _NO_TABLES:
        return None
    return token.name
