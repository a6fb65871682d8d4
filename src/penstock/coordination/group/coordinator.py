"""What is asked of groups: which one, of which kind, by whom; then its machine decides.

Not durability, sockets or timers: those are the shell's (`broker.groups.coordinator`), which
appends the records of every `Effects` and then gives its answers. What is refused here is raised,
before anything has changed; what a machine refuses is an answer. The invariant: an offset changes
only when the group's machine lets the one who commits it do so.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeAlias

from penstock.coordination.group.classic.group import ClassicGroup
from penstock.coordination.group.classic.messages import (
    GroupDescription,
    GroupState,
    HeartbeatAnswer,
    HeartbeatRequest,
    Joined,
    JoinRequest,
    LeaveAnswer,
    LeaveRequest,
    SyncAnswer,
    SyncRequest,
)
from penstock.coordination.group.classic.subscription import (
    CONSUMER_PROTOCOL_TYPE,
    SHARE_PROTOCOL_TYPE,
    topics_of,
)
from penstock.coordination.group.consumer.group import ConsumerGroup
from penstock.coordination.group.consumer.messages import (
    ConsumerGroupDescription,
    ConsumerHeartbeat,
    ConsumerHeartbeatAnswer,
    Topics,
)
from penstock.coordination.group.effects import Effects, Ticket
from penstock.coordination.group.offsets import (
    CommittedOffset,
    GroupOffsets,
    Place,
    check_group_name,
)
from penstock.coordination.group.point_to_point import TopicIdOf
from penstock.coordination.group.shared.group import ShareGroup
from penstock.coordination.group.shared_groups import SharedGroups, check_not_shared
from penstock.coordination.group.subscriptions import readers_of
from penstock.coordination.group.table import CoordinatorConfig, Group, GroupTable
from penstock.model.errors import (
    Busy,
    GroupNotEmpty,
    GroupSubscribed,
    IllegalGeneration,
    InconsistentProtocol,
    PenstockError,
    UnknownGroup,
    UnknownMember,
)
from penstock.model.limits import GROUP_OFFSETS_MAX

CLASSIC: Final = "classic"
CONSUMER: Final = "consumer"
SHARED: Final = "shared"

# How often offsets that nobody needs are looked for, as Kafka's offsets.retention.check.interval.
_SWEEP_INTERVAL_MS: Final = 10 * 60 * 1000
# And how soon again when there is no more room.
_SWEEP_INTERVAL_MS_MIN: Final = 10 * 1000
# Offsets that one turn of that looks at, so that a million of them do not hold up the others.
_SWEEP_OFFSETS: Final = 5_000


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitRequest:
    """Somebody has read so far."""

    group: str
    offsets: Sequence[CommittedOffset]
    member_id: str = ""
    instance_id: str | None = None
    generation: int = -1
    """Or the member's epoch; negative for one that is not a member."""
    knows_epochs: bool = False
    """Whether it understands what a group of the next generation answers (OffsetCommit 9)."""
    must_own: bool = False
    """Whether a member may commit only what it owns. Kafka's may commit anything."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedGroup:
    name: str
    kind: str
    state: str
    protocol_type: str


Outcomes: TypeAlias = list[PenstockError | None]
"""One error, or None, for each that was asked for."""


class Coordinator:
    """Every group there is, and what can be asked of it."""

    def __init__(self, config: CoordinatorConfig, topic_id_of: TopicIdOf) -> None:
        self._config = config
        self._topic_id_of = topic_id_of
        self.table = GroupTable(config)
        self.shared = SharedGroups(config, self.table, topic_id_of)
        # When the next sweep begins, when the last one did, and the groups it has yet to look at.
        # None: an interval from now. A clock that is wrong at a start is set right meanwhile.
        self._sweep_ms: int | None = None
        self._swept_ms = 0
        self._unswept: list[str] = []

    # --- members of classic groups -------------------------------------------------------------

    def join(self, ticket: Ticket[Joined], name: str, request: JoinRequest, now_ms: int) -> Effects:
        if request.member_id and self._get(name) is None:
            raise UnknownMember
        self.table.check_room(name, request.member_id)
        if self.table.point_to_point and request.protocol_type == CONSUMER_PROTOCOL_TYPE:
            for _, metadata in request.protocols:
                topics = topics_of(metadata) or ()
                self.table.point_to_point.check(name, topics)
        group, machine = self._group_for_join(name)
        return self._let_in(group, machine, machine.join(ticket, request, now_ms))

    def sync(
        self, ticket: Ticket[SyncAnswer], name: str, request: SyncRequest, now_ms: int
    ) -> Effects:
        group, machine = self._classic_members(name)
        return self.table.acted(group, machine.sync(ticket, request, now_ms))

    def heartbeat(
        self, ticket: Ticket[HeartbeatAnswer], name: str, request: HeartbeatRequest, now_ms: int
    ) -> Effects:
        group, machine = self._classic_members(name)
        return self.table.acted(group, machine.heartbeat(ticket, request, now_ms))

    def leave(
        self, ticket: Ticket[LeaveAnswer], name: str, request: LeaveRequest, now_ms: int
    ) -> Effects:
        group, machine = self._classic_members(name)
        return self.table.acted(group, machine.leave(ticket, request, now_ms))

    # --- members of consumer groups ------------------------------------------------------------

    def consumer_heartbeat(
        self,
        ticket: Ticket[ConsumerHeartbeatAnswer],
        name: str,
        request: ConsumerHeartbeat,
        topics: Topics,
        now_ms: int,
    ) -> Effects:
        if request.member_epoch != 0 and self._get(name) is None:
            # Kafka says that there is no such group, which its own client takes for its end; this
            # lets it join again.
            raise UnknownMember
        self.table.check_room(name, request.member_id)
        taken, names = self.table.point_to_point, request.topic_names or frozenset()
        taking: list[str] = []
        if request.is_point_to_point:
            taking = taken.take(name, names, self._topic_id_of, partial(readers_of, self.table))
        else:
            taken.check(name, names)
        group, machine = self._group_for_heartbeat(name)
        visible = taken.visible_to(name, topics)
        acted = machine.heartbeat(ticket, request, visible, now_ms)
        is_refused = any(isinstance(answer, PenstockError) for _, answer in acted.answers)
        effects = self._let_in(group, machine, acted)
        if taking and not is_refused:
            effects.records.extend(taken.give(name, taking))
            self.on_topics_changed()  # for those who subscribe by a pattern
        return effects

    def on_topics_changed(self) -> None:
        """Topics have come, gone or grown."""
        for group in self.table:
            if isinstance(group.machine, ConsumerGroup | ShareGroup):
                group.machine.on_topics_changed()

    # --- offsets -------------------------------------------------------------------------------

    def commit(self, ticket: Ticket[None], request: CommitRequest, now_ms: int) -> Effects:
        """Answered with None."""
        table = self.table
        group = table.get(request.group)
        if group is not None:
            _check_committer(group, request, now_ms)
        elif request.generation >= 0:
            if request.knows_epochs:
                raise UnknownGroup(f"There is no group {request.group!r}.")
            raise IllegalGeneration
        topics = {committed.topic for committed in request.offsets}
        table.point_to_point.check(request.group, topics)
        self._check_room(group, request.offsets)
        if group is None:
            group = table.get_or_create(request.group)
        effects = Effects()
        for committed in request.offsets:
            effects.records.append(table.put_offset(group, committed))
        if not effects.records:
            table.drop_if_nothing(group)
        effects.answer(ticket, None)
        return effects

    def fetch(
        self, name: str, member_id: str | None = None, member_epoch: int = -1
    ) -> GroupOffsets:
        """What the group has committed, for a member of it or for anybody."""
        group = self._get(name)
        if group is None:
            return GroupOffsets()
        check_not_shared(group, UnknownGroup)
        if isinstance(group.machine, ConsumerGroup):
            group.machine.check_fetch(member_id, member_epoch)
        return group.offsets

    def delete_offsets(
        self, ticket: Ticket[Outcomes], name: str, places: Sequence[Place]
    ) -> Effects:
        """Answered with one error, or None, for each place. One that is not there is no error."""
        group = self._find(name)
        check_not_shared(group, UnknownGroup)
        usage = group.usage()
        if not group.is_empty and _protocol_type(group) != CONSUMER_PROTOCOL_TYPE:
            raise GroupNotEmpty
        effects = Effects()
        outcomes: Outcomes = []
        for topic, partition in places:
            if usage.subscribed is None or topic in usage.subscribed:
                outcomes.append(GroupSubscribed())
                continue
            outcomes.append(None)
            tombstone = self.table.remove_offset(group, topic, partition)
            if tombstone is not None:
                effects.record(tombstone)
        self.table.drop_if_nothing(group)
        effects.answer(ticket, outcomes)
        return effects

    # --- groups as a whole ---------------------------------------------------------------------

    def delete(self, ticket: Ticket[Outcomes], names: Sequence[str]) -> Effects:
        """Answered with one error, or None, for each group."""
        effects = Effects()
        outcomes: Outcomes = []
        had_topics = False
        for name in names:
            try:
                group = self._find(name)
                if not group.is_empty:
                    raise GroupNotEmpty(f"Group {name!r} has members: stop its consumers first.")
                had_topics |= bool(self.table.point_to_point.topics_of(name))
                effects.records.extend(self.table.remove(group))
                outcomes.append(None)
            except PenstockError as error:
                outcomes.append(error)
        if had_topics:
            self.on_topics_changed()  # what it had for itself is everybody's now
        effects.answer(ticket, outcomes)
        return effects

    def list(self, states: Collection[str] = (), kinds: Collection[str] = ()) -> list[ListedGroup]:
        """The groups in these states and of these kinds (none named: all), by name."""
        wanted_states = {state.lower() for state in states}
        wanted_kinds = {kind.lower() for kind in kinds}
        listed = [listed_group(group) for group in self.table]
        return sorted(
            (
                group
                for group in listed
                if (not wanted_states or group.state.lower() in wanted_states)
                and (not wanted_kinds or group.kind.lower() in wanted_kinds)
            ),
            key=lambda group: group.name,
        )

    def describe_classic(self, name: str) -> GroupDescription:
        group = self._find(name)
        if isinstance(group.machine, ConsumerGroup | ShareGroup):
            raise UnknownGroup(f"Group {name!r} is not a classic group.")
        if group.machine is not None:
            return group.machine.describe()
        return GroupDescription(
            name=name, state=GroupState.EMPTY, protocol_type="", protocol="", members=()
        )

    def describe_consumer(self, name: str) -> ConsumerGroupDescription:
        machine = self._find(name).machine
        if not isinstance(machine, ConsumerGroup):
            raise UnknownGroup(f"Group {name!r} is not a consumer group.")
        return machine.describe()

    # --- time ----------------------------------------------------------------------------------

    @property
    def deadline_ms(self) -> int:
        """When to call `expire` next."""
        sweep_ms = 0 if self._unswept or self._sweep_ms is None else self._sweep_ms
        wake_ms = self.table.wake_ms
        return sweep_ms if wake_ms is None else min(sweep_ms, wake_ms)

    def expire(self, now_ms: int, wall_ms: int) -> Effects:
        """Do what time asks for. How long offsets are kept is measured by the wall clock, as it is
        set now: they were committed by it, perhaps before a restart."""
        effects = Effects()
        for group in self.table.due(now_ms):
            assert group.machine is not None
            expired = group.machine.expire(now_ms)
            self.table.acted(group, expired)
            effects.extend(expired)
        self._sweep(now_ms, wall_ms, effects)
        return effects

    def _sweep(self, now_ms: int, wall_ms: int, effects: Effects) -> None:
        """Let go of offsets that have been kept for long enough, and of groups without any."""
        if self._sweep_ms is None:
            self._swept_ms, self._sweep_ms = now_ms, now_ms + _SWEEP_INTERVAL_MS
        if not self._unswept:
            if now_ms < self._sweep_ms:
                return
            self._swept_ms = now_ms
            self._sweep_ms = now_ms + _SWEEP_INTERVAL_MS
            self._unswept = [group.name for group in self.table]
            effects.records.extend(self.table.exclusive_topics.forget_gone(self._topic_id_of))
        looked_at = 0
        while self._unswept and looked_at < _SWEEP_OFFSETS:
            group = self.table.get(self._unswept.pop())
            if group is not None:
                looked_at += 1 + len(group.offsets)
                self._retire(group, wall_ms, effects)

    def _retire(self, group: Group, wall_ms: int, effects: Effects) -> None:
        if isinstance(group.machine, ShareGroup):
            left = [
                kept
                for kept in self.table.shares.of(group.name)
                if self._topic_id_of(kept.topic) != kept.topic_id
            ]
            effects.extend(self.shared.retire(group, left, wall_ms))
            return
        retention_ms = self._config.offsets_retention_ms
        expired = group.offsets.expired(group.usage(), retention_ms, wall_ms)
        gone = [
            committed
            for committed in group.offsets
            if self._topic_id_of(committed.topic) != committed.topic_id
        ]
        for committed in (*expired, *gone):
            tombstone = self.table.remove_offset(group, committed.topic, committed.partition)
            if tombstone is not None:
                effects.record(tombstone)
        taken = self.table.point_to_point
        subscribed = group.usage().subscribed
        if subscribed is not None:
            effects.records.extend(taken.forget_gone(group.name, subscribed, self._topic_id_of))
        if group.is_empty and not group.offsets and not taken.topics_of(group.name):
            effects.records.extend(self.table.remove(group))

    # --- helpers -------------------------------------------------------------------------------

    def _get(self, name: str) -> Group | None:
        check_group_name(name)
        return self.table.get(name)

    def _find(self, name: str) -> Group:
        group = self._get(name)
        if group is None:
            raise UnknownGroup(f"There is no group {name!r}.")
        return group

    def _classic_members(self, name: str) -> tuple[Group, ClassicGroup]:
        """The group that a member of it speaks to."""
        group = self._get(name)
        if group is None or not isinstance(group.machine, ClassicGroup):
            raise UnknownMember
        return group, group.machine

    def _group_for_join(self, name: str) -> tuple[Group, ClassicGroup]:
        """The group, and its machine or the one it gets if this member is let in."""
        group = self.table.get_or_create(name)
        if isinstance(group.machine, ClassicGroup):
            return group, group.machine
        check_not_shared(group, InconsistentProtocol)
        if not group.is_empty:
            raise InconsistentProtocol(
                f"Group {name!r} has members that use the next generation protocol: let this "
                "consumer use it too (group.protocol=consumer), or stop them first."
            )
        return group, ClassicGroup(name, self._config.classic)

    def _group_for_heartbeat(self, name: str) -> tuple[Group, ConsumerGroup]:
        """The group, and its machine or the one it gets if this member is let in."""
        group = self.table.get_or_create(name)
        if isinstance(group.machine, ConsumerGroup):
            return group, group.machine
        check_not_shared(group, UnknownGroup)
        if not group.is_empty:
            raise UnknownGroup(
                f"Group {name!r} has members that use the classic protocol: let this consumer "
                "use it too (group.protocol=classic), or stop them first."
            )
        return group, ConsumerGroup(name, self.table.settings.consumer_config(name))

    def _let_in(
        self, group: Group, machine: ClassicGroup | ConsumerGroup, acted: Effects
    ) -> Effects:
        """A group gets its kind with the first member that is let in: one that is refused changes
        nothing."""
        effects = Effects()
        if machine is not group.machine and machine.deadline_ms is not None:
            effects.records.extend(self.table.forget_members(group))
            group.machine = machine
        effects.extend(acted)
        return self.table.acted(group, effects)

    def _check_room(self, group: Group | None, offsets: Sequence[CommittedOffset]) -> None:
        """Only what a group has not committed before takes room."""
        count = self.table.offset_count
        if count + len(offsets) <= GROUP_OFFSETS_MAX:
            return
        known = GroupOffsets() if group is None else group.offsets
        places = {(committed.topic, committed.partition) for committed in offsets}
        if count + sum(place not in known for place in places) > GROUP_OFFSETS_MAX:
            # Some may be of topics that are gone by now.
            if self._sweep_ms is not None:
                soon_ms = self._swept_ms + _SWEEP_INTERVAL_MS_MIN
                self._sweep_ms = min(self._sweep_ms, soon_ms)
            raise Busy(f"The broker keeps {GROUP_OFFSETS_MAX} offsets of groups and no more.")


def _check_committer(group: Group, request: CommitRequest, now_ms: int) -> None:
    check_not_shared(group, UnknownGroup)
    machine = group.machine
    if isinstance(machine, ClassicGroup):
        machine.check_commit(request.member_id, request.instance_id, request.generation, now_ms)
    elif isinstance(machine, ConsumerGroup):
        if machine.member_count and not request.member_id:
            raise UnknownMember(
                f"Group {group.name!r} has members, and only they commit its offsets: stop them "
                "first."
            )
        owned = request.offsets if request.must_own else ()
        machine.check_commit(request.member_id, request.generation, owned)
    elif request.generation >= 0:
        raise UnknownMember


def _protocol_type(group: Group) -> str:
    machine = group.machine
    if isinstance(machine, ClassicGroup):
        return machine.protocol_type or ""
    if isinstance(machine, ShareGroup):
        return SHARE_PROTOCOL_TYPE
    return "" if machine is None else CONSUMER_PROTOCOL_TYPE


def listed_group(group: Group) -> ListedGroup:
    machine = group.machine
    kinds = {ConsumerGroup: CONSUMER, ShareGroup: SHARED}
    return ListedGroup(
        name=group.name,
        kind=kinds.get(type(machine), CLASSIC),
        state=(GroupState.EMPTY if machine is None else machine.state).value,
        protocol_type=_protocol_type(group),
    )
