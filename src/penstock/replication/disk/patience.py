"""How long a disk may have no room before a leader lets another lead.

Not what is refused, nor what follows. The invariant: one success, and the time begins anew.
"""

from __future__ import annotations

from typing import Final

# Long enough for retention to make room, short enough for producers that try again.
_PATIENCE_MS: Final = 1_000


class Patience:
    """With one replica's disk."""

    __slots__ = ("_since_ms",)

    def __init__(self) -> None:
        self._since_ms: int | None = None

    def on_taken(self) -> None:
        self._since_ms = None

    def is_over(self, now_ms: int) -> bool:
        """The disk refused something: whether it has done so, and nothing else, for too long. Then
        it gets the same time again."""
        if self._since_ms is None:
            self._since_ms = now_ms
        is_over = now_ms - self._since_ms >= _PATIENCE_MS
        if is_over:
            self._since_ms = now_ms
        return is_over
