"""The registry on a real ZooKeeper (R-REP-4): what one broker changes all see, of those who want
the same one gets it, and nothing in a znode is trusted."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager
from dataclasses import replace

import pytest

from penstock.model.errors import (
    ChangedMeanwhile,
    CorruptFacts,
    InvalidConfig,
    InvalidRequest,
)
from penstock.model.ids import TopicId
from penstock.raft.membership import Node
from penstock.registry.facts import Facts, Move
from penstock.registry.image import TopicImage, placed
from penstock.registry.zookeeper.client import ZooKeeperRegistry
from penstock.registry.zookeeper.config import ZooKeeperConfig
from penstock.registry.zookeeper.session import Operation, OutcomeUnknown
from tests.kit.net.sockets import free_ports
from tests.kit.processes.zookeeper import (
    ZooKeeperServer,
    opened,
    quick,
    visitor,
)
from tests.kit.registry.contract import RegistryContract
from tests.kit.registry.facts import broker, eventually, ids, leads

_clusters = itertools.count()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperServer]:
    with ZooKeeperServer(tmp_path_factory.mktemp("zookeeper"), free_ports(1)[0]) as running:
        yield running


@pytest.fixture
def config(server: ZooKeeperServer) -> ZooKeeperConfig:
    """A cluster of its own for each test, two levels down."""
    return quick(server.address, f"/tests/{next(_clusters)}")


class ZooKeeperCluster:
    """Implements `tests.kit.registry.contract.Cluster`."""

    def __init__(self, config: ZooKeeperConfig) -> None:
        self._config = config

    def opened(self, broker_id: int = 0) -> AbstractAsyncContextManager[ZooKeeperRegistry]:
        return opened(self._config, broker_id)


@pytest.fixture
def cluster(config: ZooKeeperConfig) -> ZooKeeperCluster:
    return ZooKeeperCluster(config)


class TestContract(RegistryContract):
    """R-REP-4: what holds for every registry holds for this one."""


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


async def test_a_broker_that_starts_again_need_not_wait_for_its_old_session(
    config: ZooKeeperConfig,
) -> None:
    """The folder is the same, so the process of before is gone."""
    slow = replace(config, session_timeout_ms=30_000)
    async with opened(slow, 1) as before:
        assert before._follower._tending is not None
        before._follower._tending.cancel()
        async with opened(config) as again:
            await asyncio.wait_for(again.register_broker(broker(1)), 10)
            assert list(again.image.brokers) == [1]
        await eventually(lambda: not before.image.brokers)


async def test_a_change_is_not_made_to_a_topic_that_was_made_anew(config: ZooKeeperConfig) -> None:
    """Its znode counts versions from 0 again, so the version alone would not tell."""
    async with opened(config, 1) as one, opened(config, 2) as two:
        old = await one.create_topic("orders", 1, {})
        session = one._follower.session
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
        session = one._follower.session
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
