"""Who leads, and where that is, also when the registry does not know."""

from __future__ import annotations

import asyncio
import errno

import pytest

from penstock.broker.company import Acquaintances
from penstock.broker.leaders import NO_BROKER, Leaders
from penstock.model.errors import NotLeader, StorageFailed
from penstock.model.ids import BrokerId
from penstock.registry.facts import ExpireBroker
from tests.registry_support import broker, ids
from tests.unit.broker.cluster_harness import village


async def test_a_leader_that_the_registry_lost_is_found_while_it_is_heard() -> None:
    """R-CORE-5: it leads without a registry, so clients must be told where it is."""
    async with village(3) as cluster:
        topic = await cluster.create([1, 2, 3])
        lost = cluster.leader()
        assert lost is not None
        asked = next(life for life in cluster.up.values() if life is not lost)
        acquaintances = Acquaintances(BrokerId(asked.node.broker), lambda _: None)
        acquaintances.follow(cluster.registry.image)
        cluster.registry.watch(acquaintances.follow)
        leaders = Leaders(
            BrokerId(asked.node.broker),
            cluster.registry,
            asked.partitions,
            cluster.clock,
            asked.replicas,
            lambda: acquaintances.known,
        )
        assert leaders.brokers == cluster.registry.image.brokers

        await cluster.registry.change(ExpireBroker(node=lost.node))
        await cluster.pass_ms(5_000)
        number = BrokerId(lost.node.broker)
        assert number not in cluster.registry.image.brokers
        assert leaders.of(topic, 0).broker == number
        assert leaders.brokers[number] == broker(number)

        del cluster.up[number]
        await cluster.wait(lambda: leaders.of(topic, 0).broker not in (number, -1))
        await cluster.pass_ms(2_000)
        assert number not in leaders.brokers, "it is silent"


async def test_a_partition_that_is_only_being_made_has_no_leader_yet() -> None:
    """Its only broker would be told that there is no such partition, as if the topic were gone."""
    async with village(2) as cluster:
        await cluster.create([1])
        topic = await cluster.registry.add_partitions("orders", 2, placement=[ids(1)])
        here, elsewhere = cluster.up[1].leaders, cluster.up[2].leaders
        assert [here.of(topic, number).broker for number in (0, 1)] == [1, NO_BROKER]
        assert elsewhere.of(topic, 1).broker == 1, "nobody else can lead: it is asked"
        with pytest.raises(NotLeader, match="try again"):
            here.find("orders", 1)
        await cluster.wait(lambda: here.of(topic, 1).broker == 1)


async def test_a_topic_with_a_lone_copy_elsewhere_is_waited_for_until_that_leads() -> None:
    """Its broker may not know of it yet, and would refuse what is sent there."""
    async with village(2) as cluster:
        await cluster.create([1])
        topic = await cluster.registry.add_partitions("orders", 2, placement=[ids(1)])
        elsewhere = cluster.up[2].leaders
        waiting = asyncio.create_task(elsewhere.wait_for(topic))
        for _ in range(10):
            await asyncio.sleep(0)
        assert not waiting.done()
        await cluster.wait(lambda: elsewhere.claim(topic, 1) is not None)
        await waiting


async def test_a_copy_that_cannot_be_opened_sends_clients_to_the_others() -> None:
    """R-CORE-5: who comes by an old route asks again, and does not give up."""
    async with village(3) as cluster:
        await cluster.create([1, 2, 3])
        cluster.disks[1].fail_next("flush", errno.EIO)
        topic = await cluster.registry.add_partitions("orders", 2, placement=[ids(1, 2, 3)])
        await cluster.wait(lambda: cluster.up[1].partitions.has("orders", 1))
        assert cluster.up[1].partitions.get("orders", 1) is None
        leaders = cluster.up[1].leaders
        await cluster.wait(lambda: leaders.of(topic, 1).broker in (2, 3))
        with pytest.raises(NotLeader, match=f"led by broker {leaders.of(topic, 1).broker}"):
            leaders.find("orders", 1)


async def test_a_lone_copy_that_cannot_be_opened_is_asked_what_is_wrong() -> None:
    async with village(1) as cluster:
        await cluster.create([1])
        topic = await cluster.registry.add_partitions("orders", 2, placement=[ids(1)])
        cluster.disks[1].fail_next("flush", errno.EIO)
        await cluster.wait(lambda: cluster.up[1].partitions.has("orders", 1))
        leaders = cluster.up[1].leaders
        assert leaders.of(topic, 1).broker == 1
        with pytest.raises(StorageFailed, match="offline"):
            leaders.find("orders", 1)
