"""Who looks after the groups: the leader of their topic, which is made if there are several."""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.model.errors import NotCoordinator
from penstock.model.ids import BrokerId
from penstock.registry.image import BrokerImage
from tests.kit.broker.groups import Life, living
from tests.kit.simulated_disk import SimulatedDisk


async def register(life: Life, *brokers: int) -> None:
    for broker in brokers:
        image = BrokerImage(id=BrokerId(broker), address=f"host-{broker}:1", directory=7)
        await life.registry.register_broker(image)


async def test_on_a_broker_on_its_own_nothing_is_made_for_the_asking() -> None:
    async with living(SimulatedDisk()) as life:
        await register(life, 1)
        assert (await life.groups_client.coordinator()).address == "host-1:1"
        assert "__offsets" not in life.registry.image.topics


async def test_where_there_are_several_the_topic_says_who() -> None:
    """R-REP-2."""
    async with living(SimulatedDisk(), internal_replication_factor=1) as life:
        await register(life, 1, 2)
        found = await life.groups_client.coordinator()
        [partition] = life.registry.image.topic("__offsets").partitions
        assert (found.id,) == partition.replicas
        assert await life.groups_client.coordinator() == found


async def test_while_nobody_leads_there_is_none() -> None:
    async with living(SimulatedDisk()) as life:
        await life.log.make()
        await register(life, 1, 2)
        brokers = {BrokerId(2): life.registry.image.brokers[BrokerId(2)]}
        life.registry._install(replace(life.registry.image, brokers=brokers))
        with pytest.raises(NotCoordinator, match="no leader now"):
            await life.groups_client.coordinator()
