"""What befalls a cluster of consensus alone: crashes and restarts, bad networks and slow disks,
retention, changes of membership, transfers, and clients that propose all the while.

Not what must hold (`checkers`), and not what a run is (`run`). The invariant: at the end of `mend`
nothing is broken any more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from random import Random

from tests.kit.simulation.faults import Fault, Faults
from tests.kit.simulation.memberships import draw_membership
from tests.kit.simulation.network_faults import NetworkFaults
from tests.kit.simulation.raft.cluster import GOOD_DISK_DELAY_MS_MAX, Cluster, Server


class Turmoil:
    """Of one run."""

    def __init__(self, cluster: Cluster, random: Random, payloads: Iterator[int]) -> None:
        self.counts: Counter[str] = Counter()
        self._cluster = cluster
        self._random = random
        self._payloads = payloads
        self._servers = list(cluster.servers.values())
        brokers = [server.node.broker for server in self._servers]
        self._networks = NetworkFaults(cluster.network, cluster.timeline, brokers, random)
        mending = ("proposals", "mended network", "start")
        self._faults = Faults(random, self.counts, self._table(), mending)
        if random.random() < 0.25:
            self._begin_storm()

    def rage(self) -> None:
        self._faults.rage(self._cluster.timeline)

    def mend(self) -> None:
        self._networks.mend()
        self._make_better()
        self._start_all()

    def _table(self) -> dict[str, tuple[int, Fault]]:
        return {
            "proposals": (20, self._propose),
            "mended network": (10, self._cluster.network.cuts.clear),
            "start": (10, self._start_all),
            "killed node": (8, self._kill),
            "all killed": (1, self._kill_all),
            "leader cut off": (8, self._strand),
            "impatience": (6, self._hurry),
            "split network": (4, self._networks.split),
            "one-way cut": (3, self._networks.cut_one_way),
            "bridge": (2, self._networks.bridge),
            "flapping": (2, self._networks.flap),
            "made worse": (4, self._make_worse),
            "made better": (4, self._make_better),
            "retention": (5, self._drop),
            "change of membership": (10, self._change_membership),
            "transfer": (4, self._transfer),
        }

    def _begin_storm(self) -> None:
        """All campaign against each other all the time, and crash right after they voted."""
        self._cluster.brittleness = 0.2
        self._faults.only(
            {
                "impatience": 20,
                "start": 4,
                "proposals": 3,
                "split network": 2,
                "leader cut off": 2,
                "mended network": 2,
            }
        )

    def _any(self) -> Server:
        return self._random.choice(self._servers)

    def _propose(self) -> None:
        """Every node that thinks it leads gets some, and its own: only one of them can be right."""
        for server in self._cluster.leaders:
            for _ in range(self._random.randint(1, 8)):
                server.propose(next(self._payloads))

    # --- nodes -----------------------------------------------------------------------------------

    def _kill(self) -> None:
        server = self._any()
        if server.raft is not None:
            server.crash()
            if self._random.random() < 0.5:
                server.start()

    def _kill_all(self) -> None:
        for server in self._servers:
            if server.raft is not None:
                server.crash()
        self._start_all()

    def _start_all(self) -> None:
        for server in self._servers:
            if server.raft is None:
                server.start()

    def _hurry(self) -> None:
        """Nodes lose patience, several at once: so that they campaign against each other."""
        for server in self._servers:
            if self._random.random() < 0.7:
                server.lose_patience()

    def _drop(self) -> None:
        self._any().drop_before(self._random.random())

    def _make_worse(self) -> None:
        """Networks, disks, and nodes that crash more easily."""
        self._networks.make_worse()
        self._cluster.disk_delay_ms_max = self._random.choice((10, 50, 200))
        self._cluster.brittleness = self._random.choice((0.0, 0.01, 0.1))

    def _make_better(self) -> None:
        self._cluster.network.make_better()
        self._cluster.disk_delay_ms_max = GOOD_DISK_DELAY_MS_MAX
        self._cluster.brittleness = 0.0

    # --- who leads, and who votes ----------------------------------------------------------------

    def _strand(self) -> None:
        """A leader is cut off, perhaps with others, while something of its own is on the way."""
        leaders = self._cluster.leaders
        if self._random.random() < 0.5:
            self._change_membership()
        else:
            self._propose()
        self._cluster.timeline.run_for(self._random.randint(0, 40))
        for leader in leaders:
            self._networks.isolate(leader.node.broker)

    def _change_membership(self) -> None:
        nodes = list(self._cluster.servers)
        for server in self._cluster.leaders:
            assert server.raft is not None
            for _ in range(self._random.randint(1, 3)):
                now = server.raft.state.membership
                server.change(draw_membership(self._random, now, nodes))

    def _transfer(self) -> None:
        for server in self._cluster.leaders:
            server.transfer(self._any().node)
