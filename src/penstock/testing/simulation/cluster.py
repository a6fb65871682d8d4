"""The simulated cluster as a whole: machines, network, clients, an operator, and who observes.

Not what goes wrong (`faults`) and not what a run is (`run`). The invariant: everything in it
happens on one timeline.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from penstock.model.ids import PartitionId
from penstock.raft.membership import Node
from penstock.testing.simulated_disk import SimulatedDisk
from penstock.testing.simulation.clients import IdempotentProducer, PlainProducer, Reader
from penstock.testing.simulation.history import History
from penstock.testing.simulation.machine import Machine
from penstock.testing.simulation.network import Network
from penstock.testing.simulation.observer import Observer
from penstock.testing.simulation.operators import Operator
from penstock.testing.simulation.plan import Plan
from penstock.testing.simulation.process import Process, Served
from penstock.testing.simulation.timeline import Timeline, VirtualClock
from penstock.testing.simulation.trace import Trace
from penstock.testing.simulation.wording import describe_parcel

# Endpoints of the network below it are brokers.
FIRST_CLIENT: Final = 100
_LINKS_EVERY_MS: Final = 250
_TIDY_EVERY_MS: Final = 2_000
_COMPACT_EVERY_MS: Final = 3_000


class Cluster:
    """Of one run. A context: production's loggers are heard while it is open."""

    def __init__(self, plan: Plan, seed: int, trace: Trace | None = None) -> None:
        self.plan = plan
        self.timeline = Timeline(seed, trace or Trace())
        self.clock = VirtualClock(self.timeline, 0)
        self.network = Network(self.timeline)
        self.history = History()
        self.observer = Observer(self.timeline, self.history)
        # How often what happened.
        self.counts: Counter[str] = Counter()
        # The disks of folders that are lost.
        self.graveyard: dict[Node, SimulatedDisk] = {}
        self.rotted: set[int] = set()
        self.machines = {broker: Machine(self, broker) for broker in plan.brokers}
        self.operator = Operator(self)
        self.idempotent: list[IdempotentProducer] = []
        self.others: list[PlainProducer | Reader] = []
        for machine in self.machines.values():
            self._look_after(machine)

    def __enter__(self) -> Cluster:
        self.observer.__enter__()
        return self

    def __exit__(self, *exception: object) -> None:
        self.observer.__exit__(*exception)

    def start(self) -> None:
        self.operator.start_all()

    def add_clients(self) -> None:
        """As many as the plan has."""
        number = FIRST_CLIENT
        for plan in self.plan.partitions:
            for _ in range(self.plan.idempotent_producers):
                self.idempotent.append(IdempotentProducer(self, number, plan))
                number += 1
            for _ in range(self.plan.plain_producers):
                self.others.append(PlainProducer(self, number, plan))
                number += 1
            for _ in range(self.plan.readers):
                self.others.append(Reader(self, number, plan))
                number += 1

    # --- who is there ----------------------------------------------------------------------------

    @property
    def disks(self) -> dict[Node, SimulatedDisk]:
        """All there ever were, as they are or were last."""
        alive = {machine.node: machine.disk for machine in self.machines.values()}
        return self.graveyard | alive

    def has_rotted(self, broker: int) -> bool:
        """Whether bits of its files ever decayed."""
        return broker in self.rotted

    def served(self, partition: PartitionId) -> list[Served]:
        """The copies whose brokers run."""
        processes = [machine.process for machine in self.machines.values()]
        found = [each.partitions.get(partition) for each in processes if each is not None]
        return [served for served in found if served is not None]

    def leaders(self, partition: PartitionId) -> list[Served]:
        """Who thinks it leads: more than one, while an old one does not know of the new."""
        return [served for served in self.served(partition) if served.leads]

    def deliver(self, broker: int, envelope: bytes, payload: bytes) -> None:
        trace, now_ms = self.timeline.trace, self.timeline.now_ms
        trace.data(now_ms, envelope, lambda: describe_parcel(envelope, payload))
        self.machines[broker].do(lambda process: process.receive(envelope, payload))

    # --- what happens all the time ---------------------------------------------------------------

    def _look_after(self, machine: Machine) -> None:
        self.timeline.every(_LINKS_EVERY_MS, lambda: self._link(machine))
        self.timeline.every(_TIDY_EVERY_MS, lambda: machine.do(Process.tidy))
        if any(plan.is_compacted for plan in self.plan.partitions):
            self.timeline.every(_COMPACT_EVERY_MS, lambda: machine.do(self._compact))

    def _compact(self, process: Process) -> None:
        for plan in self.plan.partitions:
            process.compact(plan.id)

    def _link(self, machine: Machine) -> None:
        """Connections come up where there is somebody, sooner or later; those that lead nowhere
        are noticed, sooner or later."""
        if machine.process is None:
            return
        random = self.timeline.random
        for other in self.machines.values():
            if other is machine:
                continue
            link = (machine.broker, other.broker)
            is_cut = self.network.is_cut(*link) or self.network.is_cut(*link[::-1])
            there = None if is_cut else other.incarnation
            if machine.process.linked.get(other.broker) != there and random.random() < 0.5:
                broker = other.broker
                machine.do(lambda process, to=broker, at=there: process.link(to, at))  # type: ignore[misc]
