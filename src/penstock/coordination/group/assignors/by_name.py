"""The assignors a consumer group can choose from, by the names Kafka gives those that it has.

Not when they run, nor "manual", by which a member takes what it claims (`manual`). The invariant of
each: every partition of a topic that somebody subscribes to has exactly one owner, who subscribes
to it; and the same input gives the same output.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from penstock.coordination.group.assignors.assignment import (
    Assignment,
    MemberSubscription,
    Partition,
    collect,
)
from penstock.coordination.group.assignors.ring import assign_ring
from penstock.coordination.group.assignors.uniform import assign_uniform
from penstock.model.ids import TopicId

Assignor = Callable[
    [Mapping[str, MemberSubscription], Mapping[TopicId, int], Mapping[str, Assignment]],
    dict[str, Assignment],
]
"""Members by id, the partition count of their topics, and what the members were to own before
-> what each of the members is to own."""


def assign_range(
    members: Mapping[str, MemberSubscription],
    topics: Mapping[TopicId, int],
    previous: Mapping[str, Assignment],  # noqa: ARG001 - an assignor's parameters
) -> dict[str, Assignment]:
    """To each member one range of every topic, the first members one more where it does not
    divide: so topics of as many partitions are cut alike, and can be joined by key.

    It is sticky only as far as the members' order is: static members come first, by who they are.
    """
    order = sorted(members, key=lambda member: _rank(member, members[member]))
    ranges: dict[str, dict[TopicId, tuple[int, ...]]] = {member: {} for member in order}
    for topic in sorted(topics):
        subscribers = [member for member in order if topic in members[member].topics]
        if not subscribers:
            continue
        share, extra = divmod(topics[topic], len(subscribers))
        start = 0
        for place, member in enumerate(subscribers):
            end = start + share + (place < extra)
            if start < end:
                ranges[member][topic] = tuple(range(start, end))
            start = end
    return dict(ranges)


def assign_round_robin(
    members: Mapping[str, MemberSubscription],
    topics: Mapping[TopicId, int],
    previous: Mapping[str, Assignment],  # noqa: ARG001 - an assignor's parameters
) -> dict[str, Assignment]:
    """All partitions one after another, to the members in turn; a member that does not subscribe
    is passed over. Even where all have the same topics; a member more moves most of it."""
    order = sorted(members, key=lambda member: _rank(member, members[member]))
    dealt: dict[str, list[Partition]] = {member: [] for member in order}
    turn = 0
    for topic in sorted(frozenset[TopicId]().union(*(one.topics for one in members.values()))):
        for partition in range(topics[topic]):
            while topic not in members[order[turn % len(order)]].topics:
                turn += 1
            dealt[order[turn % len(order)]].append((topic, partition))
            turn += 1
    return {member: collect(partitions) for member, partitions in dealt.items()}


def _rank(member_id: str, subscription: MemberSubscription) -> tuple[bool, str]:
    if subscription.instance_id is not None:
        return False, subscription.instance_id
    return True, member_id


DEFAULT_ASSIGNOR: Final = "uniform"
ASSIGNORS: Final[Mapping[str, Assignor]] = {
    "uniform": assign_uniform,
    "range": assign_range,
    "ring": assign_ring,
    "round-robin": assign_round_robin,
    # The uniform one keeps all that evenness lets it keep, which is what Kafka's sticky one does:
    # the name is for those who look for it.
    "sticky": assign_uniform,
}
