"""A cluster of `Raft` nodes in memory, in virtual time: production's consensus, a shell for tests.

The shell is the smallest that obeys the contract of `raft.core` and is as unreliable as it allows:
a message may be late, lost, doubled or overtaken; saving and flushing take time; a node may crash
right after it said something. All of it comes from one seed. Not the disk (`disk`), the faults
(`turmoil`) and not what must hold (`checkers`). The invariant: a message leaves, and a byte is
written, only when the state that it follows from is saved.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, assert_never

from penstock.raft.core import Raft
from penstock.raft.leadership import Sending
from penstock.raft.membership import Membership, Node
from penstock.raft.messages import (
    AppendAnswer,
    AppendRequest,
    BatchPlace,
    CampaignRequest,
    Message,
    ResetRequest,
    VoteAnswer,
    VoteRequest,
)
from penstock.raft.state import SavedState, Timing
from tests.kit.simulation.network import Network
from tests.kit.simulation.raft.disk import NOOP, Batch, Disk
from tests.kit.simulation.timeline import Timeline
from tests.kit.simulation.wording import describe

TIMING = Timing(election_ms=300, retry_ms=100)
TICK_MS = 20
HEARTBEAT_MS = 60
GOOD_DELAY_MS_MAX = 20
GOOD_DISK_DELAY_MS_MAX = 10


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """Of a leader, and its answer. Production sends one for all logs that two brokers share."""

    term: int
    commit_offset: int
    is_answer: bool = False


class Observer(Protocol):
    """Who looks at everything that happens: see `tests.kit.simulation.raft.checkers`."""

    def on_step(self, server: Server) -> None: ...

    def on_restart(self, server: Server) -> None: ...

    def on_acknowledged(self, batch: Batch) -> None: ...


class Server:
    """One node: its disk, which survives, and its consensus, which a crash takes."""

    def __init__(self, cluster: Cluster, disk: Disk) -> None:
        self.node = disk.node
        self.disk = disk
        self.raft: Raft | None = None
        self.incarnation = 0
        self._cluster = cluster
        self._inbox: deque[Callable[[Raft], None]] = deque()
        self._is_saving = False
        self._is_flushing = False
        # What is to be done as soon as the state is saved.
        self._reset_to: int | None = None
        self._unwritten: tuple[Batch, ...] = ()
        self._matched: AppendRequest | None = None
        self._heard_of: Node | None = None
        self._waiting: deque[tuple[int, Batch]] = deque()

    # --- life ------------------------------------------------------------------------------------

    def start(self) -> None:
        assert self.raft is None
        random = self._cluster.random
        self.raft = Raft(
            self.node,
            self.disk.saved,
            self.disk.found(),
            timing=TIMING,
            draw_delay_ms=lambda: random.randrange(TIMING.election_ms),
            now_ms=self._cluster.now_ms,
        )
        self._cluster.timeline.note(str(self.node), "starts")
        self._cluster.observer.on_restart(self)
        self._tick(self.incarnation)
        self._beat(self.incarnation)

    def crash(self) -> None:
        self._cluster.timeline.note(str(self.node), "crashes")
        self.raft = None
        self.incarnation += 1
        self._inbox.clear()
        self._waiting.clear()
        self._is_saving = self._is_flushing = False
        self._reset_to = self._matched = self._heard_of = None
        self._unwritten = ()
        self.disk.crash(self._cluster.random)

    def _crash_and_start(self, incarnation: int) -> None:
        if incarnation == self.incarnation:
            self.crash()
            self.start()

    def _tick(self, incarnation: int) -> None:
        if incarnation == self.incarnation:
            self.do(lambda raft: raft.on_time(self._cluster.now_ms))
            self._cluster.timeline.after(TICK_MS, lambda: self._tick(incarnation))

    def _beat(self, incarnation: int) -> None:
        if incarnation == self.incarnation:
            self.do(self._send_heartbeats)
            self._cluster.timeline.after(HEARTBEAT_MS, lambda: self._beat(incarnation))

    # --- one thing after the other ---------------------------------------------------------------

    def do(self, action: Callable[[Raft], None]) -> None:
        """Now, or when the state is saved that an earlier action changed."""
        self._inbox.append(action)
        self._run()

    def _run(self) -> None:
        while self._inbox and not self._is_saving and self.raft is not None:
            self._inbox.popleft()(self.raft)
            self._after(self.raft)

    def _after(self, raft: Raft) -> None:
        if not raft.state.is_unsaved:
            self._finish(raft)
            return
        self._is_saving = True
        raft.state.is_unsaved = False
        saved = raft.state.saved
        incarnation = self.incarnation
        self._cluster.timeline.after(
            self._cluster.disk_delay_ms(), lambda: self._on_saved(incarnation, saved)
        )

    def _on_saved(self, incarnation: int, saved: SavedState) -> None:
        if incarnation != self.incarnation:
            return
        assert self.raft is not None
        self.disk.saved = saved
        self._is_saving = False
        if self._cluster.random.random() < self._cluster.brittleness:
            # Saved, and nothing that was to follow is done.
            self._crash_and_start(incarnation)
            return
        self._finish(self.raft)
        self._run()

    def _finish(self, raft: Raft) -> None:
        """What was waiting for the state to be saved."""
        if self._reset_to is not None:
            self.disk.reset(self._reset_to)
        self.disk.append(self._unwritten)
        if self._matched is not None:
            raft.matched(self._matched)
        if self._heard_of is not None:
            answer = Heartbeat(raft.state.term, 0, is_answer=True)
            self._cluster.send(self.node, self._heard_of, answer)
        self._reset_to = self._matched = self._heard_of = None
        self._unwritten = ()
        if raft.leading is not None:
            if raft.leading.is_noop_due:
                self._inbox.append(self._append_noop)
            for sending in raft.leading.sendings(self._cluster.now_ms):
                self._send_log(raft, sending)
        for node, message in raft.state.outbox:
            self._cluster.send(self.node, node, message)
        if raft.state.outbox and self._cluster.random.random() < self._cluster.brittleness:
            incarnation = self.incarnation
            self._cluster.timeline.after(0, lambda: self._crash_and_start(incarnation))
        raft.state.outbox.clear()
        self._flush()
        self._acknowledge(raft)
        self._cluster.observer.on_step(self)

    def _flush(self) -> None:
        if self._is_flushing or self.disk.flushed_offset == self.disk.end_offset:
            return
        self._is_flushing = True
        began = (self.incarnation, self.disk.cuts)
        offset = self.disk.end_offset
        self._cluster.timeline.after(
            self._cluster.disk_delay_ms(), lambda: self._on_flushed(began, offset)
        )

    def _on_flushed(self, began: tuple[int, int], offset: int) -> None:
        if began[0] != self.incarnation:
            return
        self._is_flushing = False
        if began[1] == self.disk.cuts:
            self.disk.flushed_offset = max(self.disk.flushed_offset, offset)

        def tell(raft: Raft) -> None:
            if began[1] == self.disk.cuts:
                raft.durable(offset, self._cluster.now_ms)

        self.do(tell)

    # --- leading ---------------------------------------------------------------------------------

    def propose(self, payload: int) -> None:
        def append(raft: Raft) -> None:
            if raft.leading is not None and raft.leading.transfer_to is None:
                self._waiting.append((raft.state.term, self._append(raft, payload)))

        self.do(append)

    def change(self, membership: Membership) -> None:
        def append(raft: Raft) -> None:
            if raft.leading is not None and raft.leading.may_change(membership):
                self._append(raft, NOOP, membership)

        self.do(append)

    def transfer(self, node: Node) -> None:
        def transfer(raft: Raft) -> None:
            raft.transfer(node, self._cluster.now_ms)

        self.do(transfer)

    def drop_before(self, place: float) -> None:
        """Retention: drop so much of what may be dropped."""

        def drop(raft: Raft) -> None:
            state = raft.state
            limit = min(state.commit_offset, state.durable_offset)
            ends = [batch.place.end_offset for batch in self.disk.batches]
            allowed = [end for end in ends if end <= limit]
            if allowed:
                offset = allowed[int(place * len(allowed))]
                self.disk.drop_before(offset)
                state.dropped_before(offset)

        self.do(drop)

    def lose_patience(self) -> None:
        """A follower's time is by chance; it may come now."""

        def hurry(raft: Raft) -> None:
            if raft.leading is None:
                raft.deadline_ms = self._cluster.now_ms
                raft.on_time(self._cluster.now_ms)

        self.do(hurry)

    def _append_noop(self, raft: Raft) -> None:
        if raft.leading is not None and raft.leading.is_noop_due:
            self._append(raft, NOOP)

    def _append(self, raft: Raft, payload: int, membership: Membership | None = None) -> Batch:
        state = raft.state
        base_offset = state.terms.end_offset
        size = self._cluster.random.randint(1, 3) if payload != NOOP else 1
        place = BatchPlace(base_offset, base_offset + size, state.term, membership)
        if payload == NOOP:
            raft.written([place], self._cluster.now_ms)
        else:
            raft.extended(place.end_offset)
        batch = Batch(place, payload)
        self._unwritten = (batch,)
        return batch

    def _send_heartbeats(self, raft: Raft) -> None:
        if raft.leading is not None:
            beat = Heartbeat(raft.state.term, raft.state.commit_offset)
            for node in raft.leading.followers:
                self._cluster.send(self.node, node, beat)

    def _send_log(self, raft: Raft, sending: Sending) -> None:
        assert raft.leading is not None
        batches = self.disk.read(sending.previous_offset, sending.end_offset)
        request = AppendRequest(
            term=raft.state.term,
            previous_term=sending.previous_term,
            previous_offset=sending.previous_offset,
            commit_offset=raft.state.commit_offset,
            batches=tuple(batch.place for batch in batches),
        )
        raft.leading.sent(sending.node, request.end_offset, self._cluster.now_ms)
        self._cluster.send(self.node, sending.node, request, batches)

    def _acknowledge(self, raft: Raft) -> None:
        """Tell clients what is committed, if this node still leads in the term they were in."""
        while self._waiting:
            term, batch = self._waiting[0]
            if raft.leading is not None and term == raft.state.term:
                if batch.place.end_offset > raft.state.commit_offset:
                    return
                self._cluster.observer.on_acknowledged(batch)
            self._waiting.popleft()

    # --- messages --------------------------------------------------------------------------------

    def handle(
        self, raft: Raft, sender: Node, message: Message | Heartbeat, batches: tuple[Batch, ...]
    ) -> None:
        now_ms = self._cluster.now_ms
        match message:
            case AppendRequest():
                self._handle_append(raft, sender, message, batches)
            case AppendAnswer():
                raft.on_append_answer(sender, message, now_ms)
            case ResetRequest():
                if raft.on_reset_request(sender, message, now_ms):
                    self._reset_to = message.start_offset
            case VoteRequest():
                raft.on_vote_request(sender, message, now_ms)
            case VoteAnswer():
                raft.on_vote_answer(sender, message, now_ms)
            case CampaignRequest():
                raft.on_campaign_request(sender, message, now_ms)
            case Heartbeat(is_answer=True):
                raft.hear(sender, now_ms)
            case Heartbeat():
                raft.follow_commit(sender, message.term, message.commit_offset, now_ms)
                self._heard_of = sender
            case _:
                assert_never(message)

    def _handle_append(
        self, raft: Raft, sender: Node, request: AppendRequest, batches: tuple[Batch, ...]
    ) -> None:
        plan = raft.plan_append(sender, request, self._cluster.now_ms)
        if plan is None:
            return
        if plan.truncate_to is not None:
            self.disk.truncate(plan.truncate_to)
            raft.state.truncated(plan.truncate_to)
        raft.written(plan.batches, self._cluster.now_ms)
        self._unwritten = batches[plan.first :]
        self._matched = request


