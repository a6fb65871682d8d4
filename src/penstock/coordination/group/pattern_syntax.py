"""The syntax of topic patterns: RE2's, as far as it says something about topic names.

Not how a pattern is matched. What RE2 refuses is refused (look-around, back references), and so
are its `\\b`, `\\B`, `\\C` and Unicode classes, which topic names have no use for. The invariant: a
tree that `parse` returns is no deeper than its limit, so that it may be walked by recursion.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, NoReturn

from penstock.model.errors import InvalidRegularExpression
from penstock.model.limits import TOPIC_PATTERN_DEPTH_MAX, TOPIC_PATTERN_LENGTH_MAX

_DIGITS: Final = frozenset("0123456789")
_LOWER: Final = frozenset("abcdefghijklmnopqrstuvwxyz")
_UPPER: Final = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZ")
_LETTERS: Final = _LOWER | _UPPER
_WORD: Final = _LETTERS | _DIGITS | {"_"}
ALPHABET: Final = _WORD | {".", "-"}
"""What topic names are made of: a set of characters is a part of this."""

_ESCAPED_SETS: Final = {
    "d": _DIGITS,
    "D": ALPHABET - _DIGITS,
    "w": _WORD,
    "W": ALPHABET - _WORD,
    "s": frozenset[str](),
    "S": ALPHABET,
}
_NAMED_SETS: Final = {
    "alnum": _LETTERS | _DIGITS,
    "alpha": _LETTERS,
    "digit": _DIGITS,
    "lower": _LOWER,
    "upper": _UPPER,
    "punct": frozenset("._-"),
    "word": _WORD,
    "xdigit": _DIGITS | frozenset("abcdefABCDEF"),
}
_REPEATS: Final = {"*": (0, None), "+": (1, None), "?": (0, 1)}
_COUNTED: Final = re.compile(r"\{([0-9]{1,9})(?:(,)([0-9]{1,9})?)?\}")
_GROUP: Final = re.compile(r"\(\?(?:P?<[A-Za-z_][A-Za-z0-9_]*>|([imsU]*)(?:-[imsU]+)?([:)]))")
_REPEAT_MAX: Final = 1_000  # RE2's


@dataclass(frozen=True, slots=True)
class Chars:
    """One character of the set."""

    members: frozenset[str]


@dataclass(frozen=True, slots=True)
class Edge:
    """The start of the name, or its end."""

    is_start: bool


@dataclass(frozen=True, slots=True)
class Sequence:
    """One after the other."""

    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Choice:
    """One of them."""

    options: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    """As often as this; `most` is None where there is no limit."""

    part: Node
    least: int
    most: int | None


Node = Chars | Edge | Sequence | Choice | Repeat


def parse(text: str) -> Node:
    """The tree of the pattern, or InvalidRegularExpression."""
    if len(text) > TOPIC_PATTERN_LENGTH_MAX:
        raise InvalidRegularExpression(
            f"The topic pattern has {len(text)} characters: the limit is "
            f"{TOPIC_PATTERN_LENGTH_MAX}."
        )
    return _Parser(text).whole()


class _Parser:
    """Reads the pattern from left to right; `_position` is the next character."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._position = 0
        self._depth = 0
        self._ignores_case = False

    def whole(self) -> Node:
        node = self._choice()
        if self._position < len(self._text):
            self._refuse("there is a ')' without its '('")
        return node

    def _choice(self) -> Node:
        self._depth += 1
        if self._depth > TOPIC_PATTERN_DEPTH_MAX:
            self._refuse(f"parentheses are nested more than {TOPIC_PATTERN_DEPTH_MAX} deep")
        options = [self._sequence()]
        while self._skip("|"):
            options.append(self._sequence())
        self._depth -= 1
        return options[0] if len(options) == 1 else Choice(tuple(options))

    def _sequence(self) -> Node:
        parts: list[Node] = []
        while self._position < len(self._text) and self._text[self._position] not in "|)":
            if self._skip(r"\Q"):
                parts.extend(self._quoted())
            else:
                parts.append(self._repeated(self._atom()))
        return parts[0] if len(parts) == 1 else Sequence(tuple(parts))

    def _quoted(self) -> list[Node]:
        r"""Between \Q and \E all characters stand for themselves."""
        end = self._text.find(r"\E", self._position)
        literal = self._text[self._position : end if end >= 0 else len(self._text)]
        self._position += len(literal) + (2 if end >= 0 else 0)
        return [self._set({character}) for character in literal]

    def _atom(self) -> Node:
        character = self._take()
        if character in _REPEATS:
            self._refuse(f"there is nothing before the {character!r} to repeat")
        match character:
            case "(":
                return self._group()
            case "[":
                return self._class()
            case ".":
                return Chars(ALPHABET)
            case "^" | "$":
                return Edge(character == "^")
            case "\\":
                return self._escape()
            case _:
                return self._set({character})

    def _repeated(self, node: Node) -> Node:
        bounds = self._bounds()
        if bounds is None:
            return node
        self._skip("?")  # the shortest match first: the same names match
        if self._bounds() is not None:
            self._refuse("a repetition is repeated: put it in parentheses")
        return Repeat(node, *bounds)

    def _bounds(self) -> tuple[int, int | None] | None:
        for sign, bounds in _REPEATS.items():
            if self._skip(sign):
                return bounds
        counted = _COUNTED.match(self._text, self._position)
        if counted is None:
            return None  # a brace that is no repetition stands for itself
        self._position = counted.end()
        least = int(counted[1])
        most = least if counted[2] is None else int(counted[3]) if counted[3] else None
        if least > _REPEAT_MAX or (most is not None and not least <= most <= _REPEAT_MAX):
            self._refuse(f"a repetition is not from 0 to {_REPEAT_MAX} times")
        return least, most

    def _group(self) -> Node:
        ignored_case = self._ignores_case
        if self._text.startswith("?", self._position):
            opening = _GROUP.match(self._text, self._position - 1)
            if opening is None:
                self._refuse("a '(?' opens nothing that is known here")
            self._position = opening.end()
            if opening[2] is not None:
                # The other flags are about lines and greed, of which a name knows nothing.
                flags, _, removed = opening[0].partition("-")
                self._ignores_case = "i" not in removed and ("i" in flags or ignored_case)
            if opening[2] == ")":
                return Sequence(())  # the flags hold up to the end of the group around them
        node = self._choice()
        if not self._skip(")"):
            self._refuse("a '(' is not closed")
        self._ignores_case = ignored_case
        return node

    def _escape(self) -> Node:
        character = self._take()
        if character in _ESCAPED_SETS:
            return Chars(_ESCAPED_SETS[character])
        if character in "Az":
            return Edge(character == "A")
        return self._set({self._punctuation(character)})

    def _class(self) -> Node:
        is_negated = self._skip("^")
        members: set[str] = set()
        is_first = True
        while is_first or not self._skip("]"):
            is_first = False
            members |= self._class_item()
        inside = self._set(members)
        return Chars(ALPHABET - inside.members) if is_negated else inside

    def _class_item(self) -> frozenset[str] | set[str]:
        if self._skip("[:"):
            end = self._text.find(":]", self._position)
            name = self._text[self._position : end] if end >= 0 else ""
            if name not in _NAMED_SETS:
                self._refuse("a '[:' names no set of characters")
            self._position = end + 2
            return _NAMED_SETS[name]
        low = self._take()
        if low == "\\":
            low = self._take()
            if low in _ESCAPED_SETS:
                return _ESCAPED_SETS[low]
            low = self._punctuation(low)
        following = self._text[self._position : self._position + 2]
        if not following.startswith("-") or following in ("-", "-]"):
            return {low}
        self._position += 1
        high = self._take()
        if high == "\\":
            high = self._punctuation(self._take())
        if high < low:
            self._refuse(f"the range {low}-{high} is empty")
        return {character for character in ALPHABET if low <= character <= high}

    def _punctuation(self, character: str) -> str:
        if character.isalnum():
            self._refuse(f"\\{character} has no meaning here")
        return character

    def _set(self, members: set[str]) -> Chars:
        if self._ignores_case:
            members = members | {character.swapcase() for character in members}
        return Chars(ALPHABET & members)

    def _take(self) -> str:
        if self._position == len(self._text):
            self._refuse("it ends too early")
        self._position += 1
        return self._text[self._position - 1]

    def _skip(self, text: str) -> bool:
        if not self._text.startswith(text, self._position):
            return False
        self._position += len(text)
        return True

    def _refuse(self, reason: str) -> NoReturn:
        raise InvalidRegularExpression(
            f"The topic pattern {self._text[:80]!r} cannot be used: {reason}, at character "
            f"{self._position}."
        )
