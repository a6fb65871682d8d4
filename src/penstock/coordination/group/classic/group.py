"""A classic consumer group: JoinGroup, SyncGroup, Heartbeat and LeaveGroup as a pure machine.

Members agree on a protocol, one of them (the leader) assigns, and the group carries what it
assigned as opaque bytes; a generation is one such agreement. Not offsets, nor who coordinates the
group, nor how an answer reaches its member. The rules are Kafka's; where they are not, the module
says so. Requests that the group refuses are answered with a typed error; only `check_commit` and
`delete`, which the shell asks for itself, raise.
"""

from __future__ import annotations

from penstock.coordination.group.classic.join import join
from penstock.coordination.group.classic.member import Member
from penstock.coordination.group.classic.messages import (
    GroupConfig,
    GroupDescription,
    GroupState,
    HeartbeatAnswer,
    HeartbeatRequest,
    Joined,
    JoinRequest,
    LeaveAnswer,
    LeaveRequest,
    LeaveResult,
    LeavingMember,
    MemberDescription,
    SyncAnswer,
    SyncRequest,
)
from penstock.coordination.group.classic.rebalance import RebalancingGroup
from penstock.coordination.group.classic.record import decode_group, group_key
from penstock.coordination.group.classic.subscription import CONSUMER_PROTOCOL_TYPE, topics_of
from penstock.coordination.group.classic.sync import sync
from penstock.coordination.group.effects import Effects, Record, Ticket
from penstock.model.errors import (
    GroupNotEmpty,
    IllegalGeneration,
    PenstockError,
    RebalanceInProgress,
    UnknownMember,
)
from penstock.model.limits import MEMBER_NAME_LENGTH_MAX


