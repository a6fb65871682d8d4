"""Brokers are killed under load: whoever led, whoever followed, and all at once."""

from __future__ import annotations

import time
from pathlib import Path

from tests.cluster_support import Cluster
from tests.system.cluster.scene import under_load


def test_leaders_and_followers_die(tmp_path: Path) -> None:
    with Cluster(tmp_path) as cluster:
        with under_load(cluster) as scene:
            leader = scene.leader(0)
            killed_s = time.monotonic()
            cluster.kill(leader)
            heir = scene.wait_led(0, not_by=leader)
            scene.wait_acknowledged()
            gap_s = scene.history.longest_gap_s(0, killed_s)
            assert gap_s < 10, gap_s
            cluster.start(leader)
            scene.wait_in_sync()
            assert heir != leader
