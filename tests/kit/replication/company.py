"""A few simulated brokers that share a partition, without faults until a test makes some."""

from __future__ import annotations

from penstock.model.limits import APPEND_BYTES_MAX
from penstock.model.topic_config import TopicConfig
from penstock.raft.membership import Node
from penstock.raft.patience import Patience
from penstock.records import build_batch
from penstock.replication.peers.replicas import Replicas
from penstock.replication.replica.replica import ACKS_ALL, Replica
from penstock.replication.replica.transport import TIMING
from tests.kit.simulation.clusters.cluster import Cluster
from tests.kit.simulation.clusters.machine import Machine
from tests.kit.simulation.clusters.plan import Plan, partition_plan
from tests.kit.simulation.clusters.process import Process
from tests.kit.simulation.clusters.served import Served


class Company:
    """The brokers, and what is asked of them."""

    def __init__(
        self,
        brokers: int = 3,
        voters: int | None = None,
        config: TopicConfig | None = None,
        seed: int = 7,
    ) -> None:
        numbers = tuple(range(1, brokers + 1))
        plan = partition_plan(0, numbers[: voters or brokers], config)
        self.partition = plan.id
        self.cluster = Cluster(
            Plan(
                brokers=numbers,
                partitions=(plan,),
                is_machine_crashing=True,
                notices_cuts=False,
                lets_go=False,
                append_bytes_max=APPEND_BYTES_MAX,
                idempotent_producers=0,
                plain_producers=0,
                readers=0,
            ),
            seed=seed,
        )
        self.cluster.start()
        self.machines = list(self.cluster.machines.values())
        self.run(3_000)

    def run(self, for_ms: int) -> None:
        self.cluster.timeline.run_for(for_ms)

    def leader(self) -> Machine:
        """The one that leads and may be written to."""

        def is_missing() -> bool:
            return not any(self.leads(machine) for machine in self.machines)

        assert self.cluster.timeline.run_while(is_missing, 10_000)
        return next(machine for machine in self.machines if self.leads(machine))

    def process(self, machine: Machine) -> Process:
        assert machine.process is not None
        return machine.process

    def served(self, machine: Machine) -> Served:
        return self.process(machine).partitions[self.partition]

    def replica(self, machine: Machine) -> Replica:
        return self.served(machine).replica

    def replicas(self, machine: Machine) -> Replicas:
        return self.process(machine).replicas

    def leads(self, machine: Machine) -> bool:
        return machine.process is not None and self.served(machine).leads

    def term(self, machine: Machine) -> int:
        return self.served(machine).participant.term

    def terms_led(self) -> dict[int, Node]:
        return dict(self.cluster.observer.watch(self.partition).leaders)

    def cut_off(self, machine: Machine) -> None:
        others = [other.broker for other in self.machines if other is not machine]
        self.cluster.network.cut_between([machine.broker], others)

    def set_delay(self, machine: Machine, delay_ms: int) -> None:
        """How much longer than it must the machine waits before it campaigns, from now on: not by
        chance any more."""
        raft = self.replica(machine).consensus.raft
        raft._patience = Patience(TIMING.election_ms, lambda: delay_ms)

    def propose(self, machine: Machine, *values: bytes) -> list[object]:
        """What is answered, one after the other."""
        answers: list[object] = []
        for value in values:
            self.produce(machine, build_batch([(None, value)]), answers)
        return answers

    def produce(self, machine: Machine, batch: bytearray, answers: list[object]) -> None:
        def reply(result: object, leader: int | None = None) -> None:
            answers.append(result)

        machine.do(lambda process: process.produce(self.partition, batch, ACKS_ALL, reply))

    def values(self, machine: Machine) -> list[bytes]:
        """Of what producers sent, as the machine's log has it."""
        facts = self.served(machine).copy.facts().values()
        return [fact.value for fact in facts if fact.key is None and fact.value is not None]

    def stored_bytes(self, machine: Machine) -> bytes:
        return self.served(machine).copy.stored_bytes(self.replica(machine).high_watermark)

    def high_watermarks(self) -> set[int]:
        return {
            self.replica(machine).high_watermark
            for machine in self.machines
            if machine.process is not None
        }
