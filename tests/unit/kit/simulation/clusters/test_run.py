"""A run follows from its seed alone, and one that fails says how to see it again."""

from __future__ import annotations

import functools
import os
import subprocess
import sys

import pytest

from tests.kit.simulation import faults
from tests.kit.simulation.checkers import Violation
from tests.kit.simulation.clusters.run import Run, run_seed
from tests.kit.simulation.trace import Trace

SEED = 2
once = functools.cache(run_seed)


def test_the_same_seed_is_the_same_run_to_the_last_byte() -> None:
    assert run_seed(SEED, Trace(is_kept=True)) == once(SEED)
    assert once(SEED).worth["elections"] > 0
    assert once(SEED).worth["records acknowledged"] > 0


def test_another_seed_is_another_run() -> None:
    assert once(SEED + 1).digest != once(SEED).digest


@pytest.mark.parametrize("hash_seed", ["1", "2"])
def test_how_a_process_hashes_is_no_part_of_it(hash_seed: str) -> None:
    command = (
        f"from tests.kit.simulation.clusters.run import run_seed; print(run_seed({SEED}).digest)"
    )
    done = subprocess.run(
        [sys.executable, "-c", command],
        env=os.environ | {"PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == once(SEED).digest


def test_a_failure_says_how_to_see_it_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: Run) -> None:
        raise Violation("by hand")

    monkeypatch.setattr(Run, "_until_available", fail)
    monkeypatch.setattr(faults, "TURMOIL_MS", 100)
    with pytest.raises(Violation) as caught:
        run_seed(17)
    assert caught.value.__notes__ == ["Replay it: python -m tests.kit.simulation --seed 17 --trace"]
