"""Shared groups while leaders change, writes are lost and members misbehave, from seeds."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from tests.delivery_history import shown
from tests.simulation.share_bugs import BUGS
from tests.simulation.share_world import run

SEEDS_WITH_BUG_MAX = 150
SEEDS = int(os.environ.get("PENSTOCK_SHARE_SEEDS", "150"))


@pytest.mark.parametrize("part", range(5))
def test_every_promise_is_kept(part: int) -> None:
    """R-DEL-3, R-DEL-11: one holder at a time, acknowledged ones never again, each at least once,
    in the order of keys."""
    for seed in range(part, SEEDS, 5):
        violations = run(seed).violations()
        assert not violations, f"seed {seed}: {shown(violations)}"


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.__name__)
def test_a_planted_bug_is_noticed(
    bug: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each by the checkers, within some seeds: else they would show nothing."""
    bug(monkeypatch)
    for seed in range(SEEDS_WITH_BUG_MAX):
        try:
            if run(seed).violations():
                return
        except (AssertionError, TimeoutError):
            return
    pytest.fail(f"{bug.__name__} was not noticed in {SEEDS_WITH_BUG_MAX} seeds")
