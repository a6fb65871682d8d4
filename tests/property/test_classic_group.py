"""Classic groups under random clients: what holds whatever they do, in whatever order.

R-DEL-4: a member is told only what the leader of its own generation assigned to it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from penstock.coordination.group.classic.group import ClassicGroup
from penstock.coordination.group.classic.messages import (
    GroupConfig,
    GroupState,
    HeartbeatRequest,
    JoinAnswer,
    JoinRequest,
    LeaveRequest,
    LeavingMember,
    MemberIdGiven,
    SyncAnswer,
    SyncRequest,
)
from penstock.coordination.group.classic.record import decode_group
from penstock.coordination.group.effects import Effects, Ticket
from penstock.model.errors import (
    FencedInstance,
    IllegalGeneration,
    RebalanceInProgress,
    UnknownMember,
)
from tests.golden.groups.classic_script import subscription
from tests.kit.models.tickets import Named

CONFIG = GroupConfig(initial_rebalance_delay_ms=3_000, members_max=4)
NAMES = ("a", "b", "c", "d", "e", "f")
STATIC = ("a", "b")


@dataclass(eq=False)
class Consumer:
    """What one client knows. A member id is its name and a number."""

    name: str
    member_id: str = ""
    generation: int = -1
    members: tuple[str, ...] = ()
    is_to_join: bool = True
    is_to_sync: bool = True

    @property
    def instance_id(self) -> str | None:
        return self.name if self.name in STATIC else None


def owner(member_id: str) -> str:
    return member_id.split("-")[0]


class ClassicGroups(RuleBasedStateMachine):
    """One group, six clients of which two are static, and restarts of the broker."""

    def __init__(self) -> None:
        super().__init__()
        self.now_ms = 1_000_000
        self.group = ClassicGroup("g", CONFIG)
        self.clients = {name: Consumer(name) for name in NAMES}
        self.waiting: dict[Ticket[Any], Consumer] = {}
        self.ticket_count = 0
        self.restarts = 0
        self.generation = 0
        self.recorded_generation = 0
        self.agreed: dict[tuple[int, int], tuple[str, str]] = {}
        self.leaders: dict[tuple[int, int], set[str]] = {}
        self.last_record: bytes | None = None

    # --- what clients do -----------------------------------------------------------------------

    @rule(
        name=st.sampled_from(NAMES),
        topics=st.sampled_from(("t", "t", "t,u")),
        protocols=st.sampled_from(("range", "range,sticky", "sticky,range", "sticky")),
        timeout_ms=st.sampled_from((6_000, 20_000)),
        version=st.sampled_from((3, 4, 9)),
    )
    def join(self, name: str, topics: str, protocols: str, timeout_ms: int, version: int) -> None:
        client = self.clients[name]
        ticket = self._ticket(client)
        request = JoinRequest(
            member_id=client.member_id,
            new_member_id=f"{name}-{ticket}",
            instance_id=client.instance_id,
            client_id=name,
            client_host="/10.0.0.1",
            session_timeout_ms=10_000,
            rebalance_timeout_ms=timeout_ms,
            protocol_type="consumer",
            protocols=tuple((each, subscription(topics)) for each in protocols.split(",")),
            requires_known_member_id=version >= 4,
            supports_skipping_assignment=version >= 9,
        )
        self._apply(self.group.join(ticket, request, self.now_ms))

    @rule(name=st.sampled_from(NAMES))
    def sync(self, name: str) -> None:
        client = self.clients[name]
        request = SyncRequest(
            member_id=client.member_id,
            generation=client.generation,
            instance_id=client.instance_id,
            assignments={
                member_id: f"{client.generation}/{owner(member_id)}".encode()
                for member_id in client.members
            },
        )
        self._apply(self.group.sync(self._ticket(client), request, self.now_ms))

    @rule(name=st.sampled_from(NAMES))
    def heartbeat(self, name: str) -> None:
        client = self.clients[name]
        request = HeartbeatRequest(
            member_id=client.member_id,
            generation=client.generation,
            instance_id=client.instance_id,
        )
        ticket = self._ticket(client)
        self._apply(self.group.heartbeat(ticket, request, self.now_ms))
        assert ticket not in self.waiting, "a heartbeat does not wait"

    @rule(names=st.sets(st.sampled_from(NAMES), min_size=1))
    def leave(self, names: set[str]) -> None:
        leaving = [self.clients[name] for name in sorted(names)]
        request = LeaveRequest(
            members=tuple(
                LeavingMember(member_id=client.member_id, instance_id=client.instance_id)
                for client in leaving
            )
        )
        self._apply(self.group.leave(self._ticket(leaving[0]), request, self.now_ms))

    @rule(names=st.lists(st.sampled_from(NAMES[:4]), min_size=4, max_size=16))
    def work(self, names: list[str]) -> None:
        """These do, one after the other, what a real consumer would do next."""
        for name in names:
            client = self.clients[name]
            if client in self.waiting.values():
                self.let_time_pass(500)
            elif client.is_to_join:
                self.join(name, "t", "range,sticky", 20_000, 9)
            elif client.is_to_sync:
                self.sync(name)
            else:
                self.heartbeat(name)

    @rule(name=st.sampled_from(NAMES))
    def start_anew(self, name: str) -> None:
        self.clients[name] = Consumer(name)

    @rule(duration_ms=st.sampled_from((1, 1_000, 3_000, 9_000, 30_000)))
    def let_time_pass(self, duration_ms: int) -> None:
        until_ms = self.now_ms + duration_ms
        while (deadline_ms := self.group.deadline_ms) is not None and deadline_ms <= until_ms:
            self.now_ms = max(self.now_ms, deadline_ms)
            self._apply(self.group.expire(self.now_ms))
        self.now_ms = until_ms

    @rule()
    def restart_the_broker(self) -> None:
        self.waiting.clear()
        self.restarts += 1
        self.generation = self.recorded_generation
        if self.last_record is None:
            self.group = ClassicGroup("g", CONFIG)
        else:
            self.group = ClassicGroup.restore("g", CONFIG, self.last_record, self.now_ms)

    # --- what must hold ------------------------------------------------------------------------

    @invariant()
    def nobody_is_forgotten(self) -> None:
        """Each member has a deadline, or a request that waits and an end to that."""
        group = self.group._group
        preparing = group.state is GroupState.PREPARING_REBALANCE
        assert preparing == (group.join_deadline_ms is not None)
        assert preparing or not group.joining
        assert group.state is GroupState.COMPLETING_REBALANCE or not group.syncing
        assert bool(group.unsynced) == (group.sync_deadline_ms is not None)
        assert group.members or group.state in (GroupState.EMPTY, GroupState.PREPARING_REBALANCE)
        for member in group.members:
            waits = member.member_id in group.joining or member.member_id in group.syncing
            assert waits or member.member_id in group.sessions
        assert len(self.waiting) == len(group.joining) + len(group.syncing)
        is_empty = group.state is GroupState.EMPTY and group.generation > 0
        assert is_empty == (group.empty_since_ms is not None)

    @invariant()
    def limits_hold(self) -> None:
        assert self.group.member_count <= CONFIG.members_max
        assert len(self.group._group.pending) <= CONFIG.members_max
        members = self.group._group.members
        assert members.record_bytes == sum(member.record_bytes for member in members)

    @invariant()
    def the_generation_only_rises(self) -> None:
        assert self.group.generation >= self.generation
        self.generation = self.group.generation

    def teardown(self) -> None:
        """Every ticket is answered, if time passes and members send their heartbeats."""
        for _ in range(20):
            if not self.waiting:
                return
            for name in NAMES:
                self.heartbeat(name)
            assert self.group.deadline_ms is not None
            self.let_time_pass(max(self.group.deadline_ms - self.now_ms, 0))
        raise AssertionError(f"{len(self.waiting)} requests wait for ever")

    # --- helpers -------------------------------------------------------------------------------

    def _ticket(self, client: Consumer) -> Named:
        self.ticket_count += 1
        ticket = Named(self.ticket_count)
        self.waiting[ticket] = client
        return ticket

    def _apply(self, effects: Effects) -> None:
        for record in effects.records:
            assert record.value is not None
            self.last_record = record.value
            snapshot = decode_group("g", record.value)
            self.recorded_generation = snapshot.generation
            assert snapshot.generation == self.group.generation
            restored = ClassicGroup.restore("g", CONFIG, record.value, self.now_ms)
            assert restored._group.snapshot() == self.group._group.snapshot()
            assert restored.describe() == self.group.describe()
        for ticket, answer in effects.answers:
            client: Any = self.waiting.pop(ticket)
            self._learn(client, answer)

    def _learn(self, client: Consumer, answer: object) -> None:
        match answer:
            case MemberIdGiven():
                client.member_id = answer.member_id
            case JoinAnswer():
                assert owner(answer.member_id) == client.name
                self._check_agreement(client, answer)
                client.member_id, client.generation = answer.member_id, answer.generation
                client.members = tuple(member.member_id for member in answer.members)
                client.is_to_join, client.is_to_sync = False, not answer.skip_assignment
            case SyncAnswer():
                # A client that started anew meanwhile is not the one that asked.
                mine = f"{client.generation}/{client.name}".encode()
                assert answer.assignment in (mine, b"")
                client.is_to_sync = False
            case UnknownMember() | FencedInstance():
                client.member_id, client.generation, client.is_to_join = "", -1, True
            case RebalanceInProgress() | IllegalGeneration():
                client.is_to_join = True
            case _:
                pass

    def _check_agreement(self, client: Consumer, answer: JoinAnswer) -> None:
        """All that are told of a generation are told the same, and one leads it. A static leader
        that restarted has a new id: who it is is in its name."""
        generation = (self.restarts, answer.generation)
        agreement = (answer.protocol, owner(answer.leader))
        assert self.agreed.setdefault(generation, agreement) == agreement
        leaders = self.leaders.setdefault(generation, set())
        if answer.members:
            leaders.add(client.name)
            assert client.name == owner(answer.leader)
        assert len(leaders) <= 1
        assert answer.generation == self.group.generation


ClassicGroups.TestCase.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
TestClassicGroups = ClassicGroups.TestCase
