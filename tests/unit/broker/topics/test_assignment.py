"""The partitions of a broker follow the registry of a cluster (R-REP-7, R-CORE-4)."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from functools import partial

import pytest

from penstock.broker.partitions.leaders import NO_BROKER, Leaders
from penstock.broker.partitions.partitions import Partitions
from penstock.broker.topics.assignment import Assignment
from penstock.broker.topics.topics import Topics
from penstock.model.errors import NotLeader, PenstockError, TopicExists, UnknownTopic
from penstock.model.ids import BrokerId
from penstock.records.header import read_header
from penstock.replication.disk.driver import Driver
from penstock.replication.disk.flusher import ThreadFlusher
from tests.kit.broker.cluster import Village, village
from tests.kit.broker.running import CONFIG, ManualClock, alone, batch
from tests.kit.registry.facts import SharedFacts, broker, ids
from tests.kit.simulated_disk import SimulatedDisk, SimulatedFile

ME = BrokerId(1)
IN_CLUSTER = replace(CONFIG, registry="meta://1@127.0.0.1:9092")


@dataclass
class Life:
    registry: SharedFacts
    partitions: Partitions
    assignment: Assignment
    leaders: Leaders
    topics: Topics

    def here(self) -> set[tuple[str, int]]:
        return {(each.name.topic, each.name.partition) for each in self.partitions.all()}


@contextlib.asynccontextmanager
async def living(disk: SimulatedDisk, registry: SharedFacts) -> AsyncIterator[Life]:
    flusher = ThreadFlusher(asyncio.get_running_loop(), 1)
    flusher.start()
    clock = ManualClock()
    partitions = Partitions(disk.root, alone(Driver(), flusher, clock))
    assignment = Assignment(IN_CLUSTER, ME, registry, partitions)
    leaders = Leaders(ME, registry, partitions, clock)
    topics = Topics(IN_CLUSTER, registry, partitions, assignment, leaders)
    partitions.begin()
    await topics.open_all()
    assignment.start()
    try:
        yield Life(registry, partitions, assignment, leaders, topics)
    finally:
        await assignment.stop()
        await partitions.close()
        flusher.stop()


def two_brokers() -> SharedFacts:
    return SharedFacts([broker(1, directory=7), broker(2)])


async def test_a_broker_opens_what_is_placed_on_it_and_nothing_else() -> None:
    async with living(SimulatedDisk(), two_brokers()) as life:
        await life.registry.create_topic("orders", 3, {}, placement=[ids(1), ids(2), ids(2, 1)])
        await life.assignment.follow()
        assert life.here() == {("orders", 0), ("orders", 2)}
        await life.registry.add_partitions("orders", 5, placement=[ids(1, 2), ids(2)])
        await life.assignment.follow()
        assert life.here() == {("orders", 0), ("orders", 2), ("orders", 3)}
        topic = life.registry.image.topic("orders")
        assert life.leaders.of(topic, 0) == (ME, 0, (ME,))
        assert life.leaders.of(topic, 1).broker == BrokerId(2), "nobody else can lead it"
        assert life.leaders.of(topic, 2).broker == NO_BROKER


async def test_others_changes_arrive_by_themselves() -> None:
    async with living(SimulatedDisk(), two_brokers()) as life:
        await life.registry.create_topic("orders", 1, {}, placement=[ids(1)])
        async with asyncio.timeout(5):
            while not life.here():
                await asyncio.sleep(0)
        await life.registry.change_settings("orders", {"retention_ms": "1234"})
        await life.assignment.follow()
        assert life.partitions.find("orders", 0).config.retention_ms == 1234


async def test_a_deleted_topic_is_removed_and_one_of_its_name_is_another() -> None:
    disk = SimulatedDisk()
    async with living(disk, two_brokers()) as life:
        await life.registry.create_topic("orders", 1, {}, placement=[ids(1)])
        await life.assignment.follow()
        first = life.partitions.find("orders", 0).topic_id
        deletion = life.leaders.as_deleted(life.registry.image.topic("orders"))
        await life.registry.begin_deletion("orders", deletion)
        await life.registry.finish_deletion("orders")
        await life.registry.create_topic("orders", 1, {}, placement=[ids(1)])
        await life.assignment.follow()
        assert life.partitions.find("orders", 0).topic_id != first
        assert not [path for path in disk.files() if path.startswith(("trash/", "set-aside/"))]


async def test_a_topic_that_another_broker_is_deleting_is_in_nobodys_way() -> None:
    """Whoever wants to delete it too hears that there is none; so there may be another at once."""
    async with living(SimulatedDisk(), two_brokers()) as life:
        first = await life.registry.create_topic("orders", 1, {}, placement=[ids(1)])
        await life.registry.begin_deletion("orders", None)
        with pytest.raises(UnknownTopic):
            life.topics.find("orders")
        with pytest.raises(UnknownTopic):
            await life.topics.delete("orders")
        assert not life.registry.image.topics, "it helps all the same"
        first = await life.registry.create_topic("orders", 1, {}, placement=[ids(1)])
        await life.registry.begin_deletion("orders", None)
        async with asyncio.timeout(10):
            made = await life.topics.create("orders", 1, {}, placement=[ids(1)])
        assert made.id != first.id
        # By whoever began it.
        await life.registry.finish_deletion("orders")
        assert life.registry.image.topic("orders").id == made.id
        with pytest.raises(TopicExists):
            await life.topics.create("orders", 1, {}, placement=[ids(1)])


async def test_a_topic_deleted_while_the_broker_was_down_is_removed_at_its_start() -> None:
    """The folder says which topic it is, though another has its name by now."""
    disk, registry = SimulatedDisk(), two_brokers()
    async with living(disk, registry) as life:
        await registry.create_topic("orders", 1, {}, placement=[ids(1)])
        await life.assignment.follow()
        deletion = life.leaders.as_deleted(registry.image.topic("orders"))
    await registry.begin_deletion("orders", deletion)
    await registry.finish_deletion("orders")
    again = await registry.create_topic("orders", 2, {}, placement=[ids(1), ids(2)])
    async with living(disk, registry) as life:
        assert life.here() == {("orders", 0)}
        assert life.partitions.folders.identity("orders") == again.id
        assert not [path for path in disk.files() if path.startswith("set-aside/")]


async def test_what_the_registry_has_lost_is_kept() -> None:
    """Nothing acknowledged is thrown away because somebody emptied ZooKeeper."""
    disk, registry = SimulatedDisk(), two_brokers()
    async with living(disk, registry) as life:
        await registry.create_topic("orders", 1, {}, placement=[ids(1)])
        await life.assignment.follow()
        log = life.partitions.find("orders", 0).replica.log
        log.writer.next_offset = 5  # as if something had been written
        registry.forget_everything()
        await life.assignment.follow()
        assert life.here() == set()
    assert any(path.startswith("set-aside/orders.") for path in disk.files())
    async with living(disk, registry) as life:
        assert life.here() == set()


async def test_a_topic_that_another_broker_has_just_made_is_known_when_keep_returns() -> None:
    other = two_brokers()
    await other.create_topic("letters", 1, {}, placement=[ids(2)])
    async with living(SimulatedDisk(), two_brokers()) as life:
        life.registry.facts = other.facts
        assert not life.topics.is_known("letters"), "its news are on their way"
        await life.topics.keep("letters", 1, {})
        assert life.topics.is_known("letters")


async def test_whoever_waits_for_a_commit_hears_that_the_topic_is_deleted() -> None:
    """R-PRO-1: a message that its topic's deletion overtakes is answered, or all that its client
    sent after it would wait with it."""
    async with village(3) as cluster:
        await cluster.create([1, 2, 3], topic="orders")
        leader = cluster.leader()
        assert leader is not None
        partition = leader.find()
        for number in {1, 2, 3} - {leader.node.broker}:
            await cluster.kill(number)
        told: list[PenstockError | None] = []
        data = memoryview(batch([b"late"]))
        partition.replica.propose(read_header(data), data, told.append)
        leader.driver.end_turn()
        await cluster.pass_ms(100)
        assert told == []
        await delete(cluster)
        await cluster.wait(lambda: not leader.here())
        assert [type(error) for error in told] == [UnknownTopic]


async def test_a_deleted_topic_is_left_at_once_whatever_the_disk_is_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """R-PRO-1: another topic is being removed, and its flush does not end. Whoever waits hears of
    the deletion all the same, and who writes to the namesake does not write to what was deleted."""
    go_on, flush = threading.Event(), SimulatedFile.flush

    def flush_later(file: SimulatedFile) -> None:
        if "topics/slow/" in file.path:
            go_on.wait(30)
        flush(file)

    told: list[PenstockError | None] = []
    async with living(SimulatedDisk(), two_brokers()) as life, asyncio.timeout(10):
        with contextlib.ExitStack() as at_the_end:
            at_the_end.callback(go_on.set)
            for name in ("slow", "orders"):
                await life.registry.create_topic(
                    name, 1, {"durability": "fsync"}, placement=[ids(1)]
                )
            await life.assignment.follow()
            monkeypatch.setattr(SimulatedFile, "flush", flush_later)
            for name in ("slow", "orders"):
                replica = life.partitions.find(name, 0).replica
                data = memoryview(batch([b"late"]))
                replica.propose(read_header(data), data, told.append)
                replica.write_proposed()
            await delete_by(life.registry, life.leaders, "slow")
            while len(told) < 1:
                await asyncio.sleep(0)
            await delete_by(life.registry, life.leaders, "orders")
            assert [type(error) for error in told] == [UnknownTopic] * 2
            again = await life.registry.create_topic("orders", 1, {}, placement=[ids(1)])
            with pytest.raises(NotLeader):
                life.leaders.find("orders", 0)
        await life.assignment.follow()
        assert life.leaders.find("orders", 0).topic_id == again.id


async def test_a_long_poll_ends_when_its_topic_is_deleted_or_its_copy_goes_elsewhere() -> None:
    async with village(2) as cluster:
        await cluster.create([1], [1])
        woken: list[int] = []
        for number in range(2):
            cluster.up[1].find(number).wait_for_more(object(), partial(woken.append, number))
        await cluster.retarget([2], [1])
        await cluster.wait(lambda: cluster.up[1].here() == [1])
        assert woken[0] == 0
        woken.clear()
        await delete(cluster)
        await cluster.wait(lambda: not cluster.up[1].here())
        assert 1 in woken


async def delete(cluster: Village) -> None:
    await delete_by(cluster.registry, cluster.up[min(cluster.up)].leaders, "orders")


async def delete_by(registry: SharedFacts, leaders: Leaders, topic: str) -> None:
    """As another broker does it."""
    await registry.begin_deletion(topic, leaders.as_deleted(registry.image.topic(topic)))
    await registry.finish_deletion(topic)