class ClassicGroup:
    """One group. All times are in ms of the shell's clock."""

    def __init__(self, name: str, config: GroupConfig) -> None:
        self.name = name
        self._group = RebalancingGroup(name, config)

    @classmethod
    def restore(cls, name: str, config: GroupConfig, value: bytes, now_ms: int) -> ClassicGroup:
        """The group of its last record. Raises CorruptLog where the record cannot be read."""
        group = cls(name, config)
        group._group.load(decode_group(name, value), now_ms)
        return group

    # --- requests ------------------------------------------------------------------------------

    def join(self, ticket: Ticket[Joined], request: JoinRequest, now_ms: int) -> Effects:
        """Answered with JoinAnswer or MemberIdGiven, mostly later."""
        effects = self._effects()
        try:
            join(self._group, ticket, request, now_ms, effects)
        except PenstockError as error:
            effects.answer(ticket, error)
        return effects

    def sync(self, ticket: Ticket[SyncAnswer], request: SyncRequest, now_ms: int) -> Effects:
        """Answered with SyncAnswer: a follower's when the leader's sync has come."""
        effects = self._effects()
        try:
            sync(self._group, ticket, request, now_ms, effects)
        except PenstockError as error:
            effects.answer(ticket, error)
        return effects

    def heartbeat(
        self, ticket: Ticket[HeartbeatAnswer], request: HeartbeatRequest, now_ms: int
    ) -> Effects:
        """Answered at once with HeartbeatAnswer, or with what the member is to do."""
        effects = self._effects()
        group = self._group
        try:
            member = group.check_member(request.member_id, request.instance_id)
            if request.generation != group.generation:
                raise IllegalGeneration
        except PenstockError as error:
            effects.answer(ticket, error)
            return effects
        group.touch(member, now_ms)
        if group.state is GroupState.PREPARING_REBALANCE:
            effects.answer(ticket, RebalanceInProgress())
        else:
            effects.answer(ticket, HeartbeatAnswer())
        return effects

    def leave(self, ticket: Ticket[LeaveAnswer], request: LeaveRequest, now_ms: int) -> Effects:
        """Answered at once with LeaveAnswer. However many leave, the group rebalances once."""
        effects = self._effects()
        leaving: dict[str, None] = {}
        results = []
        for named in request.members:
            error: PenstockError | None = None
            try:
                leaving[self._leaver(named)] = None
            except PenstockError as refusal:
                error = refusal
            results.append(
                LeaveResult(member_id=named.member_id, instance_id=named.instance_id, error=error)
            )
        effects.answer(ticket, LeaveAnswer(results=tuple(results)))
        if leaving:
            self._group.drop(leaving, now_ms, effects)
        return effects

    def check_commit(
        self, member_id: str, instance_id: str | None, generation: int, now_ms: int
    ) -> None:
        """Raise the reason why these may not commit offsets. A commit is as good as a heartbeat."""
        group = self._group
        if generation < 0 and group.state is GroupState.EMPTY:
            return  # a consumer that assigns itself, or an operator
        if generation >= 0 or member_id or instance_id is not None:
            member = group.check_member(member_id, instance_id)
            if generation != group.generation:
                raise IllegalGeneration
            group.touch(member, now_ms)
        else:
            raise UnknownMember(
                f"Group {self.name!r} has members: only they may commit its offsets."
            )
        if group.state is GroupState.COMPLETING_REBALANCE:
            raise RebalanceInProgress

    # --- time ----------------------------------------------------------------------------------

    @property
    def deadline_ms(self) -> int | None:
        """When to call `expire`: never later than there is something to do, seldom earlier."""
        group = self._group
        deadlines = (group.sessions.wake_ms, group.join_deadline_ms, group.sync_deadline_ms)
        return min((at_ms for at_ms in deadlines if at_ms is not None), default=None)

    def expire(self, now_ms: int) -> Effects:
        """Do what time asks for."""
        effects = self._effects()
        group = self._group
        lost = group.sessions.expire(now_ms)
        if lost:
            group.drop(lost, now_ms, effects)
        if group.join_deadline_ms is not None and group.join_deadline_ms <= now_ms:
            group.expire_join(now_ms, effects)
        if group.sync_deadline_ms is not None and group.sync_deadline_ms <= now_ms:
            group.expire_sync(now_ms, effects)
        return effects

    # --- what others see -----------------------------------------------------------------------

    @property
    def state(self) -> GroupState:
        return self._group.state

    @property
    def generation(self) -> int:
        return self._group.generation

    @property
    def protocol_type(self) -> str | None:
        """None for a group that never had members."""
        return self._group.protocol_type

    @property
    def member_count(self) -> int:
        return len(self._group.members)

    @property
    def member_bytes(self) -> int:
        """What the members have said of themselves, and the ids of those who are yet to join."""
        group = self._group
        return group.members.record_bytes + len(group.pending) * MEMBER_NAME_LENGTH_MAX

    def has_member(self, member_id: str) -> bool:
        return member_id in self._group.members

    @property
    def empty_since_ms(self) -> int | None:
        """Since when there are no members; None while there are, or if there never were."""
        return self._group.empty_since_ms

    def describe(self) -> GroupDescription:
        """As Kafka's DescribeGroups shows it: metadata of a stable group alone."""
        group = self._group
        protocol = group.protocol if group.state is GroupState.STABLE else None
        return GroupDescription(
            name=self.name,
            state=group.state,
            protocol_type=group.protocol_type or "",
            protocol=protocol or "",
            members=tuple(
                MemberDescription(
                    member_id=member.member_id,
                    instance_id=member.instance_id,
                    client_id=member.client_id,
                    client_host=member.client_host,
                    metadata=_metadata(member, protocol),
                    assignment=group.assignments.get(member.member_id, b""),
                )
                for member in group.members
            ),
        )

    def subscribed_topics(self) -> frozenset[str] | None:
        """The topics that the members read; None where the members are no consumers, or do not
        say it in a way that the broker understands."""
        group = self._group
        if group.protocol_type != CONSUMER_PROTOCOL_TYPE:
            return None
        topics: set[str] = set()
        for member in group.members:
            # The topics are the same whatever the protocol; a newcomer may not have the group's.
            _, metadata = member.protocols[0]
            subscribed = topics_of(metadata)
            if subscribed is None:
                return None
            topics |= subscribed
        return frozenset(topics)

    def delete(self) -> Effects:
        """Let the group be no more: its record goes. Raises GroupNotEmpty."""
        effects = self._effects()
        if self._group.state is not GroupState.EMPTY:
            raise GroupNotEmpty
        self._group.state = GroupState.DEAD
        effects.record(Record(key=group_key(self.name), value=None))
        return effects

    # --- helpers -------------------------------------------------------------------------------

    def _effects(self) -> Effects:
        assert self._group.state is not GroupState.DEAD, f"group {self.name!r} was deleted"
        return Effects()

    def _leaver(self, named: LeavingMember) -> str:
        """The id of the member that is to leave."""
        group = self._group
        if not named.member_id:
            member = group.members.of_instance(named.instance_id)
            if member is None:
                raise UnknownMember
            return member.member_id
        if named.member_id in group.pending:
            return named.member_id
        return group.check_member(named.member_id, named.instance_id).member_id


def _metadata(member: Member, protocol: str | None) -> bytes:
    return (member.metadata(protocol) or b"") if protocol is not None else b""
