"""How a classic group treats a JoinGroup: who may join, and whether that starts a rebalance.

Not the rebalance (`rebalance`). The invariant: whatever is refused is refused before
anything changes.
"""

from __future__ import annotations

from dataclasses import replace

from penstock.coordination.group.classic.member import Member
from penstock.coordination.group.classic.messages import (
    GroupConfig,
    GroupState,
    Joined,
    JoinRequest,
    MemberIdGiven,
)
from penstock.coordination.group.classic.rebalance import RebalancingGroup
from penstock.coordination.group.classic.subscription import CONSUMER_PROTOCOL_TYPE, topics_of
from penstock.coordination.group.effects import Effects, Ticket
from penstock.model.errors import (
    Busy,
    GroupFull,
    InconsistentProtocol,
    InvalidRequest,
    InvalidSessionTimeout,
)
from penstock.model.limits import (
    GROUP_MEMBER_BYTES_MAX,
    GROUP_NEW_MEMBER_WAIT_MS_MAX,
    GROUP_RECORD_BYTES_MAX,
)


def join(
    group: RebalancingGroup,
    ticket: Ticket[Joined],
    request: JoinRequest,
    now_ms: int,
    effects: Effects,
) -> None:
    """Take the member in, or raise the reason why not."""
    _check_request(request, group.config)
    static = group.members.of_instance(request.instance_id)
    if request.member_id:
        _join_with_id(group, ticket, request, now_ms, effects)
    elif static is not None:
        _join_again(group, ticket, request, static, now_ms, effects)
    elif request.requires_known_member_id and request.instance_id is None:
        _give_id(group, ticket, request, now_ms, effects)
    else:
        _join_new(group, ticket, request, request.new_member_id, now_ms, effects)


# --- the four ways to come ---------------------------------------------------------------------


def _give_id(
    group: RebalancingGroup,
    ticket: Ticket[Joined],
    request: JoinRequest,
    now_ms: int,
    effects: Effects,
) -> None:
    """KIP-394: a client that gives up and tries again is not a second member, since it is none
    before it has come with an id."""
    _check_newcomer(group, request)
    if len(group.pending) >= group.config.members_max:
        raise Busy(
            f"Group {group.name!r} waits for {len(group.pending)} members that were given an id: "
            "try again later."
        )
    group.pending.add(request.new_member_id)
    group.sessions.set(request.new_member_id, now_ms + request.session_timeout_ms)
    effects.answer(ticket, MemberIdGiven(member_id=request.new_member_id))


def _join_new(
    group: RebalancingGroup,
    ticket: Ticket[Joined],
    request: JoinRequest,
    member_id: str,
    now_ms: int,
    effects: Effects,
) -> None:
    _check_newcomer(group, request)
    member = _member(request, member_id)
    _check_bytes(group, member, None)
    group.pending.discard(member_id)
    if not group.members:
        group.protocol_type = request.protocol_type
    group.members.put(member)
    group.wait_for_others(member_id, ticket, effects)
    group.sessions.set(member_id, now_ms + GROUP_NEW_MEMBER_WAIT_MS_MAX)
    if group.first_delay is not None:
        group.first_delay.has_newcomers = True
    group.go_on(now_ms, effects)


def _join_with_id(
    group: RebalancingGroup,
    ticket: Ticket[Joined],
    request: JoinRequest,
    now_ms: int,
    effects: Effects,
) -> None:
    if request.member_id in group.pending and request.instance_id is None:
        _join_new(group, ticket, request, request.member_id, now_ms, effects)
        return
    earlier = group.check_member(request.member_id, request.instance_id)
    _check_protocols(group, request, earlier)
    # An instance id is not taken on by rejoining: it is the member's from its first join.
    member = replace(_member(request, earlier.member_id), instance_id=earlier.instance_id)
    _check_bytes(group, member, earlier)
    # The leader joins again when what it assigns from has changed, such as a topic's partitions.
    is_wish = group.state is GroupState.STABLE and group.leader == member.member_id
    is_over = group.state is GroupState.PREPARING_REBALANCE
    if is_wish or is_over or member.protocols != earlier.protocols:
        group.protocol_type = request.protocol_type
        group.members.put(member)
        group.wait_for_others(member.member_id, ticket, effects)
        group.go_on(now_ms, effects)
    else:
        # It missed the answer to its last join: the generation is still the same.
        group.touch(member, now_ms)
        effects.answer(ticket, group.join_answer(member.member_id))


