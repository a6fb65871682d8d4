"""Delayed messages from end to end on one broker: accepted, kept, due, delivered, and all that may
come between."""

from __future__ import annotations

import asyncio
import random

import pytest

from penstock.broker.delay import deliverer as deliverer_module
from penstock.coordination.delay.records import DELAYED_TOPIC, Due
from penstock.model.errors import (
    Busy,
    CoordinatorLoading,
    InvalidRequest,
    NotCoordinator,
    PenstockError,
    ShuttingDown,
    UnknownTopic,
)
from tests.kit.broker.delay import START_MS, living
from tests.kit.broker.running import ManualClock
from tests.kit.simulated_disk import SimulatedDisk


async def test_a_message_appears_when_it_is_due_and_not_before() -> None:
    """R-DEL-13."""
    async with living(SimulatedDisk()) as life:
        (due,) = await life.delay(b"a", after_ms=100, key=b"k")
        assert due.due_ms == START_MS + 100
        await life.advance(99)
        assert life.values() == []
        await life.advance(1)
        (message,) = life.messages()
        assert (message.value, message.key, message.headers) == (b"a", b"k", (("h", b"a"),))
        assert message.timestamp_ms == due.due_ms, "when it was to come"
        assert life.coordinator.describe("").delivered == 1


async def test_they_come_in_the_order_of_their_times_and_then_of_their_acceptance() -> None:
    """R-DEL-13."""
    async with living(SimulatedDisk()) as life:
        await life.delay(b"30", b"10", b"20", after_ms=[30, 10, 20])
        await life.delay(b"10b", b"20b", after_ms=[10, 20])
        await life.advance(1000)
        assert life.values() == [b"10", b"10b", b"20", b"20b", b"30"]


async def test_what_is_due_in_the_past_comes_now() -> None:
    async with living(SimulatedDisk()) as life:
        (due,) = await life.delay(b"a", after_ms=5, relative=False)
        assert due.due_ms == START_MS
        await life.settle()
        assert life.values() == [b"a"]


async def test_partitions_are_delivered_to_on_their_own() -> None:
    async with living(SimulatedDisk()) as life:
        await life.delay(b"a", partition=0)
        await life.delay(b"b", partition=1)
        await life.settle()
        assert (life.values(partition=0), life.values(partition=1)) == ([b"a"], [b"b"])


async def test_what_waits_survives_a_restart_and_goes_on() -> None:
    """R-DEL-13: all of them, once, in order; also what was due while nobody was there."""
    disk, clock = SimulatedDisk(), ManualClock()
    async with living(disk, clock) as life:
        await life.delay(*[b"%d" % at for at in range(50)], after_ms=[at * 10 for at in range(50)])
        await life.advance(100)
        assert life.values() == [b"%d" % at for at in range(11)]
    clock.time_ms += 200
    async with living(disk, clock) as life:
        await life.until_serving()
        await life.settle()
        assert life.values() == [b"%d" % at for at in range(31)]
        await life.advance(1000)
        assert life.values() == [b"%d" % at for at in range(50)]


async def test_whoever_leads_next_delivers_each_once() -> None:
    """R-DEL-13: lost in the midst of a delivery, at any turn of the loop."""
    for turns in range(0, 40, 7):
        async with living(SimulatedDisk()) as life:
            await life.delay(*[b"%d" % at for at in range(30)], after_ms=list(range(30)))
            for _ in range(6):
                life.clock.time_ms += 5
                life.service.deliverer.wake()
                for _ in range(turns):
                    await asyncio.sleep(0)
                life.lose()
                await asyncio.sleep(0)
                await life.gain()
            await life.advance(100)
            assert life.values() == [b"%d" % at for at in range(30)], turns


async def test_a_cancelled_message_does_not_come() -> None:
    """R-DEL-13."""
    async with living(SimulatedDisk()) as life:
        dues = await life.delay(b"a", b"b", b"c", after_ms=50)
        assert await life.coordinator.cancel([dues[1]]) == [True]
        assert await life.coordinator.cancel([dues[1], dues[2], dues[2]]) == [False, True, False]
        await life.advance(50)
        assert life.values() == [b"a"]
        assert await life.coordinator.cancel([dues[0], (5, 99)]) == [False, False]
        described = life.coordinator.describe("orders")
        assert (described.cancelled, described.delivered) == (2, 1)


@pytest.mark.parametrize("due", [(-1, 1), (1, 0), (2**62, 1), (1, -5)])
async def test_what_is_no_message_cannot_be_cancelled(due: tuple[int, int]) -> None:
    async with living(SimulatedDisk()) as life:
        assert await life.coordinator.cancel([due]) == [False], "there is no topic yet"
        await life.delay(b"a")
        with pytest.raises(InvalidRequest, match="no delayed message"):
            await life.coordinator.cancel([due])


