"""Which topics hold dead letters."""

from __future__ import annotations

import pytest

from penstock.spark.inspection.dead_letters import dead_letter_topics


@pytest.mark.parametrize(
    "name", ["orders.dead", "orders.DLQ", "orders-dlt", "orders_dead_letter", "orders.dead-letters"]
)
def test_topics_named_after_an_inspected_one_are_found(name: str) -> None:
    assert dead_letter_topics(["orders"], [], [name, "orders", "payments.dead"]) == [name]


@pytest.mark.parametrize("name", ["ordersdead", "orders.deadline", "orders.dead.2", "orders"])
def test_other_names_are_not(name: str) -> None:
    assert dead_letter_topics(["orders"], [], [name]) == []


def test_given_ones_and_inspected_ones_count() -> None:
    assert dead_letter_topics(["orders.dlq"], ["graveyard"], []) == ["graveyard", "orders.dlq"]
