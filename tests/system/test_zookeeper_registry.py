"""The registry on a real ZooKeeper (R-REP-4): what one broker changes all see, of those who want
the same one gets it, and nothing in a znode is trusted."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from penstock.model.errors import (
    ChangedMeanwhile,
    CorruptFacts,
    InvalidConfig,
    InvalidReplication,
    InvalidRequest,
    TopicExists,
    UnknownTopic,
)
from penstock.model.ids import BrokerId, TopicId
from penstock.model.removal import DeletedPartition, DeletedTopic
from penstock.raft.membership import Node
from penstock.registry.embedded import EmbeddedRegistry
from penstock.registry.facts import Facts, Move
from penstock.registry.image import ClusterImage, TopicImage, placed
from penstock.registry.placement import evacuate
from penstock.registry.zookeeper import ZooKeeperRegistry
from penstock.registry.zookeeper_config import ZooKeeperConfig
from penstock.registry.zookeeper_session import Operation, OutcomeUnknown
from penstock.storage.os_files import OsDirectory
from tests.registry_support import broker, ids
from tests.zookeeper_support import (
    ZooKeeperServer,
    eventually,
    free_ports,
    leads,
    opened,
    quick,
    visitor,
)

_clusters = itertools.count()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperServer]:
    with ZooKeeperServer(tmp_path_factory.mktemp("zookeeper"), free_ports(1)[0]) as running:
        yield running


@pytest.fixture
def config(server: ZooKeeperServer) -> ZooKeeperConfig:
    """A cluster of its own for each test, two levels down."""
    return quick(server.address, f"/tests/{next(_clusters)}")


async def test_what_one_changes_the_other_sees(config: ZooKeeperConfig) -> None:
    """R-CORE-5: routes are known to every broker."""
    async with opened(config, 1) as one, opened(config, 2) as two:
        made = await one.create_topic("orders", 2, {"retention_ms": "5"}, replication_factor=2)
        assert one.image.topic("orders") is made, "there when the change returns"
        assert {partition.leader for partition in made.partitions} == {1, 2}
        assert set(made.partitions[0].voters) == {Node(1, 0xD1), Node(2, 0xD2)}
        await eventually(lambda: two.image.topics.get("orders") == made)
        assert two.image.cluster_id == one.image.cluster_id == "cluster of 1"

        await two.change_settings("orders", {"retention_ms": "6"}, version=made.version)
        await eventually(lambda: one.image.topic("orders").settings == {"retention_ms": "6"})
        await two.add_partitions("orders", 3)
        await eventually(lambda: len(one.image.topic("orders").partitions) == 3)

        seen = one.image
        await one.change_targets([Move("orders", 0, ids(2))], seen)
        await eventually(lambda: two.image.topic("orders").partitions[0].replicas == ids(2))
        with pytest.raises(ChangedMeanwhile):
            await two.change_targets([Move("orders", 0, ids(1))], seen)


async def test_a_topic_goes_in_two_steps_and_is_remembered(config: ZooKeeperConfig) -> None:
    async with opened(config, 1) as one, opened(config, 2) as two:
        topic = await one.create_topic("orders", 1, {})
        deletion = DeletedTopic(
            name="orders", topic_id=topic.id, at_ms=5, partitions=(DeletedPartition(0, 1, 9),)
        )
        await one.begin_deletion("orders", deletion)
        await eventually(lambda: "orders" in two.image.topics)
        await eventually(lambda: two.image.topics["orders"].deleting)
        with pytest.raises(UnknownTopic):
            two.image.topic("orders")
        await two.finish_deletion("orders")
        await eventually(lambda: not one.image.topics)
        await one.finish_deletion("orders")
        assert (await one.create_topic("orders", 1, {})).id != topic.id
        await eventually(lambda: two.image.deleted_topics == (deletion,))
    async with opened(config) as later:
        assert later.image.deleted_topics == (deletion,)
        assert list(later.image.topics) == ["orders"], "it stays without any broker"


async def test_of_many_who_make_the_same_topic_one_wins(config: ZooKeeperConfig) -> None:
    async with opened(config, 1) as one, opened(config, 2) as two, opened(config, 3) as three:
        for round_ in range(5):
            creations = [each.create_topic(f"t{round_}", 1, {}) for each in (one, two, three) * 2]
            results = await asyncio.gather(*creations, return_exceptions=True)
            made = [result for result in results if isinstance(result, TopicImage)]
            assert len(made) == 1
            assert sum(isinstance(result, TopicExists) for result in results) == 5
            for each in (one, two, three):
                await eventually(partial(knows, each, made[0]))


def knows(registry: ZooKeeperRegistry, topic: TopicImage) -> bool:
    return registry.image.topics.get(topic.name) == topic


async def test_of_many_who_decide_by_the_same_version_one_wins(config: ZooKeeperConfig) -> None:
    async with opened(config, 1) as one, opened(config, 2) as two:
        topic = await one.create_topic("orders", 1, {})
        await eventually(lambda: "orders" in two.image.topics)
        changes = [
            each.change_settings("orders", {"retention_ms": str(number)}, version=topic.version)
            for number, each in enumerate((one, two) * 3, 1)
        ]
        results = await asyncio.gather(*changes, return_exceptions=True)
        (made,) = [result for result in results if isinstance(result, TopicImage)]
        assert sum(isinstance(result, ChangedMeanwhile) for result in results) == 5
        await eventually(lambda: one.image.topic("orders") == two.image.topic("orders") == made)


async def test_who_does_not_mind_the_version_wins_in_turn(config: ZooKeeperConfig) -> None:
    async with opened(config, 1) as one, opened(config, 2) as two:
        await one.create_topic("orders", 1, {})
        await asyncio.gather(*(each.change_settings("orders", {}) for each in (one, two) * 4))
        await eventually(lambda: two.image.topics["orders"].version == 8)


async def test_producer_ids_are_never_handed_out_twice(config: ZooKeeperConfig) -> None:
    """R-PRO-2: whoever asks, and however many at once."""
    async with opened(config) as one, opened(config) as two:
        blocks = await asyncio.gather(*(each.reserve_producer_ids(10) for each in (one, two) * 5))
        assert len({number for block in blocks for number in block}) == 100
    async with opened(config) as later:
        assert (await later.reserve_producer_ids(1)).start == 100


async def test_a_broker_is_there_as_long_as_its_registry(config: ZooKeeperConfig) -> None:
    async with opened(config, 1) as one:
        told: list[ClusterImage] = []
        one.watch(told.append)
        async with opened(config, 2) as two:
            await eventually(lambda: list(one.image.brokers) == [1, 2])
            assert one.image.brokers == two.image.brokers
            moved = replace(broker(2), address="127.0.0.1:1", host="rack-2")
            await two.register_broker(moved)
            await eventually(lambda: one.image.brokers[moved.id] == moved)
        await eventually(lambda: list(one.image.brokers) == [1])
        assert [len(image.brokers) for image in told][-1] == 1
        assert told[-1] is one.image
        with pytest.raises(InvalidReplication, match="1 brokers are alive"):
            await one.create_topic("orders", 1, {}, replication_factor=2)


async def test_one_broker_is_controller_and_another_takes_over(config: ZooKeeperConfig) -> None:
    async with opened(config) as watching:
        assert not leads(watching), "who is no broker does not stand"
        async with opened(config, 1) as one:
            assert leads(one)
            async with opened(config, 2) as two:
                assert not leads(two)
                assert two.image.controller == 1
                await eventually(lambda: watching.image.controller == 1)
                await one.close()
                assert not leads(one)
                await eventually(lambda: leads(two))
                await eventually(lambda: watching.image.controller == 2)
        await eventually(lambda: watching.image.controller is None)


async def test_a_drained_broker_is_emptied(config: ZooKeeperConfig) -> None:
    """R-REP-7"""
    async with opened(config, 1) as one, opened(config, 2) as two, opened(config, 3):
        await eventually(lambda: len(one.image.brokers) == 3)
        await one.create_topic("orders", 6, {}, replication_factor=2)
        await two.drain_broker(BrokerId(3), is_drained=True)
        await eventually(lambda: one.image.drained == {3})
        await one.change_targets(evacuate(one.image, BrokerId(3)), one.image)
        targets = [set(each.replicas) for each in one.image.topic("orders").partitions]
        assert targets == [{1, 2}] * 6
        await one.create_topic("events", 4, {}, replication_factor=2)
        assert {each.leader for each in one.image.topic("events").partitions} == {1, 2}
        await one.drain_broker(BrokerId(3), is_drained=False)
        assert one.image.drained == set()


async def test_clusters_under_different_paths_do_not_know_each_other(
    config: ZooKeeperConfig,
) -> None:
    async with (
        opened(replace(config, chroot=config.chroot + "/a"), 1) as one,
        opened(replace(config, chroot=config.chroot + "/b"), 2) as other,
    ):
        await one.create_topic("orders", 1, {})
        await other.create_topic("events", 1, {})
        assert (list(one.image.topics), list(one.image.brokers)) == (["orders"], [1])
        assert (list(other.image.topics), list(other.image.brokers)) == (["events"], [2])
        assert leads(one)
        assert leads(other)
        assert one.image.cluster_id != other.image.cluster_id


async def test_only_the_clusters_user_gets_in(config: ZooKeeperConfig) -> None:
    mine = replace(config, user="penstock", password="s:e@cret")
    async with opened(mine, 1) as one, opened(mine, 2) as two:
        await one.create_topic("orders", 1, {})
        await eventually(lambda: "orders" in two.image.topics)
        for stranger in (config, replace(mine, password="guessed")):
            with pytest.raises(InvalidConfig, match="refuses this user") as refused:
                async with opened(stranger):
                    pass
            assert "cret" not in str(refused.value)
    async with opened(config_beside(config)):
        pass  # Others may have their place beside it.


def config_beside(config: ZooKeeperConfig) -> ZooKeeperConfig:
    return replace(config, chroot=config.chroot + "-beside")


async def test_a_znode_that_nobody_understands_harms_nothing_else(config: ZooKeeperConfig) -> None:
    async with opened(config, 1) as one:
        topic = await one.create_topic("orders", 1, {})
        await one.create_topic("events", 1, {})
        with visitor(config) as somebody:
            good, _ = somebody.get("/topics/orders")
            somebody.set("/topics/orders", b"[" * 100_000)
            somebody.create("/topics/..strange", b"\xff")
            somebody.create("/brokers/ids/9", b"{}")
            somebody.create("/brokers/ids/" + "9" * 5000, b"")
            somebody.create("/brokers/ids/notanumber", b"")
            await eventually(lambda: set(one.image.unreadable) == {"orders", "..strange"})
            assert list(one.image.topics) == ["events"]
            assert list(one.image.brokers) == [1]
            with pytest.raises(CorruptFacts, match="/topics/orders cannot be understood"):
                one.image.topic("orders")
            with pytest.raises(CorruptFacts, match="/topics/orders"):
                await one.create_topic("orders", 1, {})
            with pytest.raises(CorruptFacts, match="/topics/orders"):
                await one.change_settings("orders", {})
            await one.change_settings("events", {"retention_ms": "5"})
            async with opened(config, 2) as two:
                assert list(two.image.topics) == ["events"]
            somebody.set("/topics/orders", good)
            somebody.delete("/topics/..strange")
            await eventually(lambda: not one.image.unreadable)
            assert one.image.topic("orders").id == topic.id


async def test_znodes_of_which_there_is_one(config: ZooKeeperConfig) -> None:
    async with opened(config, 1) as one:
        await one.create_topic("orders", 1, {})
        await one.reserve_producer_ids(10)
        with visitor(config) as somebody:
            somebody.set("/producer-ids", b"{}")
            somebody.set("/deleted-topics", b"7")
            with pytest.raises(CorruptFacts, match="/producer-ids"):
                await one.reserve_producer_ids(1)
            with pytest.raises(CorruptFacts, match="/deleted-topics"):
                await one.begin_deletion("orders", None)
            somebody.delete("/deleted-topics")
            await one.change_settings("orders", {"retention_ms": "5"})
            somebody.delete("/producer-ids")
            assert (await one.reserve_producer_ids(1)).start == 10, "as far as it is known"
            somebody.set("/cluster", b"{}")
        assert one.image.cluster_id == "cluster of 1"
    with pytest.raises(CorruptFacts, match="/cluster"):
        async with opened(config):
            pass


async def test_two_brokers_do_not_share_an_id(config: ZooKeeperConfig) -> None:
    async with opened(config, 1), opened(config) as other:
        with pytest.raises(InvalidConfig, match=r"broker id 1 is in use by .*127\.0\.0\.1:9001"):
            await other.register_broker(broker(1, directory=7))


async def test_a_broker_that_starts_again_need_not_wait_for_its_old_session(
    config: ZooKeeperConfig,
) -> None:
    """The folder is the same, so the process of before is gone."""
    slow = replace(config, session_timeout_ms=30_000)
    async with opened(slow, 1) as before:
        assert before._tending is not None
        before._tending.cancel()
        async with opened(config) as again:
            await asyncio.wait_for(again.register_broker(broker(1)), 10)
            assert list(again.image.brokers) == [1]
        await eventually(lambda: not before.image.brokers)


async def test_a_broker_that_lost_its_folder_waits_for_its_old_session(
    config: ZooKeeperConfig,
) -> None:
    async with opened(config, 1) as before, opened(config) as wiped:
        registering = asyncio.create_task(wiped.register_broker(broker(1, directory=7)))
        await asyncio.sleep(0.3)
        assert not registering.done()
        await before.close()
        await registering
        assert wiped.image.brokers[BrokerId(1)].directory == 7


async def test_a_broker_on_its_own_becomes_the_first_of_a_cluster(
    config: ZooKeeperConfig, tmp_path: Path
) -> None:
    """R-REP-6: with its topics, their ids and settings, and its producer ids."""
    alone = EmbeddedRegistry(OsDirectory(str(tmp_path)), BrokerId(1), "alone", directory=0xD1)
    for number in range(20):
        await alone.create_topic(f"t{number}", 2, {"retention_ms": "5"})
    await alone.reserve_producer_ids(1000)
    async with opened(config, 1) as one, opened(config, 2) as two:
        for _ in range(2):
            await one.adopt(alone.facts)
        await eventually(lambda: dict(two.image.topics) == dict(alone.image.topics))
        assert (await two.reserve_producer_ids(1)).start == 1000


async def test_a_change_is_not_made_to_a_topic_that_was_made_anew(config: ZooKeeperConfig) -> None:
    """Its znode counts versions from 0 again, so the version alone would not tell."""
    async with opened(config, 1) as one, opened(config, 2) as two:
        old = await one.create_topic("orders", 1, {})
        session = one._session
        commit = session.commit

        def after_others(operations: list[Operation]) -> bool:
            session.commit = commit  # type: ignore[method-assign]
            asyncio.run_coroutine_threadsafe(make_anew(two), loop).result(10)
            return commit(operations)

        loop = asyncio.get_running_loop()
        session.commit = after_others  # type: ignore[method-assign, assignment]
        changed = await one.change_settings("orders", {"retention_ms": "5"})
        assert changed.id == two.image.topic("orders").id != old.id
        session.commit = after_others  # type: ignore[method-assign, assignment]
        with pytest.raises(ChangedMeanwhile):
            await one.change_targets([Move("orders", 0, ids(1))], one.image)


async def make_anew(registry: ZooKeeperRegistry) -> None:
    await registry.begin_deletion("orders", None)
    await registry.finish_deletion("orders")
    await registry.create_topic("orders", 1, {})


async def test_a_change_whose_answer_was_lost_is_made_once(config: ZooKeeperConfig) -> None:
    async with opened(config, 1) as one:
        session = one._session
        commit = session.commit

        def unheard(operations: list[Operation]) -> bool:
            session.commit = commit  # type: ignore[method-assign]
            commit(operations)
            raise OutcomeUnknown("the connection broke")

        changes: list[Callable[[], Awaitable[TopicImage]]] = [
            lambda: one.create_topic("orders", 1, {}),
            lambda: one.change_settings("orders", {"retention_ms": "5"}, version=0),
            lambda: one.add_partitions("orders", 2),
            lambda: one.begin_deletion("orders", None),
        ]
        for change in changes:
            session.commit = unheard  # type: ignore[method-assign, assignment]
            await change()
        session.commit = unheard  # type: ignore[method-assign, assignment]
        await one.finish_deletion("orders")
        assert not one.image.topics
        session.commit = unheard  # type: ignore[method-assign, assignment]
        assert await one.reserve_producer_ids(10) == range(10, 20), (
            "the first ones may be another's"
        )


async def test_what_zookeeper_cannot_take_is_refused(config: ZooKeeperConfig) -> None:
    async with opened(config, 1) as one:
        partition = placed(ids(1), (Node(1, 0xD1),))
        many = {
            f"t{number}": TopicImage(
                name=f"t{number}", id=TopicId(f"{number:032x}"), partitions=(partition,) * 5000
            )
            for number in range(20)
        }
        one.watch(lambda _: None)
        await one.adopt(Facts(cluster_id="alone", topics=many))
        moves = [Move(f"t{number}", 0, ids(1)) for number in range(20)]
        with pytest.raises(InvalidRequest, match="in parts"):
            await one.change_targets(moves, one.image)
        await one.change_targets(moves[:5], one.image)
    async with opened(config) as later:
        assert len(later.image.topics) == 20
