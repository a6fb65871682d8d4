"""What befalls a world, by chance: each fault has a weight, and each run a taste of its own.

Some faults never happen in a run, some all the time, so that runs differ in kind and not only in
order. Not what the faults do, and not what must hold. The invariant: what is in every run is as
likely as its weight says, so that no run is broken from its beginning to its end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from random import Random
from typing import Final

from tests.kit.simulation.timeline import Timeline

TURMOIL_MS: Final = 30_000
_TASTES: Final = (0, 1, 1, 3, 8)
_PAUSES_MS: Final = (5, 30, 100, 600)

Fault = Callable[[], None]


class Faults:
    """Of one run."""

    def __init__(
        self,
        random: Random,
        counts: Counter[str],
        faults: Mapping[str, tuple[int, Fault]],
        always: Collection[str],
    ) -> None:
        """faults: the weight of each, and what it does. always: those in every run, as what mends
        has to be."""
        self._random = random
        self._counts = counts
        self._faults = faults
        self._weights = {
            name: weight * (1 if name in always else random.choice(_TASTES))
            for name, (weight, _) in faults.items()
        }

    def only(self, weights: dict[str, int]) -> None:
        """Nothing but these from now on."""
        assert weights.keys() <= self._faults.keys(), weights.keys() - self._faults.keys()
        self._weights = weights

    def strike(self, timeline: Timeline) -> None:
        """Something happens."""
        [name] = self._random.choices(list(self._weights), list(self._weights.values()))
        self._counts[name] += 1
        timeline.trace.remark(timeline.now_ms, name)
        self._faults[name][1]()

    def rage(self, timeline: Timeline) -> None:
        """One thing after the other, as long as a run's turmoil takes."""
        while timeline.now_ms < TURMOIL_MS:
            self.strike(timeline)
            timeline.run_for(timeline.random.choice(_PAUSES_MS))
