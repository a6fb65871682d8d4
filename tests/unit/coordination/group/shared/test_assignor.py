"""Who of a shared group reads where: everybody something, every partition as many, little moves."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from penstock.coordination.group.assignors.assignment import Assignment, partitions_of
from penstock.coordination.group.shared.assignor import assign_shares
from penstock.model.ids import TopicId
from tests.kit.broker.running import lines_run

A, B, C = TopicId("a"), TopicId("b"), TopicId("c")


def shares(given: dict[str, Assignment]) -> Counter[tuple[TopicId, int]]:
    return Counter(partition for one in given.values() for partition in partitions_of(one))


def alike(count: int, *topics: TopicId) -> dict[str, frozenset[TopicId]]:
    return {f"m{number:04}": frozenset(topics) for number in range(count)}


def test_enough_partitions_have_one_member_each() -> None:
    """R-DEL-3"""
    found = assign_shares(alike(3, A, B), {A: 4, B: 4}, {})
    assert set(shares(found).values()) == {1}
    assert sorted(sum(map(len, one.values())) for one in found.values()) == [2, 3, 3]


def test_few_partitions_are_shared_by_all() -> None:
    """R-DEL-3"""
    found = assign_shares(alike(7, A), {A: 3}, {})
    assert shares(found) == {(A, 0): 3, (A, 1): 3, (A, 2): 3}
    assert sorted(sum(map(len, one.values())) for one in found.values()) == [1] * 5 + [2] * 2
    assert set(shares(assign_shares(alike(50, A), {A: 1}, {})).values()) == {50}


def test_nobody_and_nothing() -> None:
    assert assign_shares({}, {}, {}) == {}
    assert assign_shares({"m": frozenset()}, {}, {}) == {"m": {}}


def test_one_that_comes_takes_its_part_from_the_others_and_nothing_else_moves() -> None:
    before = assign_shares(alike(9, A), {A: 90}, {})
    after = assign_shares(alike(10, A), {A: 90}, before)
    for member, had in before.items():
        assert set(after[member][A]) < set(had[A])
        assert len(after[member][A]) == 9
    assert assign_shares(alike(10, A), {A: 90}, after) == after


def test_one_that_goes_leaves_its_part_to_the_others_and_nothing_else_moves() -> None:
    before = assign_shares(alike(10, A), {A: 90}, {})
    members = alike(10, A)
    del members["m0003"]
    after = assign_shares(members, {A: 90}, before)
    assert all(set(before[member][A]) < set(after[member][A]) for member in members)


def test_large_groups_do_not_hold_up_the_others() -> None:
    """The broker's loop stands still meanwhile: twice the group is about twice the work."""

    def assign(size: int) -> None:
        members, topics = alike(size, A, B), {A: 5 * size, B: 5 * size}
        found = assign_shares(members, topics, {})
        del members["m0005"]
        assign_shares(members, topics, found)
        assign_shares(alike(size, A), {A: 3}, {})

    assert lines_run(lambda: assign(100)) < 3 * lines_run(lambda: assign(50))


@given(
    st.dictionaries(st.sampled_from([A, B, C]), st.integers(1, 6)),
    st.lists(
        st.dictionaries(
            st.sampled_from([f"m{number}" for number in range(8)]),
            st.frozensets(st.sampled_from([A, B, C])),
            max_size=8,
        ),
        min_size=1,
        max_size=4,
    ),
)
def test_whoever_comes_and_goes(
    topics: dict[TopicId, int], rounds: list[dict[str, frozenset[TopicId]]]
) -> None:
    """Everybody who reads a topic that is there has something, only of its own topics; partitions
    of the same readers are shared by as many, who differ by one at most."""
    previous: dict[str, Assignment] = {}
    for members in rounds:
        present = {member: names & topics.keys() for member, names in members.items()}
        found = assign_shares(present, topics, previous)
        assert found.keys() == members.keys()
        assert assign_shares(present, topics, previous) == found
        for member, assignment in found.items():
            assert assignment.keys() <= present[member]
            assert bool(assignment) == bool(present[member])
        readers = {
            topic: frozenset(one for one, names in present.items() if topic in names)
            for topic in topics
        }
        counts = shares(found)
        for group in set(readers.values()) - {frozenset()}:
            shared = [topic for topic in topics if readers[topic] == group]
            partitions = [(topic, number) for topic in shared for number in range(topics[topic])]
            sharers = -(-len(group) // len(partitions))
            assert all(counts[partition] == sharers for partition in partitions)
            loads = [sum(len(found[one].get(topic, ())) for topic in shared) for one in group]
            assert max(loads) - min(loads) <= 1
        previous = found
