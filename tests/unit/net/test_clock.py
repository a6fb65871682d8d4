"""The machine's clock."""

from __future__ import annotations

import time
from functools import partial
from types import SimpleNamespace
from typing import cast

from penstock.net.clock import Clock, SystemClock, steady_ms


def test_the_system_clock_tells_the_time() -> None:
    clock: Clock = SystemClock()
    before = time.time() * 1000
    assert before - 1 <= clock.now_ms() <= time.time() * 1000
    assert time.monotonic() >= clock.monotonic() - 0.001
    assert clock.monotonic() <= clock.monotonic()


def test_a_steady_clock_does_not_jump_when_somebody_sets_the_other() -> None:
    """R-DEL-3: leases would end at once, or never."""
    times = {"now_ms": 5_000_000, "monotonic": 100.0}
    clock = SimpleNamespace(**{name: partial(times.__getitem__, name) for name in times})
    now_ms = steady_ms(cast("Clock", clock))
    assert now_ms() == 5_000_000
    times |= {"now_ms": 1, "monotonic": 101.5}
    assert now_ms() == 5_001_500
