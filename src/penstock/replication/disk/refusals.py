"""What is told of a disk that refuses writes, however often and for whatever they are tried again.

A line when it begins, one a minute while it goes on, and one when it is over. Not what follows from
a refusal (`replication.disk.patience`). The invariants: the number of lines grows with time and
with changes, never with attempts; a disk that takes what is small and refuses what is large is not
well.

Whatever else is tried again for as long as a disk may be full can be told of in the same way.
"""

from __future__ import annotations

import logging
from typing import Final

from penstock.model.errors import PenstockError

logger = logging.getLogger(__name__)

_AGAIN_MS: Final = 60_000
# What begins anew sooner than this after an end is told of no sooner.
_PAUSE_MS: Final = 30_000
# A refusal that nobody has tried again since says nothing of now.
_STALE_MS: Final = 60_000
# Whoever was refused tries again sooner than this: until then nobody knows whether what was taken
# meanwhile was only smaller.
_PROVEN_MS: Final = 3_000


class Refusals:
    """About one disk, or one kind of thing. All calls come from the event loop."""

    __slots__ = (
        "_again_ms",
        "_error",
        "_is_taken",
        "_is_told",
        "_last_ms",
        "_since_ms",
        "_what",
        "refusals",
    )

    def __init__(self, what: str = "The disk") -> None:
        """what: the beginning of a sentence that goes on with "cannot be written"."""
        self._what = what
        self.refusals = 0
        """Since all was well: whoever writes often need not tell that nothing was wrong."""
        self._error: PenstockError | None = None
        self._since_ms = 0
        self._last_ms = 0
        self._again_ms = 0
        self._is_told = False
        # Whether something was written since the last refusal.
        self._is_taken = False

    def current(self, now_ms: int) -> PenstockError | None:
        """What was refused last, unless all is well by now or nobody has tried lately."""
        lasts_ms = _PROVEN_MS - 1 if self._is_taken else _STALE_MS
        is_over = now_ms - self._last_ms > lasts_ms
        return None if not self.refusals or is_over else self._error

    def refused(self, error: PenstockError, now_ms: int) -> None:
        if not self.refusals:
            self._since_ms = now_ms
        self.refusals += 1
        self._error = error
        self._last_ms = now_ms
        self._is_taken = False
        if now_ms < self._again_ms:
            return
        self._again_ms = now_ms + _AGAIN_MS
        if not self._is_told:
            self._is_told = True
            logger.warning("%s cannot be written, and is tried again: %s", self._what, error)
            return
        seconds = (now_ms - self._since_ms) // 1000
        logger.warning(
            "%s still cannot be written after %d s and %d attempts: %s",
            *(self._what, seconds, self.refusals, error),
        )

    def taken(self, now_ms: int) -> None:
        """Something was written."""
        if not self.refusals:
            return
        self._is_taken = True
        if now_ms - self._last_ms < _PROVEN_MS:
            return
        if self._is_told:
            self._is_told = False
            self._again_ms = now_ms + _PAUSE_MS
            seconds = (now_ms - self._since_ms) // 1000
            logger.warning(
                "%s can be written again, after %d s and %d attempts",
                *(self._what, seconds, self.refusals),
            )
        self.refusals = 0
        self._error = None