async def test_the_next_one_is_told_of_those_that_still_wait() -> None:
    async with living(SimulatedDisk()) as life:
        dues = await life.delay(b"a", b"b", after_ms=[100, 200])
        assert life.coordinator.describe("").next_due_ms == dues[0].due_ms
        await life.coordinator.cancel([dues[0]])
        assert life.coordinator.describe("").next_due_ms == dues[1].due_ms
        assert life.coordinator.describe("another").next_due_ms == 0, "it does not wait for it"
        await life.coordinator.cancel([dues[1]])
        assert life.coordinator.describe("").next_due_ms == 0


async def test_cancelling_and_delivering_at_once_never_does_both() -> None:
    """R-DEL-13."""
    chance = random.Random(3)
    async with living(SimulatedDisk()) as life:
        for _ in range(20):
            before = len(life.values())
            dues = await life.delay(*[b"x"] * 20, after_ms=[chance.randrange(5) for _ in range(20)])
            cancelling = asyncio.create_task(life.coordinator.cancel(dues[::2]))
            for _ in range(chance.randrange(6)):
                await asyncio.sleep(0)
            life.clock.time_ms += chance.randrange(6)
            life.service.deliverer.wake()
            cancelled = sum(await cancelling)
            await life.advance(10)
            assert len(life.values()) == before + 20 - cancelled


async def test_the_clock_may_be_put_back() -> None:
    """R-DEL-13: nothing is lost or early, what is due at once comes at once, and what is due later
    comes at the latest when the clock is where it was."""
    async with living(SimulatedDisk()) as life:
        await life.delay(b"a", after_ms=1000)
        await life.advance(1000)
        assert life.values() == [b"a"]
        life.clock.time_ms -= 600
        await life.delay(b"now")
        (soon,) = await life.delay(b"soon", after_ms=100)
        (later,) = await life.delay(b"later", after_ms=900)
        assert soon.due_ms == START_MS + 1001
        assert later.due_ms == START_MS + 1300
        await life.settle()
        assert life.values() == [b"a", b"now"]
        await life.advance(601)
        assert life.values() == [b"a", b"now", b"soon"]
        await life.advance(299)
        assert life.values() == [b"a", b"now", b"soon", b"later"]


async def test_a_clock_that_was_years_ahead_holds_nobody_up() -> None:
    """R-DEL-13: what was delivered by it is not delivered again, what was not waits for its time,
    and new messages wait for theirs; also after a restart, and when the clock is there again."""
    years_ms = 4 * 366 * 86_400_000
    disk, clock = SimulatedDisk(), ManualClock()
    async with living(disk, clock) as life:
        await life.delay(b"a", b"b", b"far", after_ms=[0, years_ms - 10, years_ms + 5000])
        await life.advance(years_ms)
        assert life.values() == [b"a", b"b"]
        clock.time_ms = START_MS + 100
        await life.delay(b"now")
        await life.settle()
        assert life.values() == [b"a", b"b", b"now"]
        assert life.messages()[-1].timestamp_ms == clock.time_ms
        with pytest.raises(Busy, match="clock was put back"):
            await life.delay(b"c", after_ms=300)
        await life.service.deliverer.note_arrived()
        await life.service.deliverer.follow_clock()
        (due,) = await life.delay(b"c", after_ms=300)
        (cancelled,) = await life.delay(b"d", after_ms=350)
        assert due.due_ms == START_MS + 400
        assert await life.coordinator.cancel([cancelled]) == [True]
        await life.advance(299)
        assert life.values() == [b"a", b"b", b"now"]
        life.lose()
        await asyncio.sleep(0)
        await life.gain()
        await life.advance(1)
        assert life.values() == [b"a", b"b", b"now", b"c"]
        life.service.cleaner.slack_bytes = 0
        life.store.partition.replica.roll()
        await life.service.cleaner.clean()
    async with living(disk, clock) as life:
        await life.until_serving()
        await life.advance(10_000)
        await life.delay(b"e", after_ms=50)
        await life.advance(years_ms - 10_000)
        assert life.values() == [b"a", b"b", b"now", b"c", b"e"]
        await life.advance(10_000)
        assert life.values() == [b"a", b"b", b"now", b"c", b"e", b"far"]
        assert life.store.table.eras == []


async def test_a_request_that_comes_again_counts_once() -> None:
    """Also under another leader, and while the first is on its way."""
    token = b"t" * 16
    async with living(SimulatedDisk()) as life:
        await life.delay(b"first", after_ms=5)
        values = [b"%d" % at * 300 for at in range(40)]
        flying = [
            life.start_delay(
                [(None, value) for value in values], [at * 7 for at in range(40)], token=token
            )
            for _ in range(2)
        ]
        life.driver.end_turn()
        first, second = await asyncio.gather(*flying)
        assert first == second
        assert await life.delay(b"other", token=token) == first
        life.lose()
        await asyncio.sleep(0)
        await life.gain()
        assert await life.delay(*values, after_ms=5, token=token) == first
        await life.advance(1000)
        assert life.values() == [values[0], b"first", *values[1:]]


