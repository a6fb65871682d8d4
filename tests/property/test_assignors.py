"""Assignors with members, topics and histories made by chance: everything has one owner; the
uniform one is even and moves no more than it must; the ring is even and forgets; claims hold."""

from __future__ import annotations

from collections.abc import Mapping

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.coordination.group.assignors.assignment import (
    Assignment,
    MemberSubscription,
    Partition,
    collect,
    count,
    partitions_of,
)
from penstock.coordination.group.assignors.by_name import ASSIGNORS
from penstock.coordination.group.consumer.manual import assign
from penstock.coordination.group.consumer.membership import Membership
from penstock.coordination.group.consumer.messages import TopicFacts
from penstock.coordination.group.consumer.subscribed_topics import SubscribedTopics
from penstock.model.ids import TopicId

TOPICS = [TopicId(f"t{number}") for number in range(5)]
MEMBERS = [f"m{number}" for number in range(8)]

topic_counts = st.dictionaries(st.sampled_from(TOPICS), st.integers(1, 9), min_size=1)
member_ids = st.lists(st.sampled_from(MEMBERS), unique=True, min_size=1).map(sorted)
assignors = st.sampled_from(sorted(ASSIGNORS))
owners = st.lists(st.tuples(st.sampled_from(MEMBERS), st.sampled_from(TOPICS), st.integers(0, 9)))


@st.composite
def groups(
    draw: st.DrawFn, *, are_equal: bool | None = None
) -> tuple[dict[str, MemberSubscription], dict[TopicId, int]]:
    """Members, and the topics they subscribe to."""
    topics = draw(topic_counts)
    subsets = st.frozensets(st.sampled_from(sorted(topics)))
    if are_equal if are_equal is not None else draw(st.booleans()):
        subsets = st.just(draw(subsets))
    members = {
        member: MemberSubscription(
            instance_id=draw(st.sampled_from([None, f"i-{member}"])), topics=draw(subsets)
        )
        for member in draw(member_ids)
    }
    return members, topics


def owner_of(assignments: Mapping[str, Assignment]) -> dict[Partition, str]:
    owned: dict[Partition, str] = {}
    for member, assignment in assignments.items():
        for partition in partitions_of(assignment):
            assert partition not in owned, f"{owned[partition]} and {member} own {partition}"
            owned[partition] = member
    return owned


def history(drawn: list[tuple[str, TopicId, int]]) -> dict[str, Assignment]:
    """What members had before: members, topics and partitions may be gone, owners doubled."""
    return {
        member: collect({(topic, number) for other, topic, number in drawn if other == member})
        for member, _, _ in drawn
    }


@given(group=groups(), drawn=owners, name=assignors)
def test_every_partition_has_one_owner_who_subscribes_to_it(
    group: tuple[dict[str, MemberSubscription], dict[TopicId, int]],
    drawn: list[tuple[str, TopicId, int]],
    name: str,
) -> None:
    """R-DEL-4, R-DEL-5"""
    members, topics = group
    assignments = ASSIGNORS[name](members, topics, history(drawn))
    assert assignments.keys() == members.keys()
    owned = owner_of(assignments)
    wanted = frozenset[TopicId]().union(*(member.topics for member in members.values()))
    assert owned.keys() == {(topic, number) for topic in wanted for number in range(topics[topic])}
    assert all(topic in members[owned[topic, number]].topics for topic, number in owned)
    assert all(
        assignment == collect(partitions_of(assignment)) for assignment in assignments.values()
    )
    assert ASSIGNORS[name](members, topics, history(drawn)) == assignments


@given(group=groups(are_equal=True), drawn=owners)
def test_equal_subscriptions_get_equal_shares_with_the_fewest_moves(
    group: tuple[dict[str, MemberSubscription], dict[TopicId, int]],
    drawn: list[tuple[str, TopicId, int]],
) -> None:
    """R-DEL-5"""
    members, topics = group
    previous: dict[str, Assignment] = history(
        list({(topic, number): (member, topic, number) for member, topic, number in drawn}.values())
    )
    assignments = ASSIGNORS["uniform"](members, topics, previous)
    loads = sorted(map(count, assignments.values()))
    assert loads[-1] - loads[0] <= 1
    [wanted] = {member.topics for member in members.values()}
    had = [
        sum(
            topic in wanted and number < topics[topic]
            for topic, number in partitions_of(previous.get(member, {}))
        )
        for member in members
    ]
    # The most that can stay: everyone up to its share, the larger shares to those who had most.
    shares = sorted(loads, reverse=True)
    most = sum(min(pair) for pair in zip(sorted(had, reverse=True), shares, strict=True))
    stayed = sum(
        previous_owner == owner_of(assignments).get(partition)
        for partition, previous_owner in owner_of(previous).items()
    )
    assert stayed == most


