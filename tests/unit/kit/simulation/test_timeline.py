"""Virtual time goes from event to event, in order."""

from __future__ import annotations

from itertools import pairwise
from random import Random

from tests.kit.simulation.timeline import Timeline, VirtualClock
from tests.kit.simulation.trace import Trace


def test_events_come_in_order_and_of_the_same_moment_as_they_were_planned() -> None:
    timeline = Timeline(Random(1), Trace())
    seen: list[tuple[str, int]] = []
    for name, delay_ms in (("late", 20), ("first", 5), ("second", 5)):
        timeline.after(delay_ms, lambda name=name: seen.append((name, timeline.now_ms)))  # type: ignore[misc]
    timeline.run_until(10)
    assert seen == [("first", 5), ("second", 5)]
    assert timeline.now_ms == 10
    timeline.run_for(100)
    assert seen[2:] == [("late", 20)]


def test_what_happens_every_so_often_begins_at_any_moment() -> None:
    timeline = Timeline(Random(1), Trace())
    times: list[int] = []
    timeline.every(10, lambda: times.append(timeline.now_ms))
    timeline.run_until(100)
    assert times[0] < 10
    assert {later - sooner for sooner, later in pairwise(times)} == {10}


def test_running_while_something_holds_ends_in_time() -> None:
    timeline = Timeline(Random(1), Trace())
    assert timeline.run_while(lambda: timeline.now_ms < 50, 1_000)
    assert not timeline.run_while(lambda: True, 100)


def test_a_clock_shows_virtual_time() -> None:
    timeline = Timeline(Random(1), Trace())
    clock, fast = VirtualClock(timeline, 0), VirtualClock(timeline, 250)
    begun_ms = clock.now_ms()
    timeline.run_for(1_500)
    assert clock.now_ms() - begun_ms == 1_500
    assert fast.now_ms() - clock.now_ms() == 250
    assert clock.monotonic() == fast.monotonic() == 1.5


def test_chance_comes_from_the_seed() -> None:
    drawn = [
        [Timeline(Random(seed), Trace()).random.random() for _ in range(3)] for seed in (1, 1, 2)
    ]
    assert drawn[0] == drawn[1] != drawn[2]
