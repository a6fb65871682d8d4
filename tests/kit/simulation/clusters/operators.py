"""Who looks after the cluster: moves copies, replaces lost folders, repairs what the disk failed.

A partition has a target, the brokers that are to have it; its leader's membership is brought there
in single steps, each derived from the two alone, so a crash at any of them does no harm. The
invariant: nothing is destroyed, and nobody is made a voter or let go, where that could take the
majority of a partition: what then fails is the operator's fault and nobody else's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from penstock.model.errors import UnknownTopic
from penstock.model.ids import PartitionId
from penstock.raft.membership import Membership, Node
from tests.kit.simulation.clusters.machine import Machine
from tests.kit.simulation.clusters.plan import PartitionPlan
from tests.kit.simulation.clusters.process import Process
from tests.kit.simulation.clusters.served import Served
from tests.kit.simulation.clusters.world import World

_INTERVAL_MS: Final = 400
_LAG_MS_MAX: Final = 1_000


class Operator:
    """Of one cluster."""

    def __init__(self, world: World, machines: Mapping[int, Machine]) -> None:
        self.targets = {plan.id: plan.replicas for plan in world.partitions.values()}
        self._world = world
        self._machines = machines

    # --- where copies are to be ------------------------------------------------------------------

    def begin(self) -> None:
        """Look after the partitions from now on."""
        self._world.timeline.every(_INTERVAL_MS, self.reconcile)

    def replace(self, plan: PartitionPlan, by: PartitionPlan) -> None:
        """The topic is deleted, and another made under its name. Brokers hear of it by and by."""
        del self._world.partitions[plan.id], self.targets[plan.id]
        self._world.partitions[by.id], self.targets[by.id] = by, by.replicas
        self._world.timeline.note("operator", f"{plan.name} is made anew on {by.replicas}")

    def reconcile(self) -> None:
        """One step of each partition towards its target, if one can be made."""
        for machine in self._machines.values():
            if machine.process is not None:
                machine.do(self._reconcile_led)
                machine.do(self._keep_and_let_go)

    def _keep_and_let_go(self, process: Process) -> None:
        """Have a copy of what is to be here, and none of what is elsewhere or deleted by now."""
        self.follow(process)
        for plan in self._world.partitions.values():
            node = process.machine.node
            if node.broker in self.targets[plan.id]:
                if plan.id in process.machine.let_go:
                    process.take_up(plan)
            elif self._world.plan.lets_go:
                process.let_go(plan.id)

    def follow(self, process: Process) -> None:
        """Let it have nothing of deleted topics, and copies of new ones."""
        if process.is_stopping:
            return
        partitions = self._world.partitions
        for gone in process.offline.keys() - partitions.keys():
            del process.offline[gone]
        for served in list(process.partitions.values()):
            if served.plan.id not in partitions and not served.is_compacting:
                process.remove(served, UnknownTopic("it was deleted"))
        known = {*process.partitions, *process.offline, *process.machine.let_go}
        for plan in partitions.values():
            if plan.id not in known:
                process.begin_new(plan)

    def _reconcile_led(self, process: Process) -> None:
        for served in process.partitions.values():
            if served.leads and served.plan.id in self.targets:
                self._reconcile(served)

    def _reconcile(self, served: Served) -> None:
        step = next_step(
            served.membership,
            self.target_nodes(served.plan),
            me=served.node,
            is_lost=self.is_lost,
            is_caught_up=lambda node: self._is_caught_up(served, node),
        )
        if isinstance(step, Membership):
            self.change(served, step)
        elif step is not None:
            served.participant.transfer(step)

    def change(self, served: Served, membership: Membership) -> None:
        """Have it changed, unless that could take the majority, or its topic is gone."""
        if served.plan.id not in self.targets:
            return
        is_wise = self.is_prudent(membership) and self._have_copies(served, membership)
        if is_wise and served.participant.change_membership(membership):
            self._world.counts["change of membership"] += 1
            self._world.timeline.note(
                str(served.node), f"{served.plan.name} is to have {described(membership)}"
            )

    def _have_copies(self, served: Served, membership: Membership) -> bool:
        """Where copies are removed: nobody comes but as a learner that is to come, and nobody
        votes that has not caught up. Who is not wanted may be removing its copy just now."""
        if not self._world.plan.lets_go:
            return True
        now = served.membership
        has_strangers = membership.nodes - now.nodes - self.target_nodes(served.plan)
        voters = membership.voters - now.voters
        return not has_strangers and all(self._is_caught_up(served, node) for node in voters)

    def target_nodes(self, plan: PartitionPlan) -> frozenset[Node]:
        return frozenset(self._machines[broker].node for broker in self.targets[plan.id])

    def is_settled(self, served: Served) -> bool:
        """Whether the partition, which is led there, is where it is to be."""
        members = served.replica.consensus.raft.state.members.latest
        is_committed = members.offset < served.replica.high_watermark
        target = self.target_nodes(served.plan)
        return is_committed and members.membership == Membership(target)

    def _is_caught_up(self, served: Served, node: Node) -> bool:
        leading = served.replica.consensus.raft.leading
        if leading is None or node not in leading.followers:
            return False
        return leading.is_in_sync(node, self._world.timeline.now_ms - _LAG_MS_MAX)

    # --- what may be lost ------------------------------------------------------------------------

    def is_lost(self, node: Node) -> bool:
        """Whether its folder is gone, or damaged so that it will have to go."""
        machine = self._machines[node.broker]
        return machine.node != node or machine.is_rotten

    def is_prudent(self, membership: Membership) -> bool:
        """Whether it has a majority that is not lost."""
        lost = sum(map(self.is_lost, membership.voters))
        return len(membership.voters) - lost >= membership.majority

    def may_lose(self, machine: Machine) -> bool:
        """Whether every partition survives without the machine's copy, whatever membership turns
        out to be in force."""
        if machine.is_rotten:
            return False
        for plan in self._world.partitions.values():
            for membership in self._known(plan.id):
                others = membership.voters - {machine.node}
                alive = sum(not self.is_lost(node) for node in others)
                if machine.node in membership.voters and alive < membership.majority:
                    return False
        return True

    def _known(self, partition: PartitionId) -> Iterator[Membership]:
        """What anybody that is not lost took for the membership when it was last seen."""
        if not self._world.observer.watch(partition).rafts:
            # Nobody has heard of it yet.
            yield Membership(frozenset(self._world.partitions[partition].voters))
        for node, raft in self._world.observer.watch(partition).rafts.items():
            if self._machines[node.broker].node == node:
                yield from (at.membership for at in raft.state.members.known)

    # --- repairs ---------------------------------------------------------------------------------

    def start_all(self) -> None:
        for machine in self._machines.values():
            machine.start()

    def repair(self) -> None:
        """Start again what runs with a partition that the disk failed, or that is offline."""
        for machine in self._machines.values():
            process = machine.process
            if process is not None and is_ailing(process):
                self._world.counts["repair"] += 1
                machine.crash()
                machine.start()

    def replace_rotten(self) -> None:
        """Give those a new disk whose bits have decayed."""
        for machine in self._machines.values():
            if machine.is_rotten:
                machine.wipe()


def is_ailing(process: Process) -> bool:
    failures = [served.replica.failure for served in process.partitions.values()]
    return bool(process.offline) or any(failure is not None for failure in failures)


def next_step(
    now: Membership,
    target: frozenset[Node],
    *,
    me: Node,
    is_lost: Callable[[Node], bool],
    is_caught_up: Callable[[Node], bool],
) -> Membership | Node | None:
    """The next membership on the way to the target; or who is to lead instead of this node, which
    has to go; or nothing, for now."""
    voters, learners = now.voters, now.learners
    if missing := target - now.nodes:
        return Membership(voters, learners | {min(missing)})
    if strangers := learners - target:
        return Membership(voters, learners - {min(strangers)})
    leaving = voters - target
    lost = {node for node in leaving if is_lost(node)}
    ready = {node for node in learners if is_caught_up(node)}
    if ready and lost:
        # Who is lost makes room: a majority must not depend on it.
        return Membership(voters - {min(lost)}, learners)
    if ready:
        return Membership(voters | {min(ready)}, learners - {min(ready)})
    if learners or not leaving:
        return None
    if others := lost or leaving - {me}:
        return Membership(voters - {min(others)})
    return min(voters & target)


def described(membership: Membership) -> str:
    voters = ", ".join(map(str, sorted(membership.voters)))
    learners = ", ".join(map(str, sorted(membership.learners)))
    return f"voters {voters}" + (f", learners {learners}" if learners else "")
