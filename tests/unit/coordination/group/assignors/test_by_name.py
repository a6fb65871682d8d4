"""The range and round robin assignors, and what all promise. Chance looks further, in
tests/property."""

from __future__ import annotations

import pytest

from penstock.coordination.group.assignors.assignment import MemberSubscription
from penstock.coordination.group.assignors.by_name import (
    ASSIGNORS,
    DEFAULT_ASSIGNOR,
    assign_range,
    assign_round_robin,
)
from penstock.model.ids import TopicId

ONE, TWO = TopicId("1" * 32), TopicId("2" * 32)


def subscription(*topics: TopicId, instance_id: str | None = None) -> MemberSubscription:
    return MemberSubscription(instance_id=instance_id, topics=frozenset(topics))


def test_topics_of_as_many_partitions_are_cut_alike() -> None:
    """R-DEL-5: range."""
    members = {name: subscription(ONE, TWO) for name in "ab"}
    assert assign_range(members, {ONE: 3, TWO: 3}, {}) == {
        "a": {ONE: (0, 1), TWO: (0, 1)},
        "b": {ONE: (2,), TWO: (2,)},
    }


def test_a_topic_is_cut_among_its_subscribers_alone() -> None:
    members = {"a": subscription(ONE), "b": subscription(ONE, TWO), "c": subscription()}
    assert assign_range(members, {ONE: 4, TWO: 2}, {}) == {
        "a": {ONE: (0, 1)},
        "b": {ONE: (2, 3), TWO: (0, 1)},
        "c": {},
    }


def test_more_members_than_partitions_leaves_some_without() -> None:
    members = {name: subscription(ONE) for name in "abc"}
    assert assign_range(members, {ONE: 2}, {}) == {"a": {ONE: (0,)}, "b": {ONE: (1,)}, "c": {}}


def test_static_members_come_first_in_the_order_of_their_instance_ids() -> None:
    """So a static member that comes back under another id gets the same range."""
    members = {
        "a": subscription(ONE),
        "y": subscription(ONE, instance_id="i2"),
        "z": subscription(ONE, instance_id="i1"),
    }
    assert assign_range(members, {ONE: 3}, {}) == {
        "z": {ONE: (0,)},
        "y": {ONE: (1,)},
        "a": {ONE: (2,)},
    }


def test_round_robin_deals_partitions_in_turn_and_passes_over_who_does_not_subscribe() -> None:
    """R-DEL-5: round robin."""
    members = {"a": subscription(ONE, TWO), "b": subscription(ONE), "c": subscription(ONE, TWO)}
    assert assign_round_robin(members, {ONE: 4, TWO: 3}, {}) == {
        "a": {ONE: (0, 3), TWO: (1,)},
        "b": {ONE: (1,)},
        "c": {ONE: (2,), TWO: (0, 2)},
    }


def test_sticky_is_uniform() -> None:
    """R-DEL-5: which keeps all that evenness lets it keep; see test_uniform."""
    assert ASSIGNORS["sticky"] is ASSIGNORS["uniform"]


@pytest.mark.parametrize("name", sorted(ASSIGNORS))
def test_nobody_gets_nothing(name: str) -> None:
    assert ASSIGNORS[name]({}, {}, {}) == {}
    assert ASSIGNORS[name]({"a": subscription()}, {ONE: 3}, {}) == {"a": {}}


def test_the_default_is_one_of_them() -> None:
    assert DEFAULT_ASSIGNOR in ASSIGNORS
