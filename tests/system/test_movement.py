"""Partitions move between real brokers under load, and nothing acknowledged is lost (R-REP-7)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import penstock
from penstock.client.admin.cluster import ClusterStatus, PartitionStatus
from tests.kit.net.sockets import free_ports
from tests.kit.processes.cluster import Cluster
from tests.kit.processes.zookeeper import ZooKeeperServer
from tests.system.movement_support import loaded, until, until_moved

TOPIC = "orders"


def of_topic(status: ClusterStatus) -> list[PartitionStatus]:
    return [each for each in status.partitions if each.topic == TOPIC]


def folders(cluster: Cluster, broker: int) -> list[str]:
    """The partitions of the topic that the broker has files of."""
    names = (cluster.data(broker) / "topics" / TOPIC).glob("*")
    return sorted(path.name for path in names if path.is_dir())


async def test_a_broker_joins_and_another_is_drained(tmp_path: Path) -> None:
    with Cluster(tmp_path, 4, is_started=False) as cluster:
        for broker in (1, 2, 3):
            cluster.start(broker, is_awaited=False)
        for broker in (1, 2, 3):
            cluster.wait_ready(broker)
        async with penstock.connect(cluster.addresses[2]) as mq:
            await mq.admin.create_topic(TOPIC, 4)
            async with loaded(cluster.bootstrap, TOPIC, 4) as load:
                cluster.start(4)
                await until(mq, lambda status: len(status.brokers) == 4)
                plan = await mq.cluster.add(4, dry_run=True)
                assert plan
                moves = await mq.cluster.add(4)
                assert [(move.topic, move.partition) for move in plan] == [
                    (move.topic, move.partition) for move in moves
                ]
                status = await until_moved(mq)
                counts = [broker.replicas for broker in status.brokers]
                assert max(counts) - min(counts) <= 1, "spread evenly"
                await load.progress()

                await mq.cluster.drain(2)
                status = await until_moved(mq)
                assert all(2 not in each.target for each in status.partitions)
                await until(mq, lambda _: not folders(cluster, 2))
                drained = next(each for each in status.brokers if each.broker == 2)
                assert (drained.is_drained, drained.leaders, drained.replicas) == (True, 0, 0)
                await load.progress()
                # Nobody needs it any more.
                assert cluster.terminate(2) == 0
                await load.progress()


async def test_the_number_of_copies_changes(tmp_path: Path) -> None:
    with Cluster(tmp_path, 3) as cluster:
        async with penstock.connect(cluster.bootstrap) as mq:
            await mq.admin.create_topic(TOPIC, 3)
            async with loaded(cluster.bootstrap, TOPIC, 3) as load:
                for factor in (1, 3, 2):
                    await mq.cluster.replicate(TOPIC, factor)
                    status = await until_moved(mq)
                    assert {len(each.voters) for each in of_topic(status)} == {factor}
                    await load.progress()
            with pytest.raises(penstock.PenstockError, match="ask for 1 to 3"):
                await mq.cluster.replicate(TOPIC, 4)


@pytest.mark.soak
async def test_a_dead_broker_is_replaced_with_zookeeper_as_the_registry(tmp_path: Path) -> None:
    with (
        ZooKeeperServer(tmp_path / "zookeeper", free_ports(1)[0]) as zookeeper,
        Cluster(tmp_path, 4, registry=f"zookeeper://{zookeeper.address}/penstock") as cluster,
    ):
        async with penstock.connect(cluster.bootstrap) as mq:
            await mq.admin.create_topic(TOPIC, 4)
            async with loaded(cluster.bootstrap, TOPIC, 4) as load:
                cluster.kill(3)
                await until(
                    mq,
                    lambda status: any(not broker.is_alive for broker in status.brokers),
                    60,
                )
                await mq.cluster.drain(3)
                status = await until_moved(mq)
                assert all(3 not in each.target for each in of_topic(status))
                await load.progress()
                # It comes back, and finds that its copies are none any more.
                cluster.start(3)
                await until(mq, lambda _: not folders(cluster, 3))
                await mq.cluster.add(3)
                await until_moved(mq)
                assert folders(cluster, 3)
                await load.progress()


@pytest.mark.parametrize(
    "victim",
    [
        "leader",
        pytest.param("newcomer", marks=pytest.mark.soak),
        pytest.param("controller", marks=pytest.mark.soak),
    ],
)
async def test_brokers_are_killed_in_the_middle_of_a_move(tmp_path: Path, victim: str) -> None:
    with Cluster(tmp_path, 4) as cluster:
        async with penstock.connect(cluster.bootstrap) as mq:
            await mq.admin.create_topic(TOPIC, 2)
            await mq.cluster.move(TOPIC, [1, 2, 3])
            await until_moved(mq)
            await mq.cluster.elect_leaders()
            async with loaded(cluster.bootstrap, TOPIC, 2) as load:
                await asyncio.sleep(1)
                status = await mq.cluster.status()
                controller = next(each.broker for each in status.brokers if each.is_controller)
                killed = {"leader": 1, "newcomer": 4, "controller": controller}[victim]
                await mq.cluster.move(TOPIC, [4, 3, 2])
                cluster.kill(killed)
                await asyncio.sleep(1)
                cluster.start(killed)
                status = await until_moved(mq)
                assert [set(each.voters) for each in of_topic(status)] == [{2, 3, 4}] * 2
                await until(mq, lambda _: not folders(cluster, 1))
                await load.progress()


async def test_a_wiped_broker_gets_its_copies_again(tmp_path: Path) -> None:
    """Broker 4 has no meta server, whose folder would be lost with its own."""
    with Cluster(tmp_path, 4) as cluster:
        async with penstock.connect(cluster.bootstrap) as mq:
            await mq.admin.create_topic(TOPIC, 2)
            await mq.cluster.move(TOPIC, [4, 1, 2])
            await until_moved(mq)
            async with loaded(cluster.bootstrap, TOPIC, 2) as load:
                cluster.kill(4)
                cluster.wipe(4)
                await until(
                    mq,
                    lambda status: any(not broker.is_alive for broker in status.brokers),
                    60,
                )
                cluster.start(4)
                await until_moved(mq)
                await load.progress()
                # It has everything, and its vote counts.
                cluster.kill(2)
                await load.progress()
                cluster.start(2)
                await until_moved(mq)


async def test_leadership_comes_back_by_itself_and_on_request(tmp_path: Path) -> None:
    with Cluster(tmp_path, 3) as cluster:
        async with penstock.connect(cluster.bootstrap) as mq:
            await mq.admin.create_topic(TOPIC, 3)
            await until(mq, lambda status: all(each.leader for each in status.partitions))
            cluster.kill(2)
            await until(
                mq,
                lambda status: all(each.leader not in (None, 2) for each in status.partitions),
            )
            cluster.start(2)
            await until_moved(mq)
            outcomes = await mq.cluster.elect_leaders()
            assert set(outcomes.values()) == {"elected"}
            status = await mq.cluster.status()
            assert all(each.leader == each.target[0] for each in of_topic(status))
            assert await mq.cluster.elect_leaders() == {}
            assert await mq.cluster.elect_leaders([(TOPIC, 0), ("none", 7)]) == {
                (TOPIC, 0): "not needed",
                ("none", 7): "unknown",
            }
            cluster.kill(2)
            await until(
                mq,
                lambda status: all(each.leader not in (None, 2) for each in status.partitions),
            )
            cluster.start(2)
            await until(
                mq,
                lambda status: all(each.leader == each.target[0] for each in status.partitions),
            )
