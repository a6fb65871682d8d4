"""One run: a cluster of consensus alone from a seed, turmoil, everything mended, and what must be
true then.

Not what must hold on the way: that is `checkers`. The invariant: in the end it is available, and
its copies are equal.
"""

from __future__ import annotations

from collections import Counter
from itertools import count
from random import Random

from penstock.raft.membership import Membership, Node
from tests.kit.simulation.raft.checkers import Checkers, check_available
from tests.kit.simulation.raft.cluster import Cluster
from tests.kit.simulation.raft.turmoil import Turmoil
from tests.kit.simulation.runs import Outcome, replayable
from tests.kit.simulation.timeline import Timeline
from tests.kit.simulation.trace import Trace

# Thirteen elections' time; the slowest of some hundred runs took less than half of it.
HEALING_MS_MAX = 4_000


class Run:
    """Of one seed."""

    def __init__(self, seed: int, trace: Trace) -> None:
        self._seed = seed
        random = Random(f"chaos {seed}")
        self._payloads = count()
        servers = random.choice((1, 2, 3, 3, 4, 5, 5))
        nodes = [Node(broker, 1) for broker in range(1, servers + 1)]
        voters = random.choice((servers, servers, random.randint(1, servers)))
        membership = Membership(frozenset(nodes[:voters]))
        timeline = Timeline(Random(seed), trace)
        self._checkers = Checkers(timeline)
        self._cluster = Cluster(timeline, servers, membership, self._checkers)
        self._turmoil = Turmoil(self._cluster, random, self._payloads)

    def run(self) -> Outcome:
        cluster, checkers = self._cluster, self._checkers
        for server in cluster.servers.values():
            server.start()
        self._turmoil.rage()
        self._turmoil.mend()
        mended_ms = cluster.timeline.now_ms
        check_available(cluster, checkers, self._payloads, HEALING_MS_MAX)
        checkers.compare_logs()
        checkers.check_acknowledged()
        return Outcome(
            seed=self._seed,
            simulated_ms=cluster.timeline.now_ms,
            worth=Counter(
                {
                    "elections": len(checkers.leaders),
                    "messages acknowledged": len(checkers.acknowledged),
                    "changes of membership": checkers.changes,
                    "copies begun anew": sum(
                        server.disk.saved.reset_offset > 0 for server in cluster.servers.values()
                    ),
                }
            ),
            counts=self._turmoil.counts,
            healed_ms={"copies equal": cluster.timeline.now_ms - mended_ms},
            digest=cluster.timeline.trace.digest,
        )


@replayable("raft")
def run_seed(seed: int, trace: Trace) -> Outcome:
    return Run(seed, trace).run()
