"""Which messages of a partition have been acknowledged, and from where to read after a crash.

Counting only; `committer` tells the broker. The invariant: every message below `low` was
acknowledged, so a consumer that begins again at `low` misses none.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final

from penstock.model.errors import Busy
from penstock.records import Message

# Messages acknowledged ahead of one that is not are remembered one by one, 60 bytes each.
ACKNOWLEDGED_AHEAD_MAX: Final = 1_000_000
# An offset that no message has.
NOWHERE: Final = -1


class Progress:
    """The acknowledgements of one partition."""

    __slots__ = ("_ahead", "_gaps", "_origin", "committed", "low")

    def __init__(self, position: int, committed: int | None = None) -> None:
        self.low = position
        # Where `low` was put without anybody acknowledging: no reason to move the group's place.
        self._origin = position
        # The group's place as the broker has it, so that it is told only news; None: it has none.
        self.committed = committed
        self._ahead: set[int] = set()
        # Ranges of offsets that hold no message for the user: control batches, compacted records,
        # what a filter left out. No two of them touch.
        self._gaps: deque[tuple[int, int]] = deque()

    def restart(self, position: int) -> None:
        """Reading goes on elsewhere: forget what was acknowledged out of order."""
        self.low = self._origin = position
        self._ahead.clear()
        self._gaps.clear()

    @property
    def is_due(self) -> bool:
        """Whether `low` is to be committed: it has moved, and the broker does not have it."""
        return self.low != self._origin and self.low != self.committed

    def place_was_set(self, committed: int) -> None:
        """The user has put the group's place there: it stays until something is acknowledged."""
        self.committed = committed
        self._origin = self.low

    def hand_out(self, start: int, messages: Sequence[Message], end: int) -> None:
        """The messages from offset `start` to before `end` are on their way to the user."""
        if len(messages) == end - start:
            return
        expected = start
        for message in messages:
            if message.offset > expected:
                self._skip(expected, message.offset)
            expected = message.offset + 1
        if expected < end:
            self._skip(expected, end)
        self._advance()

    def is_acknowledged(self, offset: int) -> bool:
        return offset < self.low or offset in self._ahead

    def acknowledge(self, offset: int) -> bool:
        """One message is dealt with. True if there is something new to commit."""
        if offset != self.low:
            if offset > self.low:
                self._remember(offset)
            return False
        self.low = offset + 1
        if self._ahead or self._gaps:
            self._advance()
        return True

    def acknowledge_below(self, position: int) -> None:
        """Everything below the position is dealt with, and this is the place to commit."""
        self._origin = NOWHERE
        if position > self.low:
            self.low = position
            self._ahead = {offset for offset in self._ahead if offset >= position}
            self._advance()

    def _skip(self, start: int, end: int) -> None:
        # Joined with the one before: a filter may let nothing through for days, while a message
        # before that is not acknowledged.
        if self._gaps and self._gaps[-1][1] >= start:
            first, last = self._gaps.pop()
            start, end = min(start, first), max(end, last)
        self._gaps.append((start, end))

    def _remember(self, offset: int) -> None:
        if len(self._ahead) >= ACKNOWLEDGED_AHEAD_MAX:
            raise Busy(
                f"{ACKNOWLEDGED_AHEAD_MAX} messages are acknowledged after offset {self.low}, "
                f"which is not: acknowledge that one, or commit() all that was handed out."
            )
        self._ahead.add(offset)

    def _advance(self) -> None:
        while True:
            if self.low in self._ahead:
                self._ahead.remove(self.low)
                self.low += 1
            elif self._gaps and self._gaps[0][0] <= self.low:
                self.low = max(self.low, self._gaps.popleft()[1])
            else:
                return
