"""Exclusive groups of our own clients, with real brokers and real deaths: shared, taken over,
mixed with Kafka's consumers, point to point, and the worked example of the notes."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import confluent_kafka
import pytest

import penstock
from penstock.client.connection.routes import GROUPS
from penstock.client.consuming.consumer import Consumer
from penstock.model.errors import PartitionClaimed, PartitionLost, SubscriptionTaken
from penstock.model.ids import TopicPartition
from tests.kit.net.sockets import free_ports
from tests.kit.processes.brokers import BrokerProcess
from tests.kit.processes.cluster import Cluster
from tests.kit.processes.zookeeper import ZooKeeperServer
from tests.system.clients import PATIENCE_S, read
from tests.system.delivery.members import MemberProcess, until

PARTITIONS = 6


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("broker")) as running:
        yield running


async def fill(address: str, topic: str, partitions: int, each: int) -> None:
    async with penstock.connect(address) as mq:
        await mq.admin.create_topic(topic, partitions)
        async with mq.producer() as producer:
            for partition in range(partitions):
                for number in range(each):
                    await producer.send(topic, b"%d" % number, partition=partition)


def is_shared(members: list[MemberProcess], partitions: int = PARTITIONS) -> bool:
    """Whether all partitions have an owner, and none has two more than another."""
    loads = [len(member.owned) for member in members]
    together = set().union(*(member.owned for member in members))
    return (
        together == set(range(partitions))
        and sum(loads) == partitions
        and (max(loads) - min(loads) <= 1)
    )


def kafka_consumer(address: str, group: str, **settings: object) -> confluent_kafka.Consumer:
    return confluent_kafka.Consumer(
        {
            "bootstrap.servers": address,
            "group.id": group,
            "client.id": "librdkafka",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            **settings,
        }
    )


def test_members_share_and_take_over(broker: BrokerProcess) -> None:
    """R-DEL-4, R-DEL-5: two and three members share the partitions; what a killed one had goes to
    the others within seconds, and nothing is missed."""
    topic, each = "shared", 50
    asyncio.run(fill(broker.address, topic, PARTITIONS, each))
    with contextlib.ExitStack() as running:

        def start(name: str) -> MemberProcess:
            return running.enter_context(MemberProcess(broker.address, topic, "g", name))

        one = start("one")
        until(lambda: one.owned == set(range(PARTITIONS)))
        two = start("two")
        until(lambda: is_shared([one, two]))
        three = start("three")
        until(lambda: is_shared([one, two, three]))
        kept = set(two.owned)
        two.kill()
        # Its connection ended: nobody waits for its session of 45 s, and neither does this.
        until(lambda: is_shared([one, three]))
        assert kept <= one.owned | three.owned
        asyncio.run(_publish_more(broker.address, topic, each))

        def is_all_read() -> bool:
            offsets = {place for member in (one, two, three) for place in member.read}
            return len(offsets) == 2 * PARTITIONS * each

        until(is_all_read)


async def _publish_more(address: str, topic: str, each: int) -> None:
    async with penstock.connect(address) as mq, mq.producer() as producer:
        for partition in range(PARTITIONS):
            for number in range(each):
                await producer.send(topic, b"%d" % number, partition=partition)


def test_one_group_of_our_members_and_kafkas(broker: BrokerProcess) -> None:
    """R-DEL-4: a group of librdkafka's consumers (KIP-848) and of ours is one group."""
    topic, each = "mixed", 40
    asyncio.run(fill(broker.address, topic, PARTITIONS, each))
    foreign = kafka_consumer(broker.address, "mixed", **{"group.protocol": "consumer"})
    got: set[tuple[int, int]] = set()

    def poll() -> None:
        message = foreign.poll(0.05)
        if message is not None and message.error() is None:
            got.add((message.partition(), message.offset()))
            foreign.commit(message, asynchronous=False)

    foreign.subscribe([topic])
    until(lambda: len(foreign.assignment()) == PARTITIONS, poll)
    with MemberProcess(broker.address, topic, "mixed", "ours") as ours:
        # Kafka's consumers are told to call every 5 s: it takes them so long to give something up.
        until(lambda: len(ours.owned) == PARTITIONS // 2, poll)
        until(lambda: len(foreign.assignment()) == PARTITIONS // 2, poll)
        theirs = {place.partition for place in foreign.assignment()}
        assert theirs.isdisjoint(ours.owned)
        until(lambda: len(got | set(ours.read)) == PARTITIONS * each, poll)
        foreign.close()
        until(lambda: len(ours.owned) == PARTITIONS)


async def test_a_classic_group_of_kafkas_is_described_like_any_other(
    broker: BrokerProcess,
) -> None:
    """R-DEL-4, R-DEL-10: members, who has what, and the lag, of every kind of group."""
    topic = "classic"
    await fill(broker.address, topic, 2, 5)
    foreign = kafka_consumer(broker.address, "classic", **{"group.protocol": "classic"})
    foreign.subscribe([topic])

    def commit_one() -> bool:
        message = foreign.poll(0.1)
        if message is None or message.error() is not None:
            return False
        foreign.commit(message, asynchronous=False)
        return len(foreign.assignment()) == 2

    await asyncio.to_thread(until, commit_one)
    async with penstock.connect(broker.address) as mq:
        group = await mq.groups.describe("classic")
        assert (group.kind, group.state) == ("classic", "Stable")
        [member] = group.members
        assert member.name == "librdkafka"
        assert member.topics == (topic,)
        assert [place.member_id for place in group.places] == [member.member_id] * 2
        assert group.lag == 10 - sum(place.committed or 0 for place in group.places) > 0
        await asyncio.to_thread(foreign.close)
        await mq.groups.delete("classic")


async def test_both_modes_outlive_a_crash_of_the_broker(tmp_path: Path) -> None:
    """R-DEL-1, R-DEL-10: whose a topic is, and where each group stands, is on the disk before
    anybody is told."""
    with BrokerProcess(tmp_path) as broker:
        await fill(broker.address, "alone", 1, 4)
        await fill(broker.address, "news", 1, 4)
        async with penstock.connect(broker.address) as mq:
            for topic, group in (("alone", "till"), ("news", "audit"), ("news", "reports")):
                async with mq.subscribe(
                    topic, group=group, point_to_point=topic == "alone"
                ) as consumer:
                    for message in await read(consumer, 4):
                        await message.ack()
        broker.kill()
        broker.start()
        async with penstock.connect(broker.address) as mq:
            with pytest.raises(SubscriptionTaken, match="'till'"):
                await mq.subscribe("alone", group="audit").start()
            for group in ("till", "audit", "reports"):
                assert (await mq.groups.describe(group)).lag == 0


async def test_point_to_point_refuses_every_other_group(broker: BrokerProcess) -> None:
    """R-DEL-1: by our protocol and by both of Kafka's, by joining and by committing; until the
    group is deleted. Publish-subscribe, the rule, refuses nobody."""
    topic = "alone"
    await fill(broker.address, topic, 2, 5)
    async with penstock.connect(broker.address) as mq:
        async with mq.subscribe(topic, group="till", point_to_point=True) as consumer:
            assert len(consumer.partitions) == 2
        with pytest.raises(SubscriptionTaken, match="'till'"):
            await mq.subscribe(topic, group="audit").start()
        with pytest.raises(SubscriptionTaken, match="'till'"):
            await mq.admin.commit_offsets("audit", {(topic, 0): 1})
        for protocol in ("classic", "consumer"):
            refusal = await asyncio.to_thread(_kafka_refusal, broker.address, topic, protocol)
            assert "Group authorization failed" in refusal, protocol
        [subscription] = await mq.groups.subscriptions(topic)
        assert subscription.is_point_to_point
        assert subscription.groups == ("till",)
        async with mq.subscribe(topic, group="till") as consumer:
            assert len(await read(consumer, 10)) == 10
        await mq.groups.delete("till")
        for group in ("audit", "reports"):
            async with mq.subscribe(topic, group=group) as consumer:
                assert len(await read(consumer, 10)) == 10


def _kafka_refusal(address: str, topic: str, protocol: str) -> str:
    """In which words a consumer of Kafka's is told that it may not read the topic."""
    consumer = kafka_consumer(address, f"kafka {protocol}", **{"group.protocol": protocol})
    consumer.subscribe([topic])
    try:
        give_up_at_s = time.monotonic() + PATIENCE_S
        while time.monotonic() < give_up_at_s:
            message = consumer.poll(0.2)
            if message is not None and message.error() is not None:
                return str(message.error())
        raise AssertionError("nobody said anything")
    finally:
        consumer.close()


async def test_a_second_exclusive_claim_is_refused_with_the_name_of_the_holder(
    broker: BrokerProcess,
) -> None:
    """R-DEL-2, R-DEL-5: manual assignment; what others share is what nobody claims."""
    topic = "claimed"
    await fill(broker.address, topic, 3, 5)
    async with penstock.connect(broker.address) as mq:
        async with (
            mq.subscribe(topic, group="g", name="till-1", partitions=[1]) as holder,
            mq.subscribe(topic, group="g", name="rest", assignor="ring") as rest,
        ):
            assert holder.partitions == [(topic, 1)]
            assert rest.partitions == [(topic, 0), (topic, 2)]
            with pytest.raises(PartitionClaimed, match=r"claimed-1 is claimed by 'till-1'"):
                await mq.subscribe(topic, group="g", name="till-2", partitions=[1]).start()
        async with mq.subscribe(topic, group="g", name="till-2", partitions=[1]) as heir:
            assert heir.partitions == [(topic, 1)]


async def test_the_coordinator_dies_under_our_members(tmp_path: Path) -> None:
    """R-DEL-4, R-REP-2: members have what they had, go on committing, and rebalance afterwards."""
    with Cluster(tmp_path) as cluster:
        addresses = list(cluster.addresses.values())
        await fill(",".join(addresses), "orders", 4, 10)
        async with penstock.connect(addresses) as mq:
            one, two = (mq.subscribe("orders", group="g", name=name) for name in ("one", "two"))
            async with one, two:
                await _until(lambda: len(one.partitions) == len(two.partitions) == 2)
                before = set(one.partitions)
                coordinator = await mq._connection().routes.coordinator(GROUPS)
                [lost] = [
                    broker
                    for broker, address in cluster.addresses.items()
                    if address.endswith(f":{coordinator.connection.peer.rpartition(':')[2]}")
                ]
                await asyncio.to_thread(cluster.kill, lost)
                await _commit_all(mq, one, before)
                await _until(lambda: set(one.partitions) == before)
                async with mq.subscribe("orders", group="g", name="three") as three:
                    await _until(lambda: len(three.partitions) == 1)


async def _commit_all(
    mq: penstock.Client, consumer: Consumer, partitions: set[TopicPartition]
) -> None:
    """Read and acknowledge until the group has come past the tenth message of each. A member that
    finds no coordinator for three seconds, as on a busy machine, gives everything up meanwhile."""
    async with asyncio.timeout(2 * PATIENCE_S):
        while True:
            for message in await consumer.fetch(timeout_s=0.5):
                await message.ack()
            with contextlib.suppress(PartitionLost):
                await consumer.commit()
            committed = await mq.admin.group_offsets("g")
            # Leaders write records of their own, so the tenth message may be further on.
            if all(committed.get(each, 0) >= 10 for each in partitions):
                return


async def test_the_worked_example_of_the_notes(tmp_path: Path) -> None:
    """R-DEL-1, R-DEL-2, R-DEL-10, R-REP-4: a consumer wants partition p-001 of the topic `order`.
    It asks any broker, whose routes come from ZooKeeper; the partition is on another one. That it
    is not taken is checked; it reads from offset 1024 on and keeps up its heartbeat. A second
    consumer is refused, with the name of the first, as long as that one lives."""
    topic, partition = "order", TopicPartition("order", 1)
    with (
        ZooKeeperServer(tmp_path / "zookeeper", free_ports(1)[0]) as zookeeper,
        Cluster(tmp_path, registry=f"zookeeper://{zookeeper.address}/penstock") as cluster,
    ):
        async with penstock.connect(cluster.bootstrap) as mq:
            await mq.admin.create_topic(topic, 3, replicas=1)
            described = await mq.admin.describe_topic(topic)
            leader = described.partitions[1].leader
            async with mq.producer() as producer:
                for number in range(1100):
                    await producer.send(topic, b"%d" % number, partition=1)
        others = [address for broker, address in cluster.addresses.items() if broker != leader]
        async with penstock.connect(others[0], client_name="consumer-A") as mq:
            consumer = mq.subscribe(
                topic, group="p2p", partitions=[1], start=1024, point_to_point=True
            )
            async with consumer:
                assert consumer.partitions == [partition]
                messages = await read(consumer, 76)
                assert [message.offset for message in messages] == list(range(1024, 1100))
                for message in messages:
                    await message.ack()
                async with penstock.connect(others[1], client_name="consumer-B") as second:
                    with pytest.raises(PartitionClaimed, match="'consumer-A'"):
                        await second.subscribe(topic, group="p2p", partitions=[1]).start()
                    with pytest.raises(SubscriptionTaken, match="'p2p'"):
                        await second.subscribe(topic, group="another").start()
        async with (
            penstock.connect(cluster.bootstrap, client_name="consumer-B") as mq,
            mq.subscribe(topic, group="p2p", partitions=[1], start=1024) as consumer,
        ):
            assert consumer.position(partition) == 1100, "where the first had come to"


async def test_a_member_that_stands_still_is_fenced_and_comes_back(tmp_path: Path) -> None:
    """R-DEL-4: its partition goes to another after its session; what it commits late is refused."""
    settings = (
        "group_consumer_session_timeout_ms=2000",
        "group_consumer_heartbeat_interval_ms=500",
    )
    with BrokerProcess(tmp_path, *settings) as broker:
        await fill(broker.address, "orders", 2, 20)
        with (
            MemberProcess(broker.address, "orders", "g", "one") as one,
            MemberProcess(broker.address, "orders", "g", "two") as two,
        ):
            await asyncio.to_thread(until, lambda: is_shared([one, two], 2))
            one._process.send_signal(signal.SIGSTOP)
            await asyncio.to_thread(until, lambda: two.owned == {0, 1})
            one._process.send_signal(signal.SIGCONT)
            await asyncio.to_thread(until, lambda: is_shared([one, two], 2))


async def _until(condition: object) -> None:
    assert callable(condition)
    async with asyncio.timeout(PATIENCE_S):
        while not condition():
            await asyncio.sleep(0.01)
