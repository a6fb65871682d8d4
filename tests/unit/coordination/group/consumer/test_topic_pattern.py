"""Topic patterns match whole names, and no pattern takes long."""

from __future__ import annotations

import pytest

from penstock.coordination.group.consumer.topic_pattern import TopicPattern
from penstock.model.errors import InvalidRegularExpression

NAMES = ["orders", "orders-eu", "orders-us", "Orders.eu", "payments_2024", "p", "a-b.c_d"]


@pytest.mark.parametrize(
    ("pattern", "matching"),
    [
        ("orders", ["orders"]),
        ("orders.*", ["orders", "orders-eu", "orders-us"]),
        ("orders-(eu|us)", ["orders-eu", "orders-us"]),
        ("orders(-eu)?", ["orders", "orders-eu"]),
        ("^orders$", ["orders"]),
        (r"\Aorders\z", ["orders"]),
        ("o^rders", []),
        ("(?i)orders.eu", ["orders-eu", "Orders.eu"]),
        ("(?i:O)rders[.]eu", ["Orders.eu"]),
        ("((?i)o)rders.eu", ["orders-eu", "Orders.eu"]),
        ("((?i)P)(?-i)AYMENTS.*", []),
        (r"\Qa-b.c_d\E", ["a-b.c_d"]),
        (r"\Qa-b", []),
        (r"a.b\.c\Q_\Ed", ["a-b.c_d"]),
        (r"[a-z]+_\d{4}", ["payments_2024"]),
        (r"[^a-z]+.*", ["Orders.eu"]),
        (r"[[:alpha:]]+[-._][\w-]*", ["orders-eu", "orders-us", "Orders.eu", "payments_2024"]),
        (r"[]p]", ["p"]),
        (r"[a\-]-b.*|p{1}", ["p", "a-b.c_d"]),
        (r"\w{1,6}", ["orders", "p"]),
        (r".{7,9}", ["orders-eu", "orders-us", "Orders.eu", "a-b.c_d"]),
        (r".{9,}?", ["orders-eu", "orders-us", "Orders.eu", "payments_2024"]),
        ("(?P<region>orders-)(?:eu)", ["orders-eu"]),
        ("a*?p+?", ["p"]),
        ("(a*)*p", ["p"]),
        ("p{", []),
        ("", []),
        ("()", []),
        ("(|p)", ["p"]),
        ("über.*", []),
        (r"\s*p\S{0}", ["p"]),
        (r"\D\W.*", ["a-b.c_d"]),
    ],
)
def test_matches_whole_names(pattern: str, matching: list[str]) -> None:
    assert TopicPattern(pattern).matching(NAMES) == frozenset(matching)


def test_it_looks_at_a_name_once() -> None:
    pattern = TopicPattern("orders-.*")
    assert pattern.matching(["orders-1"]) == {"orders-1"}
    assert pattern.matching(["orders-1", "orders-2", "p"]) == {"orders-1", "orders-2"}
    assert pattern.matching(["p"]) == frozenset()


@pytest.mark.parametrize(
    "pattern", ["(a+)+b", "(a|a)*b", "(.*)*x", "a*a*a*a*a*a*a*a*a*a*b", "(a?){100}a{100}b"]
)
def test_what_takes_others_for_ever_takes_no_time(pattern: str) -> None:
    names = ["a" * length for length in range(1, 250)]
    assert TopicPattern(pattern).matching(names) == frozenset()


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("(a{100}){100}", "repetition"),
        ("(.{100}.{100}.{100}.{100}.{100}.{100}){2}" * 9, "too large"),
        ("a" * 5000, "5000 characters"),
        ("(", "missing"),
        ("(?=a)", "invalid perl operator"),
        (r"(a)\1", "invalid escape"),
    ],
)
def test_what_is_no_pattern_is_refused_with_its_reason(pattern: str, reason: str) -> None:
    with pytest.raises(InvalidRegularExpression, match=reason):
        TopicPattern(pattern)


def test_a_pattern_that_would_take_too_long_is_refused() -> None:
    # After every a at another distance: two hundred places at once, another set with each letter.
    pattern = TopicPattern(".*a.{200}x")
    names = [f"{number:020b}".replace("0", "a").replace("1", "b") * 12 for number in range(9000)]
    with pytest.raises(InvalidRegularExpression, match="too large for the topics"):
        pattern.matching(names)
