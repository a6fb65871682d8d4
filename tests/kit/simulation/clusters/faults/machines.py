"""Faults of machines: killed, stopped, standing still, brittle, impatient.

Not of their disks. The invariant: a machine that is down can be started again.
"""

from __future__ import annotations

from random import Random

from tests.kit.simulation.clusters.cluster import Cluster
from tests.kit.simulation.clusters.process import Process


class MachineFaults:
    """Of one run."""

    def __init__(self, cluster: Cluster, random: Random) -> None:
        self._cluster = cluster
        self._random = random
        self._machines = list(cluster.machines.values())

    def make_all_brittle(self, brittleness: float) -> None:
        """From now on all crash right after they said or saved something, so often."""
        for machine in self._machines:
            machine.brittleness = brittleness

    def kill(self) -> None:
        machine = self._random.choice(self._machines)
        if machine.process is not None:
            machine.crash()
            if self._random.random() < 0.5:
                machine.start()

    def kill_all(self) -> None:
        for machine in self._machines:
            if machine.process is not None:
                machine.crash()
        self._cluster.operator.start_all()

    def stop(self) -> None:
        self._random.choice(self._machines).stop()

    def pause(self) -> None:
        self._random.choice(self._machines).pause(self._random.choice((100, 1_000, 3_000)))

    def make_brittle(self) -> None:
        self._random.choice(self._machines).brittleness = self._random.choice((0.0, 0.02, 0.1))

    def hurry(self) -> None:
        """Followers lose patience, several at once: so that they campaign against each other."""
        for machine in self._machines:
            if self._random.random() < 0.7:
                machine.do(self._lose_patience)

    def _lose_patience(self, process: Process) -> None:
        now_ms = self._cluster.timeline.now_ms
        for served in process.partitions.values():
            raft = served.replica.consensus.raft
            is_waiting = raft.leading is None and not served.replica.consensus.is_busy
            if is_waiting and served.replica.failure is None:
                # A follower's time is by chance; it may come now.
                raft.deadline_ms = now_ms
                served.participant.on_time(now_ms)
