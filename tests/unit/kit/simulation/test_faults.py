"""Which faults a run has is drawn; what mends is in every run."""

from __future__ import annotations

from collections import Counter
from random import Random

from tests.kit.simulation.faults import TURMOIL_MS, Fault, Faults
from tests.kit.simulation.timeline import Timeline
from tests.kit.simulation.trace import Trace

OTHERS = ("crash", "pause", "cut")


def counted(seed: int, only: dict[str, int] | None = None) -> Counter[str]:
    """How often each happened in a run."""
    happened: list[str] = []

    def happens(name: str) -> Fault:
        return lambda: happened.append(name)

    counts: Counter[str] = Counter()
    table = {name: (10, happens(name)) for name in ("mended", *OTHERS)}
    faults = Faults(Random(seed), counts, table, always=("mended",))
    if only is not None:
        faults.only(only)
    timeline = Timeline(Random(seed), Trace())
    faults.rage(timeline)
    assert timeline.now_ms >= TURMOIL_MS
    assert Counter(happened) == counts
    return counts


def test_runs_differ_in_kind() -> None:
    runs = [counted(seed) for seed in range(10)]
    assert all(run["mended"] for run in runs)
    for name in OTHERS:
        assert any(name in run for run in runs)
        assert any(name not in run for run in runs)
    assert counted(3) == runs[3]


def test_a_storm_has_nothing_but_what_it_is_made_of() -> None:
    assert counted(1, only={"crash": 3, "mended": 1}).keys() == {"crash", "mended"}
