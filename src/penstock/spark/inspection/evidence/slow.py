"""Which producers are slow: late themselves, and late beside everybody else. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from penstock.spark.inspection.evidence.distributions import percentile, without
from penstock.spark.inspection.thresholds import Thresholds


class Timed(NamedTuple):
    """A producer of a topic with the delays of its messages, by class."""

    producer_id: int
    delays: Mapping[int, int]

    @property
    def p50_ms(self) -> int:
        return percentile(sorted(self.delays.items()), 0.5)


def slow_among(
    candidates: Sequence[Timed], everybody: Sequence[tuple[int, int]], thresholds: Thresholds
) -> list[tuple[Timed, int]]:
    """Those of the candidates that are slow, and the median delay of all that are not candidates.

    Without others there is nobody to be slower than: where the candidates have most of the
    messages, the topic is slow, or its clocks are wrong, and not a producer of it.
    """
    others = list(everybody)
    for candidate in candidates:
        others = without(others, candidate.delays)
    of_others = sum(count for _, count in others)
    if 2 * of_others < sum(count for _, count in everybody):
        return []
    p50_ms = percentile(others, 0.5)
    return [
        (candidate, p50_ms)
        for candidate in candidates
        if sum(candidate.delays.values()) >= thresholds.slow_messages_min
        and candidate.p50_ms >= max(thresholds.slow_delay_ms, thresholds.slow_ratio * p50_ms)
    ]
