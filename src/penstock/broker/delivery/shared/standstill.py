"""Whether this process has been running all along: whoever stood still may have been replaced.

A leader that was stopped finds calls of clients in its buffers, and what would tell it that another
leads now behind them. Not who leads. The invariant: from when the process stood still for longer
than an election may take to begin, until it has run for long enough to have heard of it, it is not
steady.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from penstock.replication.replica.transport import TIMING

_BEAT_S: Final = 0.1
# Others do not even think of an election in this time.
_STILL_S_MAX: Final = TIMING.election_ms / 1000 / 2
# Enough to be told by the others, and to notice if none of them is heard.
_LISTEN_S: Final = TIMING.election_ms / 1000


class Pulse:
    """One per broker. All calls come from the event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, is_needed: Callable[[], bool]) -> None:
        """is_needed: it beats as long as this is so."""
        self._loop = loop
        self._is_needed = is_needed
        self._beaten_s = 0.0
        self._steady_from_s = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        if self._timer is None:
            self._beaten_s = self._loop.time()
            self._timer = self._loop.call_later(_BEAT_S, self._beat)

    @property
    def is_steady(self) -> bool:
        self._look()
        return self._loop.time() >= self._steady_from_s

    def _look(self) -> None:
        now_s = self._loop.time()
        if now_s - self._beaten_s > _STILL_S_MAX:
            self._steady_from_s = now_s + _LISTEN_S
            self._beaten_s = now_s

    def _beat(self) -> None:
        self._timer = None
        self._look()  # it may come late itself
        self._beaten_s = self._loop.time()
        if self._is_needed():
            self._timer = self._loop.call_later(_BEAT_S, self._beat)
