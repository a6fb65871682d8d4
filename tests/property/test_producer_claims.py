"""Nobody writes who had a topic before: whatever the clocks, the network and the coordinators do.

Coordinators that are replaced without noticing, leaders that ask and believe, producers that go on
sending: small models around the machines that decide. Clocks differ in what they show and by a
tenth in how fast they go; everything that is sent takes its own time. The checker: once a producer
was told that a topic is its own, no batch of an earlier claim is taken (R-CORE-6).

Without what the machines do against it, the checker does find batches: that is tested too.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable
from random import Random

import pytest

from penstock.coordination.group import exclusivity as producer_claims
from penstock.coordination.group.effects import Record
from penstock.coordination.group.exclusivity import (
    ClaimGranted,
    ClaimHolder,
    ClaimRequest,
    ExclusiveTopics,
)
from penstock.coordination.group.records import read_key
from penstock.coordination.producers.exclusivity import ClaimView, Verdict
from penstock.model.limits import CLAIM_VALID_MS
from tests.kit.models.tickets import Named
from tests.kit.runs.tiers import seeds

TOPIC = "orders"
SEEDS = 150
PARTS = 3
END_S = 20.0


class World:
    """Events in the order of true time, which nobody in it can see."""

    def __init__(self, seed: int, *, confirms: bool = True) -> None:
        self.random = Random(seed)
        self.confirms = confirms
        self.now_s = 0.0
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count()
        # What the internal topic says, and who writes it.
        self.log: list[Record] = []
        self.term = 0
        self.coordinators: list[Coordinator] = [Coordinator(self, 0)]
        self.leaders = [Leader(self), Leader(self)]
        self.told = 0
        """The latest claim that a producer was told is its own."""
        self.taken: list[int] = []
        self.late: list[tuple[int, int]] = []
        """Batches of a claim that were taken after another had been told."""

    def after(self, seconds: float, act: Callable[[], None]) -> None:
        heapq.heappush(self._events, (self.now_s + seconds, next(self._numbers), act))

    def delay(self) -> float:
        """Of a message: mostly short, sometimes nearly a second."""
        return self.random.choice([0.001, 0.01, 0.05, 0.2]) * self.random.uniform(0.5, 4)

    def run(self) -> World:
        for number in range(4):
            Producer(self, f"p{number}").live()
        self.after(self.random.uniform(1, 4), self.replace_coordinator)
        while self._events and self.now_s < END_S:
            self.now_s, _, act = heapq.heappop(self._events)
            act()
        return self

    def replace_coordinator(self) -> None:
        """The one before does not hear of it, for a while or for ever."""
        self.term += 1
        self.coordinators.append(Coordinator(self, self.term))
        self.after(self.random.uniform(1, 6), self.replace_coordinator)

    def some_coordinator(self) -> Coordinator:
        """Whom somebody believes to be it."""
        return self.random.choice(self.coordinators[-2:])

    def take(self, claim: int) -> None:
        self.taken.append(claim)
        if claim < self.told:
            self.late.append((claim, self.told))


class Clock:
    def __init__(self, world: World) -> None:
        self._world = world
        self._rate = world.random.uniform(0.9, 1.1)
        self._offset_s = world.random.uniform(0, 1000)

    def now_s(self) -> float:
        return self._offset_s + self._world.now_s * self._rate

    def now_ms(self) -> int:
        return int(self.now_s() * 1000)

    def true_s(self, milliseconds: float) -> float:
        """How long it really takes until so much has passed on this clock."""
        return milliseconds / 1000 / self._rate


class Coordinator:
    def __init__(self, world: World, term: int) -> None:
        self.world = world
        self.term = term
        self.clock = Clock(world)
        self.claims = ExclusiveTopics()
        for record in world.log:
            self.claims.apply(read_key(record.key).topic, record.value)
        self.claims.restored(self.clock.now_ms())
        self._durable_at_s = world.now_s

    def claim(self, request: ClaimRequest, told: Callable[[int], None]) -> None:
        effects = self.claims.claim(Named("t"), request, self.clock.now_ms())
        [(_, answer)] = effects.answers
        if isinstance(answer, ClaimGranted):
            self.durable(
                effects.records,
                lambda: self.world.after(
                    self.clock.true_s(answer.wait_ms), lambda: told(answer.claim)
                ),
            )

    def check(self, told: Callable[[ClaimHolder], None]) -> None:
        effects = self.claims.check(Named("t"), TOPIC)
        [(_, holder)] = effects.answers
        assert isinstance(holder, ClaimHolder)
        assert effects.confirms
        if self.world.confirms:
            self.durable([], lambda: told(holder))
        else:
            told(holder)

    def durable(self, records: list[Record], then: Callable[[], None]) -> None:
        """In the order of the decisions; of one that was replaced the others take nothing."""

        def committed() -> None:
            if self.term == self.world.term:
                self.world.log += records
                then()

        world = self.world
        self._durable_at_s = max(self._durable_at_s, world.now_s + world.delay() / 4)
        world.after(self._durable_at_s - world.now_s, committed)


class Leader:
    def __init__(self, world: World) -> None:
        self.world = world
        self.clock = Clock(world)
        self.view = ClaimView()
        self.ask()

    def ask(self) -> None:
        world, asked_s = self.world, self.clock.now_s()

        def told(holder: ClaimHolder) -> None:
            def learn() -> None:
                self.view.learn(holder.claim, holder.client_name, CLAIM_VALID_MS, asked_s)

            world.after(world.delay(), learn)

        world.after(world.delay(), lambda: world.some_coordinator().check(told))
        world.after(world.random.uniform(0.02, 0.4), self.ask)

    def receive(self, claim: int) -> None:
        now_s = self.clock.now_s()
        if self.view.judge(claim, now_s, now_s) is Verdict.MAY_WRITE:
            self.world.take(claim)


class Producer:
    """Takes the topic now and then, and sends all the time by the last claim it was told."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self.claim = 0
        self.tries = 0

    def live(self) -> None:
        world = self.world
        world.after(world.random.uniform(0, 5), self.take)
        world.after(0.01, self.send)

    def take(self) -> None:
        world = self.world
        self.tries += 1
        request = ClaimRequest(
            topic=TOPIC,
            topic_id=TOPIC,
            claimant=f"{self.name}-{self.tries}",
            client_name=self.name,
            is_fencing=world.random.random() < 0.8,
        )
        world.after(world.delay(), lambda: world.some_coordinator().claim(request, self.told))
        world.after(world.random.uniform(0.5, 5), self.take)

    def told(self, claim: int) -> None:
        def hear() -> None:
            self.claim = claim
            self.world.told = max(self.world.told, claim)

        # At once or later: it counts from when it is heard, so sooner is harder.
        self.world.after(self.world.random.choice([0.0, self.world.delay()]), hear)

    def send(self) -> None:
        world = self.world
        for leader in world.leaders:
            world.after(world.delay(), lambda at=leader, claim=self.claim: at.receive(claim))  # type: ignore[misc]
        world.after(world.random.uniform(0.005, 0.05), self.send)


@pytest.mark.parametrize("part", range(PARTS))
def test_nobody_writes_who_had_the_topic_before(part: int) -> None:
    taken = changes = 0
    for seed in seeds(SEEDS, part, PARTS):
        world = World(seed).run()
        assert not world.late, f"seed {seed}: {world.late[:3]}"
        taken += len(world.taken)
        changes += len(set(world.taken))
    assert taken > 1000, "nothing was tested"
    assert changes > 100, "nothing was tested"


def test_without_the_wait_they_would(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(producer_claims, "CLAIM_SETTLE_MS", 100)
    assert any(World(seed).run().late for seed in range(20))


def test_by_a_coordinator_that_does_not_make_sure_they_would() -> None:
    assert any(World(seed, confirms=False).run().late for seed in range(20))
