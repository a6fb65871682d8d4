"""What every registry does the same way, shown with the embedded one: who watches is told, plans
hold for what they were made by, and what one broker cannot do is refused."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from penstock.model.errors import (
    ChangedMeanwhile,
    InvalidPartitions,
    InvalidPlacement,
    InvalidReplication,
    InvalidRequest,
    UnsupportedVersion,
)
from penstock.model.ids import BrokerId
from penstock.raft.membership import Node
from penstock.registry.embedded import EmbeddedRegistry
from penstock.registry.facts import ExpireBroker, Move, RegisterBroker, apply
from penstock.registry.image import ClusterImage
from penstock.storage.files.os_files import OsDirectory
from tests.kit.registry.facts import SharedFacts, broker, ids


def open_registry(path: Path) -> EmbeddedRegistry:
    return EmbeddedRegistry(OsDirectory(str(path)), BrokerId(1), "cluster", directory=0xD1)


async def test_who_watches_is_told_each_image(tmp_path: Path) -> None:
    registry = open_registry(tmp_path)
    told: list[ClusterImage] = []
    registry.watch(told.append)
    await registry.register_broker(broker(1))
    await registry.create_topic("orders", 1, {})
    assert [list(image.topics) for image in told] == [[], ["orders"]]
    assert told[-1] is registry.image
    assert told[0].version < told[1].version


async def test_who_knows_of_too_few_brokers_looks_before_it_refuses() -> None:
    """R-REP-7: right after a cluster has started, whichever broker is asked."""
    registry = SharedFacts([broker(1)])
    registry.facts = apply(registry.facts, RegisterBroker(broker=broker(2)))
    made = await registry.create_topic("orders", 1, {}, replication_factor=2)
    assert set(made.partitions[0].replicas) == {1, 2}
    registry.facts = apply(registry.facts, ExpireBroker(node=broker(2).node))
    registry.facts = apply(registry.facts, RegisterBroker(broker=broker(3)))
    more = await registry.add_partitions("orders", 2)
    assert set(more.partitions[1].replicas) == {1, 3}
    with pytest.raises(InvalidReplication, match="2 brokers are alive"):
        await registry.create_topic("events", 1, {}, replication_factor=3)


async def test_a_watcher_that_fails_harms_nobody(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    registry = open_registry(tmp_path)
    told: list[ClusterImage] = []
    registry.watch(lambda image: told[99:][0])  # type: ignore[arg-type]
    registry.watch(told.append)
    with caplog.at_level(logging.CRITICAL):
        await registry.create_topic("orders", 1, {})
    assert len(told) == 1


async def test_a_partition_begins_with_this_broker_alone(tmp_path: Path) -> None:
    """R-REP-6: what the registry of a cluster has to know when it adopts the topic."""
    registry = open_registry(tmp_path)
    await registry.create_topic("orders", 2, {})
    for each in (registry, open_registry(tmp_path)):
        assert {part.voters for part in each.facts.topic("orders").partitions} == {(Node(1, 0xD1),)}
    assert registry.is_controller
    assert registry.image.controller == 1


async def test_one_broker_has_one_replica(tmp_path: Path) -> None:
    registry = open_registry(tmp_path)
    with pytest.raises(InvalidReplication, match="1 brokers"):
        await registry.create_topic("orders", 1, {}, replication_factor=2)
    with pytest.raises(InvalidPlacement, match="no live broker 2"):
        await registry.create_topic("orders", 1, {}, placement=[ids(2)])
    assert (await registry.create_topic("orders", 7, {}, placement=[ids(1)])).partitions[
        0
    ].replicas == ids(1)
    assert len(registry.image.topic("orders").partitions) == 1, "the placement counts them"


async def test_what_only_a_cluster_can_do_is_refused(tmp_path: Path) -> None:
    registry = open_registry(tmp_path)
    with pytest.raises(InvalidRequest, match="on its own"):
        await registry.drain_broker(BrokerId(1), is_drained=True)
    with pytest.raises(InvalidRequest, match="on its own"):
        await registry.adopt(registry.facts)


async def test_partitions_only_become_more(tmp_path: Path) -> None:
    registry = open_registry(tmp_path)
    await registry.create_topic("orders", 2, {})
    with pytest.raises(InvalidPartitions):
        await registry.add_partitions("orders", 2)


async def test_a_plan_by_an_old_image_is_refused(tmp_path: Path) -> None:
    registry = open_registry(tmp_path)
    await registry.create_topic("orders", 1, {})
    seen = registry.image
    await registry.change_settings("orders", {"retention_ms": "5"})
    with pytest.raises(ChangedMeanwhile):
        await registry.change_targets([Move("orders", 0, ids(1))], seen)
    await registry.change_targets([Move("orders", 0, ids(1))], registry.image)
    with pytest.raises(ChangedMeanwhile):
        await registry.change_settings("orders", {}, version=0)


async def test_the_end_of_a_deletion_of_nothing_is_nothing(tmp_path: Path) -> None:
    registry = open_registry(tmp_path)
    before = registry.image
    await registry.finish_deletion("orders")
    assert registry.image is before


async def test_who_keeps_the_facts_is_told_where_that_is_a_quorum_of_ours() -> None:
    with pytest.raises(UnsupportedVersion, match="have tools of their own"):
        await SharedFacts([broker(1)]).describe_quorum()
