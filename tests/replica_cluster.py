"""A cluster of real replicas in virtual time: production's code from the log's bytes to the wire.

Each machine has `Replicas`, a `Replica` and a `Log` on a `SimulatedDisk` of its own; the network
carries encoded parcels and delays, loses, doubles and damages them; jobs of the disk take time and
a crash may come at any of its operations. All of it comes from one seed. It has the face of
`tests.raft_support`, so that the same faults and the same checkers serve both. The invariant: what
a machine was given in a receive buffer is overwritten when the turn is over.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count

from penstock.model.errors import NotLeader, PenstockError, StorageError
from penstock.model.ids import PartitionId, TopicId
from penstock.model.topic_config import Durability
from penstock.raft.membership import Membership, Node
from penstock.raft.messages import BatchPlace
from penstock.records import build_batch, decode_batch
from penstock.records.header import BatchHeader, read_header
from penstock.replication import wire
from penstock.replication.control import read_membership
from penstock.replication.driver import Driver
from penstock.replication.flusher import Job
from penstock.replication.parcel import Parcel
from penstock.replication.participant import Participant
from penstock.replication.replica import Replica
from penstock.replication.replicas import Replicas
from penstock.replication.transport import Surroundings
from penstock.storage.log import Log, LogConfig
from penstock.testing.simulated_disk import SimulatedCrash, SimulatedDisk
from tests.raft_disk import Batch, Disk
from tests.raft_support import HEARTBEAT_MS, NOOP, TIMING, Cluster, Observer, Server

PARTITION = PartitionId(TopicId("5" * 32), 3)
# So that a segment holds a few batches, and retention has something to take.
LOG_CONFIG = LogConfig(segment_bytes=600, segment_ms=1 << 40, index_interval_bytes=128)
# Where the checksum of a batch begins to protect it.
CHECKED_FROM = 21


class LogView(Disk):
    """What a machine's log holds, as the checkers want it: read from its files."""

    def __init__(self, membership: Membership) -> None:
        super().__init__(membership)
        self.log: Log | None = None

    def follow(self, log: Log) -> None:
        """Look at this log, from its beginning."""
        self.log = log
        self.batches.clear()
        self.start_offset = log.first_offset
        self.refresh()

    def cut_at(self, offset: int) -> None:
        while self.batches and self.batches[-1].place.end_offset > offset:
            self.batches.pop()

    def refresh(self) -> None:
        log = self.log
        if log is None:
            return
        if log.first_offset > self.start_offset:
            self.start_offset = log.first_offset
            self.batches = [
                batch for batch in self.batches if batch.place.base_offset >= log.first_offset
            ]
        offset = self.batches[-1].place.end_offset if self.batches else log.first_offset
        while offset < log.written_offset:
            part, offset = log.read_stored(offset, 1 << 20, log.written_offset)
            data = memoryview(part.read())
            while data:
                header = read_header(data)
                self.batches.append(as_batch(header, data[: header.length]))
                data = data[header.length :]


def as_batch(header: BatchHeader, batch: memoryview) -> Batch:
    membership = read_membership(header, batch)
    payload = NOOP
    if not header.is_control:
        payload = int(decode_batch(header, batch, 1 << 20)[0].value or b"")
    place = BatchPlace(header.base_offset, header.next_offset, header.term, membership)
    return Batch(place, payload)


class VirtualClock:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def now_ms(self) -> int:
        return 1_700_000_000_000 + self._cluster.now_ms

    def monotonic(self) -> float:
        return self._cluster.now_ms / 1000