@given(group=groups(are_equal=False), drawn=owners)
def test_no_single_move_makes_unequal_subscriptions_more_even(
    group: tuple[dict[str, MemberSubscription], dict[TopicId, int]],
    drawn: list[tuple[str, TopicId, int]],
) -> None:
    members, topics = group
    assignments = ASSIGNORS["uniform"](members, topics, history(drawn))
    loads = {member: count(assignment) for member, assignment in assignments.items()}
    for member, assignment in assignments.items():
        for topic in assignment:
            for other in members:
                if topic in members[other].topics:
                    assert loads[member] <= loads[other] + 1, (member, other, topic)


@given(group=groups(are_equal=True), name=st.sampled_from(["ring", "round-robin", "uniform"]))
def test_equal_subscriptions_get_equal_shares(
    group: tuple[dict[str, MemberSubscription], dict[TopicId, int]], name: str
) -> None:
    """R-DEL-5"""
    members, topics = group
    loads = sorted(map(count, ASSIGNORS[name](members, topics, {}).values()))
    assert loads[-1] - loads[0] <= 1


@given(group=groups(), drawn=owners)
def test_the_ring_does_not_care_what_was_before(
    group: tuple[dict[str, MemberSubscription], dict[TopicId, int]],
    drawn: list[tuple[str, TopicId, int]],
) -> None:
    members, topics = group
    assert ASSIGNORS["ring"](members, topics, history(drawn)) == ASSIGNORS["ring"](
        members, topics, {}
    )


def test_how_much_a_ring_moves_is_bounded() -> None:
    """R-DEL-5: over rings of all sizes, names and numbers of partitions: a member that comes or
    goes moves what it gets or had, and at most as much again for every member in ten."""
    worst = 0.0
    for member_count in (2, 3, 5, 8, 13, 21, 34):
        for partition_count in (10, 40, 100):
            for seed in range(5):
                subscribed = {TOPICS[0]: partition_count}
                one = MemberSubscription(instance_id=None, topics=frozenset(subscribed))
                names = [f"{seed}-{number}" for number in range(member_count)]
                full = owner_of(ASSIGNORS["ring"](dict.fromkeys(names, one), subscribed, {}))
                less = owner_of(ASSIGNORS["ring"](dict.fromkeys(names[1:], one), subscribed, {}))
                moved = sum(less[partition] != owner for partition, owner in full.items())
                least = max(sum(owner == names[0] for owner in full.values()), 1)
                worst = max(worst, moved / least / (1 + member_count / 10))
                assert moved <= partition_count
    assert worst <= 3.0


@given(group=groups(), data=st.data())
def test_claims_hold_and_the_others_share_the_rest(
    group: tuple[dict[str, MemberSubscription], dict[TopicId, int]], data: st.DataObject
) -> None:
    """R-DEL-2, R-DEL-5: who claims has that and nothing else; all else has one owner, who does not
    claim, as long as there is one that subscribes."""
    members, topics = group
    subscribed = SubscribedTopics()
    facts = {str(topic): TopicFacts(topic, number) for topic, number in topics.items()}
    free = {(str(topic), place) for topic, number in topics.items() for place in range(number)}
    memberships = {}
    for member, subscription in members.items():
        mine = sorted(one for one in free if one[0] in subscription.topics)
        claims: tuple[tuple[str, int], ...] | None = None
        wishes = st.none() | st.sets(st.sampled_from(mine)) if mine else st.none()
        wish = data.draw(wishes)
        if wish is not None:
            claims = tuple(sorted(wish))
            free -= wish
        memberships[member] = Membership(
            topic_names=frozenset(map(str, subscription.topics)), claims=claims
        )
    resolution = subscribed.resolve(memberships.values(), facts)
    name = data.draw(assignors)
    targets = assign(name, memberships, members, resolution, {})
    owned = owner_of(targets)
    assert targets.keys() == members.keys()
    for member, membership in memberships.items():
        if membership.claims is not None:
            assert targets[member] == collect(
                (TopicId(topic), place) for topic, place in membership.claims
            )
    sharing = [member for member, one in memberships.items() if one.claims is None]
    for topic, place in free:
        subscribers = [member for member in sharing if topic in members[member].topics]
        owner = owned.get((TopicId(topic), place))
        assert owner in subscribers if subscribers else owner is None


@settings(max_examples=50)
@given(group=groups(), changes=st.lists(st.sampled_from(MEMBERS), max_size=8))
def test_without_a_change_nothing_moves(
    group: tuple[dict[str, MemberSubscription], dict[TopicId, int]], changes: list[str]
) -> None:
    members, topics = group
    current: dict[str, Assignment] = {}
    for gone in changes:
        some = {member: members[member] for member in members if member != gone}
        current = ASSIGNORS["uniform"](some, topics, current)
    settled = ASSIGNORS["uniform"](members, topics, current)
    assert ASSIGNORS["uniform"](members, topics, settled) == settled
