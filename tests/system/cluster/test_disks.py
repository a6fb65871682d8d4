"""Disks fail under load: one has no room for a while, one cannot flush, one comes back empty.

A full disk is a limit to the size of files (RLIMIT_FSIZE) that is set to nothing while the broker
runs: from then on every write fails, to logs, indexes and journals alike, and when it is lifted
there is room again. That is what a full disk does, but for the number of the error, and needs no
rights; a small file system of its own would.
"""

from __future__ import annotations

import resource
from pathlib import Path

import penstock
from tests.kit.processes.cluster import Cluster
from tests.kit.processes.failing_flushes import FailingFlushes
from tests.system.cluster.scene import PARTITIONS, under_load, until


def test_a_disk_is_full_for_a_while(tmp_path: Path) -> None:
    """Others lead and copy; when there is room again, the broker gets what it lacks."""
    with Cluster(tmp_path) as cluster, under_load(cluster) as scene:
        full = scene.leader(0)
        process_id = cluster.process_id(full)
        before = resource.prlimit(process_id, resource.RLIMIT_FSIZE)
        resource.prlimit(process_id, resource.RLIMIT_FSIZE, (0, before[1]))
        scene.wait_led(0, not_by=full)
        scene.wait_acknowledged()
        until(
            lambda: all(full not in scene.in_sync(number) for number in range(PARTITIONS)),
            "one less in sync",
        )
        assert cluster.is_running(full)
        resource.prlimit(process_id, resource.RLIMIT_FSIZE, before)
        scene.wait_in_sync()
        scene.wait_acknowledged()


def test_a_flush_fails_at_a_leader(tmp_path: Path) -> None:
    """Its running producers of both kinds, and its readers, go on with another leader and are told
    of nothing (R-REP-3); the broker itself is of use again when it is restarted."""
    flushes = FailingFlushes(tmp_path / "failing")
    with (
        Cluster(tmp_path, environment=flushes.environment) as cluster,
        under_load(cluster) as scene,
    ):
        failing = scene.leader(0)
        flushes.begin(cluster.data(failing) / "topics" / scene.topic / "0")
        scene.wait_led(0, not_by=failing)
        scene.wait_acknowledged()
        assert cluster.is_running(failing)
        failed = [sent for sent, send in scene.history.sent() if send.reason]
        assert not failed, scene.history.report()
        flushes.end()
        cluster.kill(failing)
        cluster.start(failing)
        scene.wait_in_sync()


def test_a_flush_fails_at_the_coordinator_of_groups(tmp_path: Path) -> None:
    """A running member of a group goes on to commit: the next coordinator has what was."""
    flushes = FailingFlushes(tmp_path / "failing")
    with (
        Cluster(tmp_path, environment=flushes.environment) as cluster,
        penstock.connect_blocking(cluster.bootstrap) as mq,
    ):
        mq.admin.create_topic("orders", 1, replicas=3)
        consumer = mq.subscribe("orders", group="billing")
        failing = None
        for number in range(6):
            mq.publish("orders", b"%d" % number)
            (message,) = consumer.fetch(max_messages=1)
            assert message.value == b"%d" % number
            consumer.commit()
            if number == 2:
                failing = _leader(mq, "__offsets")
                assert failing is not None
                flushes.begin(cluster.data(failing) / "topics" / "__offsets")
        assert consumer.committed(("orders", 0)) == message.offset + 1
        until(lambda: _leader(mq, "__offsets") not in (None, failing), "another coordinator")
        assert failing is not None
        assert "__offsets-0 is read-only from now on" in cluster.log(failing)


def _leader(mq: penstock.BlockingClient, topic: str) -> int | None:
    return next(each.leader for each in mq.cluster.status().partitions if each.topic == topic)


def test_a_broker_comes_back_with_nothing(tmp_path: Path) -> None:
    """It is another node, since its vote is lost and what it acknowledged is not there: it takes no
    part until it has everything again, and then the place of the one it was (R-REP-7)."""
    with Cluster(tmp_path) as cluster, under_load(cluster) as scene:
        wiped = scene.leader(0)
        cluster.kill(wiped)
        cluster.wipe(wiped)
        scene.wait_led(0, not_by=wiped)
        cluster.start(wiped)
        scene.wait_acknowledged()
        scene.wait_in_sync()
        scene.wait_settled()
        # It counts: with one other it is enough.
        other = next(each for each in cluster.ids if each != wiped)
        cluster.kill(other)
        scene.wait_acknowledged()
        cluster.start(other)
        scene.wait_in_sync()
