"""What people do to a cluster: delete records and topics, move partitions, ask for odd
memberships, hand over.

The invariant: nobody is asked for what would take the majority of a partition.
"""

from __future__ import annotations

from random import Random
from typing import Final

from penstock.raft.membership import Membership
from tests.kit.simulation.clusters.cluster import Cluster
from tests.kit.simulation.clusters.machine import Machine
from tests.kit.simulation.clusters.plan import PartitionPlan
from tests.kit.simulation.clusters.served import Served
from tests.kit.simulation.memberships import draw_membership

# How long a topic that is to be deleted is given to have something on its way.
_CALLS_MS_MAX: Final = 600


class Changes:
    """Of one run."""

    def __init__(self, cluster: Cluster, random: Random) -> None:
        self._cluster = cluster
        self._random = random

    def delete(self) -> None:
        plan = self._random.choice(self._cluster.partitions)
        share = self._random.random()
        for machine in self._cluster.machines.values():
            machine.do(lambda process: process.delete_before(plan.id, share))

    def move(self) -> None:
        plan = self._random.choice(self._cluster.partitions)
        brokers = self._random.sample(self._cluster.plan.brokers, len(self._cluster.plan.brokers))
        fewest = plan.config.min_insync_replicas
        target = tuple(brokers[: self._random.randint(fewest, len(brokers))])
        self._cluster.operator.targets[plan.id] = target
        self._cluster.topics.move(plan.name.topic, target)
        self._cluster.timeline.note("operator", f"{plan.name} is to be on {target}")

    def remake(self) -> None:
        """A topic is deleted, and made anew under its name: if it can be, while its leader has not
        answered all, which is also whoever was asked for it, and the first to know."""
        cluster = self._cluster
        plan = self._random.choice(cluster.partitions)
        cluster.timeline.run_while(lambda: not self._calls(plan), _CALLS_MS_MAX)
        leading = [cluster.machines[served.node.broker] for served in cluster.leaders(plan.id)]
        running = [each for each in cluster.machines.values() if each.process is not None]
        nodes = frozenset(cluster.machines[broker].node for broker in plan.replicas)
        if not running or not cluster.operator.is_prudent(Membership(nodes)):
            return
        asked = leading or [self._random.choice(running)]
        last_term = max(_last_term(machine, plan) for machine in asked)
        replicas = tuple(self._random.sample(plan.replicas, len(plan.replicas)))
        cluster.remake(plan, replicas, last_term)
        for machine in asked:
            machine.do(cluster.operator.follow)

    def _calls(self, plan: PartitionPlan) -> int:
        return sum(served.calls for served in self._cluster.leaders(plan.id))

    def change_membership(self) -> None:
        plan = self._random.choice(self._cluster.partitions)
        for served in self._cluster.leaders(plan.id):
            self.change_one(served)

    def change_one(self, served: Served) -> None:
        nodes = [machine.node for machine in self._cluster.machines.values()]
        wanted = draw_membership(self._random, served.membership, nodes)
        # Whoever has others vote has told the registry first.
        target = self._cluster.operator.targets[served.plan.id]
        self._cluster.topics.move(served.plan.name.topic, target)
        machine = self._cluster.machines[served.node.broker]
        machine.do(lambda _: self._cluster.operator.change(served, wanted))

    def transfer(self) -> None:
        plan = self._random.choice(self._cluster.partitions)
        node = self._random.choice(list(self._cluster.machines.values())).node
        for served in self._cluster.leaders(plan.id):
            machine = self._cluster.machines[served.node.broker]
            participant = served.participant
            machine.do(lambda _, each=participant: each.transfer(node))  # type: ignore[misc]


def _last_term(machine: Machine, plan: PartitionPlan) -> int:
    """The latest of the partition that is known there, as `broker.partitions.leaders` has it."""
    assert machine.process is not None
    served = machine.process.partitions.get(plan.id)
    heard = machine.process.replicas.leader(plan.id, since_ms=0)
    terms = [] if served is None else [served.participant.term]
    terms += [] if heard is None else [heard.term]
    return max(terms, default=plan.first_term + 1)
