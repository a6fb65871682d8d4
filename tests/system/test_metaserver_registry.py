"""The registry on a real quorum of meta servers, three processes (R-REP-5)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.model.errors import InvalidConfig, RegistryUnavailable
from penstock.registry.metaserver.client import MetaRegistry
from tests.kit.processes.meta_servers import MetaQuorum
from tests.kit.registry.contract import RegistryContract
from tests.kit.registry.facts import broker, eventually


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[MetaQuorum]:
    with MetaQuorum(tmp_path) as quorum:
        yield quorum


class TestContract(RegistryContract):
    """R-REP-5: what holds for every registry holds for this one."""


async def test_a_broker_that_starts_again_need_not_wait_for_its_old_session(
    cluster: MetaQuorum,
) -> None:
    """The folder is the same, so the process of before is gone."""
    async with cluster.opened(1) as before:
        for task in before._session._tasks:
            task.cancel()
        async with cluster.opened() as again:
            await asyncio.wait_for(again.register_broker(broker(1)), 1)
            assert list(again.image.brokers) == [1]
            before._session._broker = None  # it was killed: it takes no leave


async def test_a_broker_of_another_cluster_is_refused(cluster: MetaQuorum, tmp_path: Path) -> None:
    """The addresses lead to other servers than those that the broker knows."""
    with MetaQuorum(tmp_path / "other", 1) as other:
        async with cluster.opened(1) as one, other.opened(2):
            one._session.link._config = other.config
            await one._session.link.close()
            one._session.link._is_closed = False
            with pytest.raises(InvalidConfig, match="the broker belongs to cluster of 1"):
                await one.create_topic("orders", 1, {})
            assert one.image.cluster_id == "cluster of 1"


async def test_a_registry_that_finds_no_servers_says_so(tmp_path: Path) -> None:
    nowhere = MetaRegistry(MetaQuorum(tmp_path).config, "cluster")
    with pytest.raises(RegistryUnavailable, match="start a majority of them, or correct"):
        await nowhere.open()
    with pytest.raises(RegistryUnavailable, match="closed"):
        await nowhere.create_topic("orders", 1, {}, placement=[(broker(1).id,)])


async def test_many_brokers_follow_many_topics(cluster: MetaQuorum) -> None:
    async with cluster.opened(1) as one, cluster.opened(2) as two, cluster.opened(3) as three:
        registries = (one, two, three)
        await asyncio.gather(
            *(registries[number % 3].create_topic(f"t{number}", 1, {}) for number in range(300))
        )
        await eventually(lambda: {len(each.image.topics) for each in registries} == {300})
        assert one.image.topics == two.image.topics == three.image.topics


async def test_a_lone_meta_server_is_enough(tmp_path: Path) -> None:
    with MetaQuorum(tmp_path, 1) as quorum:
        async with quorum.opened(1) as one:
            topic = await one.create_topic("orders", 1, {})
            quorum.servers[1].stop()
            quorum.start(1)
            await one.create_topic("events", 1, {})
            assert one.image.topic("orders") == topic
