"""Which seeds run when: none that was always the same is lost, and each commit draws new ones."""

from __future__ import annotations

import pytest

from tests import tiers


def test_half_of_the_seeds_are_always_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiers, "IS_SOAK", False)
    monkeypatch.setenv("DRAW", "7000000")
    assert tiers.seeds(7) == [0, 1, 2, 7_000_000, 7_000_001, 7_000_002, 7_000_003]


def test_a_soak_has_all_that_ever_were_always_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiers, "IS_SOAK", True)
    monkeypatch.setenv("DRAW", "7000000")
    assert tiers.seeds(200) == [*range(200), *range(7_000_000, 7_001_000)]


@pytest.mark.parametrize("is_soak", [False, True])
def test_parts_have_all_of_them_together(is_soak: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiers, "IS_SOAK", is_soak)
    parts = [seed for part in range(3) for seed in tiers.seeds(100, part, 3)]
    assert sorted(parts) == sorted(tiers.seeds(100))
