"""Which topics hold dead letters."""

from __future__ import annotations

import pytest

from penstock.spark.inspection.evidence.dead_letters import by_owner, dead_letter_topics


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


def test_dead_letters_are_those_of_the_topic_they_are_named_after() -> None:
    """Also where both are inspected; and a longer name is another topic's."""
    topics = ["orders", "orders.dead", "orders-eu"]
    dead = dead_letter_topics(topics, ["graveyard"], ["orders.dead", "orders-eu.dlq", "orders-eu"])
    assert by_owner(topics, dead) == {
        "orders": ["graveyard", "orders.dead"],
        "orders-eu": ["orders-eu.dlq"],
    }
    assert by_owner(["payments", "orders.dead"], ["orders.dead"]) == {
        "orders.dead": ["orders.dead"]
    }
