"""The simulated cluster as a whole: machines, network, clients, an operator, and who observes.

Not what goes wrong (`faults`) and not what a run is (`run`). The invariant: everything in it
happens on one timeline.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from typing import Final

from penstock.model.ids import PartitionId
from tests.kit.simulation.clusters.clients import IdempotentProducer, PlainProducer, Reader
from tests.kit.simulation.clusters.machine import Machine
from tests.kit.simulation.clusters.operators import Operator
from tests.kit.simulation.clusters.plan import PartitionPlan, Plan, partition_id
from tests.kit.simulation.clusters.process import Process
from tests.kit.simulation.clusters.served import Served
from tests.kit.simulation.clusters.topics import Topics
from tests.kit.simulation.clusters.world import World
from tests.kit.simulation.trace import Trace

# Endpoints of the network below it are brokers.
FIRST_CLIENT: Final = 100
_LINKS_EVERY_MS: Final = 250
_TIDY_EVERY_MS: Final = 2_000
_COMPACT_EVERY_MS: Final = 3_000


class Cluster:
    """Of one run. A context: production's loggers are heard while it is open."""

    def __init__(self, plan: Plan, seed: int, trace: Trace | None = None) -> None:
        self.plan = plan
        self.world = World(plan, seed, trace or Trace())
        self.timeline = self.world.timeline
        self.network = self.world.network
        self.observer = self.world.observer
        self.history = self.world.history
        self.counts = self.world.counts
        self.machines = {broker: Machine(self.world, broker) for broker in plan.brokers}
        self.operator = Operator(self.world, self.machines)
        self.topics = Topics(plan)
        self.idempotent: list[IdempotentProducer] = []
        self.others: list[PlainProducer | Reader] = []
        # Of clients, which no two have.
        self._numbers = count(FIRST_CLIENT)
        self._partition_count = len(plan.partitions) - 1
        for machine in self.machines.values():
            self._look_after(machine)

    def __enter__(self) -> Cluster:
        self.observer.__enter__()
        return self

    def __exit__(self, *exception: object) -> None:
        self.observer.__exit__(*exception)

    @property
    def partitions(self) -> list[PartitionPlan]:
        """Of the topics there are by now."""
        return list(self.world.partitions.values())

    def start(self) -> None:
        self.operator.start_all()

    def add_clients(self) -> None:
        """As many as the plan has."""
        for plan in self.partitions:
            self._add_clients_of(plan)

    def _add_clients_of(self, plan: PartitionPlan) -> None:
        about = (self.world, self.machines)
        for _ in range(self.plan.idempotent_producers):
            self.idempotent.append(IdempotentProducer(*about, next(self._numbers), plan))
        for _ in range(self.plan.plain_producers):
            self.others.append(PlainProducer(*about, next(self._numbers), plan))
        for _ in range(self.plan.readers):
            self.others.append(Reader(*about, next(self._numbers), plan))

    def remake(self, plan: PartitionPlan, replicas: tuple[int, ...], last_term: int) -> None:
        """Delete the topic, and make another of its name, with clients of its own.

        last_term: the latest that is known to whoever is asked for it."""
        self._partition_count += 1
        made = partition_id(self._partition_count)
        by = replace(
            plan,
            id=made,
            voters=tuple(self.machines[broker].node for broker in replicas),
            first_term=self.topics.remake(plan.name.topic, made.topic_id, replicas, last_term),
        )
        self.operator.replace(plan, by)
        for producer in [each for each in self.idempotent if each.plan is plan]:
            producer.retire()
            self.idempotent.remove(producer)
        for client in [each for each in self.others if each.plan is plan]:
            client.stop()
            self.others.remove(client)
        self._add_clients_of(by)

    # --- who is there ----------------------------------------------------------------------------

    def served(self, partition: PartitionId) -> list[Served]:
        """The copies whose brokers run."""
        processes = [machine.process for machine in self.machines.values()]
        found = [each.partitions.get(partition) for each in processes if each is not None]
        return [served for served in found if served is not None]

    def leaders(self, partition: PartitionId) -> list[Served]:
        """Who thinks it leads: more than one, while an old one does not know of the new."""
        return [served for served in self.served(partition) if served.leads]

    # --- what happens all the time ---------------------------------------------------------------

    def _look_after(self, machine: Machine) -> None:
        self.timeline.every(_LINKS_EVERY_MS, lambda: self._link(machine))
        self.timeline.every(_TIDY_EVERY_MS, lambda: machine.do(Process.tidy))
        if any(plan.is_compacted for plan in self.partitions):
            self.timeline.every(_COMPACT_EVERY_MS, lambda: machine.do(self._compact))

    def _compact(self, process: Process) -> None:
        for plan in self.partitions:
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
            is_cut = is_cut and self.plan.notices_cuts
            there = None if is_cut else other.incarnation
            if machine.process.linked.get(other.broker) != there and random.random() < 0.5:
                broker = other.broker
                machine.do(lambda process, to=broker, at=there: process.link(to, at))  # type: ignore[misc]
