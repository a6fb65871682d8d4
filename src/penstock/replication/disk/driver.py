"""Gathers what was proposed in one turn of the event loop and lets each replica write it at once.

So a hundred requests that arrive in one read cost one `write` for each partition they touch. The
invariant: when `end_turn` returns, no replica holds on to bytes of a receive buffer.
"""

from __future__ import annotations

import logging
from typing import Protocol

logger = logging.getLogger(__name__)


class Writer(Protocol):
    """What the driver calls at the end of a turn."""

    def write_proposed(self) -> None: ...


class Driver:
    """One per broker. Whoever proposes ends the turn: a connection after each read, the broker
    itself after what it proposes on its own."""

    def __init__(self) -> None:
        self._dirty: list[Writer] = []

    def mark_dirty(self, writer: Writer) -> None:
        """The writer has proposals to write. It marks itself once a turn."""
        self._dirty.append(writer)

    def end_turn(self) -> None:
        while self._dirty:
            dirty, self._dirty = self._dirty, []
            for writer in dirty:
                try:
                    writer.write_proposed()
                except Exception:
                    # A bug of ours in one must not keep the others from being written.
                    logger.exception("What was proposed in a turn could not be handled")
