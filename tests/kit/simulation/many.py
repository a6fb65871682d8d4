"""Many seeds, in several processes, and what they were worth together.

Not what is printed. The invariant: results come in the order of the seeds, one for each, whatever
befalls a run; what is summed up does not depend on how many processes there were.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

from tests.kit.simulation.runs import Outcome
from tests.kit.simulation.worlds import WORLDS

_HOUR_MS: Final = 3_600_000
_SEEDS_AT_ONCE: Final = 5


@dataclass(frozen=True, slots=True)
class Failed:
    """A seed that broke a promise."""

    seed: int
    reason: str


@dataclass(slots=True)
class Summary:
    """Of the seeds so far."""

    seeds: int = 0
    failed: list[int] = field(default_factory=list)
    simulated_ms: int = 0
    worth: Counter[str] = field(default_factory=Counter)
    counts: Counter[str] = field(default_factory=Counter)
    healed_ms_max: dict[str, int] = field(default_factory=dict)

    def add(self, result: Outcome | Failed) -> None:
        self.seeds += 1
        if isinstance(result, Failed):
            self.failed.append(result.seed)
            return
        self.simulated_ms += result.simulated_ms
        self.worth += result.worth
        self.counts += result.counts
        for what, taken_ms in result.healed_ms.items():
            self.healed_ms_max[what] = max(self.healed_ms_max.get(what, 0), taken_ms)

    def text(self) -> str:
        faults = "\n".join(f"  {count:>9,} {name}" for name, count in sorted(self.counts.items()))
        worth = ", ".join(f"{count:,} {name}" for name, count in self.worth.items())
        healed = ", ".join(f"{what} within {ms} ms" for what, ms in self.healed_ms_max.items())
        failed = f"failed: {', '.join(map(str, self.failed))}" if self.failed else "none failed"
        return (
            f"{self.seeds:,} seeds, {failed}\n"
            f"{self.simulated_ms / _HOUR_MS:.1f} simulated hours, {worth}\n"
            f"after mending: {healed}\n{faults}"
        )


def run_many(
    world: str, seeds: range, processes: int, *, is_shown: bool
) -> Iterator[Outcome | Failed]:
    """is_shown: with a progress bar on the terminal."""
    columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with (
        ProcessPoolExecutor(processes) as pool,
        Progress(*columns, console=Console(stderr=True), disable=not is_shown) as progress,
    ):
        task = progress.add_task("seeds", total=len(seeds))
        try:
            for result in pool.map(
                functools.partial(run_or_fail, world), seeds, chunksize=_SEEDS_AT_ONCE
            ):
                progress.advance(task)
                yield result
        finally:
            pool.shutdown(cancel_futures=True)


def run_or_fail(world: str, seed: int) -> Outcome | Failed:
    try:
        return WORLDS[world](seed)
    except Exception as error:
        return Failed(seed, f"{type(error).__name__}: {error}")
