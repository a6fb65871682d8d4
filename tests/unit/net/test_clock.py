"""The machine's clock."""

from __future__ import annotations

import time

from penstock.net.clock import Clock, SystemClock


def test_the_system_clock_tells_the_time() -> None:
    clock: Clock = SystemClock()
    before = time.time() * 1000
    assert before - 1 <= clock.now_ms() <= time.time() * 1000
    assert time.monotonic() >= clock.monotonic() - 0.001
    assert clock.monotonic() <= clock.monotonic()
