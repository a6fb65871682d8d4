"""Which seeds run when: none that was always the same is lost, and each commit draws new ones."""

from __future__ import annotations

import time

import pytest

from tests.kit.runs import tiers


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


def take(seconds: float) -> None:
    end_s = time.process_time() + seconds
    while time.process_time() < end_s:
        pass


def test_a_unit_test_that_takes_much_of_the_processor_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tiers, "UNIT_SECONDS_MAX", 0.01)
    monkeypatch.setattr(tiers, "_slowness", lambda: 1.0)
    with pytest.raises(pytest.fail.Exception, match=r"0.01 s is the limit"):  # noqa: SIM117
        with tiers.short("tests/unit/test_it.py::test_it"):
            take(0.02)
    with tiers.short("tests/unit/test_it.py::test_it"):
        time.sleep(0.02)
    with tiers.short("tests/system/test_it.py::test_it"):
        take(0.02)
    monkeypatch.setattr(tiers, "_slowness", lambda: 3.0)
    with tiers.short("tests/unit/test_it.py::test_it"):
        take(0.02)


def test_the_error_of_one_that_failed_is_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiers, "UNIT_SECONDS_MAX", 0.0)
    with pytest.raises(KeyError), tiers.short("tests/unit/test_it.py::test_it"):
        raise KeyError
