"""What the controller finishes for others, and that nobody else does (R-REP-7)."""

from __future__ import annotations

import asyncio
import logging

import pytest

from penstock.broker.cluster.changes import ClusterChanges
from penstock.broker.cluster.controller import Controller
from penstock.model.ids import BrokerId
from tests.kit.broker.running import ManualClock
from tests.kit.registry.facts import SharedFacts, broker, ids


class Facts(SharedFacts):
    is_mine = True

    @property
    def is_controller(self) -> bool:
        return self.is_mine


def controller(registry: SharedFacts, clock: ManualClock | None = None) -> Controller:
    return Controller(
        registry,
        ClusterChanges(registry),
        clock or ManualClock(),
        internal_replication_factor=3,
    )


async def test_a_deletion_whose_deleter_died_is_finished_after_a_while() -> None:
    registry, clock = Facts([broker(1)]), ManualClock()
    await registry.create_topic("orders", 1, {}, placement=[ids(1)])
    await registry.begin_deletion("orders", None)
    watching = controller(registry, clock)
    await watching.look()
    clock.time_ms += 9_000
    await watching.look()
    assert "orders" in registry.image.topics, "whoever began it may be about to finish"
    clock.time_ms += 2_000
    await watching.look()
    assert "orders" not in registry.image.topics


async def test_internal_topics_get_more_copies_when_brokers_have_come() -> None:
    registry = Facts([broker(1), broker(2)])
    await registry.create_topic("__offsets", 1, {}, placement=[ids(1)])
    await registry.create_topic("orders", 1, {}, placement=[ids(1)])
    watching = controller(registry)
    await watching.look()
    assert registry.image.topic("__offsets").partitions[0].replicas == (1,), "two are no better"
    await registry.register_broker(broker(3))
    await registry.register_broker(broker(4))
    await watching.look()
    await watching.look()
    assert len(registry.image.topic("__offsets").partitions[0].replicas) == 3
    assert registry.image.topic("orders").partitions[0].replicas == (1,), "users say how many"


async def test_a_drain_that_was_begun_is_finished() -> None:
    registry = Facts([broker(1), broker(2)])
    await registry.create_topic("orders", 1, {}, placement=[ids(1)])
    await registry.drain_broker(BrokerId(1), is_drained=True)
    await controller(registry).look()
    assert registry.image.topic("orders").partitions[0].replicas == (2,)


async def test_who_is_not_the_controller_does_nothing() -> None:
    registry, clock = Facts([broker(1), broker(2)]), ManualClock()
    registry.is_mine = False
    await registry.create_topic("orders", 1, {}, placement=[ids(1)])
    await registry.create_topic("__offsets", 1, {}, placement=[ids(1)])
    await registry.create_topic("old", 1, {}, placement=[ids(1)])
    await registry.begin_deletion("old", None)
    await registry.drain_broker(BrokerId(1), is_drained=True)
    version = registry.facts.version
    watching = controller(registry, clock)
    for _ in range(3):
        await watching.look()
        clock.time_ms += 20_000
    assert registry.facts.version == version


async def test_what_cannot_be_done_is_said_once_and_keeps_nothing_back(
    caplog: pytest.LogCaptureFixture,
) -> None:
    registry = Facts([broker(1), broker(2)])
    await registry.create_topic("orders", 1, {}, placement=[ids(1, 2)])
    await registry.create_topic("__offsets", 1, {}, placement=[ids(2)])
    await registry.drain_broker(BrokerId(1), is_drained=True)
    watching = controller(registry)
    for _ in range(3):
        await watching.look()
    assert [record.message for record in caplog.records if record.levelno == logging.WARNING] == [
        "The controller cannot do all it should: Broker 1 cannot be emptied: 'orders' has 2 "
        "replicas and 1 other brokers can take them; add a broker or lower its replication factor."
    ]
    await registry.register_broker(broker(3))
    await watching.look()
    assert set(registry.image.topic("orders").partitions[0].replicas) == {2, 3}
    await registry.register_broker(broker(4))
    await watching.look()
    assert set(registry.image.topic("__offsets").partitions[0].replicas) == {2, 3, 4}


async def test_it_looks_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    registry = Facts([broker(1), broker(2), broker(3)])
    monkeypatch.setattr("penstock.broker.cluster.controller._LOOK_S", 0)
    watching = controller(registry)
    watching.rounds.start()
    await registry.create_topic("__offsets", 1, {}, placement=[ids(1)])
    async with asyncio.timeout(5):
        while len(registry.image.topic("__offsets").partitions[0].replicas) < 3:
            await asyncio.sleep(0)
    await watching.rounds.stop()
