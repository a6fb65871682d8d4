"""Faults of the network: split, cut one way, bridged, flapping, slow and lossy.

The invariant: when it is over, nothing is cut any more.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from tests.kit.simulation.network import Network
from tests.kit.simulation.timeline import Timeline


class NetworkFaults:
    """Of one run."""

    def __init__(
        self, network: Network, timeline: Timeline, endpoints: Sequence[int], random: Random
    ) -> None:
        """endpoints: those between which links fail."""
        self._network = network
        self._timeline = timeline
        self._endpoints = endpoints
        self._random = random
        self._is_over = False

    def mend(self) -> None:
        """For good."""
        self._is_over = True
        self._network.mend()

    def isolate(self, endpoint: int) -> None:
        """Cut it off from the others, perhaps with some of them."""
        others = [other for other in self._endpoints if other != endpoint]
        company = self._random.choice((0, 0, self._random.randint(0, len(others))))
        some = {endpoint, *self._random.sample(others, company)}
        self._network.cut_between(sorted(some), sorted(set(others) - some))

    def _shuffled(self) -> list[int]:
        return self._random.sample(self._endpoints, len(self._endpoints))

    def split(self) -> None:
        endpoints = self._shuffled()
        half = self._random.randint(0, len(endpoints))
        self._network.cut_between(endpoints[:half], endpoints[half:])

    def cut_one_way(self) -> None:
        self._network.cut_one_way(
            self._random.choice(self._endpoints), self._random.choice(self._endpoints)
        )

    def bridge(self) -> None:
        """Two halves that do not see each other, and one endpoint that sees both."""
        _, *others = self._shuffled()
        half = len(others) // 2
        self._network.cut_between(others[:half], others[half:])

    def flap(self) -> None:
        """Links of an endpoint come and go for a while."""
        one, *others = self._shuffled()
        others = others[: self._random.randint(0, len(others))]
        interval_ms = self._random.choice((60, 300, 1_000))

        def cut() -> None:
            if not self._is_over:
                self._network.cut_between([one], others)

        def mend() -> None:
            for other in others:
                self._network.cuts -= {(one, other), (other, one)}

        for turn in range(self._random.randint(1, 4)):
            self._timeline.after(2 * turn * interval_ms, cut)
            self._timeline.after((2 * turn + 1) * interval_ms, mend)

    def make_worse(self) -> None:
        network, random = self._network, self._random
        network.loss = random.choice((0.0, 0.05, 0.3))
        network.doubling = random.choice((0.0, 0.05, 0.3))
        network.overtaking = random.choice((0.0, 0.1, 0.3))
        network.damage = random.choice((0.0, 0.0, 0.05))
        network.delay_ms_max = random.choice((10, 50, 250))
