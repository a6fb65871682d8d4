"""An expression cut into words, each with its place. No grammar: that is `parser`'s.

The invariant: the tokens and the blanks between them are the whole text, and the last is END.
"""

from __future__ import annotations

import re
from enum import Enum, auto
from typing import Final, NamedTuple

from penstock.coordination.filter.problem import problem, quoted


class Kind(Enum):
    """What sort of word it is."""

    NAME = auto()
    QUOTED_NAME = auto()
    TEXT = auto()
    NUMBER = auto()
    SIGN = auto()
    KEYWORD = auto()
    END = auto()


class Token(NamedTuple):
    """One word."""

    kind: Kind
    text: str
    """As `parser` compares it: keywords in capitals, names and texts without their quotes."""
    written: str
    position: int


KEYWORDS: Final = frozenset(
    ("AND", "OR", "NOT", "IN", "LIKE", "ESCAPE", "BETWEEN", "IS", "NULL", "TRUE", "FALSE")
)
_BLANKS: Final = re.compile(r"\s*")
# No two alternatives begin alike, and none can match one stretch in two ways: time is linear.
_WORD: Final = re.compile(
    r"""
    (?P<NUMBER> (?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)? )
  | (?P<NAME> [^\W\d][\w.$]* | \$[\w.$]* )
  | (?P<TEXT> '[^']*(?:''[^']*)*' )
  | (?P<QUOTED_NAME> "[^"]*(?:""[^"]*)*" )
  | (?P<SIGN> <> | != | <= | >= | [-=<>+*/(),] )
    """,
    re.VERBOSE,
)


def tokens(text: str) -> list[Token]:
    """The words of the text; InvalidFilter where there is something that is none."""
    found = []
    position = 0
    while True:
        blanks = _BLANKS.match(text, position)
        assert blanks is not None, "no blanks are blanks too"
        position = blanks.end()
        if position == len(text):
            found.append(Token(Kind.END, "", "", position))
            return found
        word = _WORD.match(text, position)
        if word is None:
            raise _no_word(text, position)
        found.append(_token(Kind[word.lastgroup or ""], word[0], position))
        position = word.end()


def _token(kind: Kind, written: str, position: int) -> Token:
    match kind:
        case Kind.NAME if written.upper() in KEYWORDS:
            return Token(Kind.KEYWORD, written.upper(), written, position)
        case Kind.TEXT | Kind.QUOTED_NAME:
            quote = written[0]
            return Token(kind, written[1:-1].replace(quote * 2, quote), written, position)
        case _:
            return Token(kind, written, written, position)


def _no_word(text: str, position: int) -> Exception:
    character = text[position]
    if character in "'\"":
        what = "text" if character == "'" else "header name"
        return problem(text, position, f"this {what} has no closing {character}")
    shown = quoted(character) if character.isprintable() else f"U+{ord(character):04X}"
    return problem(text, position, f"there is no use for {shown} outside of quotes")
