"""Messages of one key one after another (R-DEL-11): who is first in line, for each key.

Not the states of the messages. The invariant: a message is first only if every earlier one of its
key in the window is done, and durably so: had a later one been handed out before that, and the
leader been lost, the earlier one would be handled once more, after it. Messages that expired or
left the log need not be durable: they are never handed out again, whoever leads.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable


class KeyOrder:
    """A line of offsets for each key of the window."""

    def __init__(self, is_done: Callable[[int], bool]) -> None:
        self._is_done = is_done
        self._lines: dict[int, deque[int]] = {}
        # Done, with their keys; that they are is not known to be durable.
        self._unsaved: dict[int, int] = {}

    def add(self, key: int, offset: int) -> bool:
        """Put it at the end of its key's line. Whether it is the first."""
        line = self._lines.setdefault(key, deque())
        assert not line or line[-1] < offset, (key, line[-1], offset)
        line.append(offset)
        return len(line) == 1

    def is_first(self, key: int, offset: int) -> bool:
        return self._lines[key][0] == offset

    def settled(self, key: int, offset: int) -> None:
        """It is done, and the next must wait until that is durable."""
        self._unsaved[offset] = key

    @property
    def unsaved(self) -> tuple[int, ...]:
        """What waits for the next snapshot to be durable."""
        return tuple(self._unsaved)

    def saved(self, offsets: tuple[int, ...]) -> list[int]:
        """These are durable: the offsets that are first in line now."""
        keys = dict.fromkeys(
            self._unsaved.pop(offset) for offset in offsets if offset in self._unsaved
        )
        return [first for key in keys if (first := self.next_of(key)) is not None]

    def next_of(self, key: int) -> int | None:
        """Drop from the head of the line what is done; the offset that is first then."""
        line = self._lines[key]
        while line and self._is_done(line[0]) and line[0] not in self._unsaved:
            line.popleft()
        if not line:
            del self._lines[key]
            return None
        return line[0]
