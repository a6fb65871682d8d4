"""The state of a classic group, and the steps of a rebalance.

Not the requests (`join`, `sync`, `group`): they check, then call these steps.

    Empty ── first join ──► PreparingRebalance ── all joined, or too late ──► CompletingRebalance
      ▲                      │  ▲          ▲                                        │
      └── nobody joined ─────┘  │          └── a member joins, leaves, is late ─────┤
                                └── the same ── Stable ◄── the leader's sync ───────┘

The invariants: a request waits in `joining` only while the rebalance is prepared, and in `syncing`
only while it is completed; a member whose request waits has no session deadline (unless it is new),
every other one has; each ticket is answered once; the generation only rises.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from penstock.coordination.group.classic.member import Member, Members
from penstock.coordination.group.classic.messages import (
    GroupConfig,
    GroupState,
    JoinAnswer,
    JoinedMember,
    SyncAnswer,
)
from penstock.coordination.group.classic.record import GroupSnapshot, encode_group
from penstock.coordination.group.effects import Effects, Ticket
from penstock.coordination.group.sessions import Sessions
from penstock.model.errors import (
    FencedInstance,
    PenstockError,
    RebalanceInProgress,
    UnknownMember,
)
from penstock.model.limits import GROUP_REBALANCE_TIMEOUT_MS_MIN


@dataclass(slots=True)
class FirstDelay:
    """The wait before the first generation: repeated while members keep coming, to a limit."""

    until_ms_max: int
    has_newcomers: bool = False


class RebalancingGroup:
    """All that a classic group knows, and the steps that change it."""

    def __init__(self, name: str, config: GroupConfig) -> None:
        self.name = name
        self.config = config
        self.state = GroupState.EMPTY
        self.generation = 0
        self.protocol_type: str | None = None
        self.protocol: str | None = None
        self.leader: str | None = None
        self.empty_since_ms: int | None = None
        self.members = Members()
        self.assignments: dict[str, bytes] = {}
        self.pending: set[str] = set()
        """Ids given to members that have not joined with them yet (KIP-394)."""
        self.joining: dict[str, Ticket[JoinAnswer]] = {}
        self.syncing: dict[str, Ticket[SyncAnswer]] = {}
        self.unsynced: set[str] = set()
        """Members of this generation that have not asked for their assignment yet."""
        self.sessions = Sessions()
        self.first_delay: FirstDelay | None = None
        self.join_deadline_ms: int | None = None
        self.sync_deadline_ms: int | None = None

    # --- members -------------------------------------------------------------------------------

    def check_member(self, member_id: str, instance_id: str | None) -> Member:
        """The member that says who it is, or the reason why it is not."""
        if instance_id is not None:
            holder = self.members.of_instance(instance_id)
            if holder is None:
                raise UnknownMember
            if holder.member_id != member_id:
                raise FencedInstance(
                    f"Another member took over the instance id {instance_id!r} of group "
                    f"{self.name!r}: give each consumer an instance id of its own."
                )
        if member_id not in self.members:
            raise UnknownMember
        return self.members[member_id]

    def touch(self, member: Member, now_ms: int) -> None:
        """The member is alive. One whose request waits needs no heartbeats."""
        if member.member_id not in self.joining and member.member_id not in self.syncing:
            self.sessions.set(member.member_id, now_ms + member.session_timeout_ms)

    def drop(self, member_ids: Collection[str], now_ms: int, effects: Effects) -> None:
        """These leave, or were lost: one rebalance for all of them."""
        members_before = len(self.members)
        for member_id in member_ids:
            if member_id in self.members:
                self._remove(member_id, effects)
            else:
                self.pending.discard(member_id)
                self.sessions.cancel(member_id)
        # A pending member has nothing to share out, but a rebalance may have waited for it.
        if len(self.members) < members_before or self.state is GroupState.PREPARING_REBALANCE:
            self.go_on(now_ms, effects)

    def replace(self, old: Member, new: Member, effects: Effects) -> None:
        """A static member came back under a new id and takes over all that the old one had."""
        self._release(old.member_id, FencedInstance(), effects)
        self.members.remove(old.member_id)
        self.members.put(new)
        self.sessions.cancel(old.member_id)
        if old.member_id in self.assignments:
            self.assignments[new.member_id] = self.assignments.pop(old.member_id)
        if old.member_id in self.unsynced:
            self.unsynced.remove(old.member_id)
            self.unsynced.add(new.member_id)
        if self.leader == old.member_id:
            self.leader = new.member_id

    # --- the join phase ------------------------------------------------------------------------

    def wait_for_others(self, member_id: str, ticket: Ticket[JoinAnswer], effects: Effects) -> None:
        """Let the member's join wait. One that it sent before, and gave up, is answered."""
        if member_id in self.joining:
            effects.answer(self.joining[member_id], RebalanceInProgress())
        else:
            self.sessions.cancel(member_id)
        self.joining[member_id] = ticket

    def go_on(self, now_ms: int, effects: Effects) -> None:
        """Something changed: start a rebalance, or end the join phase if all have joined."""
        if self.state is not GroupState.PREPARING_REBALANCE:
            self._prepare(now_ms, effects)
        all_joined = len(self.joining) == len(self.members) and not self.pending
        if all_joined and self.first_delay is None:
            self._complete_join(now_ms, effects)

    def expire_join(self, now_ms: int, effects: Effects) -> None:
        """The join phase has lasted long enough."""
        delay = self.first_delay
        if delay is not None and delay.has_newcomers:
            delay.has_newcomers = False
            next_ms = now_ms + self.config.initial_rebalance_delay_ms
            self.join_deadline_ms = min(next_ms, delay.until_ms_max)
            if now_ms < self.join_deadline_ms:
                return
        # A static member keeps its place until its session ends: it may be restarting (KIP-345).
        for member in list(self.members):
            if member.member_id not in self.joining and member.instance_id is None:
                self._remove(member.member_id, effects)
        if self.members and not self.joining:
            self.join_deadline_ms = now_ms + self._patience_ms()
            return
        self._complete_join(now_ms, effects)

    def _prepare(self, now_ms: int, effects: Effects) -> None:
        is_first = self.state is GroupState.EMPTY
        # Nobody gets an assignment of the generation that is over: all are to join again.
        waiting, self.syncing = self.syncing, {}
        for member_id, ticket in waiting.items():
            effects.answer(ticket, RebalanceInProgress())
            self.touch(self.members[member_id], now_ms)
        self.unsynced.clear()
        self.sync_deadline_ms = None
        self.state = GroupState.PREPARING_REBALANCE
        self.empty_since_ms = None
        patience_ms = self._patience_ms()
        if is_first:
            delay_ms = self.config.initial_rebalance_delay_ms
            self.first_delay = FirstDelay(until_ms_max=now_ms + max(delay_ms, patience_ms))
            self.join_deadline_ms = now_ms + delay_ms
        else:
            self.join_deadline_ms = now_ms + patience_ms

    def _complete_join(self, now_ms: int, effects: Effects) -> None:
        self.first_delay = None
        self.join_deadline_ms = None
        self.generation += 1
        if not self.members:
            self._become_empty(now_ms, effects)
            return
        if self.leader not in self.joining:
            self.leader = next(iter(self.joining))
        self.protocol = self.members.select_protocol()
        self.state = GroupState.COMPLETING_REBALANCE
        joined, self.joining = self.joining, {}
        for member_id, ticket in joined.items():
            effects.answer(ticket, self.join_answer(member_id))
            self.touch(self.members[member_id], now_ms)
        self.unsynced = set(joined)
        self.sync_deadline_ms = now_ms + self._patience_ms()

    def _become_empty(self, now_ms: int, effects: Effects) -> None:
        self.state = GroupState.EMPTY
        self.protocol = None
        self.leader = None
        self.empty_since_ms = now_ms
        self.persist(effects)

    def join_answer(self, member_id: str) -> JoinAnswer:
        """What the member is told of the generation it is in."""
        assert self.protocol_type is not None, self.state
        assert self.protocol is not None, self.state
        assert self.leader is not None, self.state
        is_leader = member_id == self.leader
        return JoinAnswer(
            member_id=member_id,
            generation=self.generation,
            protocol_type=self.protocol_type,
            protocol=self.protocol,
            leader=self.leader,
            members=self._roll() if is_leader else (),
        )

    def _roll(self) -> tuple[JoinedMember, ...]:
        assert self.protocol is not None
        return tuple(
            JoinedMember(
                member_id=member.member_id,
                instance_id=member.instance_id,
                metadata=member.metadata(self.protocol) or b"",
            )
            for member in self.members
        )

    # --- the sync phase ------------------------------------------------------------------------

    def note_sync(self, member_id: str) -> None:
        """The member has asked for its assignment. All have: nobody is late any more."""
        self.unsynced.discard(member_id)
        if not self.unsynced:
            self.sync_deadline_ms = None

    def complete(self, now_ms: int, effects: Effects) -> None:
        """The leader has assigned: the group is stable, and its members get their parts."""
        self.state = GroupState.STABLE
        self.persist(effects)
        waiting, self.syncing = self.syncing, {}
        for member_id, ticket in waiting.items():
            effects.answer(ticket, self.sync_answer(member_id))
            self.touch(self.members[member_id], now_ms)

    def sync_answer(self, member_id: str) -> SyncAnswer:
        assert self.protocol_type is not None, self.state
        assert self.protocol is not None, self.state
        return SyncAnswer(
            protocol_type=self.protocol_type,
            protocol=self.protocol,
            assignment=self.assignments[member_id],
        )

    def expire_sync(self, now_ms: int, effects: Effects) -> None:
        """Members that took the generation and never asked for their part are removed."""
        self.drop(sorted(self.unsynced), now_ms, effects)

    # --- records -------------------------------------------------------------------------------

    def persist(self, effects: Effects) -> None:
        effects.record(encode_group(self.name, self.snapshot()))

    def snapshot(self) -> GroupSnapshot:
        return GroupSnapshot(
            generation=self.generation,
            protocol_type=self.protocol_type,
            protocol=self.protocol,
            leader=self.leader,
            empty_since_ms=self.empty_since_ms,
            members=tuple(self.members),
            assignments=self.assignments,
        )

    def load(self, snapshot: GroupSnapshot, now_ms: int) -> None:
        """Become what the record says; every member has a full session from now."""
        self.generation = snapshot.generation
        self.protocol_type = snapshot.protocol_type
        self.protocol = snapshot.protocol
        self.leader = snapshot.leader
        self.empty_since_ms = snapshot.empty_since_ms
        self.assignments = dict(snapshot.assignments)
        for member in snapshot.members:
            self.members.put(member)
            self.touch(member, now_ms)
        self.state = GroupState.STABLE if self.members else GroupState.EMPTY

    # --- helpers -------------------------------------------------------------------------------

    def _patience_ms(self) -> int:
        return max(self.members.rebalance_timeout_ms(), GROUP_REBALANCE_TIMEOUT_MS_MIN)

    def _remove(self, member_id: str, effects: Effects) -> None:
        self._release(member_id, UnknownMember(), effects)
        self.members.remove(member_id)
        self.assignments.pop(member_id, None)
        self.unsynced.discard(member_id)
        self.sessions.cancel(member_id)
        if self.leader == member_id:
            self.leader = None  # the next generation elects one

    def _release(self, member_id: str, error: PenstockError, effects: Effects) -> None:
        """Answer whatever request of the member waits."""
        for waiting in (self.joining, self.syncing):
            if member_id in waiting:
                effects.answer(waiting.pop(member_id), error)
