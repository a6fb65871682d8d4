"""Many partitions on brokers whose disks are slow: everything that is to be saved waits for all
that came before, longer than an election takes. In virtual time, from a seed."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable

from penstock.model.ids import PartitionId, TopicId
from penstock.raft.membership import Membership, Node
from penstock.replication.disk.driver import Driver
from penstock.replication.disk.flusher import Job
from penstock.replication.parcels import wire
from penstock.replication.parcels.parcel import Parcel
from penstock.replication.peers.replicas import Replicas
from penstock.replication.replica.participant import Participant
from penstock.replication.replica.replica import Replica
from penstock.replication.replica.transport import TIMING, Surroundings
from penstock.storage.log.log import Log, LogConfig
from tests.kit.simulated_disk import SimulatedDisk
from tests.kit.simulation.timeline import Timeline, VirtualClock
from tests.kit.simulation.trace import Trace

NODES = [Node(broker, 1) for broker in (1, 2, 3)]
LOG_CONFIG = LogConfig(segment_bytes=1 << 20, segment_ms=1 << 40, index_interval_bytes=4096)
NETWORK_MS = 1


class World:
    """The time, and what is to happen in it."""

    def __init__(self, seed: int, save_ms: int) -> None:
        self.timeline = Timeline(random.Random(seed), Trace())
        self.random = self.timeline.random
        self.clock = VirtualClock(self.timeline, 0)
        self.later = self.timeline.after
        self.save_ms = save_ms
        self.brokers = {node: Broker(self, node) for node in NODES}

    @property
    def now(self) -> int:
        return self.timeline.now_ms

    def run(self, is_over: Callable[[], bool], ms_max: int) -> int:
        """The time at which it is over."""
        while not is_over():
            assert self.now < ms_max, f"not over after {ms_max} ms"
            self.timeline.step()
        return self.now


class Broker:
    """Its replicas, its end of the network, and a disk that does one thing after another."""

    def __init__(self, world: World, node: Node) -> None:
        self._world = world
        self.node = node
        self.driver = Driver()
        self.replicas = Replicas(node, self, self.driver, incarnation=node.broker, now_ms=world.now)
        self._jobs: deque[tuple[Job, Callable[[], None]]] = deque()
        self.copies: list[Replica] = []
        world.later(0, self._on_time)

    def open(self, count: int) -> None:
        around = Surroundings(
            me=self.node,
            driver=self.driver,
            flusher=self,
            clock=self._world.clock,
            peers=self.replicas,
            timing=TIMING,
            draw_delay_ms=lambda: self._world.random.randrange(TIMING.election_ms),
        )
        for node in NODES:
            if node != self.node:
                self.replicas.add_peer(node)
        for number in range(count):
            root = SimulatedDisk().root
            replica = Replica(
                f"many-{number}",
                PartitionId(TopicId("a" * 32), number),
                Log.open(root, LOG_CONFIG),
                root,
                initial=Membership(frozenset(NODES)),
                durability="fsync",
                around=around,
            )
            self.copies.append(replica)
            self.replicas.add(Participant(replica))

    def _on_time(self) -> None:
        self.replicas.run_due(self._world.now)
        due_ms = max(self.replicas.next_due_ms, self._world.now + 1)
        self._world.later(due_ms - self._world.now, self._on_time)

    def send(self, parcel: Parcel) -> None:
        envelope, payloads = wire.encode(parcel)
        receiver = self._world.brokers[parcel.receiver]
        payload = b"".join(payloads)
        self._world.later(NETWORK_MS, lambda: receiver.receive(envelope, payload))

    def receive(self, envelope: bytes, payload: bytes) -> None:
        self.replicas.receive(wire.decode(envelope, memoryview(payload)), self._world.now)
        self.driver.end_turn()

    def submit(self, job: Job, finished: Callable[[], None]) -> None:
        self._jobs.append((job, finished))
        if len(self._jobs) == 1:
            self._world.later(self._world.save_ms, self._work)

    def _work(self) -> None:
        job, finished = self._jobs.popleft()
        job.run()
        if self._jobs:
            self._world.later(self._world.save_ms, self._work)
        finished()


def test_all_partitions_find_a_leader_though_their_votes_take_longer_than_an_election() -> None:
    """R-REP-2. A vote is saved before it is given, and here it waits for two seconds of others:
    longer than a candidate used to wait before it began again, for ever."""
    world = World(seed=1, save_ms=10)
    for broker in world.brokers.values():
        broker.open(200)

    def is_led() -> bool:
        led = {
            copy.partition
            for broker in world.brokers.values()
            for copy in broker.copies
            if copy.is_leader
        }
        return len(led) == 200

    world.run(is_led, ms_max=60_000)
