"""How far a partition's log reaches: the facts that planning is done on. Plain data."""

from __future__ import annotations

from typing import NamedTuple


class Extent(NamedTuple):
    """What of a partition can be read now."""

    start_offset: int
    """The first offset that is still there."""
    end_offset: int
    """The offset after the last that may be read."""
    topic_id: str | None
    """Which topic of this name it is; None where that is not known."""
    may_be_cut: bool = False
    """Whether a crash of the broker's machine may take the end away again, of what was readable."""

    @property
    def size(self) -> int:
        return self.end_offset - self.start_offset
