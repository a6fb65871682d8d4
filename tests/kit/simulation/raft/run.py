"""One run: a cluster of consensus alone from a seed, turmoil, everything mended, and what must be
true then: it is available, and its copies are equal.

Not what must hold on the way: that is `checkers`. Of many seeds, from a shell:

    python -m tests.kit.simulation.raft.run 0 5000
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from itertools import count
from random import Random

from penstock.raft.membership import Membership, Node
from tests.kit.simulation.raft.checkers import Checkers, check_available
from tests.kit.simulation.raft.cluster import Cluster
from tests.kit.simulation.raft.turmoil import Turmoil
from tests.kit.simulation.timeline import Timeline
from tests.kit.simulation.trace import Trace

# Thirteen elections' time; the slowest of some hundred runs took less than half of it.
HEALING_MS_MAX = 4_000


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run was worth: without elections and commits it would prove nothing."""

    simulated_ms: int
    terms: int
    acknowledged: int
    changes: int
    resets: int


class Run:
    """Of one seed."""

    def __init__(self, seed: int) -> None:
        random = Random(f"chaos {seed}")
        self._payloads = count()
        self._checkers = Checkers()
        servers = random.choice((1, 2, 3, 3, 4, 5, 5))
        nodes = [Node(broker, 1) for broker in range(1, servers + 1)]
        voters = random.choice((servers, servers, random.randint(1, servers)))
        membership = Membership(frozenset(nodes[:voters]))
        timeline = Timeline(Random(seed), Trace())
        self._cluster = Cluster(timeline, servers, membership, self._checkers)
        self._turmoil = Turmoil(self._cluster, random, self._payloads)

    def run(self) -> Outcome:
        cluster, checkers = self._cluster, self._checkers
        for server in cluster.servers.values():
            server.start()
        self._turmoil.rage()
        self._turmoil.mend()
        check_available(cluster, checkers, self._payloads, HEALING_MS_MAX)
        checkers.compare_logs()
        checkers.check_acknowledged()
        return Outcome(
            simulated_ms=cluster.timeline.now_ms,
            terms=len(checkers.leaders),
            acknowledged=len(checkers.acknowledged),
            changes=checkers.changes,
            resets=sum(s.disk.saved.reset_offset > 0 for s in cluster.servers.values()),
        )


def run_seed(seed: int) -> Outcome:
    """A failure says how to see it again."""
    try:
        return Run(seed).run()
    except Exception as error:
        error.add_note(f"seed {seed}: python -m tests.kit.simulation.raft.run {seed} {seed + 1}")
        raise


def main(first: int, end: int) -> None:
    outcomes = [run_seed(seed) for seed in range(first, end)]
    hours = sum(outcome.simulated_ms for outcome in outcomes) / 3_600_000
    print(
        f"{len(outcomes)} seeds clean, {hours:.1f} simulated hours,",
        f"{sum(outcome.terms for outcome in outcomes)} terms with a leader,",
        f"{sum(outcome.acknowledged for outcome in outcomes)} messages acknowledged,",
        f"{sum(outcome.changes for outcome in outcomes)} changes of membership,",
        f"{sum(outcome.resets for outcome in outcomes)} copies begun anew",
    )


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
