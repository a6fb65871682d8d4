"""Changes of placement: planned, checked, written by compare-and-set (R-REP-7)."""

from __future__ import annotations

import pytest

from penstock.broker.cluster.changes import ClusterChanges, Moved
from penstock.model.errors import (
    InvalidPlacement,
    InvalidReplication,
    InvalidRequest,
    PenstockError,
    UnknownTopic,
)
from penstock.model.ids import BrokerId, TopicPartition
from penstock.registry.facts import Change, ChangeTargets, ExpireBroker, Facts
from tests.kit.registry.facts import SharedFacts, broker, ids

FOUR = BrokerId(4)


async def made(brokers: int = 4, *placement: tuple[int, ...]) -> tuple[SharedFacts, ClusterChanges]:
    registry = SharedFacts([broker(number) for number in range(1, brokers + 1)])
    if placement:
        places = [ids(*replicas) for replicas in placement]
        await registry.create_topic("orders", len(places), {}, placement=places)
    return registry, ClusterChanges(registry)


def targets(registry: SharedFacts) -> list[tuple[int, ...]]:
    return [partition.replicas for partition in registry.image.topic("orders").partitions]


async def test_a_move_is_written_and_told() -> None:
    registry, changes = await made(4, (1, 2, 3), (2, 3, 1))
    moved = await changes.move({TopicPartition("orders", 1): ids(4, 3, 1)})
    assert moved == [Moved(TopicPartition("orders", 1), ids(2, 3, 1), ids(4, 3, 1))]
    assert targets(registry) == [(1, 2, 3), (4, 3, 1)]
    assert await changes.move({TopicPartition("orders", 1): ids(4, 3, 1)}) == [], "it is there"


async def test_a_dry_run_changes_nothing() -> None:
    registry, changes = await made(4, (1, 2, 3), (2, 3, 1))
    version = registry.facts.version
    name = TopicPartition("orders", 0)
    assert await changes.move({name: ids(4)}, is_dry_run=True)
    assert await changes.replicate("orders", 1, is_dry_run=True)
    assert await changes.drain(BrokerId(1), is_dry_run=True)
    assert await changes.add(FOUR, is_dry_run=True)
    assert await changes.rebalance(is_dry_run=True)
    assert registry.facts.version == version


@pytest.mark.parametrize(
    ("name", "replicas", "error"),
    [
        (("orders", 0), (9,), InvalidPlacement),
        (("orders", 0), (), InvalidPlacement),
        (("orders", 0), (1, 1), InvalidPlacement),
        (("orders", 7), (1,), UnknownTopic),
        (("others", 0), (1,), UnknownTopic),
    ],
)
async def test_what_cannot_be_is_refused(
    name: tuple[str, int], replicas: tuple[int, ...], error: type[PenstockError]
) -> None:
    registry, changes = await made(4, (1, 2, 3))
    version = registry.facts.version
    with pytest.raises(error):
        await changes.move({TopicPartition(*name): ids(*replicas)})
    assert registry.facts.version == version


async def test_a_drained_broker_loses_everything_and_gets_nothing() -> None:
    registry, changes = await made(4, (1, 2, 3), (2, 3, 1))
    moved = await changes.drain(BrokerId(1))
    assert {each.name.partition for each in moved} == {0, 1}
    assert registry.image.drained == {1}
    assert all(1 not in target for target in targets(registry))
    with pytest.raises(InvalidPlacement, match="cluster add 1"):
        await changes.move({TopicPartition("orders", 0): ids(1, 2, 3)})
    await changes.add(BrokerId(1))
    assert registry.image.drained == set()
    assert any(1 in target for target in targets(registry)), "it gets its share"


async def test_a_broker_that_cannot_be_spared_is_not_drained() -> None:
    registry, changes = await made(3, (1, 2, 3))
    with pytest.raises(InvalidReplication, match="add a broker"):
        await changes.drain(BrokerId(1))
    assert registry.image.drained == set(), "it goes on as before"


async def test_a_dead_broker_is_replaced_by_the_one_that_is_named() -> None:
    registry, changes = await made(4, (1, 2, 3), (3, 2, 1))
    await registry.change(ExpireBroker(node=broker(3).node))
    await changes.drain(BrokerId(3), FOUR)
    assert [set(target) for target in targets(registry)] == [{1, 2, 4}, {1, 2, 4}]
    with pytest.raises(InvalidPlacement, match="no live broker 3"):
        await changes.drain(FOUR, BrokerId(3))
    with pytest.raises(InvalidRequest, match="replace itself"):
        await changes.drain(FOUR, FOUR)
    with pytest.raises(InvalidPlacement, match="no broker 77"):
        await changes.drain(BrokerId(77))
    with pytest.raises(InvalidPlacement, match="not in the cluster"):
        await changes.add(BrokerId(3))


async def test_the_number_of_copies() -> None:
    registry, changes = await made(3, (1,), (2,))
    await changes.replicate("orders", 3)
    assert [len(target) for target in targets(registry)] == [3, 3]
    assert [target[0] for target in targets(registry)] == [1, 2], "who leads goes on"
    with pytest.raises(InvalidReplication):
        await changes.replicate("orders", 4)
    with pytest.raises(UnknownTopic):
        await changes.replicate("others", 1)


class Contested(SharedFacts):
    """Somebody else is faster, a few times."""

    conflicts = 2

    async def change(self, change: Change) -> Facts:
        if isinstance(change, ChangeTargets) and self.conflicts:
            self.conflicts -= 1
            await self.change_settings("orders", {"retention_ms": str(1000 + self.conflicts)})
        return await super().change(change)


async def test_a_plan_that_was_overtaken_is_made_again() -> None:
    registry = Contested([broker(1), broker(2)])
    await registry.create_topic("orders", 1, {}, placement=[ids(1)])
    moved = await ClusterChanges(registry).move({TopicPartition("orders", 0): ids(2)})
    assert [each.after for each in moved] == [(2,)]
    assert (targets(registry), registry.conflicts) == ([(2,)], 0)


async def test_large_plans_are_written_topic_by_topic(monkeypatch: pytest.MonkeyPatch) -> None:
    """ZooKeeper takes only so much at once."""
    registry, changes = await made(2)
    for number in range(3):
        await registry.create_topic(f"t{number}", 500, {}, placement=[ids(1)] * 500)
    sizes = []
    change = registry.change

    async def counted(each: Change) -> Facts:
        if isinstance(each, ChangeTargets):
            sizes.append(len(each.moves))
        return await change(each)

    monkeypatch.setattr(registry, "change", counted)
    moved = await changes.drain(BrokerId(1))
    assert (len(moved), sizes) == (1500, [1000, 500])
