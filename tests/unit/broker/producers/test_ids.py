"""Producer ids: none twice, and in a cluster enough at hand to do without the registry."""

from __future__ import annotations

import asyncio

import pytest

from penstock.broker.producers import ids as producer_ids
from penstock.broker.producers.ids import ProducerIds
from penstock.model.errors import Busy, PenstockError
from penstock.registry.facts import Change, Facts
from tests.kit.registry.facts import SharedFacts, eventually


class Away(SharedFacts):
    """A registry that can be out of reach."""

    def __init__(self) -> None:
        super().__init__([])
        self.is_away = False
        self.asked = 0

    async def change(self, change: Change) -> Facts:
        self.asked += 1
        await asyncio.sleep(0)
        if self.is_away:
            raise Busy("The registry is away.")
        return await super().change(change)


async def test_none_is_handed_out_twice() -> None:
    """R-PRO-2: also by two brokers, also to those who ask at once."""
    registry = Away()
    here, there = ProducerIds(registry), ProducerIds(registry)
    taken = await asyncio.gather(*(one.take() for _ in range(1500) for one in (here, there)))
    assert len(set(taken)) == 3000


async def test_a_broker_that_was_just_started_has_some_when_the_registry_goes() -> None:
    registry = Away()
    ids = ProducerIds(registry)
    ids.start()
    await eventually(lambda: registry.facts.next_producer_id)
    registry.is_away = True
    assert len({await ids.take() for _ in range(1000)}) == 1000
    with pytest.raises(PenstockError):
        await ids.take()
    await ids.stop()


async def test_more_are_fetched_before_they_are_used_up_and_when_the_registry_is_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(producer_ids, "_RETRY_S", 0.0)
    registry = Away()
    registry.is_away = True
    ids = ProducerIds(registry)
    ids.start()
    await eventually(lambda: registry.asked > 2)
    registry.is_away = False
    await eventually(lambda: registry.facts.next_producer_id == 1000)
    for _ in range(501):
        await ids.take()
    await eventually(lambda: registry.facts.next_producer_id == 2000)
    await ids.stop()


async def test_a_broker_on_its_own_asks_only_when_somebody_asks_it() -> None:
    registry = Away()
    ids = ProducerIds(registry)
    for _ in range(1000):
        await ids.take()
    assert registry.asked == 1
