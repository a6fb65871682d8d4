"""What is told of a disk that refuses one replica's writes, however often they are tried again.

A line when it begins, one a minute while it goes on, and one when it is over. Not what follows from
a refusal (`replication.patience`). The invariant: the number of lines grows with time and with
changes, never with attempts.
"""

from __future__ import annotations

import logging
from typing import Final

from penstock.model.errors import StorageError

logger = logging.getLogger(__name__)

_AGAIN_MS: Final = 60_000


class Complaints:
    """About one thing that is tried again and again."""

    __slots__ = ("_again_ms", "_since_ms", "_what", "refusals")

    def __init__(self, what: str) -> None:
        """what: the beginning of a sentence that goes on with "cannot be written"."""
        self._what = what
        self.refusals = 0
        """How often in a row: whoever writes often need not tell that nothing was wrong."""
        self._since_ms = 0
        self._again_ms = 0

    def refused(self, error: StorageError, now_ms: int) -> None:
        self.refusals += 1
        if self.refusals == 1:
            self._since_ms = now_ms
            logger.warning("%s cannot be written, and is tried again: %s", self._what, error)
        elif now_ms >= self._again_ms:
            seconds = (now_ms - self._since_ms) // 1000
            logger.warning(
                "%s still cannot be written after %d s and %d attempts: %s",
                *(self._what, seconds, self.refusals, error),
            )
        else:
            return
        self._again_ms = now_ms + _AGAIN_MS

    def taken(self, now_ms: int) -> None:
        """It was written."""
        if self.refusals:
            seconds = (now_ms - self._since_ms) // 1000
            logger.warning(
                "%s can be written again, after %d s and %d attempts",
                *(self._what, seconds, self.refusals),
            )
            self.refusals = 0