class Machine(Server):
    """A broker with one copy of one partition. Its disk survives a crash, as far as disks do."""

    def __init__(
        self,
        cluster: ReplicaCluster,
        node: Node,
        initial: Membership,
        durability: Durability,
    ) -> None:
        self.view = LogView(initial)
        super().__init__(cluster, node, self.view)
        self.platter = SimulatedDisk()
        self.participant: Participant | None = None
        self._simulation = cluster
        self._initial = initial
        self._durability = durability
        self._armed_ms: int | None = None

    # --- life ------------------------------------------------------------------------------------

    def start(self) -> None:
        assert self.participant is None
        try:
            self._start()
        except (SimulatedCrash, StorageError):
            self._crash_for_a_while()

    def _start(self) -> None:
        cluster = self._simulation
        incarnation = self.incarnation
        self.driver = Driver()
        self.replicas = Replicas(
            self.node,
            self,
            self.driver,
            incarnation=cluster.random.getrandbits(60),
            now_ms=cluster.now_ms,
            tick_ms=HEARTBEAT_MS,
        )
        around = Surroundings(
            me=self.node,
            driver=self.driver,
            flusher=self,
            clock=VirtualClock(cluster),
            peers=self.replicas,
            timing=TIMING,
            draw_delay_ms=lambda: cluster.random.randrange(TIMING.election_ms),
        )
        log = Log.open(self.platter.root, LOG_CONFIG)
        replica = Replica(
            f"{self.node}",
            PARTITION,
            log,
            self.platter.root,
            initial=self._initial,
            durability=self._durability,
            around=around,
        )
        replica.listener = self
        self.view.follow(log)
        self.raft = replica.consensus.raft
        self.participant = Participant(replica)
        for node in cluster.servers:
            if node != self.node:
                self.replicas.add_peer(node)
        cluster.observer.on_restart(self)
        self.event(incarnation, lambda: self._take_part(replica))

    def _take_part(self, replica: Replica) -> None:
        assert self.participant is not None
        self.replicas.add(self.participant)
        self.driver.end_turn()

    def crash(self) -> None:
        """The machine, or with durability "os", which promises no more, the process."""
        self.incarnation += 1
        self.raft = None
        self.participant = None
        self.view.log = None
        self._armed_ms = None
        if self._durability == "os":
            self.platter.restart_process()
        else:
            self.platter = self.platter.after_crash(self._simulation.random.getrandbits(30))

    def _crash_for_a_while(self) -> None:
        self.crash()
        incarnation = self.incarnation

        def start() -> None:
            if incarnation == self.incarnation and self.participant is None:
                self.start()

        self._simulation.after(self._simulation.random.randint(0, 3_000), start)

    def event(self, incarnation: int, action: Callable[[], None]) -> None:
        """One thing that happens in the machine's loop, if it is still the same."""
        if incarnation != self.incarnation:
            return
        try:
            action()
        except SimulatedCrash:
            assert self.platter.crashed
        if self.platter.crashed:
            self._crash_for_a_while()
            return
        self.view.refresh()
        self._simulation.observer.on_step(self)
        self._arm()

    def _arm(self) -> None:
        due_ms = max(self.replicas.next_due_ms, self._simulation.now_ms)
        if self._armed_ms is None or due_ms < self._armed_ms:
            self._armed_ms = due_ms
            incarnation = self.incarnation
            self._simulation.after(
                due_ms - self._simulation.now_ms, lambda: self._on_timer(incarnation)
            )

    def _on_timer(self, incarnation: int) -> None:
        if incarnation == self.incarnation:
            self._armed_ms = None
            self.event(incarnation, lambda: self.replicas.run_due(self._simulation.now_ms))

    # --- replication.flusher.Flusher -------------------------------------------------------------

    def submit(self, job: Job, finished: Callable[[], None]) -> None:
        cluster, incarnation = self._simulation, self.incarnation
        delay_ms = cluster.disk_delay_ms()
        rest_ms = cluster.disk_delay_ms()

        def run() -> None:
            if incarnation != self.incarnation:
                return
            try:
                job.run()
            except SimulatedCrash:
                self._crash_for_a_while()
                return
            if cluster.random.random() < cluster.brittleness:
                # Done, and nothing that was to follow.
                self.crash()
                self.start()
                return
            cluster.after(rest_ms, lambda: self.event(incarnation, finished))

        cluster.after(delay_ms, run)

    # --- replication.replicas.Transport ----------------------------------------------------------

    def send(self, parcel: Parcel) -> None:
        if self.platter.crashed:
            return
        cluster, incarnation = self._simulation, self.incarnation
        envelope, payloads = wire.encode(parcel)
        cluster.carry(self.node, parcel.receiver, envelope, b"".join(payloads))
        if cluster.random.random() < cluster.brittleness:
            cluster.after(0, lambda: self._crash_and_start(incarnation))

    def deliver(self, envelope: bytes, payload: bytes) -> None:
        buffer = bytearray(payload)

        def receive() -> None:
            parcel = wire.decode(envelope, memoryview(buffer))
            self.replicas.receive(parcel, self._simulation.now_ms)
            self.driver.end_turn()
            # As the next read into the same buffer does.
            buffer[:] = bytes(len(buffer))

        if self.participant is not None:
            self.event(self.incarnation, receive)

    def bytes_from(self, offset: int) -> bytes:
        """All that can be read of the log."""
        assert self.participant is not None
        log, end = self.participant.replica.log, self.participant.replica.high_watermark
        offset = max(offset, log.first_offset)
        pieces = []
        while offset < end:
            part, offset = log.read_stored(offset, 1 << 20, end)
            pieces.append(part.read())
        return b"".join(pieces)

    # --- what clients and operators ask for ------------------------------------------------------

    def propose(self, payload: int) -> None:
        cluster = self._simulation
        records = cluster.random.randint(1, 3)
        acks = cluster.random.choice((-1, -1, -1, 1, 0))

        def append(replica: Replica) -> None:
            batch = build_batch([(None, b"%d" % payload)] * records, timestamp_ms=payload)
            view = memoryview(batch)

            def done(error: PenstockError | None) -> None:
                if error is None and acks == -1:
                    place = BatchPlace(base_offset, base_offset + records, term)
                    cluster.observer.on_acknowledged(Batch(place, payload))

            try:
                base_offset = replica.propose(read_header(view), view, done, acks)
            except (NotLeader, StorageError):
                return
            term = replica.consensus.raft.state.term
            if cluster.random.random() < 0.7:
                self.driver.end_turn()
                batch[:] = bytes(len(batch))

        self._with_replica(append)

    def change(self, membership: Membership) -> None:
        def change(replica: Replica) -> None:
            assert self.participant is not None
            self.participant.change_membership(membership)

        self._with_replica(change)

    def transfer(self, node: Node) -> None:
        def transfer(replica: Replica) -> None:
            assert self.participant is not None
            self.participant.transfer(node)

        self._with_replica(transfer)

    def drop_before(self, place: float) -> None:
        """Retention takes sealed segments; sometimes a user deletes records."""

        def drop(replica: Replica) -> None:
            log = replica.log
            limit = replica.high_watermark
            ends = [segment.next_offset for segment in log.sealed_segments()]
            allowed = [end for end in ends if end <= limit]
            if replica.failure is not None:
                return
            if replica.is_leader and self._simulation.random.random() < 0.3:
                span = limit - log.start_offset
                replica.delete_before(log.start_offset + int(place * span), lambda _: None)
            elif allowed:
                for job in log.delete_before(allowed[int(place * len(allowed))]):
                    self.submit(job, lambda: None)

        self._with_replica(drop)

    def lose_patience(self) -> None:
        def hurry(replica: Replica) -> None:
            raft = replica.consensus.raft
            if raft.leading is None and not replica.consensus.is_busy:
                raft.deadline_ms = self._simulation.now_ms
                assert self.participant is not None
                self.participant.on_time(self._simulation.now_ms)

        self._with_replica(hurry)

    def _with_replica(self, action: Callable[[Replica], None]) -> None:
        participant = self.participant
        if participant is None:
            return

        def act() -> None:
            action(participant.replica)
            self.driver.end_turn()

        self.event(self.incarnation, act)

    # --- replication.replica.Listener ------------------------------------------------------------

    def on_written(self, error: StorageError | None) -> None:
        """The view reads the log."""

    def on_replicated(self, headers: Sequence[BatchHeader]) -> None:
        """The view reads the log."""

    def on_truncated(self, offset: int) -> None:
        self.view.cut_at(offset)

    def on_high_watermark(self) -> None:
        """The checkers look at it after each step."""

    def on_leadership(self, is_leader: bool) -> None:
        """The checkers look at it after each step."""


