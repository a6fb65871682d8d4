"""How much of the loop, the disk and the network copies that are far behind may take.

A token bucket for all replicas of a broker together. What was just written is not counted: it must
get through however much else is copied. Not what is sent. The invariant: over any time no more than
the rate and one burst, and at most one slice beyond; those who were refused ask again one after the
other, not all at once.
"""

from __future__ import annotations

from typing import Final

from penstock.model.limits import APPEND_BYTES_MAX

# In total: well below what a loop can copy, well above what most disks keep up with.
BYTES_PER_S_DEFAULT: Final = 100_000_000
# What may go out in one turn of the loop: a few slices, some milliseconds of its time.
_BURST_BYTES: Final = 4 * APPEND_BYTES_MAX


class CatchUpQuota:
    """One per broker."""

    __slots__ = ("_at_ms", "_bytes_per_ms", "_turn_ms", "_unused_bytes")

    def __init__(self, bytes_per_s: int = BYTES_PER_S_DEFAULT) -> None:
        self._bytes_per_ms = bytes_per_s / 1000
        # What may be sent, as of then; less than nothing after a slice that was larger.
        self._unused_bytes: float = _BURST_BYTES
        self._at_ms = 0
        # When the last of those who were refused is to ask again.
        self._turn_ms: float = 0

    def is_open(self, now_ms: int) -> bool:
        """Whether a slice may be sent now, which `spend` is told of."""
        gained_bytes = (now_ms - self._at_ms) * self._bytes_per_ms
        self._unused_bytes = min(self._unused_bytes + gained_bytes, _BURST_BYTES)
        self._at_ms = now_ms
        return self._unused_bytes > 0

    def spend(self, size_bytes: int) -> None:
        self._unused_bytes -= size_bytes

    def turn_ms(self, now_ms: int) -> int:
        """When to ask again, for one who was refused."""
        debt_ms = max(-self._unused_bytes, 0) / self._bytes_per_ms
        slice_ms = APPEND_BYTES_MAX / self._bytes_per_ms
        self._turn_ms = max(self._turn_ms + slice_ms, now_ms + debt_ms)
        return int(self._turn_ms) + 1