async def test_who_does_not_lead_refuses() -> None:
    async with living(SimulatedDisk()) as life:
        dues = await life.delay(b"a", after_ms=50)
        life.lose()
        for _ in range(2):
            with pytest.raises(NotCoordinator):
                await life.delay(b"b")
            with pytest.raises(NotCoordinator):
                await life.coordinator.cancel(dues)
            with pytest.raises(NotCoordinator):
                life.coordinator.describe("")
            with pytest.raises(NotCoordinator):
                life.coordinator.schedules()
            await asyncio.sleep(0)
        life.clock.time_ms += 100
        for _ in range(50):
            await asyncio.sleep(0)
        assert life.values() == []
    with pytest.raises(ShuttingDown):
        await life.delay(b"c")


async def test_it_is_read_in_turns_with_others(monkeypatch: pytest.MonkeyPatch) -> None:
    from penstock.broker.delay import store

    monkeypatch.setattr(store, "_READ_BYTES", 100)
    monkeypatch.setattr(store.DelayedStore, "save", lambda *_: False)
    disk, clock = SimulatedDisk(), ManualClock()
    async with living(disk, clock) as life:
        for at in range(30):
            await life.delay(b"%d" % at, after_ms=1000)
    async with living(disk, clock) as life:
        with pytest.raises(CoordinatorLoading):
            await life.delay(b"x")
        await life.until_serving()
        await life.advance(1000)
        assert life.values() == [b"%d" % at for at in range(30)]


async def test_nothing_is_made_before_it_is_needed() -> None:
    async with living(SimulatedDisk()) as life:
        assert life.coordinator.describe("").next_due_ms == 0
        assert life.coordinator.schedules() == []
        assert not life.partitions.has(DELAYED_TOPIC, 0)
        waiting = [asyncio.create_task(life.delay(b"%d" % at)) for at in range(3)]
        await asyncio.gather(*waiting)
        await life.settle()
        assert sorted(life.values(), key=str) == [b"0", b"1", b"2"]


async def test_a_deleted_topic_takes_its_messages_with_it(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """R-DEL-13: dropped, counted, logged once; and one made anew gets none of them."""
    async with living(SimulatedDisk()) as life:
        await life.topics.create("gone", 1, {})
        await life.delay(b"a", b"b", after_ms=[10, 100_000], topic="gone")
        await life.delay(b"c", after_ms=20)
        await life.topics.delete("gone")
        with pytest.raises(UnknownTopic):
            await life.delay(b"d", topic="gone")
        await life.topics.create("gone", 1, {})
        life.clock.time_ms += 20
        life.service.deliverer.wake()
        await life.until(lambda: life.values() == [b"c"])
        await life.service.deliverer.drop_gone()
        assert life.coordinator.describe("").topics[0].topic == "gone", "it may be so new"
        life.clock.time_ms += 30_000
        await life.service.deliverer.drop_gone()
        described = life.coordinator.describe("gone")
        assert (list(described.topics), described.dropped) == ([], 2)
        assert len([each for each in caplog.records if "was deleted" in each.message]) == 1
        await life.delay(b"e", topic="gone")
        await life.until(lambda: life.values("gone") == [b"e"])


async def test_no_more_is_taken_than_lanes_can_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    """R-DEL-13: after a long time everything is due at once."""
    monkeypatch.setattr(deliverer_module, "_ROUND_MESSAGES", 10)
    monkeypatch.setattr(deliverer_module, "_HANDED_MAX", 20)
    async with living(SimulatedDisk()) as life:
        await life.delay(*[b"%d" % at for at in range(120)], after_ms=list(range(120)))
        life.clock.time_ms += 1000
        life.service.deliverer.wake()
        most = 0
        while len(life.values()) < 120:
            await asyncio.sleep(0)
            most = max(most, life.service.deliverer._handed)
        assert 0 < most <= 30
        assert life.values() == [b"%d" % at for at in range(120)]


async def test_a_failed_disk_is_told_and_nothing_is_acknowledged() -> None:
    disk = SimulatedDisk()
    async with living(disk) as life:
        await life.delay(b"a", after_ms=50)
        disk.fail_next("flush")
        with pytest.raises(PenstockError):
            await life.delay(b"b", after_ms=50)
        with pytest.raises(PenstockError):
            await life.delay(b"c", after_ms=50)


async def test_numbers_are_offsets_and_stay() -> None:
    async with living(SimulatedDisk()) as life:
        dues = await life.delay(b"a", b"b", after_ms=5)
        assert dues == [Due(START_MS + 5, 2), Due(START_MS + 5, 3)], "a lane, a head, and these"
