"""The faults of `tests.raft_chaos` to a cluster of real replicas, and those of their disks.

A disk may crash at any operation, fail a flush, or be full for a while; the network may damage what
it carries. At the end everything is mended, and all copies must be equal byte for byte. Of many
seeds, from a shell:

    python -m tests.replica_chaos 0 500
"""

from __future__ import annotations

import errno
import logging
import sys
from collections.abc import Callable
from itertools import count
from random import Random

from penstock.model.topic_config import Durability
from penstock.raft.membership import Membership, Node
from tests.raft_chaos import Chaos, Outcome
from tests.raft_checkers import (
    Checkers,
    check_acknowledged_is_committed,
    check_leader_completeness,
    check_log_matching,
    check_one_leader_per_term,
)
from tests.raft_support import Server
from tests.replica_cluster import Machine, ReplicaCluster

TURMOIL_MS = 20_000
# Thirteen elections' time.
HEALING_MS_MAX = 4_000
LOG_MATCHING_EVERY_STEPS = 400


class ReplicaCheckers(Checkers):
    """What is committed is what can be read: the high watermark, not what Raft says inside."""

    def on_step(self, server: Server) -> None:
        assert isinstance(server, Machine)
        assert server.participant is not None
        raft, replica = server.raft, server.participant.replica
        assert raft is not None
        is_leading = raft.leading is not None and replica.failure is None
        if is_leading and self._leading.get(server.node) != raft.state.term:
            self._leading[server.node] = raft.state.term
            check_one_leader_per_term(self.leaders, raft.state.term, server.node)
            check_leader_completeness(self.committed, server)
        self._look_at_commit(server, replica.high_watermark)
        self._steps += 1
        if self._steps % LOG_MATCHING_EVERY_STEPS == 0:
            check_log_matching(self.servers)


class ReplicaChaos(Chaos):
    """One cluster and what befalls it."""

    def __init__(self, seed: int) -> None:
        self.random = Random(f"replica chaos {seed}")
        self.checkers = ReplicaCheckers()
        servers = self.random.choice((1, 2, 3, 3, 3, 4, 5))
        nodes = [Node(broker, 1) for broker in range(1, servers + 1)]
        voters = self.random.choice((servers, servers, self.random.randint(1, servers)))
        membership = Membership(frozenset(nodes[:voters]))
        durability: Durability = "fsync" if self.random.random() < 0.7 else "os"
        self.replica_cluster = ReplicaCluster(seed, servers, membership, self.checkers, durability)
        self.cluster = self.replica_cluster
        self._payloads = count()
        self._faults = self._weights()
        if self.random.random() < 0.25:
            self._begin_storm()
        self._faults |= self._disk_faults(durability == "fsync")

    def run(self) -> Outcome:
        for server in self.cluster.servers.values():
            server.start()
        while self.cluster.now_ms < TURMOIL_MS:
            self._strike()
            self.cluster.run_until(self.cluster.now_ms + self.random.choice((5, 30, 100, 600)))
        self._mend()
        self._check_available()
        check_log_matching(self.checkers.servers)
        check_acknowledged_is_committed(self.checkers)
        self._check_copies_are_equal()
        committed = self.checkers.committed
        return Outcome(
            simulated_ms=self.cluster.now_ms,
            terms=len(self.checkers.leaders),
            acknowledged=len(self.checkers.acknowledged),
            changes=sum(batch.place.membership is not None for batch in committed),
            resets=sum(
                machine.raft is not None and machine.raft.state.reset_offset > 0
                for machine in self.replica_cluster.machines.values()
            ),
        )

    # --- faults of disks -------------------------------------------------------------------------

    def _disk_faults(self, is_machine: bool) -> dict[Callable[[], None], int]:
        faults = {self._crash_disk: 6, self._fill_disk: 2, self._empty_disk: 4}
        if is_machine:
            # Of a page cache that is not flushed a failure tells nothing.
            faults[self._fail_disk] = 2
        return {fault: weight * self.random.choice((0, 1, 3)) for fault, weight in faults.items()}

    def _machine(self) -> Machine:
        return self.random.choice(list(self.replica_cluster.machines.values()))

    def _crash_disk(self) -> None:
        """At one of its next operations, whichever that is."""
        platter = self._machine().platter
        platter.crash_at(len(platter.operations) + self.random.randint(1, 12))

    def _fail_disk(self) -> None:
        self._machine().platter.fail_next("flush", errno.EIO)

    def _fill_disk(self) -> None:
        platter = self._machine().platter
        used_bytes = sum(map(len, platter.files().values()))
        platter.capacity_bytes = used_bytes + self.random.choice((0, 50, 500))

    def _empty_disk(self) -> None:
        for machine in self.replica_cluster.machines.values():
            machine.platter.capacity_bytes = None

    def _make_worse(self) -> None:
        super()._make_worse()
        self.replica_cluster.damage = self.random.choice((0.0, 0.02))

    def _mend(self) -> None:
        self.replica_cluster.damage = 0.0
        self._empty_disk()
        for machine in self.replica_cluster.machines.values():
            participant = machine.participant
            # What a disk failed to keep is known after a restart, and not before.
            if participant is not None and participant.replica.failure is not None:
                machine.crash()
        super()._mend()

    def _start_all(self) -> None:
        super()._start_all()
        # A crash may have been waiting in the first operations.
        super()._start_all()

    # --- at the end ------------------------------------------------------------------------------

    def _check_available(self) -> None:
        """A batch is acknowledged, and everybody has it, in time."""
        first = next(self._payloads)
        cluster = self.replica_cluster

        def is_missing() -> bool:
            self._revive()
            for server in cluster.leaders:
                server.propose(next(self._payloads))
            return not any(batch.payload > first for batch in self.checkers.acknowledged)

        assert cluster.run_while(is_missing, HEALING_MS_MAX), "nothing is acknowledged"
        assert cluster.run_while(self._differs, HEALING_MS_MAX), "copies differ"

    def _revive(self) -> None:
        for machine in self.replica_cluster.machines.values():
            participant = machine.participant
            if participant is None:
                machine.start()
            elif participant.replica.failure is not None:
                machine.crash()
                machine.start()

    def _differs(self) -> bool:
        self._revive()
        cluster = self.replica_cluster
        if len(cluster.leaders) != 1:
            return True
        leader = cluster.machines[cluster.leaders[0].node]
        assert leader.raft is not None
        ends = set()
        for node in leader.raft.state.membership.nodes:
            participant = cluster.machines[node].participant
            if participant is None:
                return True
            ends |= {participant.replica.log.written_offset, participant.replica.high_watermark}
        return len(ends) != 1

    def _check_copies_are_equal(self) -> None:
        """Byte for byte, from where the shorter one starts."""
        cluster = self.replica_cluster
        leader = cluster.machines[cluster.leaders[0].node]
        assert leader.raft is not None
        for node in leader.raft.state.membership.nodes:
            ours, theirs = leader.bytes_from(0), cluster.machines[node].bytes_from(0)
            length = min(len(ours), len(theirs))
            assert ours[-length:] == theirs[-length:], f"{leader.node} and {node} differ"


def run_seed(seed: int) -> Outcome:
    """A failure says how to see it again."""
    # What befalls the disks is told in the log, many times over.
    logging.getLogger("penstock").setLevel(logging.CRITICAL)
    try:
        return ReplicaChaos(seed).run()
    except Exception as error:
        error.add_note(f"seed {seed}: python -m tests.replica_chaos {seed} {seed + 1}")
        raise
    finally:
        logging.getLogger("penstock").setLevel(logging.NOTSET)


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
