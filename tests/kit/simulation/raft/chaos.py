"""Faults, by chance, to a cluster of `tests.kit.simulation.raft.cluster`; a run is a seed.

Crashes and restarts, cuts in one or both directions, loss, doubling, slow networks and disks,
retention, changes of membership, transfers, and clients that propose all the while. At the end
everything is mended, and the cluster must be available and its copies equal. Not what must hold on
the way: that is `tests.kit.simulation.raft.checkers`. Of many seeds, from a shell:

    python -m tests.kit.simulation.raft.chaos 0 5000
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from random import Random

from penstock.raft.membership import Membership, Node
from tests.kit.simulation.raft.checkers import (
    Checkers,
    check_acknowledged_is_committed,
    check_available,
    check_log_matching,
)
from tests.kit.simulation.raft.cluster import GOOD_DISK_DELAY_MS_MAX, Cluster, Server
from tests.kit.simulation.timeline import Timeline
from tests.kit.simulation.trace import Trace

TURMOIL_MS = 30_000
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


class Chaos:
    """One cluster and what befalls it."""

    def __init__(self, seed: int) -> None:
        self.random = Random(f"chaos {seed}")
        self.checkers = Checkers()
        servers = self.random.choice((1, 2, 3, 3, 4, 5, 5))
        nodes = [Node(broker, 1) for broker in range(1, servers + 1)]
        voters = self.random.choice((servers, servers, self.random.randint(1, servers)))
        membership = Membership(frozenset(nodes[:voters]))
        self.timeline = Timeline(Random(seed), Trace())
        self.cluster = Cluster(self.timeline, servers, membership, self.checkers)
        self._network = self.cluster.network
        self._payloads = count()
        self._make_better()
        self._faults = self._weights()
        if self.random.random() < 0.25:
            self._begin_storm()

    def run(self) -> Outcome:
        for server in self.cluster.servers.values():
            server.start()
        until_ms = TURMOIL_MS
        while self.timeline.now_ms < until_ms:
            self._strike()
            self.timeline.run_for(self.random.choice((5, 30, 100, 600)))
        self._mend()
        check_available(self.cluster, self.checkers, self._payloads, HEALING_MS_MAX)
        check_log_matching(self.checkers.servers)
        check_acknowledged_is_committed(self.checkers)
        committed = self.checkers.committed
        return Outcome(
            simulated_ms=self.timeline.now_ms,
            terms=len(self.checkers.leaders),
            acknowledged=len(self.checkers.acknowledged),
            changes=sum(batch.place.membership is not None for batch in committed),
            resets=sum(s.disk.saved.reset_offset > 0 for s in self.cluster.servers.values()),
        )

    # --- faults ----------------------------------------------------------------------------------

    def _weights(self) -> dict[Callable[[], None], int]:
        """Each run has faults of its own: some never happen in it, some all the time."""
        weights = {
            self._propose: 20,
            self._heal: 10,
            self._start_all: 10,
            self._crash: 8,
            self._crash_all: 1,
            self._strand: 8,
            self._hurry: 6,
            self._split: 4,
            self._cut_one_way: 3,
            self._make_worse: 4,
            self._make_better: 4,
            self._drop: 5,
            self._change_membership: 10,
            self._transfer: 4,
        }
        always = (self._propose, self._heal, self._start_all)
        return {
            fault: weight * (1 if fault in always else self.random.choice((0, 1, 1, 3, 10)))
            for fault, weight in weights.items()
        }

    def _begin_storm(self) -> None:
        """All campaign against each other all the time, and crash right after they voted."""
        self.cluster.brittleness = 0.2
        self._faults = {
            self._hurry: 20,
            self._start_all: 4,
            self._propose: 3,
            self._split: 2,
            self._strand: 2,
            self._heal: 2,
        }

    def _strike(self) -> None:
        self.random.choices(list(self._faults), list(self._faults.values()))[0]()

    def _propose(self) -> None:
        """Every node that thinks it leads gets some, and its own: only one of them can be right."""
        for server in self.cluster.leaders:
            for _ in range(self.random.randint(1, 8)):
                server.propose(next(self._payloads))

    def _crash(self) -> None:
        server = self._any()
        if server.raft is not None:
            server.crash()
            if self.random.random() < 0.5:
                server.start()

    def _crash_all(self) -> None:
        for server in self.cluster.servers.values():
            if server.raft is not None:
                server.crash()
        self._start_all()

    def _start_all(self) -> None:
        for server in self.cluster.servers.values():
            if server.raft is None:
                server.start()

    def _strand(self) -> None:
        """A leader is cut off, perhaps with others, while something of its own is on the way."""
        leaders = self.cluster.leaders
        if self.random.random() < 0.5:
            self._change_membership()
        else:
            self._propose()
        self.timeline.run_for(self.random.randint(0, 40))
        brokers = self._brokers()
        for leader in leaders:
            others = [broker for broker in brokers if broker != leader.node.broker]
            company = self.random.choice((0, 0, self.random.randint(0, len(others))))
            some = {leader.node.broker, *self.random.sample(others, company)}
            self._network.cut_between(sorted(some), sorted(set(brokers) - some))

    def _hurry(self) -> None:
        """Nodes lose patience, several at once: so that they campaign against each other."""
        for server in self.cluster.servers.values():
            if self.random.random() < 0.7:
                server.lose_patience()

    def _split(self) -> None:
        brokers = self._brokers()
        self.random.shuffle(brokers)
        half = self.random.randint(0, len(brokers))
        self._network.cut_between(brokers[:half], brokers[half:])

    def _cut_one_way(self) -> None:
        self._network.cut_one_way(self._any().node.broker, self._any().node.broker)

    def _heal(self) -> None:
        self._network.cuts.clear()

    def _make_worse(self) -> None:
        self._network.loss = self.random.choice((0.05, 0.3))
        self._network.doubling = self.random.choice((0.05, 0.3))
        self._network.delay_ms_max = self.random.choice((20, 100))
        self.cluster.disk_delay_ms_max = self.random.choice((10, 50, 200))
        self.cluster.brittleness = self.random.choice((0.0, 0.01, 0.1))

    def _make_better(self) -> None:
        self._network.make_better()
        self._network.overtaking = 0.1
        self._network.delay_ms_max = 20
        self.cluster.brittleness = 0.0
        self.cluster.disk_delay_ms_max = GOOD_DISK_DELAY_MS_MAX

    def _drop(self) -> None:
        self._any().drop_before(self.random.random())

    def _change_membership(self) -> None:
        for server in self.cluster.leaders:
            assert server.raft is not None
            for _ in range(self.random.randint(1, 3)):
                server.change(self._another(server.raft.state.membership))

    def _another(self, now: Membership) -> Membership:
        """One node becomes something else: a voter, a learner, or nothing. Or anything at all,
        which must be refused unless it is a single step."""
        if self.random.random() < 0.2:
            nodes = sorted(self.cluster.servers)
            voters = self.random.sample(nodes, self.random.randint(0, len(nodes)))
            return Membership(frozenset(voters))
        node = self._any().node
        kept, learners = now.voters - {node}, now.learners - {node}
        match self.random.choice(("voter", "voter", "learner", "nothing")):
            case "voter":
                kept |= {node}
            case "learner":
                learners |= {node}
        return Membership(kept, learners)

    def _transfer(self) -> None:
        for server in self.cluster.leaders:
            server.transfer(self._any().node)

    def _mend(self) -> None:
        self._heal()
        self._make_better()
        self._start_all()

    def _brokers(self) -> list[int]:
        return [node.broker for node in self.cluster.servers]

    def _any(self) -> Server:
        return self.random.choice(list(self.cluster.servers.values()))


def run_seed(seed: int) -> Outcome:
    """A failure says how to see it again."""
    try:
        return Chaos(seed).run()
    except Exception as error:
        error.add_note(f"seed {seed}: python -m tests.kit.simulation.raft.chaos {seed} {seed + 1}")
        raise


def main(first: int, end: int) -> None:
    outcomes = [run_seed(seed) for seed in range(first, end)]
    hours = sum(outcome.simulated_ms for outcome in outcomes) / 3_600_000
    print(
        f"{len(outcomes)} seeds clean, {hours:.1f} simulated hours,",
        f"{sum(outcome.terms for outcome in outcomes)} terms with a leader,",
        f"{sum(outcome.acknowledged for outcome in outcomes)} batches acknowledged,",
        f"{sum(outcome.changes for outcome in outcomes)} changes of membership,",
        f"{sum(outcome.resets for outcome in outcomes)} copies begun anew",
    )


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
