"""Who waits on a connection: for its end, or in a long poll that is over sooner.

Not what is waited for. The invariant: whoever waits is forgotten when it says so, or told once that
the connection is gone; from then on none of its timers goes off.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

Then = Callable[[], None]


class Waiters:
    """Of one connection: a base of both protocols' sessions."""

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: dict[object, tuple[Then, asyncio.TimerHandle | None]] = {}

    @property
    def waiting_count(self) -> int:
        return len(self._waiting)

    def on_close(self, waiter: object, gone: Then) -> None:
        """Call `gone` when the connection goes before `forget(waiter)`."""
        self.forget(waiter)
        self._waiting[waiter] = (gone, None)

    def wait(self, waiter: object, gone: Then, wait_s: float, time_up: Then) -> None:
        """The same for a long poll, of which there is one for each waiter: call `time_up` if it is
        not forgotten in time either."""
        self.forget(waiter)
        timer = asyncio.get_running_loop().call_later(wait_s, time_up)
        self._waiting[waiter] = (gone, timer)

    def forget(self, waiter: object) -> None:
        _, timer = self._waiting.pop(waiter, (None, None))
        if timer is not None:
            timer.cancel()

    def end_waiting(self) -> None:
        """The connection is gone."""
        waiting, self._waiting = self._waiting, {}
        for gone, timer in waiting.values():
            if timer is not None:
                timer.cancel()
            gone()
