"""How long to wait before a child that ended is started again. Pure: no clock, no process."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True, kw_only=True)
class Restarts:
    """The first wait is short, since most deaths are chance; each further one doubles, up to a
    bound; a child that lived long enough has done with whatever made it die before."""

    first_s: float = 1.0
    most_s: float = 30.0
    calm_s: float = 60.0
    _next_s: float = 0.0

    def delay_s(self, lived_s: float) -> float:
        """The wait before the next start, by how long the child lived this time."""
        if lived_s >= self.calm_s or not self._next_s:
            self._next_s = self.first_s
        delay_s = self._next_s
        self._next_s = min(2 * delay_s, self.most_s)
        return delay_s
