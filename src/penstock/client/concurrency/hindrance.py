"""What keeps somebody from something that is tried again and again: said once, after a while.

Not the trying. The invariant: of failures in a row there is one line, however many they are, and
one more when it went well after all.
"""

from __future__ import annotations

import logging
from typing import Final

from penstock.model.errors import PenstockError

# A failover or a short pause of a broker is over by then, and nobody's concern.
TELL_AFTER_S: Final = 2.0


class Hindrance:
    """Of failures in a row: the next ones have another. A user sees nothing else of them until the
    time for it is over."""

    __slots__ = ("_done", "_is_told", "_logger", "_since_s", "_what")

    def __init__(self, logger: logging.Logger, what: object, done: str) -> None:
        """`what` cannot be `done`: orders-0 cannot be written."""
        self._logger = logger
        self._what = what
        self._done = done
        self._since_s: float | None = None
        self._is_told = False

    def met(self, now_s: float, left_s: float, error: PenstockError | None) -> None:
        """It failed once more, and is tried for so long."""
        if self._since_s is None:
            self._since_s = now_s
        if not self._is_told and now_s - self._since_s >= TELL_AFTER_S:
            self._is_told = True
            self._logger.warning(
                "%s cannot be %s, and is tried again for %.0f s: %s",
                *(self._what, self._done, left_s, error),
            )

    def overcome(self) -> None:
        """It went well."""
        if self._is_told:
            self._logger.warning("%s can be %s again", self._what, self._done)
