"""Who may write to a topic that one producer has for itself, on the leader of its partitions."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

import pytest

from penstock.broker.partitions.partition import Append, Partition
from penstock.broker.producers import exclusivity as claims_module
from penstock.broker.producers.exclusivity import Claims
from penstock.model.errors import (
    Busy,
    InternalError,
    NotCoordinator,
    NotLeader,
    PenstockError,
    ShuttingDown,
    TopicClaimed,
)
from penstock.model.limits import CLAIM_VALID_MS, CLAIM_WAIT_MS_MAX
from penstock.protocol import penstock_pb2 as pb
from tests.kit.broker.groups import living
from tests.kit.broker.running import ManualClock, batch
from tests.kit.simulated_disk import SimulatedDisk

VALID_S = CLAIM_VALID_MS / 1000


class Written(Append):
    """What became of one batch."""

    def __init__(self) -> None:
        super().__init__()
        self.outcomes: list[PenstockError | None] = []

    def finished(self, error: PenstockError | None) -> None:
        self.outcomes.append(error)

    async def outcome(self) -> PenstockError | None:
        await until(lambda: bool(self.outcomes))
        [outcome] = self.outcomes
        return outcome


class Coordinator:
    """Answers what it is told to, when it is told to."""

    def __init__(self) -> None:
        self.holder = 1
        self.asked = 0
        self.failure: Exception | None = None
        self.on_answer: Callable[[], None] = lambda: None
        self.is_open = asyncio.Event()
        self.is_open.set()

    async def ask(self, topic_id: str) -> pb.CheckClaimResponse:
        assert topic_id
        self.asked += 1
        holder = self.holder
        await self.is_open.wait()
        if self.failure is not None:
            raise self.failure
        self.on_answer()
        return pb.CheckClaimResponse(claim=holder, client_name="it", valid_ms=CLAIM_VALID_MS)


class Scene:
    """A topic for one producer, and a coordinator in the test's hands."""

    def __init__(self, partition: Partition, clock: ManualClock, claims: Claims) -> None:
        self.partition = partition
        self.clock = clock
        self.claims = claims
        self.coordinator = Coordinator()

    def send(self, claim: int, value: bytes = b"x", sequence: int = -1) -> Written:
        producer = (7, 0, sequence) if sequence >= 0 else (-1, -1, -1)
        written = Written()
        data = batch([value], producer=producer)
        self.claims.append(self.partition, claim, memoryview(data), written, -1)
        self.claims._driver.end_turn()
        # As when the connection reads on.
        data[:] = bytes(len(data))
        return written

    def pass_s(self, seconds: float) -> None:
        self.clock.time_ms += round(seconds * 1000)

    @property
    def end_offset(self) -> int:
        return self.partition.replica.log.next_offset


async def until(condition: object) -> None:
    assert callable(condition)
    async with asyncio.timeout(5):
        while not condition():
            await asyncio.sleep(0)


@contextlib.asynccontextmanager
async def scene() -> AsyncIterator[Scene]:
    clock = ManualClock()
    async with living(SimulatedDisk(), clock) as life:
        await life.topics.create("mine", 1, {"exclusive_producer": "yes"})
        made: Scene
        claims = Claims(lambda topic_id: made.coordinator.ask(topic_id), life.log._driver, clock)
        made = Scene(life.partitions.find("mine", 0), clock, claims)
        try:
            yield made
        finally:
            await claims.stop()


async def test_the_holder_writes_and_the_answer_is_believed_for_a_while() -> None:
    """R-CORE-6: the coordinator is asked once, not for each batch."""
    async with scene() as here:
        assert await here.send(1).outcome() is None
        for _ in range(10):
            here.send(1)
        assert here.coordinator.asked == 1
        here.pass_s(VALID_S / 2)
        here.send(1)
        await until(lambda: here.coordinator.asked == 2)
        await asyncio.sleep(0)
        # Renewed before it ran out, so nothing had to wait.
        here.pass_s(VALID_S * 0.9)
        here.send(1)
        assert here.end_offset == 13


async def test_a_batch_that_waits_is_kept_although_its_buffer_is_used_again() -> None:
    async with scene() as here:
        here.coordinator.is_open.clear()
        waiting = [here.send(1, b"%d" % number, number) for number in range(3)]
        assert here.end_offset == 0
        here.coordinator.is_open.set()
        assert [await each.outcome() for each in waiting] == [None] * 3
        assert [each.base_offset for each in waiting] == [0, 1, 2]


async def test_who_has_no_claim_or_an_old_one_is_refused() -> None:
    async with scene() as here:
        here.coordinator.holder = 5
        error = await here.send(0).outcome()
        assert isinstance(error, TopicClaimed)
        assert "'it' has claimed it" in str(error)
        with pytest.raises(TopicClaimed, match="taken over by 'it'"):
            here.send(4)
        assert here.coordinator.asked == 1
        assert here.end_offset == 0


