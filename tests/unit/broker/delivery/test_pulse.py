"""Whether a process has been running all along."""

from __future__ import annotations

import asyncio

from penstock.broker.delivery.pulse import Pulse
from tests.simulation.share_world import VirtualLoop


def test_who_stood_still_is_not_steady_for_a_while() -> None:
    loop = VirtualLoop()
    needed = [True]
    pulse = Pulse(loop, lambda: needed[0])
    try:
        pulse.start()
        loop.run_until_complete(_pass(5.0))
        assert pulse.is_steady
        loop.now_s += 2.0  # it was stopped
        assert not pulse.is_steady
        loop.run_until_complete(_pass(0.5))
        assert not pulse.is_steady
        loop.run_until_complete(_pass(0.5))
        assert pulse.is_steady
        needed[0] = False
        loop.run_until_complete(_pass(0.2))
        loop.now_s += 60.0  # nobody needed it meanwhile
        needed[0] = True
        pulse.start()
        assert pulse.is_steady
    finally:
        loop.close()


async def _pass(seconds: float) -> None:
    await asyncio.sleep(seconds)
