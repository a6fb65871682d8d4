"""Messages on their way to partitions that fail, forget, move, or are led by another broker."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from penstock.broker.delay import deliverer as deliverer_module
from penstock.broker.delay import lane as lane_run
from penstock.broker.delay.destination import (
    EPOCH_SEQUENCES,
    Stand,
    Told,
    append_due,
    stand_response,
)
from penstock.broker.delay.service import DelayService
from penstock.coordination.delay.table import Lane
from penstock.coordination.producers.state import ProducerEntry, RememberedBatch
from penstock.model.errors import NotLeader, PenstockError
from penstock.records.header import read_header
from tests.kit.broker.delay import Life, living
from tests.kit.simulated_disk import SimulatedDisk


class Road:
    """Stands between a service and its partitions, and loses what it is told to."""

    def __init__(self, life: Life, service: DelayService) -> None:
        self.life = life
        self.refused: set[int] = set()
        """Partitions that cannot be reached."""
        self.lose_answers = 0
        self.batches = 0
        destinations = service.deliverer.destinations
        self._append = destinations.append
        object.__setattr__(service.deliverer, "destinations", self)
        self.exists = destinations.exists

    def append(
        self, lane: Lane, producer_id: int, term: int, batch: bytearray | None, told: Told
    ) -> None:
        if lane.partition in self.refused:
            raise NotLeader("It cannot be reached.")
        self.batches += batch is not None
        if batch is not None and self.lose_answers:
            self.lose_answers -= 1

            def lost(error: PenstockError | None, stand: Stand) -> None:
                del error, stand
                told(NotLeader("The answer is lost."), Stand(False, 0))

            self._append(lane, producer_id, term, batch, lost)
            return
        self._append(lane, producer_id, term, batch, told)


@pytest.fixture(autouse=True)
def no_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lane_run, "_BACKOFF_S", 0.0)


async def test_a_lost_answer_makes_no_duplicate() -> None:
    """R-DEL-13."""
    async with living(SimulatedDisk()) as life:
        await life.delay(b"0", after_ms=1)
        road = Road(life, life.service)
        await life.delay(*[b"%d" % at for at in range(1, 30)], after_ms=list(range(1, 30)))
        for at in range(30):
            road.lose_answers = at % 3
            await life.advance(1)
        await life.advance(10)
        assert life.values() == [b"%d" % at for at in range(30)]


async def test_a_partition_that_cannot_be_reached_holds_up_nobody_else() -> None:
    """R-DEL-13: and gets everything, in order, when it can be."""
    async with living(SimulatedDisk()) as life:
        await life.delay(b"a")
        road = Road(life, life.service)
        road.refused = {1}
        for at in range(20):
            await life.delay(b"%d" % at, partition=at % 2, after_ms=at)
        life.clock.time_ms += 100
        life.service.deliverer.wake()
        await life.until(lambda: len(life.values(partition=0)) == 11)
        assert life.service.deliverer._handed == 0, "nothing of it is in memory"
        assert life.values(partition=1) == []
        road.refused = set()
        await life.settle()
        assert life.values(partition=1) == [b"%d" % at for at in range(1, 20, 2)]
        await life.delay(b"more", partition=1)
        await life.settle()
        assert life.values(partition=1)[-1] == b"more"


async def test_a_partition_that_has_forgotten_the_lane_gets_no_duplicates() -> None:
    """It was silent for a month, or others pushed it out."""
    async with living(SimulatedDisk()) as life:
        await life.delay(b"a")
        await life.settle()
        lane = next(iter(life.store.table.lanes.values()))
        partition = life.partitions.find("orders", 0)
        partition.producers.forget(lane.producer_id)
        await life.delay(b"b", b"c")
        await life.settle()
        assert life.values() == [b"a", b"b", b"c"]
        (again,) = life.store.table.lanes.values()
        assert again.producer_id != lane.producer_id or again is lane
        await life.delay(b"d")
        await life.settle()
        assert life.values() == [b"a", b"b", b"c", b"d"]


async def test_idle_lanes_are_let_go_and_begin_again() -> None:
    async with living(SimulatedDisk()) as life:
        await life.delay(b"a")
        await life.settle()
        deliverer = life.service.deliverer
        deliverer.tidy()
        assert deliverer._runs, "not before it is written down that it arrived"
        await deliverer.note_arrived()
        await asyncio.sleep(0)
        deliverer.tidy()
        assert not deliverer._runs
        await life.delay(b"b")
        await life.settle()
        assert life.values() == [b"a", b"b"]


async def test_sequences_go_over_into_the_next_epoch() -> None:
    """After two thousand million messages."""
    async with living(SimulatedDisk()) as life:
        await life.delay(b"a")
        await life.settle()
        deliverer = life.service.deliverer
        await deliverer.note_arrived()
        deliverer.tidy()
        (lane,) = life.store.table.lanes.values()
        lane.sequence = EPOCH_SEQUENCES - 2
        producers = life.partitions.find("orders", 0).producers
        last = RememberedBatch(0, EPOCH_SEQUENCES - 3, 0)
        producers.restore(lane.producer_id, ProducerEntry(0, life.clock.now_ms(), (last,)))
        await life.delay(*[b"%d" % at for at in range(5)])
        await life.settle()
        assert life.values() == [b"a", *(b"%d" % at for at in range(5))]
        assert producers.last_batch(lane.producer_id) == (1, 2)
        await deliverer.note_arrived()
        assert lane.sequence == EPOCH_SEQUENCES + 3
        life.lose()
        await life.settle_turns()
        await life.gain()
        await life.delay(b"more")
        await life.settle()
        assert life.values()[-2:] == [b"4", b"more"]


async def test_the_answer_is_where_the_lane_stands() -> None:
    """Whatever is sent: the next ones, some again, some that leave others out, or none."""
    async with living(SimulatedDisk()) as life:
        partition = life.partitions.find("orders", 0)
        answers: list[Stand] = []

        def told(error: PenstockError | None, stand: Stand) -> None:
            assert error is None
            answers.append(stand)

        async def send(first: int | None, count: int = 1) -> Stand:
            from penstock.records import build_batch

            header = view = None
            if first is not None:
                sent = build_batch(
                    [(None, b"x")] * count, producer_id=2**62, producer_epoch=0, base_sequence=first
                )
                header, view = read_header(sent), memoryview(sent)
            before = len(answers)
            append_due(partition, 2**62, header, view, told, life.clock)
            life.driver.end_turn()
            await life.until(lambda: len(answers) > before)
            return answers[-1]

        assert await send(None) == Stand(False, 0)
        assert await send(5) == Stand(False, 0)
        assert await send(0, 3) == Stand(True, 3)
        assert await send(0, 3) == Stand(True, 3)
        assert await send(2, 3) == Stand(True, 3), "some of them are there"
        assert await send(9) == Stand(True, 3)
        assert await send(None) == Stand(True, 3)
        assert await send(3, 2) == Stand(True, 5)
        assert len(life.values()) == 5


def test_answers_count_over_epochs() -> None:
    for messages in (1, 5, EPOCH_SEQUENCES, EPOCH_SEQUENCES + 7):
        told = stand_response(Stand(True, messages))
        assert told.producer_epoch * EPOCH_SEQUENCES + told.last_sequence + 1 == messages


async def test_one_that_does_not_answer_leaves_room_for_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What it may have on its way is bounded; it finds the rest itself, in order."""
    monkeypatch.setattr(lane_run, "_ANSWER_S", 60.0)
    monkeypatch.setattr(lane_run, "_QUEUE_MAX", 5)
    monkeypatch.setattr(deliverer_module, "_HANDED_MAX", 10)
    async with living(SimulatedDisk()) as life:
        await life.delay(b"x", after_ms=10**6)
        road = Road(life, life.service)
        held: list[Callable[[], None]] = []
        append = road._append

        def frozen(
            lane: Lane, producer_id: int, term: int, batch: bytearray | None, told: Told
        ) -> None:
            if lane.partition == 0:
                held.append(lambda: append(lane, producer_id, term, batch, told))
            else:
                append(lane, producer_id, term, batch, told)

        road._append = frozen
        for at in range(8):
            await life.delay(*[b"%d" % (4 * at + one) for one in range(4)])
            life.service.deliverer.wake()
            decided = 4 * (at + 1)
            await life.until(lambda decided=decided: life.store.table.lanes[1].due == decided)  # type: ignore[misc]
        await life.delay(b"other", partition=1)
        life.service.deliverer.wake()
        await life.until(lambda: life.values(partition=1) == [b"other"])
        road._append = append
        for release in held:
            release()
        life.driver.end_turn()
        await life.settle()
        assert life.values() == [b"%d" % at for at in range(32)]
