"""The network between brokers is cut under load: one broker from the others, in one direction, and
again and again. Clients reach all brokers all the time, which is worse than if they did not.

The cuts are made by a proxy before each broker (`tests.proxy_support`), whose address the broker
advertises: the network namespaces that would do it too need rights that a test should not.
"""

from __future__ import annotations

import time
from pathlib import Path

from tests.cluster_support import Cluster
from tests.proxy_support import Network
from tests.system.cluster.scene import under_load


def test_a_leader_cut_off_from_the_others(tmp_path: Path) -> None:
    with Network() as network, Cluster(tmp_path, network=network) as cluster:
        with under_load(cluster) as scene:
            leader = scene.leader(0)
            cut_s = time.monotonic()
            network.cut_off(leader, cluster.ids)
            scene.wait_led(0, not_by=leader)
            scene.wait_acknowledged()
            gap_s = scene.history.longest_gap_s(0, cut_s)
            network.heal()
            scene.wait_in_sync()
            assert gap_s > 0.5