def _join_again(
    group: RebalancingGroup,
    ticket: Ticket[Joined],
    request: JoinRequest,
    earlier: Member,
    now_ms: int,
    effects: Effects,
) -> None:
    """KIP-345: a static member that was restarted takes its own place. In a stable group nobody
    needs to know, unless what it wants to read has changed."""
    _check_protocols(group, request, earlier)
    member = _member(request, request.new_member_id)
    _check_bytes(group, member, earlier)
    leader_before = group.leader
    group.protocol_type = request.protocol_type
    group.replace(earlier, member, effects)
    if group.state is not GroupState.STABLE or _has_changed(group, earlier, member):
        group.wait_for_others(member.member_id, ticket, effects)
        group.go_on(now_ms, effects)
        return
    group.touch(member, now_ms)
    group.persist(effects)
    answer = group.join_answer(member.member_id)
    if request.supports_skipping_assignment:
        is_leader = group.leader == member.member_id
        effects.answer(ticket, replace(answer, skip_assignment=is_leader))
    else:
        # KIP-814: an older client that were told it leads would assign, and not be heard. It is
        # told the id it led under before, which is not its own, and so takes itself for a follower.
        assert leader_before is not None
        effects.answer(ticket, replace(answer, leader=leader_before, members=()))


def _has_changed(group: RebalancingGroup, earlier: Member, member: Member) -> bool:
    """Whether the group must rebalance for a static member that came back.

    Kafka looks at the name of the protocol alone, and so does not see a changed subscription.
    The bytes alone would not do: a cooperative consumer lists what it owned, which is nothing
    after a restart.
    """
    assert group.protocol is not None
    if group.members.select_protocol() != group.protocol:
        return True
    before, now = earlier.metadata(group.protocol), member.metadata(group.protocol)
    if before is None or now is None:
        return True
    if group.protocol_type == CONSUMER_PROTOCOL_TYPE:
        topics = topics_of(now)
        if topics is not None:
            return topics != topics_of(before)
    return before != now


# --- checks ------------------------------------------------------------------------------------


def _check_request(request: JoinRequest, config: GroupConfig) -> None:
    low, high = config.session_timeout_ms_min, config.session_timeout_ms_max
    if not low <= request.session_timeout_ms <= high:
        raise InvalidSessionTimeout(
            f"The session timeout of {request.session_timeout_ms} ms is outside what the broker "
            f"allows: set session.timeout.ms to {low} up to {high}."
        )
    names = [name for name, _ in request.protocols]
    if not request.protocol_type or not names:
        raise InconsistentProtocol("The member names no protocol type or no protocol to join with.")
    if len(set(names)) < len(names):
        raise InvalidRequest("The member names one protocol twice.")
    if request.rebalance_timeout_ms < 0:
        raise InvalidRequest(
            f"The rebalance timeout is {request.rebalance_timeout_ms} ms: it must be 0 or more."
        )


def _check_newcomer(group: RebalancingGroup, request: JoinRequest) -> None:
    if len(group.members) >= group.config.members_max:
        raise GroupFull(
            f"Group {group.name!r} has {len(group.members)} members, as many as the broker allows: "
            "stop some of them first."
        )
    _check_protocols(group, request, None)


def _check_protocols(group: RebalancingGroup, request: JoinRequest, earlier: Member | None) -> None:
    """Held against the other members: alone, a member may change its mind altogether."""
    if len(group.members) == (earlier is not None):
        return
    names = [name for name, _ in request.protocols]
    if request.protocol_type != group.protocol_type or not group.members.supports(names, earlier):
        raise InconsistentProtocol(
            f"The member shares no protocol with group {group.name!r} ({group.protocol_type}): "
            f"it offers {', '.join(names)} ({request.protocol_type}). Give all its consumers one "
            "assignment strategy in common."
        )


def _check_bytes(group: RebalancingGroup, member: Member, earlier: Member | None) -> None:
    if member.record_bytes > GROUP_MEMBER_BYTES_MAX:
        raise InvalidRequest(
            f"The member joins with {member.record_bytes} bytes of names and metadata: "
            f"it may be {GROUP_MEMBER_BYTES_MAX}."
        )
    freed = earlier.record_bytes if earlier is not None else 0
    if group.members.record_bytes - freed + member.record_bytes > GROUP_RECORD_BYTES_MAX:
        raise GroupFull(
            f"The members of group {group.name!r} have more than {GROUP_RECORD_BYTES_MAX} bytes of "
            "metadata together: split the group."
        )


def _member(request: JoinRequest, member_id: str) -> Member:
    return Member(
        member_id=member_id,
        instance_id=request.instance_id,
        client_id=request.client_id,
        client_host=request.client_host,
        session_timeout_ms=request.session_timeout_ms,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        protocols=request.protocols,
    )
