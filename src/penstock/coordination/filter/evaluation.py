"""The parts of an expression as functions of a message: made once, called for every message.

Grammar and places are `parser`'s; here is what operators mean: SQL's three truths, where None
stands for unknown. A message comes as a row: its key, its timestamp, and the headers that the
expression names, by their places. The invariant: no function raises, whatever the row has in it.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, cast

from penstock.coordination.filter.values import Number, calculated, number_of, truth_of

Value = bytes | Number | None
Row = Sequence[Value]
Evaluate = Callable[[Row], Value]
Truth = Callable[[Row], bool | None]
Calculation = Callable[[Row], Number | None]

KEY_PLACE: Final = 0
TIMESTAMP_PLACE: Final = 1
HEADERS_PLACE: Final = 2


class Kind(Enum):
    """What an operand is, as far as the expression alone tells."""

    FIELD = "a header, the key or the tag"
    TEXT = "text"
    NUMBER = "a number"
    TRUTH = "a condition"


@dataclass(frozen=True, slots=True, kw_only=True)
class Operand:
    """A part of an expression."""

    kind: Kind
    evaluate: Evaluate
    constant: Value = None
    """Its value where that is the same for every message."""


def field(place: int) -> Operand:
    return Operand(kind=Kind.FIELD, evaluate=operator.itemgetter(place))


def timestamp() -> Operand:
    """Milliseconds since 1970; unknown where the producer gave none, which is a number below 0."""

    def evaluate(row: Row) -> Value:
        timestamp_ms = cast("int", row[TIMESTAMP_PLACE])
        return timestamp_ms if timestamp_ms >= 0 else None

    return Operand(kind=Kind.NUMBER, evaluate=evaluate)


def constant(kind: Kind, value: bytes | Number) -> Operand:
    return Operand(kind=kind, evaluate=lambda _: value, constant=value)


def condition(truth: Truth) -> Operand:
    return Operand(kind=Kind.TRUTH, evaluate=truth)


def common_kind(operands: Collection[Operand]) -> Kind | None:
    """As what they are compared: fields are text, unless something else is known of another. None
    if they cannot be compared."""
    kinds = {each.kind for each in operands} - {Kind.FIELD}
    if not kinds:
        return Kind.TEXT
    return kinds.pop() if len(kinds) == 1 else None


def _as(kind: Kind, operand: Operand) -> Evaluate:
    """The operand's value as one of this kind."""
    evaluate = operand.evaluate
    if operand.kind is not Kind.FIELD or kind is Kind.TEXT:
        assert operand.kind in (kind, Kind.FIELD), f"{operand.kind} is no {kind}"
        return evaluate
    read = cast("Callable[[bytes], Value]", number_of if kind is Kind.NUMBER else truth_of)

    def converted(row: Row) -> Value:
        content = evaluate(row)
        return None if content is None else read(cast("bytes", content))

    return converted


def as_truth(operand: Operand) -> Truth:
    return cast("Truth", _as(Kind.TRUTH, operand))


# --- comparisons -------------------------------------------------------------------------------

# Any: both are of one kind, which no type can say.
_COMPARISONS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
EQUALITIES: Final = ("=", "<>", "!=")


def compared(sign: str, kind: Kind, left: Operand, right: Operand) -> Truth:
    """Compared as values of the kind."""
    decide = _COMPARISONS[sign]
    left_value, right_value = _as(kind, left), _as(kind, right)
    if right.constant is not None:  # what nearly every filter has, and a call less
        other = right.constant

        def with_constant(row: Row) -> bool | None:
            value = left_value(row)
            return None if value is None else decide(value, other)

        return with_constant

    def of_both(row: Row) -> bool | None:
        value = left_value(row)
        if value is None:
            return None
        other = right_value(row)
        return None if other is None else decide(value, other)

    return of_both


def is_one_of(operand: Operand, constants: Collection[Operand]) -> Truth:
    """IN: texts are compared as text, numbers as numbers. The operand's kind is that of all of
    them, or it is a field."""
    texts = frozenset(each.constant for each in constants if each.kind is Kind.TEXT)
    numbers = frozenset(each.constant for each in constants if each.kind is Kind.NUMBER)
    evaluate = operand.evaluate
    as_number = _as(Kind.NUMBER, operand) if numbers else None

    def test(row: Row) -> bool | None:
        value = evaluate(row)
        if value is None:
            return None
        if value in texts:
            return True
        if as_number is None:
            return False
        number = as_number(row)
        return None if number is None else number in numbers

    return test


def is_like(operand: Operand, matches: Callable[[bytes], bool | None]) -> Truth:
    evaluate = operand.evaluate

    def test(row: Row) -> bool | None:
        value = evaluate(row)
        return None if value is None else matches(cast("bytes", value))

    return test


def is_null(operand: Operand) -> Truth:
    evaluate = operand.evaluate
    return lambda row: evaluate(row) is None


# --- truths ------------------------------------------------------------------------------------


def negated(truth: Truth) -> Truth:
    def test(row: Row) -> bool | None:
        found = truth(row)
        return None if found is None else not found

    return test


def all_of(truths: Sequence[Truth]) -> Truth:
    return _until(truths, decisive=False)


def any_of(truths: Sequence[Truth]) -> Truth:
    return _until(truths, decisive=True)


def _until(truths: Sequence[Truth], *, decisive: bool) -> Truth:
    """AND is decided by the first that is false, OR by the first that is true."""

    def test(row: Row) -> bool | None:
        result: bool | None = not decisive
        for truth in truths:
            found = truth(row)
            if found is decisive:
                return decisive
            if found is None:
                result = None
        return result

    return test


# --- arithmetic --------------------------------------------------------------------------------


def calculation(first: Operand, steps: Sequence[tuple[str, Operand]]) -> Operand:
    """One operand after another, from the left: `a - b + c`."""
    begin = cast("Calculation", _as(Kind.NUMBER, first))
    rest = [(sign, cast("Calculation", _as(Kind.NUMBER, each))) for sign, each in steps]

    def evaluate(row: Row) -> Number | None:
        result = begin(row)
        for sign, operand in rest:
            if result is None:
                return None
            other = operand(row)
            if other is None:
                return None
            result = calculated(sign, result, other)
        return result

    return Operand(kind=Kind.NUMBER, evaluate=evaluate)
