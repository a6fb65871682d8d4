"""Brokers stand still under load, for longer than an election takes, and go on as if nothing had
happened: nobody closed a connection, and what they were asked meanwhile lies before them."""

from __future__ import annotations

import time
from pathlib import Path

from tests.kit.processes.cluster import Cluster
from tests.system.cluster.scene import PARTITIONS, under_load, until

# Several times what it takes to replace a leader, and longer than a session of six seconds.
STANDSTILL_S = 7.5


def test_a_leader_stands_still(tmp_path: Path) -> None:
    """It wakes up in a term that is over: what it takes for its own by then is not acknowledged and
    not shown, and goes (fencing by term)."""
    with Cluster(tmp_path) as cluster, under_load(cluster) as scene:
        leader = scene.leader(0)
        stopped_s = time.monotonic()
        cluster.stop(leader)
        scene.wait_led(0, not_by=leader)
        scene.wait_acknowledged()
        assert scene.history.longest_gap_s(0, stopped_s) > 0.5, "nobody had to be elected"
        time.sleep(max(stopped_s + STANDSTILL_S - time.monotonic(), 0))
        others = [each for each in cluster.ids if each != leader]
        scene.wait_brokers(*others)
        cluster.resume(leader)
        scene.wait_brokers(*cluster.ids)
        scene.wait_in_sync()
        scene.wait_acknowledged()


def test_a_follower_stands_still(tmp_path: Path) -> None:
    """The others are enough, and are shown to be fewer (R-REP-3)."""
    with Cluster(tmp_path) as cluster, under_load(cluster) as scene:
        leader = scene.leader(0)
        follower = next(each for each in cluster.ids if each != leader)
        cluster.stop(follower)
        until(lambda: scene.in_sync(0) == set(cluster.ids) - {follower}, "fewer in sync")
        scene.wait_acknowledged()
        assert scene.leader(0) == leader
        cluster.resume(follower)
        scene.wait_in_sync()


def test_all_stand_still(tmp_path: Path) -> None:
    """As when a machine sleeps: everybody has heard nothing for long, of anybody."""
    with Cluster(tmp_path) as cluster, under_load(cluster) as scene:
        for broker_id in cluster.ids:
            cluster.stop(broker_id)
        stopped_s = time.monotonic()
        time.sleep(STANDSTILL_S)
        for number in range(PARTITIONS):
            since_s = stopped_s + 0.5
            assert not scene.history.acknowledged_between(since_s, time.monotonic(), number)
        for broker_id in cluster.ids:
            cluster.resume(broker_id)
        scene.wait_acknowledged()
        scene.wait_in_sync()
