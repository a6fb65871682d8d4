"""What every registry of a cluster does, whichever keeps it (R-REP-4, R-REP-5).

A test module has a class that inherits `RegistryContract` and a fixture `cluster`, a new one for
each test, through which brokers open their registries.
"""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Protocol

import pytest

from penstock.model.errors import (
    ChangedMeanwhile,
    InvalidConfig,
    InvalidReplication,
    TopicExists,
    UnknownTopic,
)
from penstock.model.ids import BrokerId
from penstock.model.limits import UNHEARD_ELECTIONS_MAX
from penstock.model.removal import DeletedPartition, DeletedTopic
from penstock.raft.membership import Node
from penstock.registry.api import Registry
from penstock.registry.embedded import EmbeddedRegistry
from penstock.registry.facts import Move
from penstock.registry.image import ClusterImage, TopicImage
from penstock.registry.placement import evacuate
from penstock.storage.files.os_files import OsDirectory
from tests.kit.registry.facts import broker, eventually, ids, leads


class Cluster(Protocol):
    """A cluster that there is nothing in yet."""

    def opened(self, broker_id: int = 0) -> AbstractAsyncContextManager[Registry]:
        """A registry, with its broker registered if it has an id."""
        ...


class RegistryContract:
    """R-REP-4, R-REP-5: the same for all."""

    async def test_what_one_changes_the_other_sees(self, cluster: Cluster) -> None:
        """R-CORE-5: routes are known to every broker."""
        async with cluster.opened(1) as one, cluster.opened(2) as two:
            await eventually(lambda: len(one.image.brokers) == 2)
            made = await one.create_topic("orders", 2, {"retention_ms": "5"}, replication_factor=2)
            assert one.image.topic("orders") is made, "there when the change returns"
            assert {partition.replicas[0] for partition in made.partitions} == {1, 2}
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

    async def test_brokers_that_are_not_known_here_yet_are_looked_for(
        self, cluster: Cluster
    ) -> None:
        """R-REP-7: whoever registered before the call is seen by it."""
        async with cluster.opened(1) as one:
            for number in range(2, 5):
                async with cluster.opened(number):
                    made = await one.create_topic(f"t{number}", 1, {}, replication_factor=2)
                    assert set(made.partitions[0].replicas) == {1, number}
                    await one.create_topic(f"placed{number}", 1, {}, placement=[ids(number, 1)])

    async def test_a_namesake_begins_with_a_later_term(self, cluster: Cluster) -> None:
        """R-REP-6: whoever makes it, also where nobody was heard to lead in between."""
        async with cluster.opened(1) as one, cluster.opened(2) as two:
            first_terms = [
                await _made_and_deleted(maker, deleter, last_term)
                for maker, deleter, last_term in ((one, two, 7), (two, one, 0), (one, two, 0))
            ]
        most = UNHEARD_ELECTIONS_MAX
        assert first_terms == [0, 7 + most, 7 + 2 * most]

    async def test_a_topic_goes_in_two_steps_and_is_remembered(self, cluster: Cluster) -> None:
        async with cluster.opened(1) as one, cluster.opened(2) as two:
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
        async with cluster.opened() as later:
            assert later.image.deleted_topics == (deletion,)
            assert list(later.image.topics) == ["orders"], "it stays without any broker"

    async def test_of_many_who_make_the_same_topic_one_wins(self, cluster: Cluster) -> None:
        async with cluster.opened(1) as one, cluster.opened(2) as two, cluster.opened(3) as three:
            for round_ in range(5):
                creations = [
                    each.create_topic(f"t{round_}", 1, {}) for each in (one, two, three) * 2
                ]
                results = await asyncio.gather(*creations, return_exceptions=True)
                made = [result for result in results if isinstance(result, TopicImage)]
                assert len(made) == 1
                assert sum(isinstance(result, TopicExists) for result in results) == 5
                for each in (one, two, three):
                    await eventually(partial(knows, each, made[0]))

    async def test_of_many_who_decide_by_the_same_version_one_wins(self, cluster: Cluster) -> None:
        async with cluster.opened(1) as one, cluster.opened(2) as two:
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

    async def test_who_does_not_mind_the_version_wins_in_turn(self, cluster: Cluster) -> None:
        async with cluster.opened(1) as one, cluster.opened(2) as two:
            await one.create_topic("orders", 1, {})
            await asyncio.gather(*(each.change_settings("orders", {}) for each in (one, two) * 4))
            await eventually(lambda: two.image.topics["orders"].version == 8)

    async def test_producer_ids_are_never_handed_out_twice(self, cluster: Cluster) -> None:
        """R-PRO-2: whoever asks, and however many at once."""
        async with cluster.opened() as one, cluster.opened() as two:
            blocks = await asyncio.gather(
                *(each.reserve_producer_ids(10) for each in (one, two) * 5)
            )
            assert len({number for block in blocks for number in block}) == 100
        async with cluster.opened() as later:
            assert (await later.reserve_producer_ids(1)).start == 100

    async def test_a_broker_is_there_as_long_as_its_registry(self, cluster: Cluster) -> None:
        async with cluster.opened(1) as one:
            told: list[ClusterImage] = []
            one.watch(told.append)
            async with cluster.opened(2) as two:
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

    async def test_one_broker_is_controller_and_another_takes_over(self, cluster: Cluster) -> None:
        async with cluster.opened() as watching:
            assert not leads(watching), "who is no broker does not stand"
            async with cluster.opened(1) as one:
                assert leads(one)
                async with cluster.opened(2) as two:
                    assert not leads(two)
                    assert two.image.controller == 1
                    await eventually(lambda: watching.image.controller == 1)
                    await one.close()
                    assert not leads(one)
                    await eventually(lambda: leads(two))
                    await eventually(lambda: watching.image.controller == 2)
            await eventually(lambda: watching.image.controller is None)

    async def test_a_drained_broker_is_emptied(self, cluster: Cluster) -> None:
        """R-REP-7"""
        async with cluster.opened(1) as one, cluster.opened(2) as two, cluster.opened(3):
            await eventually(lambda: len(one.image.brokers) == 3)
            await one.create_topic("orders", 6, {}, replication_factor=2)
            await two.drain_broker(BrokerId(3), is_drained=True)
            await eventually(lambda: one.image.drained == {3})
            await one.change_targets(evacuate(one.image, BrokerId(3)), one.image)
            targets = [set(each.replicas) for each in one.image.topic("orders").partitions]
            assert targets == [{1, 2}] * 6
            await one.create_topic("events", 4, {}, replication_factor=2)
            assert {each.replicas[0] for each in one.image.topic("events").partitions} == {1, 2}
            await one.drain_broker(BrokerId(3), is_drained=False)
            assert one.image.drained == set()

    async def test_what_is_set_for_brokers_is_known_to_all_and_kept(self, cluster: Cluster) -> None:
        """R-NET-5: KIP-226."""
        async with cluster.opened(1) as one, cluster.opened(2) as two:
            await one.change_broker_settings("", {"retention_ms": "7"}, seen={})
            await one.change_broker_settings("2", {"retention_ms": "8"}, seen={})
            both = {"": {"retention_ms": "7"}, "2": {"retention_ms": "8"}}
            assert one.image.broker_settings == both
            await eventually(lambda: two.image.broker_settings == both)
            with pytest.raises(ChangedMeanwhile):
                await two.change_broker_settings("", {"retention_ms": "9"}, seen={})
            await two.change_broker_settings("2", {}, seen={"retention_ms": "8"})
        async with cluster.opened() as later:
            assert later.image.broker_settings == {"": {"retention_ms": "7"}}

    async def test_two_brokers_do_not_share_an_id(self, cluster: Cluster) -> None:
        async with cluster.opened(1), cluster.opened() as other:
            with pytest.raises(
                InvalidConfig, match=r"broker id 1 is in use by .*127\.0\.0\.1:9001"
            ):
                await other.register_broker(broker(1, directory=7))

    async def test_a_copy_of_a_brokers_folder_is_refused(self, cluster: Cluster) -> None:
        """R-REP-4, R-REP-5: it is not taken for the broker it was copied from."""
        async with cluster.opened(1) as one, cluster.opened() as other:
            with pytest.raises(
                InvalidConfig, match=r"in use by .*127\.0\.0\.1:9001, and this one has a copy of it"
            ):
                await other.register_broker(broker(1, place=7))
            assert one.image.brokers[BrokerId(1)] == broker(1)

    async def test_a_broker_that_lost_its_folder_waits_for_its_old_session(
        self,
        cluster: Cluster,
    ) -> None:
        async with cluster.opened(1) as before, cluster.opened() as wiped:
            registering = asyncio.create_task(wiped.register_broker(broker(1, directory=7)))
            await asyncio.sleep(0.3)
            assert not registering.done()
            await before.close()
            await registering
            assert wiped.image.brokers[BrokerId(1)].directory == 7

    async def test_a_broker_on_its_own_becomes_the_first_of_a_cluster(
        self, cluster: Cluster, tmp_path: Path
    ) -> None:
        """R-REP-6: with its topics, their ids and settings, and its producer ids."""
        alone = EmbeddedRegistry(OsDirectory(str(tmp_path)), BrokerId(1), "alone", directory=0xD1)
        for number in range(20):
            await alone.create_topic(f"t{number}", 2, {"retention_ms": "5"})
        await alone.reserve_producer_ids(1000)
        async with cluster.opened(1) as one, cluster.opened(2) as two:
            for _ in range(2):
                await one.adopt(alone.facts)
            await eventually(lambda: dict(two.image.topics) == dict(alone.image.topics))
            assert (await two.reserve_producer_ids(1)).start == 1000


def knows(registry: Registry, topic: TopicImage) -> bool:
    return registry.image.topics.get(topic.name) == topic


async def _made_and_deleted(maker: Registry, deleter: Registry, last_term: int) -> int:
    """Which term it began with."""
    topic = await maker.create_topic("orders", 1, {}, replication_factor=2)
    await eventually(lambda: "orders" in deleter.image.topics)
    await deleter.begin_deletion("orders", None, last_term=last_term)
    await deleter.finish_deletion("orders")
    await eventually(lambda: "orders" not in maker.image.topics)
    return topic.first_term
