"""Brokers are killed under load: who leads, who follows, who controls, most of them, and all."""

from __future__ import annotations

import time
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic

from tests.kit.processes.cluster import Cluster
from tests.system.cluster.scene import PARTITIONS, RECOVERY_S_MAX, Scene, under_load, until

# Writes resume long before; a machine that does much else gets this.
GAP_S_MAX = 10.0


def test_a_leader_dies(tmp_path: Path) -> None:
    """R-REP-2: another broker takes over, and the partitions that the dead one only followed are
    written to all the time. Twice, the second time of another broker: the first is of use again."""
    with Cluster(tmp_path) as cluster, under_load(cluster) as scene:
        first = scene.leader(0)
        _kill_leader(scene, first)
        _kill_leader(scene, scene.leader(0))


def _kill_leader(scene: Scene, leader: int) -> None:
    led = {number for number, broker_id in scene.leaders().items() if broker_id == leader}
    followed = set(range(PARTITIONS)) - led
    assert led
    assert followed
    killed_s = time.monotonic()
    scene.cluster.kill(leader)
    heirs = {number: scene.wait_led(number, not_by=leader) for number in led}
    scene.wait_acknowledged()
    for number in led:
        assert scene.history.longest_gap_s(number, killed_s) < GAP_S_MAX
    for number in followed:
        # Nobody had to be elected, so nobody had to wait.
        assert scene.leader(number) != leader
        assert scene.history.acknowledged_between(killed_s, killed_s + 0.8, number) > 0
    assert leader not in heirs.values()
    scene.cluster.start(leader)
    scene.wait_in_sync()


def test_the_controller_dies(tmp_path: Path) -> None:
    """Another one is found, which the data path does not wait for; topics can be made again. So it
    is for a client that would ask the one it knew: it is told of one that lives."""
    with Cluster(tmp_path) as cluster, under_load(cluster) as scene:
        controller = scene.controller()

        def asking() -> list[AdminClient]:
            """As soon as it knows of others it asks whichever it likes, and stays with that one."""
            how = {"bootstrap.servers": cluster.addresses[controller], "log_level": 0}
            client = AdminClient(how)
            found = client.list_topics(timeout=RECOVERY_S_MAX).controller_id
            return [client] if found == controller else []

        (admin,) = until(asking, f"a client that takes broker {controller} for the controller")
        cluster.kill(controller)
        (made,) = admin.create_topics([NewTopic("soon", 1, 2)]).values()
        made.result(RECOVERY_S_MAX)
        heir = scene.wait_controller(not_by=controller)
        scene.wait_acknowledged()
        scene.make_topic("later", replicas=2)
        assert heir != controller
        cluster.start(controller)
        scene.wait_in_sync()


def test_two_of_three_die(tmp_path: Path) -> None:
    """One is no majority: it acknowledges nothing, until another is back (R-REP-3)."""
    with Cluster(tmp_path) as cluster, under_load(cluster) as scene:
        left, second, third = cluster.ids
        cluster.kill(second)
        cluster.kill(third)
        # What was answered before may still be on its way to a callback.
        time.sleep(0.5)
        alone_s = time.monotonic()
        time.sleep(2.5)
        for number in range(PARTITIONS):
            assert scene.history.acknowledged_between(alone_s, time.monotonic(), number) == 0
        cluster.start(second)
        scene.wait_acknowledged()
        assert {scene.leader(number) for number in range(PARTITIONS)} <= {left, second}
        cluster.start(third)
        scene.wait_in_sync()


def test_all_die_at_once(tmp_path: Path) -> None:
    """What was acknowledged is on disks, and the producers go on where they were."""
    with Cluster(tmp_path) as cluster, under_load(cluster) as scene:
        for _ in range(2):
            cluster.kill_all()
            assert not any(map(cluster.is_running, cluster.ids))
            cluster.start_all()
            scene.wait_acknowledged()
        scene.wait_in_sync()


def test_one_after_another_dies_again_and_again(tmp_path: Path) -> None:
    """Each as soon as the one before is back, whether or not it has everything yet."""
    with Cluster(tmp_path) as cluster, under_load(cluster) as scene:
        for broker_id in cluster.ids * 2:
            cluster.kill(broker_id)
            cluster.start(broker_id)
        scene.wait_acknowledged()
        scene.wait_in_sync()
