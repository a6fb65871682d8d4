"""The network between brokers is cut under load: one broker from the others, in one direction,
between two of three, and again and again. Clients reach all brokers all the time, which is worse
than if they did not.

The cuts are made by a proxy before each broker (`tests.kit.processes.proxy`), whose address the
broker advertises: the network namespaces that would do it too need rights that a test should not.
"""

from __future__ import annotations

import random
import time
from pathlib import Path

from tests.kit.processes.cluster import Cluster
from tests.kit.processes.proxy import Network
from tests.system.cluster.scene import batches, under_load


def test_a_leader_is_cut_off(tmp_path: Path) -> None:
    """It must not acknowledge what it takes, and what it took goes when it is back (R-REP-2)."""
    with (
        Network() as network,
        Cluster(tmp_path, network=network) as cluster,
        under_load(cluster) as scene,
    ):
        leader = scene.leader(0)
        network.cut_off(leader, cluster.ids)
        scene.wait_led(0, not_by=leader)
        scene.wait_acknowledged()
        folder = cluster.data(leader) / "topics" / scene.topic / "0"
        alone = batches(folder)
        network.heal()
        scene.wait_in_sync()
        after = batches(folder)
        replaced = [at for at, batch in alone.items() if after.get(at) != batch]
        assert replaced, "it had taken nothing while it was cut off"


def test_a_leader_is_heard_and_hears_nothing(tmp_path: Path) -> None:
    """It gives up, though all others hear it: they must not wait for it for ever."""
    with (
        Network() as network,
        Cluster(tmp_path, network=network) as cluster,
        under_load(cluster) as scene,
    ):
        leader = scene.leader(0)
        network.cut(cluster.ids, [leader])
        scene.wait_led(0, not_by=leader)
        scene.wait_acknowledged()
        network.heal()
        scene.wait_in_sync()


def test_a_leader_hears_and_is_not_heard(tmp_path: Path) -> None:
    """Another is elected, of which it hears."""
    with (
        Network() as network,
        Cluster(tmp_path, network=network) as cluster,
        under_load(cluster) as scene,
    ):
        leader = scene.leader(0)
        network.cut([leader], cluster.ids)
        scene.wait_led(0, not_by=leader)
        scene.wait_acknowledged()
        network.heal()
        scene.wait_in_sync()


def test_two_of_three_do_not_reach_each_other(tmp_path: Path) -> None:
    """Whoever still hears its leader through the third lets it be: nobody is elected (dissertation,
    4.2.3 and 9.6)."""
    with (
        Network() as network,
        Cluster(tmp_path, network=network) as cluster,
        under_load(cluster) as scene,
    ):
        one, other, third = cluster.ids
        leaders = scene.leaders()
        assert {one, other} <= set(leaders.values())
        network.cut_off(one, [other])
        since_s = time.monotonic()
        time.sleep(4)
        scene.wait_acknowledged()
        # Each of the two is without news of the other's leaders; new clients find them anyhow.
        scene.visit()
        seen = scene.views()[third].partitions
        assert {number: led.broker for number, led in seen.items()} == leaders
        for number in leaders:
            assert scene.history.longest_gap_s(number, since_s) < 2
        network.heal()
        scene.wait_in_sync()


def test_the_network_flaps(tmp_path: Path) -> None:
    """Cuts of all kinds, each too short or just long enough for an election."""
    chance = random.Random(5)
    with (
        Network() as network,
        Cluster(tmp_path, network=network) as cluster,
        under_load(cluster) as scene,
    ):
        for _ in range(8):
            one, other, _ = chance.sample(cluster.ids, 3)
            if chance.random() < 0.5:
                network.cut_off(one, cluster.ids)
            else:
                network.cut([one], [other])
            time.sleep(chance.uniform(0.2, 1.4))
            network.heal()
            time.sleep(chance.uniform(0, 0.4))
        scene.wait_acknowledged()
        scene.wait_in_sync()
