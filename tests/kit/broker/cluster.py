"""Brokers without sockets: real partitions on simulated disks, parcels handed over, time by hand.

Each broker has what moves partitions, but no clients and no registry of its own: all look at the
same facts. The invariant: nothing happens unless the test lets time pass.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace

from penstock.broker.cluster.copy_removal import CopyRemoval
from penstock.broker.cluster.movement import Movement
from penstock.broker.partitions.leaders import Leaders
from penstock.broker.partitions.partition import Partition
from penstock.broker.partitions.partitions import Partitions
from penstock.broker.topics.assignment import Assignment
from penstock.model.ids import BrokerId, PartitionId
from penstock.raft.membership import Membership, Node
from penstock.records.header import read_header
from penstock.registry.facts import ExpireBroker, Move, RegisterBroker
from penstock.registry.image import TopicImage
from penstock.replication.disk.driver import Driver
from penstock.replication.disk.flusher import Job
from penstock.replication.parcels.parcel import Parcel
from penstock.replication.peers.replicas import Replicas
from penstock.replication.replica.transport import TIMING, Surroundings
from tests.kit.broker.running import CONFIG, ManualClock, batch
from tests.kit.registry.facts import SharedFacts, broker, ids
from tests.kit.simulated_disk import SimulatedDisk

IN_CLUSTER = replace(CONFIG, registry="meta://1@127.0.0.1:9092")
STEP_MS = 20


class LaterFlusher:
    """Jobs run when time passes."""

    def __init__(self) -> None:
        self._jobs: list[tuple[Job, Callable[[], None]]] = []

    def submit(self, job: Job, done: Callable[[], None]) -> None:
        self._jobs.append((job, done))

    def run(self) -> None:
        jobs, self._jobs = self._jobs, []
        for job, done in jobs:
            job.run()
            done()


class Life:
    """One broker from a start to its end."""

    def __init__(self, village: Village, node: Node, disk: SimulatedDisk, incarnation: int) -> None:
        self.node = node
        self.disk = disk
        self.village = village
        self.tending: asyncio.Task[None] | None = None
        self.driver = Driver()
        self.flusher = LaterFlusher()
        clock, registry = village.clock, village.registry
        me = BrokerId(node.broker)
        self.replicas = Replicas(
            node, self, self.driver, incarnation=incarnation, now_ms=village.now_ms
        )
        around = Surroundings(
            me=node,
            driver=self.driver,
            flusher=self.flusher,
            clock=clock,
            peers=self.replicas,
            timing=TIMING,
            draw_delay_ms=lambda: 100 * node.broker,
        )
        self.partitions = Partitions(disk.root, around, self.replicas)
        self.assignment = Assignment(IN_CLUSTER, me, registry, self.partitions)
        self.leaders = Leaders(me, registry, self.partitions, clock, self.replicas)
        self.movement = Movement(node, registry, self.partitions, self.replicas, self.driver, clock)
        self.copy_removal = CopyRemoval(
            registry, self.partitions, self.assignment, self.leaders, self.replicas
        )

    async def begin(self) -> None:
        self.partitions.begin()
        await self.assignment.sort_folders()
        self.assignment.open_found(internal=True)
        self.assignment.open_found(internal=False)
        self.movement.attend()

    def tend(self) -> None:
        """Follow the registry, beside everything else."""
        if self.tending is None or self.tending.done():
            self.tending = asyncio.get_running_loop().create_task(self._tend())

    async def _tend(self) -> None:
        await self.assignment.follow()
        await self.copy_removal.look()

    def send(self, parcel: Parcel) -> None:
        """replication.replicas.Transport"""
        letters = tuple(letter._replace(payload=bytes(letter.payload)) for letter in parcel.letters)
        self.village.parcels.append(replace(parcel, letters=letters))

    def here(self, topic: str = "orders") -> list[int]:
        return sorted(each.name.partition for each in self.partitions.of_topic(topic))

    def find(self, number: int = 0, topic: str = "orders") -> Partition:
        return self.partitions.find(topic, number)


class Village:
    """All brokers, and what is between them."""

    def __init__(self, count: int) -> None:
        self.clock = ManualClock()
        self.registry = SharedFacts([broker(number) for number in range(1, count + 1)])
        self.parcels: list[Parcel] = []
        self.up: dict[int, Life] = {}
        self.disks: dict[int, SimulatedDisk] = {}
        self._incarnations = 0

    @property
    def now_ms(self) -> int:
        return self.clock.time_ms

    async def start(self, number: int, *, directory: int = 0) -> Life:
        """directory: of a broker that has lost the one it had."""
        here = broker(number, directory=directory)
        if directory or number not in self.disks:
            self.disks[number] = SimulatedDisk()
        await self.registry.change(RegisterBroker(broker=here))
        self._incarnations += 1
        life = Life(self, here.node, self.disks[number], self._incarnations)
        for other in self.up.values():
            other.replicas.add_peer(life.node)
            life.replicas.add_peer(other.node)
        self.up[number] = life
        await life.begin()
        return life

    async def kill(self, number: int) -> None:
        life = self.up.pop(number)
        if life.tending is not None:
            life.tending.cancel()
        self.disks[number] = life.disk.after_crash("kept")
        for other in self.up.values():
            other.replicas.remove_peer(life.node)
        await self.registry.change(ExpireBroker(node=life.node))

    async def create(self, *placement: Sequence[int], topic: str = "orders") -> TopicImage:
        made = await self.registry.create_topic(
            topic, len(placement), {}, placement=[ids(*replicas) for replicas in placement]
        )
        await self.wait(lambda: all(self.leader(number, topic) for number in range(len(placement))))
        return made

    async def retarget(self, *targets: Sequence[int], topic: str = "orders") -> None:
        """Partition by partition; the first is to lead."""
        moves = [Move(topic, number, ids(*target)) for number, target in enumerate(targets)]
        await self.registry.change_targets(moves, self.registry.image)

    def leader(self, number: int = 0, topic: str = "orders") -> Life | None:
        led = [
            life
            for life in self.up.values()
            if (found := life.partitions.get(topic, number)) and found.replica.is_leader
        ]
        return max(led, key=lambda life: life.find(number, topic).replica.term, default=None)

    def membership(self, number: int = 0, topic: str = "orders") -> Membership:
        leader = self.leader(number, topic)
        assert leader is not None, "nobody leads"
        found = leader.replicas.find(PartitionId(self.registry.image.topic(topic).id, number))
        assert found is not None
        return found.membership

    def voters(self, number: int = 0, topic: str = "orders") -> set[int]:
        return {node.broker for node in self.membership(number, topic).voters}

    async def produce(self, value: bytes, number: int = 0) -> None:
        """Acknowledged by all."""
        outcomes: list[object] = []
        leader = self.leader(number)
        assert leader is not None
        data = memoryview(batch([value]))
        leader.find(number).replica.propose(read_header(data), data, outcomes.append)
        leader.driver.end_turn()
        await self.wait(lambda: bool(outcomes))
        assert outcomes == [None]

    async def pass_ms(self, milliseconds: int) -> None:
        for _ in range(milliseconds // STEP_MS):
            self.clock.time_ms += STEP_MS
            for life in self.up.values():
                life.tend()
                life.flusher.run()
                life.replicas.run_due(self.now_ms)
                life.movement.look()
                life.driver.end_turn()
            self._deliver()
            await asyncio.sleep(0)
            tasks = {life.tending for life in self.up.values() if life.tending is not None}
            if any(not task.done() for task in tasks):
                # Threads make and move folders; time waits for them, unless they wait for it.
                await asyncio.wait(tasks, timeout=0.001)

    async def wait(self, holds: Callable[[], bool], milliseconds_max: int = 20_000) -> int:
        """How long it took."""
        for passed_ms in range(0, milliseconds_max, STEP_MS):
            if holds():
                return passed_ms
            await self.pass_ms(STEP_MS)
        raise AssertionError("it never came to be")

    def _deliver(self) -> None:
        while self.parcels:
            parcels, self.parcels = self.parcels, []
            for parcel in parcels:
                receiver = self.up.get(parcel.receiver.broker)
                if receiver is not None and parcel.sender.broker in self.up:
                    receiver.replicas.receive(parcel, self.now_ms)
                    receiver.driver.end_turn()


@contextlib.asynccontextmanager
async def village(count: int) -> AsyncIterator[Village]:
    """So many brokers, all of them up."""
    made = Village(count)
    for number in range(1, count + 1):
        await made.start(number)
    try:
        yield made
    finally:
        for number in list(made.up):
            await made.kill(number)
