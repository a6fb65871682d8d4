"""Filters: every part must hold, the first header counts, limits are kept."""

from __future__ import annotations

import pytest

from penstock.coordination.filter.filters import Filter, parse_filter
from penstock.model.errors import InvalidFilter

PAID = [("penstock-tag", b"paid"), ("region", b"eu")]


def test_one_of_the_tags() -> None:
    """R-DEL-12: tags."""
    compiled = parse_filter(Filter(tags=["paid", "sent"]))
    assert compiled.matches(None, 0, PAID)
    assert not compiled.matches(None, 0, [("penstock-tag", b"new")])
    assert not compiled.matches(None, 0, [("penstock-tag", None)])
    assert not compiled.matches(None, 0, [("tag", b"paid")])
    assert not compiled.needs_key


def test_the_key() -> None:
    """R-DEL-12: key equality and prefix."""
    equal, prefix = parse_filter(Filter(key=b"ab")), parse_filter(Filter(key_prefix=b"ab"))
    assert [equal.matches(key, 0, ()) for key in (b"ab", b"abc", b"", None)] == [True] + 3 * [False]
    assert [prefix.matches(key, 0, ()) for key in (b"ab", b"abc", b"a", None)] == [
        True,
        True,
        False,
        False,
    ]
    assert not equal.places


def test_an_empty_key_is_a_key() -> None:
    assert parse_filter(Filter(key=b"")).matches(b"", 0, ())
    assert not parse_filter(Filter(key=b"")).matches(None, 0, ())
    assert not parse_filter(Filter(key_prefix=b"")).matches(None, 0, ())


def test_all_parts_must_hold() -> None:
    compiled = parse_filter(Filter(tags=["paid"], key_prefix=b"o", expression="region = 'eu'"))
    assert compiled.matches(b"order", 0, PAID)
    assert not compiled.matches(b"x", 0, PAID)
    assert not compiled.matches(b"order", 0, PAID[:1])
    assert not compiled.matches(b"order", 0, PAID[1:])


def test_nothing_asked_for_is_everything() -> None:
    assert parse_filter(Filter()).matches(None, -1, ())


def test_the_first_header_of_a_name_that_has_a_value_counts() -> None:
    """As `Message.tag` has it."""
    compiled = parse_filter(Filter(expression="a = 'x' AND tag = 'paid'"))
    headers = [("a", None), ("a", b"x"), ("a", b"y"), *PAID]
    assert compiled.matches(None, 0, headers)


def test_no_timestamp_is_unknown() -> None:
    assert parse_filter(Filter(expression="timestamp IS NULL")).matches(None, -1, ())
    assert not parse_filter(Filter(expression="timestamp < 5")).matches(None, -1, ())
    assert parse_filter(Filter(expression="timestamp = 0")).matches(None, 0, ())


@pytest.mark.parametrize(
    ("filter_", "message"),
    [
        (Filter(tags=["x"] * 101), "101 tags, and 100 is the limit"),
        (Filter(tags=["x" * 256]), "256 bytes: a tag has 1 to 255"),
        (Filter(tags=["x", ""]), "0 bytes: a tag has 1 to 255"),
        (Filter(tags=["\ud800"]), "no text of Unicode"),
        (Filter(key=b"x" * 4097), "4097 bytes, and 4096 is the limit"),
        (Filter(key_prefix=b"x" * 4097), "4097 bytes, and 4096 is the limit"),
    ],
)
def test_limits(filter_: Filter, message: str) -> None:
    """R-DEL-12: limited in size."""
    with pytest.raises(InvalidFilter, match=message):
        parse_filter(filter_)


def test_cost_grows_with_what_is_asked() -> None:
    """So that expensive filters are asked in smaller portions."""
    filters = [
        Filter(key=b"a"),
        Filter(expression="a = 1"),
        Filter(expression="a = 1 OR b = 2 OR c = 3"),
        Filter(expression="a LIKE '%x_y%'"),
    ]
    costs = [parse_filter(each).cost for each in filters]
    assert costs == sorted(costs)
    assert len(set(costs)) == len(costs)
