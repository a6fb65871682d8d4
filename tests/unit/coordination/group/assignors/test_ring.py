"""The ring assignor: even, the same whenever it is asked, and few moves when a member comes or
goes. Chance looks further, in tests/property."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from random import Random

import pytest

from penstock.coordination.group.assignors import ring
from penstock.coordination.group.assignors.assignment import (
    Assignment,
    MemberSubscription,
    Partition,
    count,
    partitions_of,
)
from penstock.coordination.group.assignors.by_name import ASSIGNORS, Assignor
from penstock.coordination.group.assignors.ring import assign_ring
from penstock.model.ids import TopicId


def topics(number: int, partitions: int) -> dict[TopicId, int]:
    return {TopicId(f"{place:032x}"): partitions for place in range(number)}


def members(number: int, subscribed: Mapping[TopicId, int]) -> dict[str, MemberSubscription]:
    everything = MemberSubscription(instance_id=None, topics=frozenset(subscribed))
    return {f"consumer-{place}": everything for place in range(number)}


def owners(assignments: Mapping[str, Assignment]) -> dict[Partition, str]:
    return {
        partition: member
        for member, assignment in assignments.items()
        for partition in partitions_of(assignment)
    }


def moved(assignor: Assignor, subscribed: Mapping[TopicId, int], before: int, after: int) -> int:
    """Partitions that change hands from so many members to so many."""
    first = assignor(members(before, subscribed), subscribed, {})
    then = owners(assignor(members(after, subscribed), subscribed, first))
    return sum(then[partition] != owner for partition, owner in owners(first).items())


def test_a_hundred_consumers_of_twenty_topics_get_five_partitions_each() -> None:
    """R-DEL-5: 100 members, 20 topics of 25 partitions: exactly even."""
    subscribed = topics(20, 25)
    assignments = assign_ring(members(100, subscribed), subscribed, {})
    assert {count(assignment) for assignment in assignments.values()} == {5}


def test_a_hundred_consumers_of_twenty_topics_are_five_on_each() -> None:
    """R-DEL-5: the notes' example, in the two ways to read it. 20 topics of 5 partitions; 100
    consumers that all read everything have one partition each, and so each topic has five of them;
    and so it is where each consumer names the one topic that it reads (R-DEL-4)."""
    subscribed = topics(20, 5)
    of_all = members(100, subscribed)
    names = sorted(subscribed)
    of_one = {
        f"consumer-{place}": MemberSubscription(
            instance_id=None, topics=frozenset({names[place % 20]})
        )
        for place in range(100)
    }
    for group in (of_all, of_one):
        assignments = assign_ring(group, subscribed, {})
        assert {count(assignment) for assignment in assignments.values()} == {1}
        readers: dict[TopicId, set[str]] = {}
        for (topic, _), member in owners(assignments).items():
            readers.setdefault(topic, set()).add(member)
        assert [len(readers[topic]) for topic in names] == [5] * 20


@pytest.mark.parametrize(
    ("before", "after", "least", "ring", "taking_turns", "by_range"),
    [
        pytest.param(100, 101, 4, 15, 497, 440, id="the 101st of 100 joins"),
        pytest.param(100, 99, 5, 23, 401, 0, id="one of 100 leaves"),
        pytest.param(10, 11, 45, 59, 458, 120, id="the 11th of 10 joins"),
        pytest.param(10, 9, 50, 68, 446, 140, id="one of 10 leaves"),
    ],
)
def test_how_many_partitions_move(
    before: int, after: int, least: int, ring: int, taking_turns: int, by_range: int
) -> None:
    """R-DEL-5: of 500 partitions. The least possible is what evenness takes, and what the sticky
    assignor moves, which remembers who had what. The ring remembers nothing, and yet moves
    little more of a small group and a few percent of a large one; round robin moves nearly
    everything, and so does range, but for what is far from its ends. (Where range moves nothing,
    the 100th had nothing: only 25 of the 100 have, as each topic has 25 partitions.)"""
    subscribed = topics(20, 25)
    assert moved(ASSIGNORS["sticky"], subscribed, before, after) == least
    assert moved(assign_ring, subscribed, before, after) == ring
    assert moved(ASSIGNORS["round-robin"], subscribed, before, after) == taking_turns
    assert moved(ASSIGNORS["range"], subscribed, before, after) == by_range


def test_who_comes_back_finds_what_it_had() -> None:
    """Whatever happened meanwhile: what was before does not count."""
    subscribed = topics(3, 10)
    everybody = members(7, subscribed)
    before = assign_ring(everybody, subscribed, {})
    without = {member: one for member, one in everybody.items() if member != "consumer-3"}
    between = assign_ring(without, subscribed, before)
    assert assign_ring(everybody, subscribed, between) == before


def test_a_static_member_keeps_its_place_under_another_id() -> None:
    subscribed = topics(2, 10)
    group = members(4, subscribed)
    static = MemberSubscription(instance_id="one", topics=frozenset(subscribed))
    first = assign_ring({**group, "a-1": static}, subscribed, {})
    again = assign_ring({**group, "z-2": static}, subscribed, {})
    assert again["z-2"] == first["a-1"]


def test_those_who_read_more_make_up_for_those_who_read_less() -> None:
    one, two = topics(2, 4)
    group = {
        "both": MemberSubscription(instance_id=None, topics=frozenset({one, two})),
        "only": MemberSubscription(instance_id=None, topics=frozenset({one})),
        "none": MemberSubscription(instance_id=None, topics=frozenset()),
    }
    assignments = assign_ring(group, {one: 4, two: 4}, {})
    assert assignments["only"] == {one: (0, 1, 2, 3)}
    assert assignments["both"] == {two: (0, 1, 2, 3)}
    assert assignments["none"] == {}


@pytest.mark.parametrize("topics_each", [1, 3, 100, 200])
def test_many_sets_of_topics_take_no_ring_each(
    topics_each: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What members subscribe to is theirs to choose, and the coordinator serves everybody: 200
    members with half of 1,000 topics each took it 7 s. By counting work, not time."""
    subscribed = topics(200, 2)
    chance = Random(1)
    group = {
        f"consumer-{place}": MemberSubscription(
            instance_id=None, topics=frozenset(chance.sample(sorted(subscribed), topics_each))
        )
        for place in range(100)
    }
    hashed: list[str] = []
    looks = 0
    points, has_room = ring._points, ring._Ring._has_room

    def counted_points(name: str) -> Iterator[int]:
        hashed.append(name)
        return points(name)

    def counted_look(self: ring._Ring, index: int) -> bool:
        nonlocal looks
        looks += 1
        return has_room(self, index)

    monkeypatch.setattr(ring, "_points", counted_points)
    monkeypatch.setattr(ring._Ring, "_has_room", counted_look)
    assignments = assign_ring(group, subscribed, {})
    assert sorted(hashed) == sorted(group)
    assert looks <= 64 * sum(map(count, assignments.values()))
