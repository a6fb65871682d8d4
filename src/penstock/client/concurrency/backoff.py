"""How long to wait before the next try. Not a retry loop: each caller owns its own.

Waits double from the first to the longest, each shortened by a random part of up to a half, so
that a thousand clients of a broker that restarts do not come back in the same millisecond.
"""

from __future__ import annotations

import random
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """Exponential waits with jitter, in seconds."""

    first_s: float
    longest_s: float

    def wait_s(self, failures: int) -> float:
        """The wait after this many failures in a row; none before the first."""
        if failures <= 0:
            return 0.0
        # Beyond 2^30 the power is past any longest wait, and must not overflow a float.
        whole_s = min(self.longest_s, self.first_s * 2.0 ** min(failures - 1, 30))
        return whole_s * (1.0 - 0.5 * random.random())  # noqa: S311  # spreads load, keeps no secret
