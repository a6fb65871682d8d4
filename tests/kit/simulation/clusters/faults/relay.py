"""Leaders that follow each other and cannot finish: the paper's figure 8, as far as it can be had.

One leads with a few behind it and is cut off while it sends; another is elected by the others and
cut off before it can send anything; the first leads again, and is cut off as soon as it has sent
what is old and not yet what is new; then the second comes back. What is committed by then decides
whether anything is lost (paper, 5.4.2). The invariant: nothing is forced, since who is elected is
decided by those who vote; so it mostly comes to something else, which does no harm.
"""

from __future__ import annotations

from collections.abc import Collection
from random import Random
from typing import Final

from penstock.model.ids import PartitionId
from tests.kit.simulation.clusters.cluster import Cluster

_ELECTION_MS_MAX: Final = 4_000
_SENDING_MS_MAX: Final = 40


class Relay:
    """Of one run."""

    def __init__(self, cluster: Cluster, random: Random) -> None:
        self._cluster = cluster
        self._network = cluster.network
        self._timeline = cluster.timeline
        self._brokers = frozenset(cluster.plan.brokers)
        self._random = random

    def run(self) -> None:
        partition = self._random.choice(self._cluster.partitions).id
        leaders = self._cluster.leaders(partition)
        if not leaders or len(leaders[0].membership.voters) < 3:
            return
        voters = leaders[0].membership.voters
        first = leaders[0].node.broker
        others = sorted(node.broker for node in voters if node.broker != first)
        # So few that the others can elect somebody.
        company = {first, *self._random.sample(others, (len(voters) - 1) // 2 - 1)}
        self._separate(company)
        second = self._elected(partition, self._brokers - company)
        if second is not None:
            self._separate({second})
            third = self._elected(partition, self._brokers - {second})
            if third is not None:
                self._wait_until_it_sends(partition, third)
                self._separate({third, *(company - {second})})
        self._timeline.run_for(2_000)
        self._network.mend()

    def _separate(self, some: Collection[int]) -> None:
        """From all others, and nobody else from anybody."""
        self._network.cuts.clear()
        self._network.cut_between(sorted(some), sorted(self._brokers - set(some)))

    def _elected(self, partition: PartitionId, among: Collection[int]) -> int | None:
        """Who of these leads in a new term, as soon as one does."""
        before = set(self._cluster.observer.watch(partition).leaders)

        def found() -> int | None:
            leaders = self._cluster.observer.watch(partition).leaders
            new = [leaders[term].broker for term in sorted(leaders.keys() - before)]
            return next((broker for broker in reversed(new) if broker in among), None)

        by_ms = self._timeline.now_ms + _ELECTION_MS_MAX
        while found() is None and self._timeline.now_ms < by_ms:
            self._timeline.run_for(1)
        return found()

    def _wait_until_it_sends(self, partition: PartitionId, leader: int) -> None:
        """Until more is committed there, or for a moment."""
        process = self._cluster.machines[leader].process
        served = None if process is None else process.partitions.get(partition)
        if served is None:
            return
        before = served.replica.consensus.raft.state.commit_offset
        by_ms = self._timeline.now_ms + self._random.randint(1, _SENDING_MS_MAX)
        while self._timeline.now_ms < by_ms:
            self._timeline.run_for(1)
            if served.replica.consensus.raft.state.commit_offset > before:
                return
