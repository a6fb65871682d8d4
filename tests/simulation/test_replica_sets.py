"""Replica sets of the real code under faults of machines, disks and networks, from seeds.

The checkers: one leader a term, leader completeness, log matching, what is readable is committed
and never changes, the high watermark of a life never goes back, all that was acknowledged is there
once and where it was said to be, copies are equal byte for byte at the end, and a healed cluster is
available in time.
"""

from __future__ import annotations

import pytest

from tests.replica_chaos import run_seed

SEEDS = 50


@pytest.mark.parametrize("seed", range(SEEDS))
def test_nothing_acknowledged_is_lost(seed: int) -> None:
    """R-REP-2, R-PRO-1."""
    run_seed(seed)


def test_a_run_is_worth_something() -> None:
    """Elections, commits, changes of membership and copies begun anew do happen."""
    outcomes = [run_seed(seed) for seed in range(100, 112)]
    assert sum(outcome.terms for outcome in outcomes) > 30
    assert sum(outcome.acknowledged for outcome in outcomes) > 50
    assert sum(outcome.changes for outcome in outcomes) > 10
