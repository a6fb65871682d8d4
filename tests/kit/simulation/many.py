"""Many seeds, in several processes, and what they were worth together.

Not what is printed. The invariant: results come in the order of the seeds, one for each, whatever
befalls a run; what is summed up does not depend on how many processes there were.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

from tests.kit.simulation.clusters.run import Outcome, replay_command, run_seed

_HOUR_MS: Final = 3_600_000
_SEEDS_AT_ONCE: Final = 5


@dataclass(frozen=True, slots=True)
class Failed:
    """A seed that broke a promise."""

    seed: int
    reason: str

    @property
    def command(self) -> str:
        return f"{replay_command(self.seed)} --trace"


@dataclass(slots=True)
class Summary:
    """Of the seeds so far."""

    seeds: int = 0
    failed: list[int] = field(default_factory=list)
    simulated_ms: int = 0
    elections: int = 0
    acknowledged: int = 0
    read: int = 0
    available_ms_max: int = 0
    settled_ms_max: int = 0
    counts: Counter[str] = field(default_factory=Counter)

    def add(self, result: Outcome | Failed) -> None:
        self.seeds += 1
        if isinstance(result, Failed):
            self.failed.append(result.seed)
            return
        self.simulated_ms += result.simulated_ms
        self.elections += result.elections
        self.acknowledged += result.acknowledged
        self.read += result.read
        self.available_ms_max = max(self.available_ms_max, result.available_ms)
        self.settled_ms_max = max(self.settled_ms_max, result.settled_ms)
        self.counts += result.counts

    def text(self) -> str:
        faults = "\n".join(f"  {count:>9,} {name}" for name, count in sorted(self.counts.items()))
        failed = f"failed: {', '.join(map(str, self.failed))}" if self.failed else "none failed"
        return (
            f"{self.seeds:,} seeds, {failed}\n"
            f"{self.simulated_ms / _HOUR_MS:.1f} simulated hours, {self.elections:,} elections, "
            f"{self.acknowledged:,} records acknowledged, {self.read:,} read\n"
            f"after mending: messages taken within {self.available_ms_max} ms, "
            f"copies equal within {self.settled_ms_max} ms more\n{faults}"
        )


def run_many(seeds: range, processes: int, *, is_shown: bool) -> Iterator[Outcome | Failed]:
    """is_shown: with a progress bar on the terminal."""
    columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with (
        ProcessPoolExecutor(processes) as pool,
        Progress(*columns, console=Console(stderr=True), disable=not is_shown) as progress,
    ):
        task = progress.add_task("seeds", total=len(seeds))
        try:
            for result in pool.map(run_or_fail, seeds, chunksize=_SEEDS_AT_ONCE):
                progress.advance(task)
                yield result
        finally:
            pool.shutdown(cancel_futures=True)


def run_or_fail(seed: int) -> Outcome | Failed:
    try:
        return run_seed(seed)
    except Exception as error:
        return Failed(seed, f"{type(error).__name__}: {error}")
