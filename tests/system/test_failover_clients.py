"""Clients of a cluster whose brokers die: ours and Kafka's go on by themselves, and nothing that
was acknowledged is lost, doubled or out of order."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from pathlib import Path

import confluent_kafka

from penstock.client.client import Client, connect
from penstock.client.connection.routes import GROUPS, STAGED_WRITES, Coordinator
from penstock.client.producing.staged_write import StagedAttempt
from penstock.model.errors import NotCoordinator
from penstock.records import build_batch
from tests.kit.processes.cluster import Cluster
from tests.kit.runs.tiers import IS_SOAK
from tests.system.test_staged_writes import read_everything

SECONDS_MAX = 90
PARTITIONS = 4


@contextlib.asynccontextmanager
async def connected(cluster: Cluster) -> AsyncIterator[Client]:
    """A client, and a topic with a copy on every broker."""
    async with asyncio.timeout(SECONDS_MAX), connect(cluster.bootstrap) as mq:
        await mq.admin.create_topic("orders", PARTITIONS, replicas=3)
        yield mq


async def coordinator(mq: Client, kind: Coordinator) -> int:
    """Which broker it is now; one that came back may be taking the lead over at this moment."""
    routes = mq._connection().routes
    while True:
        with contextlib.suppress(NotCoordinator):
            channel = await routes.coordinator(kind, refresh=True)
            assert not channel.connection.is_closed
            return routes._coordinators[kind]
        await asyncio.sleep(0.05)


async def replace(cluster: Cluster, broker: int) -> None:
    """Start one that was killed, and wait until the next one may die."""
    await asyncio.to_thread(cluster.start, broker)
    async with connect(cluster.bootstrap) as mq:
        for topic in [one.name for one in await mq.admin.list_topics()]:
            while any(
                len(one.in_sync) < 3 for one in (await mq.admin.describe_topic(topic)).partitions
            ):
                await asyncio.sleep(0.05)


# --- groups --------------------------------------------------------------------------------------


async def test_the_place_of_a_group_outlives_its_coordinators(tmp_path: Path) -> None:
    """R-REP-2, R-DEL-10: what was acknowledged stays, whoever is asked."""
    with Cluster(tmp_path) as cluster:
        async with connected(cluster) as mq:
            for offset in range(3):
                places = {("orders", number): offset * 10 + number for number in range(PARTITIONS)}
                await mq.admin.commit_offsets("g", places)
                killed = await coordinator(mq, GROUPS)
                cluster.kill(killed)
                began_s = time.monotonic()
                assert await mq.admin.group_offsets("g") == places
                assert time.monotonic() - began_s < 10
                assert await coordinator(mq, GROUPS) != killed
                await replace(cluster, killed)
            assert await mq.admin.list_groups() == ["g"]
            assert [lag.committed for lag in await mq.admin.group_lag("g")] == [20, 21, 22, 23]


async def test_a_consumer_goes_on_while_brokers_die(tmp_path: Path) -> None:
    """R-REP-2: its leaders and its coordinator, without anything that it would have to do."""
    with Cluster(tmp_path) as cluster:
        async with connected(cluster) as mq:
            read: list[int] = []

            async def consume() -> None:
                async for message in mq.subscribe("orders", group="g", start="earliest"):
                    read.append(int(message.value or b""))
                    await message.ack()
                    if len(set(read)) == 600:
                        return

            consuming = asyncio.create_task(consume())
            async with mq.producer() as producer:
                for number in range(600):
                    await producer.send("orders", b"%d" % number, partition=number % PARTITIONS)
                    if number in (150, 300, 450):
                        await producer.flush()
                        killed = await coordinator(mq, GROUPS)
                        cluster.kill(killed)
                        await producer.send("orders", b"0", partition=0)
                        await producer.flush()
                        await replace(cluster, killed)
            await consuming
            for partition in range(PARTITIONS):
                mine = [number for number in read if number and number % PARTITIONS == partition]
                assert mine == sorted(set(mine)), "in order, each once"
            await mq.admin.group_lag("g")


def test_consumers_of_kafka_find_the_next_coordinator(tmp_path: Path) -> None:
    """R-REP-2, R-DEL-4: librdkafka's, with the members' places."""
    with Cluster(tmp_path, group_initial_rebalance_delay_ms=0) as cluster:
        producer = confluent_kafka.Producer({"bootstrap.servers": cluster.bootstrap})
        consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": cluster.bootstrap,
                "group.id": "g",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "session.timeout.ms": 10_000,
            }
        )

        def produce(first: int) -> None:
            for number in range(first, first + 50):
                producer.produce("orders", b"%d" % number)
            assert producer.flush(30) == 0

        def read(count: int) -> list[int]:
            found: list[int] = []
            deadline_s = time.monotonic() + 30
            while len(found) < count and time.monotonic() < deadline_s:
                message = consumer.poll(0.2)
                if message is not None and message.error() is None:
                    found.append(int(message.value() or b""))
            return found

        produce(0)
        consumer.subscribe(["orders"])
        assert read(50) == list(range(50))
        consumer.commit(asynchronous=False)
        for round_ in (1, 2):
            killed = asyncio.run(_group_coordinator(cluster))
            cluster.kill(killed)
            produce(round_ * 50)
            assert sorted(read(50)) == list(range(round_ * 50, round_ * 50 + 50))
            consumer.commit(asynchronous=False)
            asyncio.run(asyncio.wait_for(replace(cluster, killed), SECONDS_MAX))
        consumer.close()
        # What leaders write of their own takes offsets too.
        assert 150 <= asyncio.run(_places(cluster)) < 160


async def _group_coordinator(cluster: Cluster) -> int:
    async with connect(cluster.bootstrap) as mq:
        return await asyncio.wait_for(coordinator(mq, GROUPS), SECONDS_MAX)


async def _places(cluster: Cluster) -> int:
    async with connect(cluster.bootstrap) as mq:
        return sum((await mq.admin.group_offsets("g")).values())


# --- staged writes -------------------------------------------------------------------------------


async def staged(mq: Client, epoch: int) -> StagedAttempt:
    """Some batches for each partition."""
    async with mq.staged_write("w", epoch) as write:
        for number in range(5 * PARTITIONS):
            batch = build_batch(
                [(None, b"%d-%d" % (epoch, number))], timestamp_ms=1_700_000_000_000
            )
            await write.stage("orders", number % PARTITIONS, bytearray(batch))
        return await write.flush()


async def check_written(mq: Client, epochs: int) -> None:
    """Every epoch once and in order, in every partition."""
    found = await read_everything(mq, "orders")
    for partition in range(PARTITIONS):
        assert found[partition] == [
            b"%d-%d" % (epoch, number)
            for epoch in range(epochs)
            for number in range(partition, 5 * PARTITIONS, PARTITIONS)
        ]


async def test_staged_writes_outlive_their_coordinators(tmp_path: Path) -> None:
    """R-SPK-2, R-REP-2: whenever in a commit the coordinator dies, each epoch appears once."""
    with Cluster(tmp_path) as cluster:
        async with connected(cluster) as mq:
            epochs = 6 if IS_SOAK else 3
            for epoch in range(epochs):
                attempt = await staged(mq, epoch)
                commit = asyncio.create_task(mq.commit_staged("w", epoch, [attempt]))
                await asyncio.sleep(0.012 * epoch / epochs)
                killed = await coordinator(mq, STAGED_WRITES)
                cluster.kill(killed)
                await commit
                assert await mq.committed_epoch("w") == epoch
                await replace(cluster, killed)
            await check_written(mq, epochs)


async def test_a_coordinator_that_slept_through_its_replacement_is_not_listened_to(
    tmp_path: Path,
) -> None:
    """R-SPK-2: it wakes up with copies to send that another has sent since."""
    with Cluster(tmp_path) as cluster:
        async with connected(cluster) as mq:
            epochs = 4 if IS_SOAK else 2
            for epoch in range(epochs):
                attempt = await staged(mq, epoch)
                sleeper = await coordinator(mq, STAGED_WRITES)
                commit = asyncio.create_task(mq.commit_staged("w", epoch, [attempt]))
                await asyncio.sleep(0.004 * epoch / epochs)
                await asyncio.to_thread(cluster.stop, sleeper)
                await asyncio.sleep(4)
                cluster.resume(sleeper)
                await commit
            assert await mq.committed_epoch("w") == epochs - 1
            await check_written(mq, epochs)


async def test_all_brokers_at_once(tmp_path: Path) -> None:
    """R-REP-2: what was acknowledged is there when they come back."""
    with Cluster(tmp_path) as cluster:
        async with connected(cluster) as mq:
            await mq.admin.commit_offsets("g", {("orders", 1): 7})
            await mq.commit_staged("w", 0, [await staged(mq, 0)])
            left = await staged(mq, 1)
            cluster.kill_all()
            await asyncio.to_thread(cluster.start_all)
            assert await mq.admin.group_offsets("g") == {("orders", 1): 7}
            await mq.commit_staged("w", 1, [left])
            await check_written(mq, 2)
