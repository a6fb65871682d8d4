"""A broker's registry on a lone meta server (R-REP-5). With three: tests/system."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from penstock.model.errors import InvalidConfig, RegistryUnavailable, TopicExists
from penstock.model.ids import BrokerId, TopicId
from penstock.raft.membership import Node
from penstock.registry.facts import Facts
from penstock.registry.image import ClusterImage, TopicImage, placed
from penstock.registry.metaserver.client import MetaRegistry
from tests.kit.registry.facts import broker, eventually, ids, leads
from tests.kit.registry.lone_meta_server import config, opened, server
from tests.kit.simulated_disk import SimulatedDisk


async def test_the_first_makes_the_cluster_and_the_next_finds_it() -> None:
    where = config()
    async with (
        server(where, SimulatedDisk()),
        opened(where, "first") as one,
        opened(where, "second") as two,
    ):
        assert one.image.cluster_id == two.image.cluster_id == "first"


async def test_what_a_change_did_is_in_the_image_when_it_returns() -> None:
    where = config()
    async with server(where, SimulatedDisk()), opened(where) as one, opened(where) as two:
        told: list[ClusterImage] = []
        two.watch(told.append)
        await one.register_broker(broker(1))
        assert leads(one)
        assert one.image.controller == 1
        topic = await one.create_topic("orders", 1, {"retention_ms": "5"})
        assert one.image.topics == {"orders": topic}
        with pytest.raises(TopicExists):
            await two.create_topic("orders", 1, {})
        assert await one.reserve_producer_ids(10) == range(10)
        assert await two.reserve_producer_ids(10) == range(10, 20)
        await eventually(lambda: two.image.topics == one.image.topics)
        versions = [image.version for image in told]
        assert versions == sorted(set(versions))
        assert not leads(two)


async def test_an_id_that_another_folder_has_is_waited_for() -> None:
    where = config()
    async with server(where, SimulatedDisk()), opened(where) as one, opened(where) as wiped:
        await one.register_broker(broker(1))
        await eventually(lambda: wiped.image.brokers)
        registering = asyncio.create_task(wiped.register_broker(broker(1, directory=7)))
        await one.close()
        await registering
        assert wiped.image.brokers[BrokerId(1)].directory == 7
        assert leads(wiped)


async def test_much_is_adopted_in_parts() -> None:
    where = config()
    partition = placed(ids(1), (Node(1, 5),))
    topics = {
        f"t{number}": TopicImage(
            name=f"t{number}", id=TopicId(f"{number:032x}"), partitions=(partition,)
        )
        for number in range(450)
    }
    alone = replace(broker(1), address="")
    facts = Facts(cluster_id="alone", topics=topics, next_producer_id=7, brokers={alone.id: alone})
    async with server(where, SimulatedDisk()), opened(where) as one:
        for _ in range(2):
            await one.adopt(facts)
        assert one.image.topics == topics
        assert one.image.brokers == {}
        assert (await one.reserve_producer_ids(1)).start == 7


async def test_a_change_that_is_not_understood_leads_to_reading_everything() -> None:
    where = config()
    async with server(where, SimulatedDisk()) as running, opened(where) as one:
        assert running._meta is not None
        assert running._meta._service is not None
        feed = running._meta._service.machine.feed
        add = feed.add
        feed.add = lambda version, entry: add(version, b"{}")  # type: ignore[method-assign]
        await one.register_broker(broker(1))
        assert list(one.image.brokers) == [1]


async def test_a_server_that_was_started_again_is_found_again() -> None:
    where, disk = config(), SimulatedDisk()
    async with server(where, disk):
        one = MetaRegistry(where, "cluster")
        await one.open()
        await one.register_broker(broker(1))
    with pytest.raises(RegistryUnavailable, match="do not serve"):
        await replace_patience(one, 0).create_topic("orders", 1, {})
    assert list(one.image.brokers) == [1], "what is known is served"
    async with server(where, disk):
        await replace_patience(one, 5).create_topic("orders", 1, {})
        await eventually(lambda: leads(one))
        await one.close()
        await one.close()
        with pytest.raises(RegistryUnavailable, match="closed"):
            await one.create_topic("events", 1, {})


def replace_patience(registry: MetaRegistry, patience_s: float) -> MetaRegistry:
    registry._session.patience_s = patience_s
    return registry


async def test_servers_that_lost_everything_are_not_believed() -> None:
    where = config()
    async with server(where, SimulatedDisk()):
        one = MetaRegistry(where, "cluster")
        await one.open()
        await one.register_broker(broker(1))
    async with server(where, SimulatedDisk()):
        with pytest.raises(InvalidConfig, match="keep no cluster, and the broker belongs to"):
            await one.create_topic("orders", 1, {})
        assert list(one.image.brokers) == [1]
        await one.close()
