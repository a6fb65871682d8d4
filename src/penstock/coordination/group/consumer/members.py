"""The members of a consumer group: who they are, what each is to own, and what each owns.

Not how that changes. The invariants: an instance id belongs to one member; and a partition has
one owner at most, counting what a member was told to give up and has not given up yet.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from penstock.coordination.group.assignors.assignment import (
    NOTHING,
    Assignment,
    Partition,
    partitions_of,
)
from penstock.coordination.group.consumer.membership import MANUAL, Membership
from penstock.coordination.group.consumer.reconciliation import JOINING, Current
from penstock.model.ids import TopicId


class ConsumerMembers:
    """The members by id, in the order in which they came."""

    def __init__(self) -> None:
        self._memberships: dict[str, Membership] = {}
        self._currents: dict[str, Current] = {}
        self._ids_by_instance: dict[str, str] = {}
        self._owners: dict[Partition, str] = {}
        self.targets: dict[str, Assignment] = {}
        """What each is to own."""

    def __len__(self) -> int:
        return len(self._memberships)

    def __contains__(self, member_id: str) -> bool:
        return member_id in self._memberships

    @property
    def memberships(self) -> Mapping[str, Membership]:
        return self._memberships

    def current(self, member_id: str) -> Current:
        return self._currents.get(member_id, JOINING)

    def target(self, member_id: str) -> Assignment:
        return self.targets.get(member_id, NOTHING)

    def of_instance(self, instance_id: str) -> str | None:
        """The id of the static member of this instance id."""
        return self._ids_by_instance.get(instance_id)

    def owner(self, topic: TopicId, partition: int) -> str | None:
        return self._owners.get((topic, partition))

    def favourite_assignor(self) -> str | None:
        """The one most members ask for; of several the first by name; None if they ask for none.
        Who claims partitions does not say how the others share, unless everybody claims."""
        votes = Counter(one.assignor for one in self._memberships.values() if one.assignor)
        claiming = votes.pop(MANUAL, 0)
        if claiming and claiming == len(self._memberships):
            return MANUAL
        return min(votes, key=lambda name: (-votes[name], name), default=None)

    def put(self, member_id: str, membership: Membership) -> None:
        """Add the member, or take what it says now in place of what it said."""
        earlier = self._memberships.get(member_id)
        if earlier is not None and earlier.instance_id is not None:
            del self._ids_by_instance[earlier.instance_id]
        if membership.instance_id is not None:
            holder = self._ids_by_instance.setdefault(membership.instance_id, member_id)
            assert holder == member_id, f"{holder} and {member_id} are one instance"
        self._memberships[member_id] = membership

    def put_current(self, member_id: str, current: Current) -> None:
        self._release(member_id)
        self._currents[member_id] = current
        for assignment in (current.assigned, current.revoking):
            for partition in partitions_of(assignment):
                owner = self._owners.setdefault(partition, member_id)
                assert owner == member_id, f"{owner} and {member_id} both own {partition}"

    def remove(self, member_id: str) -> Membership:
        membership = self._memberships.pop(member_id)
        if membership.instance_id is not None:
            del self._ids_by_instance[membership.instance_id]
        self._release(member_id)
        self._currents.pop(member_id, None)
        self.targets.pop(member_id, None)
        return membership

    def _release(self, member_id: str) -> None:
        current = self.current(member_id)
        for assignment in (current.assigned, current.revoking):
            for partition in partitions_of(assignment):
                del self._owners[partition]
