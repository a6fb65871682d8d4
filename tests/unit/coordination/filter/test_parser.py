"""The grammar: what is understood, how it is refused, and that limits are kept."""

from __future__ import annotations

import pytest

from penstock.coordination.filter.filters import Filter, parse_filter
from penstock.model.errors import InvalidFilter
from penstock.model.limits import FILTER_NESTING_MAX, FILTER_NODES_MAX

HEADERS = [
    ("price", b"12"),
    ("region", b"eu-west"),
    ("flag", b"true"),
    ("with-dash", b"x"),
    ("key", b"a header called key"),
    ("empty", b""),
    ("null", None),
    ("penstock-tag", b"paid"),
    ("penstock-tag", b"not the first"),
]


def passes(expression: str) -> bool:
    compiled = parse_filter(Filter(expression=expression))
    return compiled.matches(b"order-7", 1_700_000_000_000, HEADERS)


@pytest.mark.parametrize(
    "expression",
    [
        "price = 12",
        "price = 12.0 AND price <> 13 AND price != 13",
        "price = '12'",
        "price > 9",  # as text '12' would come before '9'
        "price < '9'",
        "12 = price",
        "region LIKE 'eu-%' and not region like '%east'",
        "region IN ('us', 'eu-west')",
        "region NOT IN ('us', 'asia')",
        "price IN (1, 12)",
        "price IN ('x', 12)",
        "price BETWEEN 12 AND 12",
        "price NOT BETWEEN 13 AND 20",
        "price + 1 = 13 AND price - 1 * 2 = 10 AND (price - 1) * 2 = 22 AND price / 5 = 2",
        "-price = -12 AND +price = 12 AND - - price = 12",
        "flag",
        "flag = TRUE AND NOT (flag = FALSE)",
        "NOT flag OR flag",
        "(price > 10) = flag",
        "\"with-dash\" = 'x'",
        "key LIKE 'order-%' AND \"key\" = 'a header called key'",
        "tag = 'paid' AND tag IS NOT NULL",
        "timestamp >= 1700000000000 AND timestamp < 1.8e12",
        'missing IS NULL AND "null" IS NULL AND empty IS NOT NULL',
        "empty = ''",
        "missing = 1 OR price = 12",
        "NOT (missing = 1 AND price = 13)",
        "region > 'eu' AND region < price OR region >= price",
        "price*2>20AND price<13",
    ],
)
def test_true_of_the_message(expression: str) -> None:
    """R-DEL-12: comparison, AND/OR/NOT, IN, LIKE, BETWEEN, IS NULL, over headers, key, tag and
    timestamp."""
    assert passes(expression)


@pytest.mark.parametrize(
    "expression",
    [
        "missing = 1",
        "missing <> 1",
        "NOT missing = 1",
        "NOT missing",
        "missing NOT IN ('a')",
        "missing NOT LIKE 'a'",
        "missing NOT BETWEEN 1 AND 2",
        "region > 10 OR region <= 10",
        "region = TRUE OR region = FALSE",
        "price / 0 = 0 OR price / 0 <> 0",
        "region + 1 = 1 OR region + 1 <> 1",
        "region NOT IN ('x', 3)",
        "price = 12 AND missing = 1",
        "price BETWEEN 20 AND 10",
    ],
)
def test_false_or_unknown(expression: str) -> None:
    """R-DEL-12: three truths as in SQL92; what is unknown does not pass."""
    assert not passes(expression)


