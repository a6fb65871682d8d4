"""Whether a process has been running all along."""

from __future__ import annotations

import asyncio

from penstock.broker.delivery.shared.standstill import Pulse
from tests.kit.simulation.loop import VirtualLoop


def is_steady(pulse: Pulse) -> bool:
    """Asked anew each time."""
    return pulse.is_steady


def test_who_stood_still_is_not_steady_for_a_while() -> None:
    loop = VirtualLoop()
    needed = [True]
    pulse = Pulse(loop, lambda: needed[0])
    try:
        pulse.start()
        loop.run_until_complete(_pass(5.0))
        assert is_steady(pulse)
        loop.timeline.run_for(2_000)  # it was stopped
        assert not is_steady(pulse)
        loop.run_until_complete(_pass(0.5))
        assert not is_steady(pulse)
        loop.run_until_complete(_pass(0.5))
        assert is_steady(pulse)
        needed[0] = False
        loop.run_until_complete(_pass(0.2))
        loop.timeline.run_for(60_000)  # nobody needed it meanwhile
        needed[0] = True
        pulse.start()
        assert is_steady(pulse)
    finally:
        loop.close()


async def _pass(seconds: float) -> None:
    await asyncio.sleep(seconds)
