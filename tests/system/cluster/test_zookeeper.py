"""The registry fails under load: a ZooKeeper loses its leader, or is gone, or ends a session.

Replicas need no registry to elect leaders or to copy, so what fails is what changes the cluster,
and only for as long as ZooKeeper does (R-REP-4).
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from penstock.net.address import parse_address
from penstock.net.channel import connect_channel
from penstock.protocol import penstock_pb2 as pb
from penstock.protocol.calls import INIT_PRODUCER
from tests.kit.processes.cluster import Cluster
from tests.kit.processes.proxy import Network
from tests.kit.processes.zookeeper import ZooKeeperEnsemble
from tests.system.cluster.scene import under_load, until

# How long ZooKeeper is gone: far beyond all sessions, which are of five seconds.
GONE_S = 60.0
ZOOKEEPER = "zookeeper"


def registry(address: str) -> str:
    return f"zookeeper://{address}/penstock"


async def begin_producing(address: str) -> None:
    """As an idempotent producer does first, also one that has to begin anew: librdkafka asks
    whichever broker it likes."""
    channel = await connect_channel(parse_address(address))
    try:
        await channel.call(INIT_PRODUCER, pb.InitProducerRequest())
    finally:
        channel.close()


def test_zookeeper_s_leader_dies_and_then_a_partition_s(tmp_path: Path) -> None:
    """Two of three servers are enough, for changes and for the broker that comes back."""
    with (
        ZooKeeperEnsemble(tmp_path / "zookeeper") as ensemble,
        Cluster(tmp_path, registry=registry(ensemble.address)) as cluster,
        under_load(cluster) as scene,
    ):
        first = ensemble.leader
        first.kill()
        scene.wait_acknowledged()
        until(lambda: any(each.mode() == "leader" for each in ensemble.servers), "another leader")
        scene.make_topic("later", replicas=2)
        leader = scene.leader(0)
        cluster.kill(leader)
        scene.wait_led(0, not_by=leader)
        scene.wait_acknowledged()
        cluster.start(leader)
        scene.wait_in_sync()
        first.start()
        first.wait()


@pytest.mark.soak
def test_zookeeper_is_gone_for_a_minute(tmp_path: Path) -> None:
    """Everything goes on without it, also where a leader dies meanwhile; new clients come in. When
    it is back, all brokers are there again and the cluster can be changed."""
    with (
        ZooKeeperEnsemble(tmp_path / "zookeeper") as ensemble,
        Cluster(tmp_path, registry=registry(ensemble.address)) as cluster,
        under_load(cluster) as scene,
    ):
        gone_s = time.monotonic()
        for server in ensemble.servers:
            server.kill()
        leader = scene.leader(0)
        cluster.kill(leader)
        scene.wait_led(0, not_by=leader)
        while time.monotonic() < gone_s + GONE_S:
            scene.wait_acknowledged()
        scene.visit()
        for broker in set(cluster.ids) - {leader}:
            asyncio.run(begin_producing(cluster.addresses[broker]))
        for server in ensemble.servers:
            server.start()
        for server in ensemble.servers:
            server.wait()
        cluster.start(leader)
        scene.wait_brokers(*cluster.ids)
        scene.make_topic("later", replicas=2)
        scene.wait_in_sync()


def test_a_broker_s_session_expires_while_it_leads(tmp_path: Path) -> None:
    """It is out of ZooKeeper's reach and not of anybody else's. It controls nothing any more, and
    leads what it led: its replicas hear it, and clients find it. Back in reach, it is registered
    anew."""
    with Network() as network, ZooKeeperEnsemble(tmp_path / "zookeeper") as ensemble:
        fronts = [network.front(ZOOKEEPER, server.address) for server in ensemble.servers]
        with (
            Cluster(tmp_path, registry=registry(",".join(fronts)), network=network) as cluster,
            under_load(cluster) as scene,
        ):
            lost = scene.controller()
            leaders = scene.leaders()
            assert lost in leaders.values()
            cut_s = time.monotonic()
            network.cut_off(lost, [ZOOKEEPER])
            scene.wait_controller(not_by=lost)
            assert time.monotonic() - cut_s > 2, "the session had no time to expire"
            time.sleep(3)
            scene.wait_acknowledged()
            assert scene.leaders() == leaders
            scene.visit()
            gap_s = max(scene.history.longest_gap_s(number, cut_s) for number in leaders)
            assert gap_s < 2, "its partitions waited for nothing"
            network.heal()
            scene.wait_brokers(*cluster.ids)
            scene.make_topic("later", replicas=2)


def test_a_broker_stands_still_until_its_session_expires(tmp_path: Path) -> None:
    """It is replaced, and when it goes on it knows that it was away."""
    with (
        ZooKeeperEnsemble(tmp_path / "zookeeper") as ensemble,
        Cluster(tmp_path, registry=registry(ensemble.address)) as cluster,
        under_load(cluster) as scene,
    ):
        lost = scene.controller()
        led = [number for number, leader in scene.leaders().items() if leader == lost]
        cluster.stop(lost)
        for number in led:
            scene.wait_led(number, not_by=lost)
        scene.wait_controller(not_by=lost)
        scene.wait_brokers(*set(cluster.ids) - {lost})
        scene.wait_acknowledged()
        cluster.resume(lost)
        scene.wait_brokers(*cluster.ids)
        scene.wait_in_sync()
        scene.make_topic("later", replicas=2)
