"""One run: a cluster from a seed, turmoil, everything mended, and what must be true then.

Not the faults and not the promises. The invariant: a run that fails says how to see it again.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from tests.kit.simulation import checkers
from tests.kit.simulation.clusters.clients import IdempotentProducer
from tests.kit.simulation.clusters.cluster import Cluster
from tests.kit.simulation.clusters.operators import is_ailing
from tests.kit.simulation.clusters.plan import PartitionPlan, draw_plan
from tests.kit.simulation.clusters.served import Served
from tests.kit.simulation.clusters.turmoil import Turmoil
from tests.kit.simulation.runs import USUAL_WORLD, Outcome, replayable
from tests.kit.simulation.trace import Trace

# Ten elections' time, until all that waits is acknowledged.
AVAILABLE_MS_MAX: Final = 8_000
# Until copies are where they are to be, and equal.
SETTLED_MS_MAX: Final = 15_000


class Run:
    """Of one seed."""

    def __init__(self, seed: int, trace: Trace) -> None:
        self.seed = seed
        self.cluster = Cluster(draw_plan(seed), seed, trace)
        self._turmoil = Turmoil(self.cluster, seed)
        self._trace = trace

    def run(self) -> Outcome:
        cluster, timeline = self.cluster, self.cluster.timeline
        with cluster:
            cluster.start()
            cluster.operator.begin()
            cluster.add_clients()
            self._turmoil.rage()
            self._turmoil.mend()
            mended_ms = timeline.now_ms
            self._until_available()
            available_ms = timeline.now_ms
            self._until_settled()
            self._check_at_the_end()
        watches = cluster.observer.watches.values()
        return Outcome(
            seed=self.seed,
            simulated_ms=timeline.now_ms,
            worth=Counter(
                {
                    "elections": sum(len(watch.leaders) for watch in watches),
                    "records acknowledged": cluster.history.acknowledged_count,
                    "records read": cluster.history.seen_count,
                }
            ),
            counts=cluster.counts,
            healed_ms={
                "messages taken": available_ms - mended_ms,
                "copies equal": timeline.now_ms - mended_ms,
            },
            digest=self._trace.digest,
        )

    # --- after everything is mended --------------------------------------------------------------

    def _until_available(self) -> None:
        """Every partition takes a message sent after the mending, and all sent before."""
        timeline = self.cluster.timeline
        before = {
            plan.id: len(self.cluster.history.acknowledged[plan.id])
            for plan in self.cluster.partitions
        }

        def is_missing() -> bool:
            self._repair()
            acknowledged = self.cluster.history.acknowledged
            return any(len(acknowledged[partition]) <= count for partition, count in before.items())

        checkers.available_within(
            AVAILABLE_MS_MAX,
            "a partition takes no messages",
            lambda limit_ms: timeline.run_while(is_missing, limit_ms),
        )

    def _until_settled(self) -> None:
        """Producers end, readers come to the end, and copies are where they are to be."""
        cluster, timeline = self.cluster, self.cluster.timeline
        for producer in cluster.idempotent:
            producer.stop()
        for producer in cluster.idempotent:
            checkers.available_within(
                SETTLED_MS_MAX,
                f"producer {producer.number} is not done",
                lambda limit_ms, each=producer: timeline.run_while(  # type: ignore[misc]
                    lambda: self._is_waiting(each), limit_ms
                ),
            )
        for client in cluster.others:
            client.stop()

        def differs() -> bool:
            self._repair()
            return any(self._settled(plan) is None for plan in cluster.partitions)

        checkers.available_within(
            SETTLED_MS_MAX,
            "copies are not where they are to be, or differ",
            lambda limit_ms: timeline.run_while(differs, limit_ms),
        )

    def _is_waiting(self, producer: IdempotentProducer) -> bool:
        self._repair()
        return not producer.is_done

    def _repair(self) -> None:
        """What failed while things were still going wrong."""
        operator = self.cluster.operator
        processes = [machine.process for machine in self.cluster.machines.values()]
        if any(process is not None and is_ailing(process) for process in processes):
            operator.repair()
        operator.start_all()

    def _settled(self, plan: PartitionPlan) -> list[Served] | None:
        """The copies, the leader's first; None while they are not equal or somewhere else."""
        leaders = self.cluster.leaders(plan.id)
        if len(leaders) != 1 or not self.cluster.operator.is_settled(leaders[0]):
            return None
        leader = leaders[0]
        copies = [
            served
            for served in self.cluster.served(plan.id)
            if served.node in leader.membership.nodes and served is not leader
        ]
        if len(copies) + 1 != len(leader.membership.nodes):
            return None
        ends = {
            offset
            for served in (leader, *copies)
            for offset in (served.replica.log.written_offset, served.replica.high_watermark)
        }
        return [leader, *copies] if len(ends) == 1 else None

    def _check_at_the_end(self) -> None:
        history = self.cluster.history
        for plan in self.cluster.partitions:
            watch = self.cluster.observer.watch(plan.id)
            truth = watch.truth
            self.cluster.observer.compare_logs(watch)
            acknowledged = history.acknowledged[plan.id]
            checkers.acknowledged_is_committed(acknowledged, truth)
            checkers.sent_once_stands_once(truth)
            checkers.idempotent_producers_are_exact(
                truth, history.idempotent[plan.id], is_compacted=plan.is_compacted
            )
            settled = self._settled(plan)
            assert settled is not None
            leader, *followers = settled
            end_offset = leader.replica.high_watermark
            for served in settled:
                checkers.acknowledged_is_readable(acknowledged, truth, served.copy, end_offset)
            for served in settled:
                checkers.every_call_is_answered(served.node, plan.name, served.calls)
            for served in followers:
                checkers.copies_are_equal(leader.copy, served.copy, end_offset)


@replayable(USUAL_WORLD)
def run_seed(seed: int, trace: Trace) -> Outcome:
    return Run(seed, trace).run()
