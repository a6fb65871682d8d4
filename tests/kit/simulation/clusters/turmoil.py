"""What befalls a cluster, by chance: machines, disks, networks, and people who change their minds.

Not what must hold. The invariant: at the end of `mend` nothing is broken any more, and nothing was
destroyed that a majority did not have elsewhere.
"""

from __future__ import annotations

from random import Random

from tests.kit.simulation.clusters.cluster import Cluster
from tests.kit.simulation.clusters.faults.changes import Changes
from tests.kit.simulation.clusters.faults.disks import DiskFaults
from tests.kit.simulation.clusters.faults.machines import MachineFaults
from tests.kit.simulation.clusters.faults.relay import Relay
from tests.kit.simulation.faults import Fault, Faults
from tests.kit.simulation.network_faults import NetworkFaults


class Turmoil:
    """Of one run."""

    def __init__(self, cluster: Cluster, seed: int) -> None:
        self._cluster = cluster
        self._random = Random(f"faults {seed}")
        self._machines = MachineFaults(cluster, self._random)
        self._networks = NetworkFaults(
            cluster.network, cluster.timeline, cluster.plan.brokers, self._random
        )
        self._disks = DiskFaults(cluster, self._random)
        self._changes = Changes(cluster, self._random)
        self._relay = Relay(cluster, self._random)
        mending = ("mended network", "start", "repaired disks")
        self._faults = Faults(self._random, cluster.counts, self._table(), mending)
        kind = self._random.random()
        if kind < 0.2:
            self._begin_storm()
        elif kind < 0.4:
            self._begin_contest()

    def rage(self) -> None:
        self._faults.rage(self._cluster.timeline)

    def mend(self) -> None:
        self._cluster.timeline.note("world", "everything is mended")
        self._networks.mend()
        for machine in self._cluster.machines.values():
            machine.mend()
        self._cluster.operator.replace_rotten()
        self._cluster.operator.repair()
        self._cluster.operator.start_all()

    def _table(self) -> dict[str, tuple[int, Fault]]:
        cluster = self._cluster
        return {
            "mended network": (12, cluster.network.mend),
            "start": (12, cluster.operator.start_all),
            "repaired disks": (8, self._disks.repair),
            "killed broker": (8, self._machines.kill),
            "all killed": (1, self._machines.kill_all),
            "orderly stop": (3, self._machines.stop),
            "pause": (4, self._machines.pause),
            "brittle": (2, self._machines.make_brittle),
            "leader cut off": (6, self._strand),
            "relay of leaders": (1, self._relay.run),
            "impatience": (5, self._machines.hurry),
            "split network": (4, self._networks.split),
            "one-way cut": (3, self._networks.cut_one_way),
            "bridge": (3, self._networks.bridge),
            "flapping": (3, self._networks.flap),
            "bad network": (4, self._networks.make_worse),
            "good network": (4, cluster.network.make_better),
            "crash at the disk": (6, self._disks.crash),
            "failing disk": (3, self._disks.fail),
            "full disk": (2, self._disks.fill),
            "slow disk": (2, self._disks.slow_down),
            "bit rot": (2, self._disks.rot),
            "wiped folder": (2, self._disks.wipe),
            "deleted records": (3, self._changes.delete),
            "topic made anew": (3, self._changes.remake),
            "moved partition": (4, self._changes.move),
            "odd membership": (4, self._changes.change_membership),
            "transfer": (4, self._changes.transfer),
        }

    def _begin_contest(self) -> None:
        """Leaders are cut off or die while they send, come back, and lead again (paper, 5.4.2)."""
        self._machines.make_all_brittle(0.03)
        self._faults.only(
            {
                "relay of leaders": 12,
                "leader cut off": 12,
                "impatience": 10,
                "killed broker": 6,
                "mended network": 8,
                "start": 8,
                "repaired disks": 1,
            }
        )

    def _begin_storm(self) -> None:
        """All campaign against each other all the time, and crash right after they voted."""
        self._machines.make_all_brittle(0.15)
        self._faults.only(
            {
                "impatience": 20,
                "start": 4,
                "split network": 2,
                "leader cut off": 2,
                "mended network": 2,
                "repaired disks": 1,
            }
        )

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
