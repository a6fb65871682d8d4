"""How a classic group treats a SyncGroup: followers wait, and the leader's brings the assignments.

Not who may be in the generation. The invariant: an assignment is told only to a member of the
generation it was made for.
"""

from __future__ import annotations

from penstock.coordination.group.classic.messages import GroupState, SyncAnswer, SyncRequest
from penstock.coordination.group.classic.rebalance import RebalancingGroup
from penstock.coordination.group.effects import Effects, Ticket
from penstock.model.errors import (
    IllegalGeneration,
    InconsistentProtocol,
    InvalidRequest,
    RebalanceInProgress,
)
from penstock.model.limits import GROUP_RECORD_BYTES_MAX


def sync(
    group: RebalancingGroup,
    ticket: Ticket[SyncAnswer],
    request: SyncRequest,
    now_ms: int,
    effects: Effects,
) -> None:
    """Answer with the member's part, now or when the leader has assigned it; or raise."""
    member = group.check_member(request.member_id, request.instance_id)
    _check_generation(group, request)
    if group.state is GroupState.PREPARING_REBALANCE:
        raise RebalanceInProgress
    if group.state is GroupState.STABLE:
        group.note_sync(member.member_id)
        group.touch(member, now_ms)
        effects.answer(ticket, group.sync_answer(member.member_id))
        return
    assert group.state is GroupState.COMPLETING_REBALANCE, group.state
    is_leader = group.leader == member.member_id
    if is_leader:
        _check_bytes(group, request)
    if member.member_id in group.syncing:
        # One that it sent before, and gave up.
        effects.answer(group.syncing[member.member_id], RebalanceInProgress())
    group.syncing[member.member_id] = ticket
    group.sessions.cancel(member.member_id)
    group.note_sync(member.member_id)
    if is_leader:
        given = request.assignments
        group.assignments = {
            other.member_id: given.get(other.member_id, b"") for other in group.members
        }
        group.complete(now_ms, effects)


def _check_generation(group: RebalancingGroup, request: SyncRequest) -> None:
    if request.generation != group.generation:
        raise IllegalGeneration
    for asked, agreed in (
        (request.protocol_type, group.protocol_type),
        (request.protocol, group.protocol),
    ):
        if asked is not None and asked != agreed:
            raise InconsistentProtocol(
                f"The member syncs for {asked!r}, and group {group.name!r} agreed on {agreed!r}: "
                "join again."
            )


def _check_bytes(group: RebalancingGroup, request: SyncRequest) -> None:
    # As base64 has it in the record.
    assigned = sum(len(part) * 4 // 3 + 4 for part in request.assignments.values())
    if group.members.record_bytes + assigned > GROUP_RECORD_BYTES_MAX:
        raise InvalidRequest(
            f"The assignments of group {group.name!r} and what its members joined with have more "
            f"than {GROUP_RECORD_BYTES_MAX} bytes together: split the group."
        )