class ReplicaCluster(Cluster):
    """The machines, the time and the network between them."""

    def __init__(
        self,
        seed: int,
        servers: int,
        membership: Membership,
        observer: Observer,
        durability: Durability,
    ) -> None:
        super().__init__(seed, servers, membership, observer)
        self.damage = 0.0
        # How often a parcel is late, and overtaken by later ones; on a connection none is.
        self.overtaking = 0.1
        self.machines = {node: Machine(self, node, membership, durability) for node in self.servers}
        self.servers = dict(self.machines)
        self.parcels = count()

    def carry(self, sender: Node, receiver: Node, envelope: bytes, payload: bytes) -> None:
        if (sender, receiver) in self.cut or self.random.random() < self.loss:
            return
        next(self.parcels)
        if len(payload) > CHECKED_FROM and self.random.random() < self.damage:
            payload = self._damaged(payload)
        for _ in range(2 if self.random.random() < self.doubling else 1):
            factor = 10 if self.random.random() < self.overtaking else 1
            delay_ms = self.random.randint(1, self.delay_ms_max) * factor
            self.after(delay_ms, lambda: self._arrive(sender, receiver, envelope, payload))

    def _arrive(self, sender: Node, receiver: Node, envelope: bytes, payload: bytes) -> None:
        if (sender, receiver) not in self.cut:
            self.machines[receiver].deliver(envelope, payload)

    def _damaged(self, payload: bytes) -> bytes:
        """A bit of the first batch, where its checksum protects it."""
        position = self.random.randrange(CHECKED_FROM, read_header(payload).length)
        damaged = bytearray(payload)
        damaged[position] ^= 1 << self.random.randrange(8)
        return bytes(damaged)
