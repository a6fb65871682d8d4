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
        # Done, with their keys; that they are is not known to be durable. None: a key that is not
        # known, of a message that was settled before the log was read here.
        self._unsaved: dict[int, int | None] = {}
        self._unknown = 0

    def add(self, key: int, offset: int) -> None:
        """Put it at the end of its key's line."""
        assert self.is_complete, (self._unknown, offset)
        line = self._lines.setdefault(key, deque())
        assert not line or line[-1] < offset, (key, line[-1], offset)
        line.append(offset)

    def is_first(self, key: int, offset: int) -> bool:
        return self._lines[key][0] == offset

    def settled(self, key: int, offset: int) -> None:
        """It is done, and the next must wait until that is durable."""
        self._unsaved[offset] = key

    def settled_unread(self, offset: int) -> None:
        """It is done, and nobody knows who is next."""
        self._unsaved[offset] = None
        self._unknown += 1

    @property
    def is_complete(self) -> bool:
        """Whether messages may be added: else one could be first that is not."""
        return self._unknown == 0

    @property
    def unsaved(self) -> tuple[int, ...]:
        """What waits for the next snapshot to be durable."""
        return tuple(self._unsaved)

    def saved(self, offsets: tuple[int, ...]) -> list[int]:
        """These are durable: the offsets that are first in line now."""
        settled = [self._unsaved.pop(offset) for offset in offsets if offset in self._unsaved]
        self._unknown -= settled.count(None)
        firsts = [self.next_of(key) for key in dict.fromkeys(settled) if key is not None]
        return [first for first in firsts if first is not None]

    def next_of(self, key: int) -> int | None:
        """Drop from the head of the line what is done. The offset that is first then; None if the
        line is at its end, or waits for the first to be durably done."""
        line = self._lines[key]
        while line and self._is_done(line[0]):
            if line[0] in self._unsaved:
                return None
            line.popleft()
        if not line:
            del self._lines[key]
            return None
        return line[0]