class Cluster:
    """The servers, the time and the network between them, where they are known by their brokers."""

    def __init__(
        self, timeline: Timeline, servers: int, membership: Membership, observer: Observer
    ) -> None:
        self.timeline = timeline
        self.random = timeline.random
        self.network = Network(
            timeline, keeps_order=False, delay_ms_max=GOOD_DELAY_MS_MAX, overtaking=0.1
        )
        self.observer = observer
        # How often a node crashes right after it said something.
        self.brittleness = 0.0
        self.disk_delay_ms_max = GOOD_DISK_DELAY_MS_MAX
        nodes = [Node(broker, 1) for broker in range(1, servers + 1)]
        self.servers = {node: Server(self, Disk(node, membership)) for node in nodes}

    @property
    def now_ms(self) -> int:
        return self.timeline.now_ms

    @property
    def leaders(self) -> list[Server]:
        """Who thinks it leads: more than one, while an old one does not know of the new."""
        alive = (server for server in self.servers.values() if server.raft is not None)
        return [server for server in alive if server.raft and server.raft.leading is not None]

    def disk_delay_ms(self) -> int:
        return self.random.randint(0, self.disk_delay_ms_max)

    def send(
        self,
        sender: Node,
        receiver: Node,
        message: Message | Heartbeat,
        batches: tuple[Batch, ...] = (),
    ) -> None:
        server, trace = self.servers[receiver], self.timeline.trace

        def arrive() -> None:
            link = b"%d %d" % (sender.broker, receiver.broker)
            trace.data(self.now_ms, link, lambda: f"{sender} > {receiver}: {told(message)}")
            server.do(lambda raft: server.handle(raft, sender, message, batches))

        self.network.carry_loosely(sender.broker, receiver.broker, arrive)


def told(message: Message | Heartbeat) -> str:
    """In words, for whoever reads a trace."""
    if not isinstance(message, Heartbeat):
        return describe(message)
    answer = " heard" if message.is_answer else f" commit {message.commit_offset}"
    return f"heartbeat{answer} term {message.term}"