@pytest.mark.parametrize(
    ("expression", "character", "message"),
    [
        ("price > ", 9, "expected a value after '>', and it ends there"),
        ("amount = 5 AND x =", 19, "expected a value after '=', and it ends there"),
        ("price > )", 9, r"expected a value after '>', and found '\)'"),
        ("(price > 1", 11, r"expected '\)' after '1', and it ends there"),
        ("price > 1)", 10, r"expected AND, OR or the end after '1', and found '\)'"),
        ("price price", 7, "expected AND, OR or the end after 'price', and found 'price'"),
        ("a = b = c", 7, "expected AND, OR or the end"),
        ("a NOT 3", 7, "expected IN, LIKE or BETWEEN after 'NOT'"),
        ("a IS 3", 6, "expected NULL after 'IS'"),
        ("a IN 3", 6, r"expected '\(' after 'IN'"),
        ("a IN ()", 7, "expected text or a number"),
        ("a IN (b)", 7, "expected text or a number"),
        ("a IN ('x' 'y')", 11, r"expected '\)'"),
        ("a LIKE b", 8, "expected a pattern in quotes"),
        ("a LIKE 'x' ESCAPE 'ab'", 19, "ESCAPE takes one character"),
        ("a LIKE 'x' ESCAPE '%'", 19, "ESCAPE takes one character"),
        ("a LIKE 'x!y' ESCAPE '!'", 8, "must stand before"),
        ("a BETWEEN 1 OR 2", 13, "expected AND after '1'"),
        ("a = NULL", 5, "write IS NULL"),
        ("'a' = 1", 5, "text cannot be compared with a number"),
        ("timestamp = 'now'", 11, "a number cannot be compared with text"),
        ("timestamp LIKE '1%'", 11, "LIKE looks at text"),
        ("timestamp IN ('a')", 11, "a number cannot be compared with text"),
        ("flag > TRUE", 6, "truths are equal"),
        ("a + 'x' > 1", 5, "expected a number to calculate with"),
        ("(a = 1) + 1 > 1", 1, "expected a number to calculate with"),
        ("a AND 5", 7, "expected a condition"),
        ("'text'", 1, "expected a condition"),
        ("NOT 5", 5, "expected a condition"),
        ("a = " + "1" * 65, 5, "at most 64 characters"),
        ("a = '\ud800'", 6, "no character of Unicode"),
        ("   ", 4, "expected a value, and it ends there"),
    ],
)
def test_refused_with_the_place_and_what_belongs_there(
    expression: str, character: int, message: str
) -> None:
    """R-DEL-12: a bad expression is refused with the position of the error."""
    with pytest.raises(InvalidFilter, match=message) as caught:
        parse_filter(Filter(expression=expression))
    assert caught.value.message.startswith(f"The filter is wrong at character {character}: ")


def test_nesting_is_limited() -> None:
    """R-DEL-12: limited in size and cost."""
    fits = FILTER_NESTING_MAX
    for opening, closing in (("(", ")"), ("NOT ", ""), ("-", "")):
        inner = "-1 * a = 1" if opening == "(" else "a"
        tail = " < 3" if opening == "-" else ""
        parse_filter(Filter(expression=opening * fits + inner + closing * fits + tail))
        with pytest.raises(InvalidFilter, match="nested more than 32 deep"):
            parse_filter(Filter(expression=opening * 33 + inner + closing * 33 + tail))
        with pytest.raises(InvalidFilter, match="nested more than 32 deep"):
            parse_filter(Filter(expression=opening * 1000))


@pytest.mark.parametrize("joint", [" OR ", " AND ", "+", ","])
def test_parts_are_limited(joint: str) -> None:
    many = joint.join(["a"] * 300)
    if joint == ",":
        many = f"a IN ({','.join(['1'] * 300)})"
    with pytest.raises(InvalidFilter, match=f"more than {FILTER_NODES_MAX} names"):
        parse_filter(Filter(expression=many))


def test_size_is_limited() -> None:
    parse_filter(Filter(expression=f"a = '{'x' * 4090}'"))
    with pytest.raises(InvalidFilter, match="4097 bytes, and 4096 is the limit"):
        parse_filter(Filter(expression=f"a = '{'x' * 4091}'"))
    with pytest.raises(InvalidFilter, match="is the limit"):
        parse_filter(Filter(expression="é" * 2049))
