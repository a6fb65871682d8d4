"""All copies of partitions that a broker has: their time, their messages, who leads what.

One timer for all of them, on a heap of deadlines; and to each peer, once a tick, one heartbeat for
everything that the two share. That a peer was heard is told to a partition when its time has come
and not before: so an idle one costs a step in the heap now and then, and nothing else. Not how what
is said leaves (`peers.post`), and not the placement.

The invariants: a copy that follows is told that its leader was heard only while that leader claims
it, in the same term; and a claim of an older term than a copy here knows is disputed until it is
given up.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from penstock.model.ids import PartitionId
from penstock.raft.membership import Node
from penstock.raft.messages import AppendAnswer, Message, VoteRequest
from penstock.replication.disk.driver import Driver
from penstock.replication.parcels.parcel import Claim, Heartbeat, Letter, Parcel
from penstock.replication.peers.claims import HeardClaims, OwnClaims
from penstock.replication.peers.deadlines import Deadlines
from penstock.replication.peers.post import Post, Transport
from penstock.replication.replica.participant import Participant

# A quarter of the time after which a leader may be replaced.
TICK_MS: Final = 200
# What is due is done at the end of the moment that it falls in: no election is that exact.
_MOMENT_MS: Final = 20


class Leader(NamedTuple):
    """Who leads a partition, and what it tells of it."""

    node: Node
    term: int
    told: Claim


class Replicas:
    """One per broker. Implements `replication.replica.transport.Peers` for its replicas."""

    def __init__(
        self,
        me: Node,
        transport: Transport,
        driver: Driver,
        *,
        incarnation: int,
        now_ms: int,
        tick_ms: int = TICK_MS,
    ) -> None:
        """incarnation: chosen by chance at each start."""
        self._me = me
        self._driver = driver
        self._post = Post(me, transport, driver)
        self._participants: dict[PartitionId, Participant] = {}
        self._own = OwnClaims(incarnation)
        self._heard: dict[Node, HeardClaims] = {}
        # The terms that the copies here have saved, and (peer, partition) of claims that are old.
        self._terms: dict[PartitionId, int] = {}
        self._disputes: set[tuple[Node, PartitionId]] = set()
        self._deadlines = Deadlines()
        self._tick_ms = tick_ms
        self._next_tick_ms = now_ms
        self.heartbeats_sent = 0
        # Called when `next_due_ms` has become earlier, for whoever calls `run_due`.
        self.on_earlier: Callable[[], None] = _do_nothing
        # Asked whether what is sent to a peer leaves soon.
        self.is_crowded: Callable[[Node], bool] = _is_never

    # --- who is here, and who is there -----------------------------------------------------------

    def add(self, participant: Participant) -> None:
        """Let a replica take part, which is not started yet."""
        self._participants[participant.replica.partition] = participant
        participant.replica.start()

    def remove(self, partition: PartitionId) -> None:
        """Let it no longer be reached: it is being closed, or deleted."""
        self._participants.pop(partition, None)
        self._deadlines.drop(partition)
        self._terms.pop(partition, None)
        self._own.note(partition, None)

    def add_peer(self, node: Node) -> None:
        """A broker can be reached, for the first time or again: it is told everything."""
        self._own.add_peer(node)
        self._heard.setdefault(node, HeardClaims())

    def remove_peer(self, node: Node) -> None:
        """A broker cannot be reached: what it claims holds as long as it would without news."""
        self._own.remove_peer(node)
        self._post.drop(node)

    def suspect_peer(self, node: Node, now_ms: int, silence_ms: int) -> None:
        """The connection to a broker ended: a process that died, more often than not. What it leads
        is looked after as if it had been silent for so long; if it is heard again, it leads on."""
        if (heard := self._heard.get(node)) is not None:
            heard.heard_ms = min(heard.heard_ms, now_ms - silence_ms)
        for partition, participant in self._participants.items():
            if participant.leader == node:
                participant.suspect(node, now_ms)
                deadline_ms = participant.deadline_ms(now_ms)
                if deadline_ms is not None:
                    self.schedule(partition, deadline_ms)

    def forget_peer(self, node: Node) -> None:
        """A broker is no part of the cluster any more."""
        self.remove_peer(node)
        self._heard.pop(node, None)
        self._disputes = {dispute for dispute in self._disputes if dispute[0] != node}

    def find(self, partition: PartitionId) -> Participant | None:
        return self._participants.get(partition)

    def leader(self, partition: PartitionId, since_ms: int) -> Leader | None:
        """Who claims to lead, in the highest term, and was heard since then."""
        claimed = [
            Leader(node, told.term, told)
            for node, heard in self._heard.items()
            if heard.heard_ms >= since_ms and (told := heard.claims.get(partition)) is not None
        ]
        own = self._own[partition]
        if own is not None:
            claimed.append(Leader(self._me, own.term, own))
        return max(claimed, key=lambda leader: leader.term, default=None)

    # --- replication.transport.Peers -------------------------------------------------------------

    def send(self, node: Node, partition: PartitionId, message: Message, payload: bytes) -> None:
        self._post.send(node, Letter(partition, message, payload))

    def note(self, partition: PartitionId, claim: Claim | None) -> None:
        participant = self._participants.get(partition)
        if participant is None:
            return
        self._own.note(partition, claim)
        if self._terms.get(partition) != participant.term:
            self._terms[partition] = participant.term
            for node, heard in self._heard.items():
                self._dispute(node, partition, heard.claims.get(partition))

    def schedule(self, partition: PartitionId, deadline_ms: int) -> None:
        is_known = partition in self._participants
        if is_known and self._deadlines.schedule(partition, deadline_ms):
            self.on_earlier()

    def heard_ms(self, node: Node) -> int:
        heard = self._heard.get(node)
        return -1 if heard is None else heard.alive_ms

    def has_room(self, node: Node) -> bool:
        return not self.is_crowded(node)

    # --- time ------------------------------------------------------------------------------------

    @property
    def next_due_ms(self) -> int:
        """When `run_due` must be called."""
        due_ms = self._deadlines.next_ms
        if due_ms is None:
            return self._next_tick_ms
        # Those of one moment together: a thousand partitions would wake the broker as often.
        return min(self._next_tick_ms, -(-due_ms // _MOMENT_MS) * _MOMENT_MS)

    def run_due(self, now_ms: int) -> None:
        """Do what is due by now, to the end of the turn."""
        called = []
        while (partition := self._deadlines.take_due(now_ms)) is not None:
            self._call(partition, self._participants[partition], now_ms)
            called.append(partition)
        if now_ms >= self._next_tick_ms:
            self._next_tick_ms = now_ms + self._tick_ms
            self._beat()
        self._driver.end_turn()
        for partition in called:
            # One that was not called after all has not said when to look again.
            participant = self._participants.get(partition)
            if participant is not None and partition not in self._deadlines:
                deadline_ms = participant.deadline_ms(now_ms)
                if deadline_ms is not None:
                    self.schedule(partition, max(deadline_ms, now_ms + 1))

    def _call(self, partition: PartitionId, participant: Participant, now_ms: int) -> None:
        self._hear(partition, participant, now_ms)
        if participant.leader is None:
            # It may have missed its leader for a moment only. What that claims has not changed, so
            # it is not told again.
            found = self.leader(partition, now_ms - 2 * self._tick_ms)
            if found is not None and found.node != self._me and found.term >= participant.term:
                participant.follow(found.node, found.told)
        deadline_ms = participant.deadline_ms(now_ms)
        is_due = deadline_ms is not None and deadline_ms <= now_ms
        if is_due or participant.is_busy:
            participant.on_time(now_ms)

    def _hear(self, partition: PartitionId, participant: Participant, now_ms: int) -> None:
        """Tell a partition when those that it needs were last heard."""
        leader = participant.leader
        if leader == self._me:
            for node in participant.followers:
                if (heard := self._heard.get(node)) is not None:
                    participant.hear(node, heard.alive_ms)
        elif leader is not None and (heard := self._heard.get(leader)) is not None:
            told = heard.claims.get(partition)
            if told is not None and told.term == participant.term:
                participant.hear(leader, heard.heard_ms)
                # To follow is to have heard the leader now: what it said long ago is no such sign.
                is_fresh = now_ms - heard.heard_ms <= 2 * self._tick_ms
                if is_fresh and told.commit_offset > participant.commit_offset:
                    participant.follow(leader, told)

    def _beat(self) -> None:
        """One heartbeat to each peer, for everything."""
        for node in self._own.peers:
            heard = self._heard[node]
            self._post.beat(node, self._own.heartbeat(node, needs_whole=heard.needs_whole))
            self.heartbeats_sent += 1
        self._answer_old_claims()

    # --- claims that are old ---------------------------------------------------------------------

    def _dispute(self, node: Node, partition: PartitionId, told: Claim | None) -> None:
        if told is not None and told.term < self._terms.get(partition, 0):
            self._disputes.add((node, partition))

    def _answer_old_claims(self) -> None:
        """Tell peers of the newer term, as long as they claim the old one: what told them before
        may have been lost."""
        for node, partition in sorted(self._disputes):
            told = self._heard[node].claims.get(partition)
            term = self._terms.get(partition, 0)
            if told is None or told.term >= term:
                self._disputes.discard((node, partition))
            else:
                answer = AppendAnswer(term=term, is_matching=False, end_offset=0)
                self.send(node, partition, answer, b"")

    # --- messages --------------------------------------------------------------------------------

    def receive(self, parcel: Parcel, now_ms: int) -> None:
        """Take in what a peer sent; the end of the turn must follow. Payloads are not needed after
        it."""
        if parcel.receiver != self._me:
            # It is meant for a folder that is lost.
            return
        if parcel.heartbeat is not None:
            self._take_heartbeat(parcel.sender, parcel.heartbeat, now_ms)
        for letter in parcel.letters:
            participant = self._participants.get(letter.partition)
            if participant is not None:
                if isinstance(letter.message, VoteRequest):
                    # Whoever hears its leader is true to it, and must know that it does.
                    self._hear(letter.partition, participant, now_ms)
                participant.receive(parcel.sender, letter.message, memoryview(letter.payload))

    def _take_heartbeat(self, sender: Node, heartbeat: Heartbeat, now_ms: int) -> None:
        # It may be heard and not be reached.
        heard = self._heard.setdefault(sender, HeardClaims())
        if heartbeat.needs_whole:
            self._own.repeat(sender)
        if heard.is_restart(heartbeat):
            for each in self._participants.values():
                each.forget_follower(sender, now_ms)
        for partition, told in heard.take(heartbeat, now_ms).items():
            participant = self._participants.get(partition)
            if participant is not None:
                self._dispute(sender, partition, told)
                participant.follow(sender, told)


def _do_nothing() -> None:
    pass


def _is_never(_node: Node) -> bool:
    return False
