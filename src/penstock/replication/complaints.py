"""What is told of a disk that refuses writes, however often and for whatever they are tried again.

A line when it begins, one a minute while it goes on, and one when it is over. Not what follows from
a refusal (`replication.patience`). The invariant: the number of lines grows with time and with
changes, never with attempts; nor with a disk that takes what is small and refuses what is large.
"""

from __future__ import annotations

import logging
from typing import Final

from penstock.model.errors import StorageError

logger = logging.getLogger(__name__)

_AGAIN_MS: Final = 60_000
# What begins anew sooner than this after an end is told of no sooner.
_PAUSE_MS: Final = 30_000
# A refusal that nobody has tried again since says nothing of now.
_STALE_MS: Final = 60_000


class Complaints:
    """About one disk. All calls come from the event loop."""

    __slots__ = ("_again_ms", "_error", "_is_told", "_last_ms", "_since_ms", "_what", "refusals")

    def __init__(self, what: str = "The disk") -> None:
        """what: the beginning of a sentence that goes on with "cannot be written"."""
        self._what = what
        self.refusals = 0
        """How often in a row: whoever writes often need not tell that nothing was wrong."""
        self._error: StorageError | None = None
        self._since_ms = 0
        self._last_ms = 0
        self._again_ms = 0
        self._is_told = False

    def current(self, now_ms: int) -> StorageError | None:
        """What was refused last, unless all is well by now or nobody has tried lately."""
        is_stale = now_ms - self._last_ms > _STALE_MS
        return None if not self.refusals or is_stale else self._error

    def refused(self, error: StorageError, now_ms: int) -> None:
        if not self.refusals:
            self._since_ms = now_ms
        self.refusals += 1
        self._error = error
        self._last_ms = now_ms
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
