"""Who looks after the groups: the leader of their topic, which is made if there are several; and
what is asked of it, here or there."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import pytest

from penstock.broker.groups.client import GroupsClient
from penstock.broker.partitions.leaders import Leaders
from penstock.model.errors import NotCoordinator, UnknownGroup
from penstock.model.ids import BrokerId
from penstock.model.limits import CLAIM_VALID_MS
from penstock.net.channel import Channel
from penstock.protocol import penstock_pb2 as pb
from penstock.protocol.calls import CHECK_CLAIM
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


async def test_what_is_asked_here_is_answered_here() -> None:
    async with living(SimulatedDisk()) as life:
        await register(life, 1)
        topic = life.registry.image.topic("orders")
        with pytest.raises(UnknownGroup):
            await life.groups_client.read_share(
                pb.ReadShareRequest(
                    group="g", topic_id=topic.id, leader_term=life.leaders.of(topic, 0).term
                )
            )
        answer = await life.groups_client.who_may_write(topic.id)
        assert (answer.claim, answer.valid_ms) == (0, CLAIM_VALID_MS)


async def test_another_broker_is_asked_where_it_looks_after_the_groups() -> None:
    """R-REP-2: what it answers, and that it cannot be reached."""
    there: list[object] = []

    class Elsewhere:
        def channel(self, broker_id: int) -> Channel | None:
            there.append(broker_id)
            return cast(Channel, self) if len(there) > 1 else None

        async def call(self, kind: object, request: object) -> tuple[object, bytes]:
            there.append((kind, request))
            return pb.CheckClaimResponse(claim=7), b""

    async with living(SimulatedDisk()) as life:
        await life.log.make()
        await register(life, 1, 2)
        led = SimpleNamespace(of_internal=_led_by_2)
        asking = GroupsClient(
            BrokerId(1), cast(Leaders, led), Elsewhere(), life.groups_client.questions
        )
        with pytest.raises(NotCoordinator, match="Broker 2"):
            await asking.who_may_write("00")
        assert (await asking.who_may_write("00")).claim == 7
        assert there == [2, 2, (CHECK_CLAIM, pb.CheckClaimRequest(topic_id="00"))]


async def _led_by_2(topic: str, make: object) -> BrokerImage:
    assert topic == "__offsets"
    return BrokerImage(id=BrokerId(2), address="host-2:1", directory=7)
