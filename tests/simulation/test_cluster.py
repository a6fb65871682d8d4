"""Whole clusters of the real code under faults of machines, disks, networks and people, from seeds.

What must hold is in `tests.kit.simulation.checkers`, one function for each promise. A seed
that fails says how to see it again; `make sim SEEDS=2000` runs more of them.
"""

from __future__ import annotations

from collections import Counter

import pytest

from tests.kit.runs import tiers
from tests.kit.simulation.clusters.run import run_seed
from tests.kit.simulation.runs import Outcome

# Drawn by the commit; and those that are always the same, of which each run has a slice.
DRAWN = 40
FIXED = 200
SEEDS_PER_TEST = 5
# Nearly every run has most of these; of all of them together, none may be without any.
FAULTS = {
    "all killed",
    "bits decayed",
    "bridge",
    "change of membership",
    "compaction",
    "crash at the disk",
    "deleted records",
    "failing disk",
    "flapping",
    "folders lost",
    "full disk",
    "leader cut off",
    "moved partition",
    "one-way cut",
    "orderly stop",
    "pause",
    "relay of leaders",
    "removed copy",
    "slow disk",
    "split network",
    "topic made anew",
    "transfer",
}


@pytest.mark.parametrize("part", range(DRAWN // SEEDS_PER_TEST))
def test_every_promise_is_kept(part: int) -> None:
    """R-REP-1, R-REP-2, R-REP-3, R-REP-7, R-PRO-1, R-PRO-2, R-STO-6: whatever fails, and for
    however long."""
    for seed in tiers.drawn(DRAWN)[part :: DRAWN // SEEDS_PER_TEST]:
        run_seed(seed)


@pytest.mark.soak
@pytest.mark.parametrize("first", range(0, FIXED, SEEDS_PER_TEST))
def test_every_promise_is_kept_still(first: int) -> None:
    """By seeds that have found something, or their neighbours."""
    for seed in range(first, first + SEEDS_PER_TEST):
        run_seed(seed)


def test_a_run_is_worth_something() -> None:
    """A run in which nothing happens proves nothing."""
    outcomes: list[Outcome] = []
    counts: Counter[str] = Counter()
    # Most of it is there soon; the rarest faults take many more runs.
    while len(outcomes) < 10 or (not set(counts) >= FAULTS and len(outcomes) < 60):
        outcomes.append(run_seed(FIXED + len(outcomes)))
        counts += outcomes[-1].counts
    assert set(counts) >= FAULTS
    worth: Counter[str] = sum((outcome.worth for outcome in outcomes), Counter())
    assert worth["elections"] > 5 * len(outcomes)
    assert worth["records acknowledged"] > 50 * len(outcomes)
    assert worth["records read"] > 30 * len(outcomes)
