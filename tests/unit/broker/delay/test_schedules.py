"""Schedules on the broker: each message once, whatever happens to the broker or the topic."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from penstock.broker.delay import schedules as schedule_keeper
from penstock.coordination.delay.schedule import Schedule
from penstock.model.errors import (
    BatchTooLarge,
    InvalidBatch,
    InvalidSchedule,
    PenstockError,
    TopicClaimed,
    UnknownSchedule,
    UnknownTopic,
)
from tests.kit.broker.delay import START_MS, Life, living
from tests.kit.broker.running import ManualClock
from tests.kit.simulated_disk import SimulatedDisk

MINUTE_MS = 60_000
# The next full minute.
FIRST_MS = (START_MS // MINUTE_MS + 1) * MINUTE_MS


def schedule(name: str = "s", **changes: object) -> Schedule:
    fields: dict[str, object] = {
        "name": name,
        "cron": "* * * * *",
        "time_zone": "",
        "topic": "orders",
        "key": b"k",
        "value": b"tick",
        "headers": {"h": b"1"},
    }
    return Schedule(**{**fields, **changes})  # type: ignore[arg-type]


def ticks(life: Life, topic: str = "orders") -> list[int]:
    """When messages of the schedule were due, of both partitions."""
    found = [*life.messages(topic, 0), *(life.messages(topic, 1) if topic == "orders" else [])]
    return sorted(message.timestamp_ms for message in found if message.value == b"tick")


async def test_it_is_published_at_its_times() -> None:
    """R-DEL-13: with key and headers, to the partition of the key."""
    async with living(SimulatedDisk()) as life:
        put = await life.coordinator.put_schedule(schedule())
        assert put.next_due_ms == FIRST_MS
        await life.advance(FIRST_MS - START_MS - 1)
        assert ticks(life) == []
        await life.advance(1)
        await life.until(lambda: ticks(life) == [FIRST_MS])
        (message,) = [*life.messages(partition=0), *life.messages(partition=1)]
        assert (message.key, message.headers) == (b"k", (("h", b"1"),))
        (told,) = life.coordinator.schedules()
        assert (told.published, told.next_due_ms) == (1, FIRST_MS + MINUTE_MS)
        await life.coordinator.delete_schedule("s")
        await life.advance(10 * MINUTE_MS)
        assert ticks(life) == [FIRST_MS]


async def test_each_is_published_once_over_restarts_and_the_missed_ones_as_one() -> None:
    """R-DEL-13."""
    disk, clock = SimulatedDisk(), ManualClock()
    expected = []
    for at in range(3):
        async with living(disk, clock) as life:
            if at == 0:
                await life.coordinator.put_schedule(schedule())
            else:
                await life.until_serving()
            clock.time_ms = FIRST_MS + 10 * at * MINUTE_MS
            await life.settle()
            expected.append(clock.time_ms)
            await life.until(lambda expected=list(expected): ticks(life) == expected)  # type: ignore[misc]
            life.lose()
            await life.settle_turns()
            await life.gain()
            await life.settle()
            assert ticks(life) == expected


async def test_without_a_key_partitions_take_turns() -> None:
    async with living(SimulatedDisk()) as life:
        await life.coordinator.put_schedule(schedule(key=None, cron="@every 1s"))
        for at in range(1, 5):
            await life.advance(1000)
            await life.until(lambda at=at: len(ticks(life)) == at)  # type: ignore[misc]
        assert [len(life.messages(partition=number)) for number in range(2)] == [2, 2]


async def test_a_schedule_whose_topic_is_gone_waits_for_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with living(SimulatedDisk()) as life:
        await life.topics.create("gone", 1, {})
        await life.coordinator.put_schedule(schedule(topic="gone"))
        await life.topics.delete("gone")
        life.clock.time_ms = FIRST_MS
        life.service.schedules.fire_due()
        life.service.schedules.fire_due()
        await life.until(
            lambda: life.coordinator.schedules()[0].next_due_ms == FIRST_MS + MINUTE_MS
        )
        assert len([each for each in caplog.records if "published nothing" in each.message]) == 1
        await life.topics.create("gone", 1, {})
        life.clock.time_ms += MINUTE_MS
        life.service.schedules.fire_due()
        await life.until(lambda: ticks(life, "gone") == [FIRST_MS + MINUTE_MS])


async def test_what_cannot_be_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """R-DEL-13: bad input."""
    monkeypatch.setattr(schedule_keeper, "SCHEDULES_MAX", 2)
    async with living(SimulatedDisk()) as life:
        with pytest.raises(UnknownTopic):
            await life.coordinator.put_schedule(schedule(topic="nowhere"))
        with pytest.raises(UnknownSchedule, match="no schedule 's'"):
            await life.coordinator.delete_schedule("s")
        await asyncio.gather(*(life.coordinator.put_schedule(schedule(name)) for name in "ab"))
        with pytest.raises(InvalidSchedule, match="2 schedules, which is the limit"):
            await life.coordinator.put_schedule(schedule("c"))
        await life.coordinator.put_schedule(schedule("b", cron="@hourly"))
        assert [each.cron for each in life.coordinator.schedules()] == ["* * * * *", "@hourly"]
        monkeypatch.setattr(schedule_keeper, "SCHEDULES_BYTES_MAX", 300)
        with pytest.raises(InvalidSchedule, match="300 bytes"):
            await life.coordinator.put_schedule(schedule("b"))


async def test_a_broker_without_a_time_zone_keeps_the_schedules_that_need_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """R-DEL-13: it says so, and publishes when it can."""
    async with living(SimulatedDisk()) as life:
        await life.coordinator.put_schedule(schedule(time_zone="Europe/Berlin"))
        with monkeypatch.context() as without:
            without.setattr(schedule_keeper, "find_zone", lambda name: None)
            life.clock.time_ms = FIRST_MS
            life.service.schedules.fire_due()
            await life.settle_turns()
            (kept,) = life.coordinator.schedules()
            assert (kept.next_due_ms, kept.published) == (FIRST_MS, 0)
            assert "Europe/Berlin" in kept.problem
        life.service.schedules.fire_due()
        assert ticks(life) == [], "a minute later"
        await life.advance(MINUTE_MS)
        await life.until(lambda: len(ticks(life)) == 1)
        (kept,) = life.coordinator.schedules()
        assert (kept.problem, kept.published) == ("", 1)


async def test_a_clock_that_was_ahead_for_a_moment_silences_nothing() -> None:
    async with living(SimulatedDisk()) as life:
        year_ms = 365 * 24 * 60 * MINUTE_MS
        await life.coordinator.put_schedule(schedule(cron="@every 1m"))
        await life.advance(year_ms)
        await life.until(lambda: len(ticks(life)) == 1)
        await life.settle()
        life.clock.time_ms -= year_ms
        await life.service.deliverer.note_arrived()
        assert await life.service.deliverer.follow_clock()
        await life.service.schedules.follow_clock()
        (told,) = life.coordinator.schedules()
        assert told.next_due_ms - life.clock.now_ms() <= MINUTE_MS
        await life.advance(MINUTE_MS)
        await life.until(lambda: len(ticks(life)) == 2)


async def test_whoever_leads_next_lets_schedules_follow_the_clock() -> None:
    async with living(SimulatedDisk()) as life:
        year_ms = 365 * 24 * 60 * MINUTE_MS
        await life.coordinator.put_schedule(schedule(cron="@every 1m"))
        await life.advance(year_ms)
        await life.until(lambda: len(ticks(life)) == 1)
        await life.settle()
        life.clock.time_ms -= year_ms
        await life.service.deliverer.note_arrived()
        assert await life.service.deliverer.follow_clock()
        life.lose()
        await life.gain()
        soon_ms = life.clock.now_ms() + MINUTE_MS
        await life.until(lambda: life.coordinator.schedules()[0].next_due_ms <= soon_ms)


@pytest.mark.parametrize(
    ("setting", "error"),
    [
        ({"exclusive_producer": "yes"}, TopicClaimed),
        ({"cleanup_policy": "compact"}, InvalidBatch),
        ({"batch_bytes_max": "1024"}, BatchTooLarge),
    ],
)
async def test_nothing_is_published_that_the_topic_would_not_take(
    setting: dict[str, str], error: type[PenstockError]
) -> None:
    """R-DEL-13, R-CORE-6: asked when it is put, and again each time, for settings change."""
    async with living(SimulatedDisk()) as life:
        await life.topics.create("strict", 1, setting)
        bad = schedule(topic="strict", key=None, value=b"x" * 2000)
        with pytest.raises(error):
            await life.coordinator.put_schedule(bad)
        await life.topics.create("changed", 1, {})
        await life.coordinator.put_schedule(replace(bad, topic="changed"))
        await life.topics.alter("changed", setting, ())
        life.clock.time_ms = FIRST_MS
        life.service.schedules.fire_due()
        await life.until(
            lambda: life.coordinator.schedules()[0].next_due_ms == FIRST_MS + MINUTE_MS
        )
        assert life.coordinator.schedules()[0].problem
        assert life.messages("changed") == []


async def test_a_change_waits_for_what_is_on_its_way() -> None:
    """Else the next time of the old schedule would become that of the new one."""
    async with living(SimulatedDisk()) as life:
        await life.coordinator.put_schedule(schedule())
        life.clock.time_ms = FIRST_MS
        life.service.schedules.fire_due()
        put = await life.coordinator.put_schedule(schedule(cron="@every 7s"))
        (told,) = life.coordinator.schedules()
        assert (told.cron, told.next_due_ms) == ("@every 7s", put.next_due_ms)
        await life.settle()
        assert ticks(life) == [FIRST_MS]


async def test_one_that_is_being_deleted_is_not_published() -> None:
    async with living(SimulatedDisk()) as life:
        await life.coordinator.put_schedule(schedule())
        deleting = asyncio.create_task(life.coordinator.delete_schedule("s"))
        await asyncio.sleep(0)
        life.clock.time_ms = FIRST_MS
        life.service.schedules.fire_due()
        await deleting
        await life.settle()
        assert (ticks(life), life.coordinator.schedules()) == ([], [])
