"""Rounds in turns beside peers that are warm: each subject is warmed by the very load that is
measured, until that load no longer gets cheaper for its server.

Not a measurement. A JVM compiles what it has run often enough, in several steps, and a load of a
few thousand messages a second takes it a minute there: after two short runs Kafka was seen to need
twice the CPU time and twice the p99 of a Kafka that is warm. Ours are warmed by the same rule.
Invariant: in one round every subject meets the same machine, and none that is still getting faster.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Final, Protocol, TypeVar

# Warm is who has not become this much cheaper in so many rounds. Rounds differ by a few percent.
_CHEAPER: Final = 0.97
_ROUNDS_WITHOUT_GAIN: Final = 3
_WARM_UP_ROUNDS_MAX: Final = 20


class Costly(Protocol):
    """What a round found."""

    @property
    def server_us(self) -> float:
        """CPU time of the server for each message, in microseconds."""


Found = TypeVar("Found", bound=Costly)


def in_turns(
    measures: Mapping[str, Callable[[], Found]], rounds: int, *, quick: bool
) -> dict[str, list[Found]]:
    """What so many rounds of each found, by its name; a quick run warms nobody."""
    if not quick:
        for name, measure in measures.items():
            costs_us = until_steady(_costs_us(measure))
            print(f"    {name}: {_falling(costs_us)}", file=sys.stderr, flush=True)
    found: dict[str, list[Found]] = {name: [] for name in measures}
    for _ in range(rounds):
        for name, measure in measures.items():
            os.sync()  # what the round before wrote would slow this one's disk
            found[name].append(measure())
    return found


def until_steady(costs_us: Iterable[float]) -> list[float]:
    """The costs, up to where they no longer fall."""
    seen: list[float] = []
    least_us, without_gain = float("inf"), 0
    for cost_us in costs_us:
        seen.append(cost_us)
        if cost_us < least_us * _CHEAPER:
            without_gain = 0
        else:
            without_gain += 1
        least_us = min(least_us, cost_us)
        if without_gain == _ROUNDS_WITHOUT_GAIN or len(seen) == _WARM_UP_ROUNDS_MAX:
            break
    return seen


def _costs_us(measure: Callable[[], Costly]) -> Iterable[float]:
    while True:
        yield measure().server_us


def _falling(costs_us: list[float]) -> str:
    warm = f"warm after {len(costs_us)} rounds"
    return f"{warm}: {', '.join(f'{cost_us:.2f}' for cost_us in costs_us)} µs of CPU a message"
