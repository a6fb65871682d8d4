"""The uniform assignor by example, and that it stays fast in large groups."""

from __future__ import annotations

from collections import Counter

from penstock.coordination.group.assignors.assignment import Assignment, MemberSubscription, count
from penstock.coordination.group.assignors.uniform import assign_uniform
from penstock.model.ids import TopicId

ONE, TWO, THREE = (TopicId(digit * 32) for digit in "123")


def subscription(*topics: TopicId) -> MemberSubscription:
    return MemberSubscription(instance_id=None, topics=frozenset(topics))


def test_a_newcomer_takes_no_more_than_its_share() -> None:
    members = {name: subscription(ONE) for name in "abc"}
    previous: dict[str, Assignment] = {"a": {ONE: (0, 1, 2)}, "b": {ONE: (3, 4, 5)}}
    assert assign_uniform(members, {ONE: 6}, previous) == {
        "a": {ONE: (0, 1)},
        "b": {ONE: (3, 4)},
        "c": {ONE: (2, 5)},
    }


def test_who_stays_keeps_what_it_has() -> None:
    members = {name: subscription(ONE) for name in "ac"}
    previous: dict[str, Assignment] = {"a": {ONE: (0, 1)}, "b": {ONE: (2, 3)}, "c": {ONE: (4, 5)}}
    assert assign_uniform(members, {ONE: 6}, previous) == {
        "a": {ONE: (0, 1, 2)},
        "c": {ONE: (3, 4, 5)},
    }


def test_the_partition_more_is_for_who_has_it_already() -> None:
    members = {name: subscription(ONE) for name in "ab"}
    previous: dict[str, Assignment] = {"a": {ONE: (0,)}, "b": {ONE: (1, 2)}}
    assert assign_uniform(members, {ONE: 3}, previous) == previous


def test_unequal_subscriptions_make_up_for_each_other() -> None:
    members = {"a": subscription(ONE, TWO), "b": subscription(TWO), "c": subscription(TWO, THREE)}
    assignments = assign_uniform(members, {ONE: 3, TWO: 3, THREE: 3}, {})
    assert assignments == {"a": {ONE: (0, 1, 2)}, "b": {TWO: (0, 1, 2)}, "c": {THREE: (0, 1, 2)}}


def test_a_chain_of_moves_is_found() -> None:
    """a is relieved by b, which is relieved by c: neither move alone is the whole of it."""
    members = {"a": subscription(ONE), "b": subscription(ONE, TWO), "c": subscription(TWO)}
    previous: dict[str, Assignment] = {"a": {ONE: (0, 1, 2, 3)}, "b": {TWO: (0, 1, 2)}, "c": {}}
    assignments = assign_uniform(members, {ONE: 4, TWO: 3}, previous)
    assert sorted(map(count, assignments.values())) == [2, 2, 3]


def test_a_topic_that_is_gone_is_nobodys() -> None:
    members = {"a": subscription(TWO)}
    previous: dict[str, Assignment] = {"a": {ONE: (0, 1), TWO: (0, 7)}}
    assert assign_uniform(members, {TWO: 2}, previous) == {"a": {TWO: (0, 1)}}


def test_a_hundred_members_on_twenty_topics_are_five_to_a_topic() -> None:
    """R-DEL-5"""
    topics = [TopicId(f"{number:032x}") for number in range(20)]
    members = {f"m{number:03}": subscription(*topics) for number in range(100)}
    assignments = assign_uniform(members, dict.fromkeys(topics, 10), {})
    assert {count(assignment) for assignment in assignments.values()} == {2}
    readers = Counter(topic for assignment in assignments.values() for topic in assignment)
    assert set(readers.values()) == {5}


def test_large_groups_take_no_more_steps_than_they_have_partitions() -> None:
    """A thousand members with subscriptions of their own, when one more comes. Not a matter of
    seconds on a slow machine: quadratic would be minutes."""
    topics = [TopicId(f"{number:032x}") for number in range(20)]
    counts = dict.fromkeys(topics, 100)
    members = {
        f"m{number:04}": subscription(
            *(topic for place, topic in enumerate(topics) if (place + number) % 3)
        )
        for number in range(1000)
    }
    before = assign_uniform(members, counts, {})
    after = assign_uniform({**members, "new": subscription(*topics)}, counts, before)
    loads = {count(assignment) for assignment in after.values()}
    assert max(loads) - min(loads) <= 1
    kept = sum(before[member] == after[member] for member in members)
    assert kept >= len(members) - 2
