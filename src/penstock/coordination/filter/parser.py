"""From the text of an expression to a function of a message: recursive descent.

    condition  = conjunct {OR conjunct}            conjunct = negation {AND negation}
    negation   = NOT negation | predicate
    predicate  = sum [ sign sum | [NOT] IN ( constant {, constant} ) | [NOT] LIKE text [ESCAPE text]
                     | [NOT] BETWEEN sum AND sum | IS [NOT] NULL ]
    sum        = product {(+ | -) product}         product  = factor {(* | /) factor}
    factor     = (+ | -) factor | ( condition ) | constant | name
    sign       = `=` `<>` `!=` `<` `<=` `>` `>=`

A parenthesis may hold a condition or a value: its kind tells whether it may stand where it stands.
What operators do is `evaluation`'s. The invariant: an expression is refused before it has more
parts, or is nested deeper, than the limits allow, so neither parser nor function can run away.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NoReturn

from penstock.coordination.filter import evaluation
from penstock.coordination.filter.evaluation import Kind, Operand, Truth
from penstock.coordination.filter.lexer import Kind as Word
from penstock.coordination.filter.lexer import Token
from penstock.coordination.filter.like import BadPattern, like
from penstock.coordination.filter.problem import problem
from penstock.coordination.filter.values import number_of
from penstock.coordination.filter.words import VALUE, Words
from penstock.model.errors import InvalidFilter
from penstock.model.limits import (
    FILTER_COST_MAX,
    FILTER_EXPRESSION_BYTES_MAX,
    FILTER_LIKE_BYTES_MAX,
    FILTER_NESTING_MAX,
    FILTER_NODES_MAX,
    FILTER_NUMBER_BYTES_MAX,
)

# The place in the row of a name, which is asked for the first time or again.
PlaceOf = Callable[[str], int]

_COMPARISONS: Final = ("=", "<>", "!=", "<", "<=", ">", ">=")


class Parser:
    """Of one expression. `cost` is what it takes to ask a message, in comparisons."""

    def __init__(self, text: str, header: PlaceOf, tag: Callable[[], int]) -> None:
        """header, tag: where in the row a header is, and the tag."""
        _check_size(text)
        self.cost = 0
        self._header = header
        self._tag = tag
        self._words = Words(text)
        self._nodes = 0
        self._depth = 0

    def parse(self) -> Truth:
        """The whole text as a condition; InvalidFilter if it is none."""
        start = self._words.token
        found = self._truth(self._condition(), start)
        if self._words.token.kind is not Word.END:
            self._words.refuse("AND, OR or the end")
        return found

    # --- conditions ----------------------------------------------------------------------------

    def _condition(self) -> Operand:
        return self._chain("OR", self._conjunct, evaluation.any_of)

    def _conjunct(self) -> Operand:
        return self._chain("AND", self._negation, evaluation.all_of)

    def _chain(
        self, word: str, part: Callable[[], Operand], joined: Callable[[list[Truth]], Truth]
    ) -> Operand:
        start = self._words.token
        first = part()
        if not self._words.is_word(word):
            return first
        truths = [self._truth(first, start)]
        while self._words.takes_word(word):
            self._count()
            start = self._words.token
            truths.append(self._truth(part(), start))
        return evaluation.condition(joined(truths))

    def _negation(self) -> Operand:
        if not self._words.takes_word("NOT"):
            return self._predicate()
        start = self._words.token
        with_not = self._nested(self._negation)
        return evaluation.condition(evaluation.negated(self._truth(with_not, start)))

    def _predicate(self) -> Operand:
        left = self._sum()
        sign = self._words.token
        if self._words.is_sign(*_COMPARISONS):
            self._words.take()
            return evaluation.condition(self._comparison(sign, left, self._sum()))
        if self._words.takes_word("IS"):
            is_not = self._words.takes_word("NOT")
            self._words.expect_word("NULL")
            self._count()
            return _perhaps_not(evaluation.is_null(left), is_not)
        is_not = self._words.takes_word("NOT")
        word = self._words.token
        if self._words.takes_word("IN"):
            return _perhaps_not(self._list(word, left), is_not)
        if self._words.takes_word("LIKE"):
            return _perhaps_not(self._pattern(word, left), is_not)
        if self._words.takes_word("BETWEEN"):
            return _perhaps_not(self._range(word, left), is_not)
        if is_not:
            self._words.refuse("IN, LIKE or BETWEEN")
        return left

    def _comparison(self, sign: Token, left: Operand, right: Operand) -> Truth:
        self._count()
        kind = evaluation.common_kind((left, right))
        if kind is None:
            self._refuse_kinds(sign, left, right)
        if kind is Kind.TRUTH and sign.text not in evaluation.EQUALITIES:
            raise self._words.problem(sign, "truths are equal (=) or not (<>), not larger")
        return evaluation.compared(sign.text, kind, left, right)

    def _range(self, word: Token, left: Operand) -> Truth:
        low = self._sum()
        self._words.expect_word("AND")
        high = self._sum()
        from_low = self._comparison(word._replace(text=">="), left, low)
        to_high = self._comparison(word._replace(text="<="), left, high)
        return evaluation.all_of((from_low, to_high))

    def _list(self, word: Token, left: Operand) -> Truth:
        self._count()
        self._words.expect_sign("(")
        constants: list[Operand] = []
        while True:
            constant = self._constant()
            if constant is None or constant.kind is Kind.TRUTH:
                self._words.refuse("text or a number")
            if left.kind not in (Kind.FIELD, constant.kind):
                self._refuse_kinds(word, left, constant)
            constants.append(constant)
            if not self._words.takes_sign(","):
                break
        self._words.expect_sign(")")
        return evaluation.is_one_of(left, constants)

    def _pattern(self, word: Token, left: Operand) -> Truth:
        self._count()
        pattern = self._words.expect_text("a pattern in quotes (as 'eu-%')")
        escape = None
        if self._words.takes_word("ESCAPE"):
            token = self._words.expect_text("the escape character in quotes")
            if len(token.text) != 1 or token.text in "%_":
                raise self._words.problem(token, "ESCAPE takes one character, not % and not _")
            escape = token.text
        if left.kind not in (Kind.FIELD, Kind.TEXT):
            raise self._words.problem(word, f"LIKE looks at text, and this is {left.kind.value}")
        for _ in range(pattern.text.count("%")):
            self._count()
        try:
            made = like(pattern.text, escape)
        except BadPattern as error:
            raise self._words.problem(pattern, str(error)) from None
        self.cost += made.cost
        if self.cost > FILTER_COST_MAX:
            raise self._words.problem(
                pattern,
                f"LIKE may take too long on values of {FILTER_LIKE_BYTES_MAX} bytes: shorten what "
                "has _ in it and stands between two %, or use it less often",
            )
        return evaluation.is_like(left, made.matches)

    # --- values --------------------------------------------------------------------------------

    def _sum(self) -> Operand:
        return self._steps(("+", "-"), self._product)

    def _product(self) -> Operand:
        return self._steps(("*", "/"), self._factor)

    def _steps(self, signs: tuple[str, ...], part: Callable[[], Operand]) -> Operand:
        start = self._words.token
        first = part()
        steps: list[tuple[str, Operand]] = []
        while self._words.is_sign(*signs):
            sign = self._words.take().text
            self._count()
            if not steps:
                self._check_number(first, start)
            start = self._words.token
            operand = part()
            self._check_number(operand, start)
            steps.append((sign, operand))
        return evaluation.calculation(first, steps) if steps else first

    def _factor(self) -> Operand:
        constant = self._constant()
        if constant is not None:
            return constant
        if self._words.is_sign("+", "-"):
            sign = self._words.take().text
            start = self._words.token
            operand = self._nested(self._factor)
            self._check_number(operand, start)
            zero = evaluation.constant(Kind.NUMBER, 0)
            return evaluation.calculation(zero, [(sign, operand)])
        if self._words.takes_sign("("):
            inner = self._nested(self._condition)
            self._words.expect_sign(")")
            return inner
        return self._name()

    def _constant(self) -> Operand | None:
        """The constant that comes next, with its sign, if one does."""
        token = self._words.token
        if self._words.is_signed_number:
            self._words.take()
            return self._number(token.text + self._words.token.text)
        match token.kind:
            case Word.NUMBER:
                return self._number(token.text)
            case Word.TEXT:
                self._words.take()
                self._count()
                return evaluation.constant(Kind.TEXT, token.text.encode())
            case Word.KEYWORD if token.text in ("TRUE", "FALSE"):
                self._words.take()
                self._count()
                return evaluation.constant(Kind.TRUTH, token.text == "TRUE")
        return None

    def _number(self, written: str) -> Operand:
        token = self._words.take()
        self._count()
        number = number_of(written.encode())
        if number is None:
            raise self._words.problem(
                token,
                f"a number has at most {FILTER_NUMBER_BYTES_MAX} characters",
            )
        return evaluation.constant(Kind.NUMBER, number)

    def _name(self) -> Operand:
        token = self._words.token
        if token.kind not in (Word.NAME, Word.QUOTED_NAME):
            self._words.refuse(VALUE)
        self._words.take()
        self._count()
        if token.kind is Word.NAME:
            match token.text:
                case "key":
                    return evaluation.field(evaluation.KEY_PLACE)
                case "tag":
                    return evaluation.field(self._tag())
                case "timestamp":
                    return evaluation.timestamp()
        return evaluation.field(self._header(token.text))

    def _truth(self, operand: Operand, start: Token) -> Truth:
        if operand.kind not in (Kind.TRUTH, Kind.FIELD):
            raise self._words.problem(
                start,
                f"expected a condition, as in price > 10, and this is {operand.kind.value}",
            )
        return evaluation.as_truth(operand)

    def _check_number(self, operand: Operand, start: Token) -> None:
        if operand.kind not in (Kind.NUMBER, Kind.FIELD):
            raise self._words.problem(
                start,
                f"expected a number to calculate with, and this is {operand.kind.value}",
            )

    # --- limits and refusals -------------------------------------------------------------------

    def _count(self) -> None:
        self._nodes += 1
        self.cost += 1
        if self._nodes > FILTER_NODES_MAX:
            raise self._words.problem(
                self._words.token,
                f"it has more than {FILTER_NODES_MAX} names, values, operators and % of patterns",
            )

    def _nested(self, part: Callable[[], Operand]) -> Operand:
        self._count()
        self._depth += 1
        if self._depth > FILTER_NESTING_MAX:
            raise self._words.problem(
                self._words.token,
                f"it is nested more than {FILTER_NESTING_MAX} deep",
            )
        operand = part()
        self._depth -= 1
        return operand

    def _refuse_kinds(self, sign: Token, left: Operand, right: Operand) -> NoReturn:
        raise self._words.problem(
            sign,
            f"{left.kind.value} cannot be compared with {right.kind.value}",
        )


def _perhaps_not(truth: Truth, is_not: bool) -> Operand:
    return evaluation.condition(evaluation.negated(truth) if is_not else truth)


def _check_size(text: str) -> None:
    try:
        size_bytes = len(text.encode())
    except UnicodeEncodeError as error:
        raise problem(text, error.start, "this is no character of Unicode") from None
    if size_bytes > FILTER_EXPRESSION_BYTES_MAX:
        raise InvalidFilter(
            f"The filter has {size_bytes} bytes, and {FILTER_EXPRESSION_BYTES_MAX} is the limit: "
            "make it shorter."
        )
