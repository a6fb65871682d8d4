"""The network of a world: late, lossy, cut, damaged.

A link goes one way, from one endpoint to another, which are numbers. Not what is said, and not when
faults come (`network_faults`). The invariant: what is carried in order arrives in order and once,
or not at all, as on a connection; what is carried loosely may also be doubled, overtaken, or
damaged where its checksums protect it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from tests.kit.simulation.timeline import Timeline

GOOD_DELAY_MS_MAX: Final = 10
_LATE_FACTOR: Final = 10

Deliver = Callable[[], None]


class Network:
    """Of one run."""

    def __init__(
        self,
        timeline: Timeline,
        *,
        keeps_order: bool = True,
        delay_ms_max: int = GOOD_DELAY_MS_MAX,
        overtaking: float = 0.0,
    ) -> None:
        """keeps_order: of what is carried loosely only the late ones are overtaken; or else it is
        as chance has it. The others: how late things are, and how often far later, where nothing
        is wrong."""
        self._timeline = timeline
        self._random = timeline.random
        self._keeps_order = keeps_order
        self._good = (delay_ms_max, overtaking)
        # From, to.
        self.cuts: set[tuple[int, int]] = set()
        # When the last thing on a link arrives.
        self._arrivals: dict[tuple[int, int], int] = {}
        self.mend()

    def mend(self) -> None:
        """Nothing is cut, and nothing goes wrong."""
        self.cuts.clear()
        self.make_better()

    def make_better(self) -> None:
        self.loss = self.doubling = self.damage = 0.0
        self.delay_ms_max, self.overtaking = self._good

    # --- who hears whom --------------------------------------------------------------------------

    def is_cut(self, sender: int, receiver: int) -> bool:
        return (sender, receiver) in self.cuts

    def cut_one_way(self, sender: int, receiver: int) -> None:
        self.cuts.add((sender, receiver))

    def cut_between(self, some: Iterable[int], others: Iterable[int]) -> None:
        others = list(others)
        for one in some:
            for other in others:
                self.cuts |= {(one, other), (other, one)}

    # --- carrying --------------------------------------------------------------------------------

    def carry(self, sender: int, receiver: int, deliver: Deliver) -> None:
        """On a connection: in order, once; or it is lost with the connection."""
        if not self._loses(sender, receiver):
            delay_ms = self._random.randint(1, self.delay_ms_max)
            self._arrive_in_order(sender, receiver, delay_ms, deliver)

    def carry_loosely(
        self,
        sender: int,
        receiver: int,
        deliver: Deliver,
        damaged: Callable[[], Deliver] | None = None,
    ) -> None:
        """Perhaps twice, perhaps overtaken. damaged: makes what comes instead where bits change, if
        whoever gets it can tell."""
        random = self._random
        if self._loses(sender, receiver):
            return
        if damaged is not None and random.random() < self.damage:
            deliver = damaged()
        for _ in range(2 if random.random() < self.doubling else 1):
            delay_ms = random.randint(1, self.delay_ms_max)
            if random.random() < self.overtaking:
                self._arrive(sender, receiver, delay_ms * _LATE_FACTOR, deliver)
            elif self._keeps_order:
                self._arrive_in_order(sender, receiver, delay_ms, deliver)
            else:
                self._arrive(sender, receiver, delay_ms, deliver)

    def _loses(self, sender: int, receiver: int) -> bool:
        return self.is_cut(sender, receiver) or self._random.random() < self.loss

    def _arrive_in_order(self, sender: int, receiver: int, delay_ms: int, deliver: Deliver) -> None:
        link = (sender, receiver)
        arrival_ms = max(self._timeline.now_ms + delay_ms, self._arrivals.get(link, 0))
        self._arrivals[link] = arrival_ms
        self._arrive(sender, receiver, arrival_ms - self._timeline.now_ms, deliver)

    def _arrive(self, sender: int, receiver: int, delay_ms: int, deliver: Deliver) -> None:
        def arrive() -> None:
            if not self.is_cut(sender, receiver):
                deliver()

        self._timeline.after(delay_ms, arrive)
