"""Who leads, and where that is, also when the registry does not know."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Coroutine
from dataclasses import replace
from typing import Any

import pytest

from penstock.broker.joining import OtherBrokers
from penstock.broker.partitions.leaders import NO_BROKER, NO_TERM, Leaders
from penstock.broker.topics.topics import Topics
from penstock.model.errors import NotLeader, StorageFailed
from penstock.model.ids import BrokerId, TopicId
from penstock.model.limits import UNHEARD_ELECTIONS_MAX
from penstock.registry.facts import ExpireBroker
from penstock.registry.image import TopicImage
from tests.kit.broker.cluster import IN_CLUSTER, Life, Village, village
from tests.kit.registry.facts import broker, ids


async def test_a_leader_that_the_registry_lost_is_found_while_it_is_heard() -> None:
    """R-CORE-5: it leads without a registry, so clients must be told where it is."""
    async with village(3) as cluster:
        topic = await cluster.create([1, 2, 3])
        lost = cluster.leader()
        assert lost is not None
        asked = next(life for life in cluster.up.values() if life is not lost)
        others = OtherBrokers(BrokerId(asked.node.broker), lambda _: None)
        others.follow(cluster.registry.image)
        cluster.registry.watch(others.follow)
        leaders = Leaders(
            BrokerId(asked.node.broker),
            cluster.registry,
            asked.partitions,
            cluster.clock,
            asked.replicas,
            lambda: others.known,
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


async def test_a_topic_made_anew_is_led_in_later_terms_than_its_namesake() -> None:
    """Clients take metadata with an older epoch for outdated, also where the topic's id is another:
    librdkafka (#4898) produces to the former leader until its messages time out."""
    async with village(3) as cluster:
        topic = await cluster.create([1, 2, 3], [2, 3, 1])
        for _ in range(2):
            await elect_another(cluster)
        latest = max(told(cluster, topic))
        assert latest > 2
        for _ in range(2):  # the second before anybody can have led
            await remove(cluster, next(iter(cluster.up.values())))
            topic = await cluster.registry.create_topic("orders", 1, {}, placement=[ids(1, 2, 3)])
        await cluster.wait(lambda: cluster.leader() is not None)
        await cluster.registry.add_partitions("orders", 2, placement=[ids(2, 3, 1)])
        await cluster.wait(lambda: cluster.leader(1) is not None)
        topic = cluster.registry.image.topic("orders")
        await cluster.wait(lambda: NO_BROKER not in leaders_told(cluster, topic))
        assert min(told(cluster, topic)) > latest


async def test_a_broker_that_was_just_started_deletes_when_it_has_heard_who_leads() -> None:
    """It has no copy: or the namesake would begin below terms that others have told."""
    async with village(4) as cluster:
        await cluster.create([1, 2, 3])
        await elect_another(cluster)
        leader = cluster.leader()
        assert leader is not None
        led = leader.find().replica
        await cluster.kill(4)
        asked = await cluster.start(4)
        removing = asyncio.create_task(removal(cluster, asked))
        await asyncio.sleep(0)
        await cluster.pass_ms(1_000)
        await removing
        assert led.term > 1
        assert cluster.registry.facts.first_term == led.term + UNHEARD_ELECTIONS_MAX


async def test_a_copy_that_nobody_tells_of_may_have_been_led_in_a_later_term() -> None:
    """As when the only one is offline: its namesake begins above what it can have reached."""
    async with village(1) as cluster:
        topic = await cluster.create([1])
        one = cluster.up[1]
        leaders = Leaders(
            BrokerId(1), cluster.registry, one.partitions, cluster.clock, one.replicas
        )
        assert leaders.last_term(topic) == one.find().replica.term
        other = replace(topic, id=TopicId("f" * 32), name="never-opened")
        assert leaders.last_term(other) > other.first_term


async def test_while_nobody_leads_no_older_term_is_told() -> None:
    async with village(3) as cluster:
        topic = await cluster.create([1, 2, 3])
        await elect_another(cluster)
        await cluster.kill(2)
        await cluster.kill(3)
        await cluster.wait(lambda: cluster.up[1].leaders.of(topic, 0).broker == NO_BROKER)
        assert cluster.up[1].leaders.of(topic, 0).term == NO_TERM


async def elect_another(cluster: Village) -> None:
    former = cluster.leader()
    assert former is not None
    await cluster.kill(former.node.broker)
    await cluster.wait(lambda: cluster.leader() not in (None, former))
    await cluster.start(former.node.broker)
    await cluster.pass_ms(1_000)


async def remove(cluster: Village, life: Life) -> None:
    """The topic, asked for at this broker."""
    removing = asyncio.create_task(removal(cluster, life))
    await asyncio.sleep(0)
    # For nobody else: where no leader is known it is waited for.
    cluster.clock.time_ms += 3_000
    await removing


def removal(cluster: Village, life: Life) -> Coroutine[Any, Any, None]:
    topics = Topics(IN_CLUSTER, cluster.registry, life.partitions, life.assignment, life.leaders)
    return topics.delete("orders")


def told(cluster: Village, topic: TopicImage) -> list[int]:
    """The terms of the leaders of all partitions, as all brokers tell them."""
    numbers = range(len(topic.partitions))
    return [each.leaders.of(topic, at).term for each in cluster.up.values() for at in numbers]


def leaders_told(cluster: Village, topic: TopicImage) -> list[int]:
    numbers = range(len(topic.partitions))
    return [each.leaders.of(topic, at).broker for each in cluster.up.values() for at in numbers]
