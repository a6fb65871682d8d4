"""What befalls a cluster, by chance: machines, disks, networks, and people who change their minds.

Each run has faults of its own: some never happen in it, some all the time, so that runs differ in
kind and not only in order. Not what must hold. The invariant: at the end of `mend` nothing is
broken any more, and nothing was destroyed that a majority did not have elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from tests.kit.simulation.clusters.cluster import Cluster
from tests.kit.simulation.clusters.faults.changes import Changes
from tests.kit.simulation.clusters.faults.disks import DiskFaults
from tests.kit.simulation.clusters.faults.machines import MachineFaults
from tests.kit.simulation.clusters.faults.relay import Relay
from tests.kit.simulation.network_faults import NetworkFaults

Fault = Callable[[], None]


class Faults:
    """Of one run."""

    def __init__(self, cluster: Cluster, seed: int) -> None:
        self._cluster = cluster
        self._random = Random(f"faults {seed}")
        self._machines = MachineFaults(cluster, self._random)
        self._networks = NetworkFaults(cluster, self._random)
        self._disks = DiskFaults(cluster, self._random)
        self._changes = Changes(cluster, self._random)
        self._relay = Relay(cluster, self._random)
        self._faults = self._named()
        self._weights = self._draw_weights()
        kind = self._random.random()
        if kind < 0.2:
            self._begin_storm()
        elif kind < 0.4:
            self._begin_contest()

    def strike(self) -> None:
        """Something happens."""
        names = list(self._weights)
        name = self._random.choices(names, [self._weights[name] for name in names])[0]
        self._cluster.counts[name] += 1
        self._faults[name]()

    def mend(self) -> None:
        self._cluster.timeline.note("world", "everything is mended")
        self._networks.mend()
        for machine in self._cluster.machines.values():
            machine.mend()
        self._cluster.operator.replace_rotten()
        self._cluster.operator.repair()
        self._cluster.operator.start_all()

    def _named(self) -> dict[str, Fault]:
        return {
            "mended network": self._cluster.network.mend,
            "start": self._cluster.operator.start_all,
            "repaired disks": self._disks.repair,
            "killed broker": self._machines.kill,
            "all killed": self._machines.kill_all,
            "orderly stop": self._machines.stop,
            "pause": self._machines.pause,
            "brittle": self._machines.make_brittle,
            "leader cut off": self._strand,
            "relay of leaders": self._relay.run,
            "impatience": self._machines.hurry,
            "split network": self._networks.split,
            "one-way cut": self._networks.cut_one_way,
            "bridge": self._networks.bridge,
            "flapping": self._networks.flap,
            "bad network": self._networks.make_worse,
            "good network": self._cluster.network.make_better,
            "crash at the disk": self._disks.crash,
            "failing disk": self._disks.fail,
            "full disk": self._disks.fill,
            "slow disk": self._disks.slow_down,
            "bit rot": self._disks.rot,
            "wiped folder": self._disks.wipe,
            "deleted records": self._changes.delete,
            "topic made anew": self._changes.remake,
            "moved partition": self._changes.move,
            "odd membership": self._changes.change_membership,
            "transfer": self._changes.transfer,
        }

    def _draw_weights(self) -> dict[str, int]:
        weights = {
            "mended network": 12,
            "start": 12,
            "repaired disks": 8,
            "killed broker": 8,
            "all killed": 1,
            "orderly stop": 3,
            "pause": 4,
            "brittle": 2,
            "leader cut off": 6,
            "relay of leaders": 1,
            "impatience": 5,
            "split network": 4,
            "one-way cut": 3,
            "bridge": 3,
            "flapping": 3,
            "bad network": 4,
            "good network": 4,
            "crash at the disk": 6,
            "failing disk": 3,
            "full disk": 2,
            "slow disk": 2,
            "bit rot": 2,
            "wiped folder": 2,
            "deleted records": 3,
            "topic made anew": 3,
            "moved partition": 4,
            "odd membership": 4,
            "transfer": 4,
        }
        always = ("mended network", "start", "repaired disks")
        return {
            fault: weight * (1 if fault in always else self._random.choice((0, 1, 1, 3, 8)))
            for fault, weight in weights.items()
        }

    def _begin_contest(self) -> None:
        """Leaders are cut off or die while they send, come back, and lead again (paper, 5.4.2)."""
        self._machines.make_all_brittle(0.03)
        self._weights = {
            "relay of leaders": 12,
            "leader cut off": 12,
            "impatience": 10,
            "killed broker": 6,
            "mended network": 8,
            "start": 8,
            "repaired disks": 1,
        }

    def _begin_storm(self) -> None:
        """All campaign against each other all the time, and crash right after they voted."""
        self._machines.make_all_brittle(0.15)
        self._weights = {
            "impatience": 20,
            "start": 4,
            "split network": 2,
            "leader cut off": 2,
            "mended network": 2,
            "repaired disks": 1,
        }

    def _strand(self) -> None:
        """A leader is cut off, perhaps with others, while something of its own is on the way."""
        cluster = self._cluster
        led = [one for plan in cluster.partitions for one in cluster.leaders(plan.id)]
        if led:
            leader = self._random.choice(led)
            if self._random.random() < 0.5:
                self._changes.change_one(leader)
            cluster.timeline.run_for(self._random.randint(0, 40))
            self._networks.isolate(leader.node.broker)
