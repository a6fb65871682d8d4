"""Shared groups while leaders change, writes are lost and members misbehave, from seeds."""

from __future__ import annotations

import os

import pytest

from tests.delivery_history import shown
from tests.simulation.share_world import run

SEEDS = int(os.environ.get("PENSTOCK_SHARE_SEEDS", "150"))


@pytest.mark.parametrize("part", range(5))
def test_every_promise_is_kept(part: int) -> None:
    """R-DEL-3, R-DEL-11: one holder at a time, acknowledged ones never again, each at least once,
    in the order of keys."""
    for seed in range(part, SEEDS, 5):
        violations = run(seed).violations()
        assert not violations, f"seed {seed}: {shown(violations)}"
