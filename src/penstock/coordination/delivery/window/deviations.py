"""The messages of a window that are not plain: those with details, and the lines of their keys.

Not their states. The invariant: a message is here from when the log is read until it is done, and a
plain one never is, so that a group of plain messages pays nothing for this.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from penstock.coordination.delivery.window.key_order import KeyOrder
from penstock.coordination.delivery.window.message_details import MessageDetails
from penstock.model.message_headers import PRIORITY_DEFAULT


class Deviations:
    """Details by offset."""

    def __init__(self, is_done: Callable[[int], bool]) -> None:
        self._details: dict[int, MessageDetails] = {}
        self._keys = KeyOrder(is_done)

    def __len__(self) -> int:
        return len(self._details)

    def add(self, details: MessageDetails) -> None:
        self._details[details.offset] = details
        if details.key is not None:
            self._keys.add(details.key, details.offset)

    def priority_in_line(self, offset: int) -> int | None:
        """None if another of its key is to be done before."""
        details = self._details.get(offset)
        if details is None:
            return PRIORITY_DEFAULT
        if details.key is not None and not self._keys.is_first(details.key, offset):
            return None
        return details.priority

    def expires_ms(self, offset: int) -> int | None:
        details = self._details.get(offset)
        return None if details is None else details.expires_ms

    def expired(self, first: int, end: int, now_ms: int) -> list[int]:
        """Which of these have expired."""
        return [
            offset
            for offset in self._among(first, end)
            if (expires_ms := self._details[offset].expires_ms) is not None and expires_ms <= now_ms
        ]

    def expiries(self) -> Iterator[tuple[int, int]]:
        """Offsets of messages that expire, and when."""
        for offset, details in self._details.items():
            if details.expires_ms is not None:
                yield offset, details.expires_ms

    # --- when they are done --------------------------------------------------------------------

    def settled(self, first: int, end: int) -> None:
        """They are done; the next of their keys wait until that is durable."""
        for offset in self._among(first, end):
            key = self._details.pop(offset).key
            if key is not None:
                self._keys.settled(key, offset)

    def gone(self, first: int, end: int) -> list[int]:
        """They are done, and would be for any other leader: who is first in line now."""
        keys = dict.fromkeys(self._details.pop(offset).key for offset in self._among(first, end))
        nexts = [self._keys.next_of(key) for key in keys if key is not None]
        return [offset for offset in nexts if offset is not None]

    def settled_unread(self, first: int, end: int) -> None:
        """They are done before their details are known."""
        for offset in range(first, end):
            self._keys.settled_unread(offset)

    @property
    def is_complete(self) -> bool:
        """Whether the log may be read on: else a message could get before one of its key."""
        return self._keys.is_complete

    @property
    def unsaved(self) -> tuple[int, ...]:
        return self._keys.unsaved

    def saved(self, offsets: tuple[int, ...]) -> list[int]:
        """That these are done is durable: who is first in line now."""
        return self._keys.saved(offsets)

    def _among(self, first: int, end: int) -> list[int]:
        if not self._details:
            return []
        return [offset for offset in range(first, end) if offset in self._details]
