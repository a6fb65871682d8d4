"""The latest changes, as brokers are told of them: those that lack a few get these, not everything.

Not who waits for them. The invariant: what `since` gives leads from that version to the latest
without a gap, and is bounded in number and bytes.
"""

from __future__ import annotations

from collections import deque

from penstock.model.limits import META_FEED_BYTES_MAX, META_FEED_CHANGES_MAX


class Feed:
    """Entries as bytes, each the one that made a version of the facts."""

    def __init__(self) -> None:
        self._entries: deque[bytes] = deque()
        self._latest_version = -1
        self._size_bytes = 0

    def add(self, version: int, entry: bytes) -> None:
        """The entry made this version of the one before."""
        if version != self._latest_version + 1:
            # A snapshot came between.
            self._entries.clear()
            self._size_bytes = 0
        self._entries.append(entry)
        self._latest_version = version
        self._size_bytes += len(entry)
        while len(self._entries) > META_FEED_CHANGES_MAX or self._size_bytes > META_FEED_BYTES_MAX:
            self._size_bytes -= len(self._entries.popleft())

    def since(self, version: int) -> list[bytes] | None:
        """The entries after the version, or None if they are not all there."""
        count = self._latest_version - version
        if not 0 <= count <= len(self._entries):
            return None
        return list(self._entries)[len(self._entries) - count :]
