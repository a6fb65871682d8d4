"""Whether the sender of a heartbeat is the member it says it is, and up to date.

Not whether the heartbeat makes sense in itself (`membership`). The invariant: an epoch that was
not given to the member, or an instance id that another holds, goes no further.
"""

from __future__ import annotations

from penstock.coordination.group.assignors.assignment import Assignment, subtract
from penstock.coordination.group.consumer.members import ConsumerMembers
from penstock.coordination.group.consumer.messages import (
    JOIN_EPOCH,
    TEMPORARY_LEAVE_EPOCH,
    ConsumerHeartbeat,
)
from penstock.coordination.group.consumer.reconciliation import Current
from penstock.model.errors import (
    FencedInstance,
    FencedMemberEpoch,
    GroupFull,
    InvalidRequest,
    UnknownMember,
    UnreleasedInstance,
)


def check_stayer(
    members: ConsumerMembers, member_id: str, request: ConsumerHeartbeat, members_max: int
) -> str | None:
    """Whether the member may join or stay. Returns the id of the static member that left for a
    while, where this one comes back in its place under an id of its own."""
    joins = request.member_epoch == JOIN_EPOCH
    if request.instance_id is not None:
        holder = members.of_instance(request.instance_id)
        if joins and holder is not None and holder != member_id:
            _check_takeover(members, holder, member_id)
            return holder
        if holder is not None or not joins:
            _check_instance(members, member_id, request.instance_id)
    if not joins:
        check_member(members, member_id)
        _check_epoch(member_id, members.current(member_id), request)
    elif member_id not in members and len(members) >= members_max:
        raise GroupFull(f"The group has {len(members)} members, which is the limit.")
    # A member that the group knows may join again, whatever its epoch. Kafka fences it where an
    # answer can not have been lost; then it joins in vain until its session ends.
    return None


def check_leaver(members: ConsumerMembers, request: ConsumerHeartbeat) -> None:
    if request.instance_id is not None:
        _check_instance(members, request.member_id, request.instance_id)
    check_member(members, request.member_id)


def check_member(members: ConsumerMembers, member_id: str) -> None:
    if member_id not in members:
        raise UnknownMember(f"The group has no member {member_id!r}: join again with epoch 0.")


def _check_takeover(members: ConsumerMembers, holder: str, member_id: str) -> None:
    if members.current(holder).epoch != TEMPORARY_LEAVE_EPOCH:
        raise UnreleasedInstance(
            f"Member {holder!r} has the instance id of {member_id!r} and has not left: stop it, or "
            "wait for its session to end."
        )
    if member_id in members:
        raise InvalidRequest(
            f"Member {member_id!r} is in the group already: to take over from {holder!r} it needs "
            "an id of its own."
        )


def _check_instance(members: ConsumerMembers, member_id: str, instance_id: str) -> None:
    holder = members.of_instance(instance_id)
    if holder is None:
        raise UnknownMember(
            f"The group has no member of instance id {instance_id!r}: join again with epoch 0."
        )
    if holder != member_id:
        raise FencedInstance(
            f"Member {holder!r} has taken over instance id {instance_id!r} from {member_id!r}."
        )


def _check_epoch(member_id: str, current: Current, request: ConsumerHeartbeat) -> None:
    """The epoch is the one the member was given; or the one before, where the answer in between
    may have been lost, since the member owns nothing that only an earlier one gave it."""
    epoch = request.member_epoch
    if epoch == current.epoch:
        return
    if epoch == current.previous_epoch and _is_within(request.owned, current.assigned):
        return
    raise FencedMemberEpoch(
        f"Member {member_id!r} has epoch {epoch}, but the group gave it {current.epoch}: give up "
        "all partitions and join again with epoch 0."
    )


def _is_within(owned: Assignment | None, assigned: Assignment) -> bool:
    return owned is not None and not subtract(owned, assigned)
