"""What everything in a run shares: the plan, time, the network, what is remembered and counted.

Not the machines, which know it. The invariant: there is one of each in a run.
"""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Protocol

from penstock.model.ids import PartitionId
from penstock.raft.membership import Node
from tests.kit.simulated_disk import SimulatedDisk
from tests.kit.simulation.clusters.history import History
from tests.kit.simulation.clusters.observer import Observer
from tests.kit.simulation.clusters.parcels import Parcels
from tests.kit.simulation.clusters.plan import PartitionPlan, Plan
from tests.kit.simulation.timeline import Timeline, VirtualClock
from tests.kit.simulation.trace import Trace


class Endpoint(Protocol):
    """Where a parcel can arrive."""

    def deliver(self, envelope: bytes, payload: bytes) -> None: ...


class World:
    """Of one run."""

    def __init__(self, plan: Plan, seed: int, trace: Trace) -> None:
        self.plan = plan
        self.timeline = Timeline(Random(f"world {seed}"), trace)
        self.clock = VirtualClock(self.timeline, 0)
        self.network = Parcels(self.timeline)
        self.history = History()
        self.observer = Observer(self.timeline, self.history)
        # How often what happened.
        self.counts: Counter[str] = Counter()
        # The topics there are by now, as a registry has them: of one partition each.
        self.partitions: dict[PartitionId, PartitionPlan] = {one.id: one for one in plan.partitions}
        # Every disk there ever was, as it is or was last.
        self.disks: dict[Node, SimulatedDisk] = {}
        # The brokers that bits have decayed at.
        self.rotted: set[int] = set()
        # The brokers whose disks have been full: retention makes room there, also where what it
        # takes away is all that is known of a producer.
        self.filled: set[int] = set()
        self.endpoints: dict[int, Endpoint] = {}