async def test_a_claim_that_is_newer_than_the_answer_is_asked_about() -> None:
    async with scene() as here:
        assert await here.send(1).outcome() is None
        here.coordinator.holder = 2
        here.pass_s(0.01)
        assert await here.send(2).outcome() is None
        with pytest.raises(TopicClaimed):
            here.send(1)
        # One that the coordinator does not know is refused by an answer that is newer than it.
        here.pass_s(0.01)
        assert isinstance(await here.send(9).outcome(), TopicClaimed)
        assert here.end_offset == 2


async def test_who_makes_up_a_claim_does_not_hold_up_the_holder() -> None:
    async with scene() as here:
        assert await here.send(1).outcome() is None
        here.coordinator.is_open.clear()
        here.pass_s(0.01)
        made_up = [here.send(number) for number in range(1000, 1100)]
        written = here.send(1)
        assert here.end_offset == 2, "at once, by what was known before"
        here.coordinator.is_open.set()
        assert await written.outcome() is None
        for each in made_up:
            assert isinstance(await each.outcome(), TopicClaimed)


async def test_an_answer_that_comes_too_late_lets_nobody_in() -> None:
    """R-CORE-6: it counts from the question. By now somebody else may have been told that the topic
    is his."""
    async with scene() as here:
        here.coordinator.is_open.clear()
        written = here.send(1)
        await until(lambda: here.coordinator.asked == 1)
        here.pass_s(VALID_S)
        here.coordinator.holder = 2
        here.coordinator.is_open.set()
        assert isinstance(await written.outcome(), TopicClaimed)
        assert here.coordinator.asked == 2
        assert here.end_offset == 0


async def test_without_an_answer_a_batch_is_turned_away_for_now() -> None:
    async with scene() as here:
        here.coordinator.failure = NotCoordinator()
        written = here.send(1)
        await until(lambda: here.coordinator.asked == 1)
        assert not written.outcomes
        here.pass_s(CLAIM_WAIT_MS_MAX / 1000)
        error = await written.outcome()
        assert isinstance(error, Busy)
        assert error.retriable
        here.coordinator.failure = None
        assert await here.send(1).outcome() is None


async def test_with_answers_that_all_come_too_late_a_batch_is_turned_away_for_now() -> None:
    """R-CORE-6: no batch waits for longer than that, whatever the coordinator does."""
    async with scene() as here:
        here.coordinator.on_answer = lambda: here.pass_s(VALID_S)
        written = here.send(1)
        assert isinstance(await written.outcome(), Busy)
        assert here.coordinator.asked >= CLAIM_WAIT_MS_MAX / CLAIM_VALID_MS
        assert here.end_offset == 0
        assert here.claims._waiting_bytes == 0


async def test_a_bug_is_told_and_nobody_waits_for_ever(caplog: pytest.LogCaptureFixture) -> None:
    async with scene() as here:
        here.coordinator.failure = ZeroDivisionError("a bug")
        assert isinstance(await here.send(1).outcome(), InternalError)
        assert "a bug" in caplog.text
        here.coordinator.failure = None
        assert await here.send(1).outcome() is None
        assert here.end_offset == 1


async def test_what_waits_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claims_module, "CLAIM_WAITING_BYTES_MAX", 200)
    async with scene() as here:
        here.coordinator.is_open.clear()
        first = here.send(1, b"x" * 50)
        with pytest.raises(Busy, match="try again"):
            here.send(1, b"x" * 50)
        here.coordinator.is_open.set()
        assert await first.outcome() is None
        assert await here.send(1, b"x" * 50).outcome() is None


async def test_what_waits_is_refused_when_the_broker_stops_or_leads_no_longer() -> None:
    async with scene() as here:
        here.coordinator.is_open.clear()
        written = here.send(1)
        here.partition.is_open = False
        here.coordinator.is_open.set()
        assert isinstance(await written.outcome(), NotLeader)
        here.coordinator.is_open.clear()
        here.pass_s(VALID_S)
        written = here.send(1)
        await asyncio.sleep(0)
        await here.claims.stop()
        assert isinstance(await written.outcome(), ShuttingDown)
        here.partition.is_open = True


async def test_what_the_topic_does_not_take_is_told_also_after_a_wait() -> None:
    async with scene() as here:
        written = here.send(1, sequence=5)
        assert await written.outcome() is not None
        with pytest.raises(PenstockError):
            here.send(1, sequence=5)


async def test_topics_that_nobody_writes_to_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claims_module, "_TOPICS_MAX", 2)
    async with scene() as here:
        for number in range(5):
            here.claims._door(f"gone {number}")
        assert await here.send(1).outcome() is None
        assert len(here.claims._doors) <= 2
