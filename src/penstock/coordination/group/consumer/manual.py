"""Partitions that members claim for themselves: the assignor "manual" (R-DEL-2).

Whoever claims gets that and nothing else; the others share what nobody claims, by the assignor that
most of them ask for. Not how a partition changes hands (`reconciliation`): whoever uses one that is
claimed gives it up first. The invariant: a partition is claimed by one member at most, and a second
claim is refused with the name of the holder.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from penstock.coordination.group.assignors.assignment import (
    Assignment,
    MemberSubscription,
    collect,
    partitions_of,
    subtract,
)
from penstock.coordination.group.assignors.by_name import ASSIGNORS
from penstock.coordination.group.consumer.membership import Membership
from penstock.coordination.group.consumer.messages import TopicFacts
from penstock.coordination.group.consumer.subscribed_topics import Resolution
from penstock.model.errors import PartitionClaimed, UnknownTopic

_SHOWN_MAX: Final = 80


def check_manual(
    member_id: str,
    membership: Membership,
    others: Mapping[str, Membership],
    topics: Mapping[str, TopicFacts],
) -> None:
    """Whether the member may have what it claims: PartitionClaimed, or UnknownTopic."""
    wanted = membership.claims or ()
    for topic, partition in wanted:
        facts = topics.get(topic)
        if facts is None or partition >= facts.partition_count:
            raise UnknownTopic(f"There is no partition {partition} of {topic!r} to claim.")
    claimed = frozenset(wanted)
    for holder_id, holder in others.items():
        if holder_id == member_id or not holder.claims:
            continue
        for topic, partition in holder.claims:
            if (topic, partition) in claimed:
                raise PartitionClaimed(
                    f"{topic}-{partition} is claimed by {_shown(holder.client_id)!r} at "
                    f"{_shown(holder.client_host)} (member {_shown(holder_id)}): stop that one, "
                    "or claim another."
                )


def assign(
    assignor: str,
    memberships: Mapping[str, Membership],
    subscriptions: Mapping[str, MemberSubscription],
    resolution: Resolution,
    previous: Mapping[str, Assignment],
) -> dict[str, Assignment]:
    """What each of the members is to own."""
    claimed = {
        member_id: _resolved(membership, resolution.topics)
        for member_id, membership in memberships.items()
        if membership.claims is not None
    }
    others = {member: one for member, one in subscriptions.items() if member not in claimed}
    shared: dict[str, Assignment] = {}
    if others:
        shared = ASSIGNORS[assignor](others, resolution.partition_counts(), previous)
    if claimed:
        taken = collect(partition for one in claimed.values() for partition in partitions_of(one))
        shared = {member: subtract(target, taken) for member, target in shared.items()}
    return {**shared, **claimed}


def _resolved(membership: Membership, topics: Mapping[str, TopicFacts]) -> Assignment:
    """The claims as partitions that exist now."""
    found = []
    for topic, partition in membership.claims or ():
        facts = topics.get(topic)
        if facts is not None and partition < facts.partition_count:
            found.append((facts.topic_id, partition))
    return collect(found)


def _shown(name: str) -> str:
    return name[:_SHOWN_MAX]
