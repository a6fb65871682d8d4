"""The embedded registry: what it answered is there after a restart (R-REP-6)."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.model.errors import ChangedMeanwhile, CorruptLog, DiskFull, TopicExists, UnknownTopic
from penstock.model.ids import BrokerId
from penstock.model.removal import DeletedPartition, DeletedTopic
from penstock.registry.embedded import EmbeddedRegistry
from penstock.storage.files.journal import write_journal
from penstock.storage.files.os_files import OsDirectory
from tests.kit.simulated_disk import SimulatedDisk


def open_registry(path: Path) -> EmbeddedRegistry:
    return EmbeddedRegistry(OsDirectory(str(path)), BrokerId(1), "cluster")


async def test_topics_survive_a_restart(tmp_path: Path) -> None:
    """R-CORE-1: a broker holds many topics, each with its partitions and settings."""
    registry = open_registry(tmp_path)
    made = await registry.create_topic("orders", 3, {"durability": "os"})
    await registry.create_topic("events", 1, {})
    again = open_registry(tmp_path).image
    assert again.topic("orders") == made
    assert list(again.topics) == ["orders", "events"]
    assert {placement.replicas for placement in made.partitions} == {(1,)}


async def test_a_topic_is_made_once(tmp_path: Path) -> None:
    registry = open_registry(tmp_path)
    first = await registry.create_topic("orders", 1, {})
    with pytest.raises(TopicExists):
        await registry.create_topic("orders", 2, {})
    assert registry.image.topic("orders") == first


async def test_changes_survive_a_restart(tmp_path: Path) -> None:
    registry = open_registry(tmp_path)
    await registry.create_topic("orders", 1, {})
    await registry.change_settings("orders", {"retention_ms": "5"})
    await registry.add_partitions("orders", 4)
    topic = open_registry(tmp_path).image.topic("orders")
    assert len(topic.partitions) == 4
    assert topic.settings == {"retention_ms": "5"}


async def test_a_deletion_has_two_steps(tmp_path: Path) -> None:
    registry = open_registry(tmp_path)
    first = await registry.create_topic("orders", 1, {})
    await registry.begin_deletion("orders", None)
    halfway = open_registry(tmp_path).image
    assert halfway.topics["orders"].deleting
    with pytest.raises(UnknownTopic, match="topics create orders"):
        halfway.topic("orders")
    await registry.finish_deletion("orders")
    assert not open_registry(tmp_path).image.topics
    assert (await registry.create_topic("orders", 1, {})).id != first.id


async def test_a_deleted_topic_is_remembered_from_the_first_step_on(tmp_path: Path) -> None:
    """R-SPK-3: whoever misses the topic can be told what became of it."""
    registry = open_registry(tmp_path)
    topic = await registry.create_topic("orders", 2, {})
    deletion = DeletedTopic(
        name="orders",
        topic_id=topic.id,
        at_ms=5,
        partitions=(DeletedPartition(0, 3, 7), DeletedPartition(1, 0, 0)),
    )
    await registry.begin_deletion("orders", deletion)
    for step in (registry.finish_deletion("orders"), registry.create_topic("orders", 1, {})):
        assert open_registry(tmp_path).image.deleted_topics == (deletion,)
        await step
    assert registry.image.deleted_topics == (deletion,)
    again = open_registry(tmp_path)
    await again.reserve_producer_ids(1)
    await again.begin_deletion("orders", None)
    assert open_registry(tmp_path).image.deleted_topics == (deletion,), "made but never had"


async def test_terms_that_were_reached_are_remembered(tmp_path: Path) -> None:
    """Of a folder that was a cluster's; a broker on its own holds no elections."""
    registry = open_registry(tmp_path)
    await registry.create_topic("orders", 1, {})
    await registry.begin_deletion("orders", None, last_term=7)
    await registry.finish_deletion("orders")
    first_term = (await open_registry(tmp_path).create_topic("orders", 1, {})).first_term
    assert first_term > 7
    again = open_registry(tmp_path)
    assert again.image.topic("orders").first_term == first_term
    assert (await again.create_topic("letters", 1, {})).first_term == first_term


async def test_a_deletion_that_is_refused_is_not_remembered() -> None:
    disk = SimulatedDisk()
    registry = EmbeddedRegistry(disk.root, BrokerId(1), "cluster")
    topic = await registry.create_topic("orders", 1, {})
    deletion = DeletedTopic(name="orders", topic_id=topic.id, at_ms=5, partitions=())
    disk.capacity_bytes = 0
    with pytest.raises(DiskFull):
        await registry.begin_deletion("orders", deletion)
    assert registry.image.deleted_topics == ()


def test_a_journal_of_before_deletions_were_remembered(tmp_path: Path) -> None:
    journal = b'{"next_producer_id": 3, "topics": []}'
    write_journal(OsDirectory(str(tmp_path)), "registry.journal", journal)
    assert open_registry(tmp_path).image.deleted_topics == ()


async def test_producer_ids_are_never_handed_out_twice(tmp_path: Path) -> None:
    """R-PRO-2: also not after a restart."""
    first = await open_registry(tmp_path).reserve_producer_ids(10)
    second = await open_registry(tmp_path).reserve_producer_ids(10)
    assert not set(first) & set(second)


async def test_the_image_of_before_does_not_change(tmp_path: Path) -> None:
    registry = open_registry(tmp_path)
    before = registry.image
    await registry.create_topic("orders", 1, {})
    assert "orders" not in before.topics


def test_a_journal_of_another_version_is_an_error(tmp_path: Path) -> None:
    write_journal(OsDirectory(str(tmp_path)), "registry.journal", b'{"topics": 3}')
    with pytest.raises(CorruptLog, match=r"registry\.journal"):
        open_registry(tmp_path)


async def test_what_was_set_for_brokers_survives_a_restart(tmp_path: Path) -> None:
    registry = open_registry(tmp_path)
    await registry.change_broker_settings("", {"retention_ms": "5"}, seen={})
    with pytest.raises(ChangedMeanwhile):
        await registry.change_broker_settings("", {"retention_ms": "6"}, seen={})
    assert open_registry(tmp_path).image.broker_settings == {"": {"retention_ms": "5"}}
    await registry.change_broker_settings("", {}, seen={"retention_ms": "5"})
    assert open_registry(tmp_path).image.broker_settings == {}
