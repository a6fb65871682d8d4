"""How a member gets from what it owns to what it is to own, one heartbeat after the other.

Not what it is to own: that is the target, made by an assignor. The invariant (KIP-848): a member
is told of a partition only when no other member owns it, and owns one that it was told to give up
until it says that it has; so a partition has one owner at most, whatever answers are lost.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from typing import assert_never

from penstock.coordination.group.assignors.assignment import (
    NOTHING,
    Assignment,
    collect,
    intersect,
    partitions_of,
    subtract,
    unite,
)
from penstock.model.ids import TopicId


class MemberState(Enum):
    STABLE = "stable"
    """It owns what it is to own at its epoch."""
    UNREVOKED = "unrevoked"
    """It was told to give up partitions and has not said that it did."""
    UNRELEASED = "unreleased"
    """It waits for partitions that others still own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Current:
    """Where a member stands."""

    epoch: int
    previous_epoch: int
    """Of the answer before the last one: the last one may have been lost."""
    state: MemberState
    assigned: Assignment
    """What it was told it may use."""
    revoking: Assignment
    """What it was told to give up, and owns until it says so."""

    def is_reconciled_to(self, target_epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.epoch == target_epoch


JOINING = Current(
    epoch=0, previous_epoch=0, state=MemberState.STABLE, assigned=NOTHING, revoking=NOTHING
)
"""Where a member stands that has just come."""


def reconcile(
    current: Current,
    *,
    target: Assignment,
    target_epoch: int,
    owned: Assignment | None,
    is_free: Callable[[TopicId, int], bool],
) -> Current:
    """The member's next step towards its target, or the same object where there is none.

    `owned` is what the member says it owns, None where it says nothing; `is_free` tells whether
    no other member owns a partition.
    """
    match current.state:
        case MemberState.STABLE:
            if current.epoch == target_epoch:
                return current
            epoch = current.epoch
        case MemberState.UNREVOKED:
            if _may_own(owned, current.revoking):
                return current
            # It did what the epoch asked for; perhaps there is more to give up by now.
            epoch = current.epoch + 1
        case MemberState.UNRELEASED:
            epoch = current.epoch
        case _:
            assert_never(current.state)
    assigned = intersect(current.assigned, target)
    revoking = subtract(current.assigned, target)
    if revoking and _may_own(owned, revoking):
        return replace(
            current,
            epoch=epoch,
            previous_epoch=current.epoch,
            state=MemberState.UNREVOKED,
            assigned=assigned,
            revoking=revoking,
        )
    missing = list(partitions_of(subtract(target, assigned)))
    free = [partition for partition in missing if is_free(*partition)]
    step = Current(
        epoch=target_epoch,
        previous_epoch=current.epoch,
        state=MemberState.UNRELEASED if len(free) < len(missing) else MemberState.STABLE,
        assigned=unite(assigned, collect(free)),
        revoking=NOTHING,
    )
    # A member that goes on waiting has made no step, and its previous epoch stays what it was.
    return current if step == replace(current, previous_epoch=current.epoch) else step


def _may_own(owned: Assignment | None, revoking: Assignment) -> bool:
    return owned is None or bool(intersect(owned, revoking))
