"""Whatever the world, a run follows from its seed alone, and one that fails says how to see it
again."""

from __future__ import annotations

import functools
import os
import subprocess
import sys

import pytest

from tests.kit.simulation.checkers import Violation
from tests.kit.simulation.faults import Faults
from tests.kit.simulation.runs import Outcome
from tests.kit.simulation.trace import Trace
from tests.kit.simulation.worlds import WORLDS

SEED = 2


@functools.cache
def once(world: str, seed: int = SEED) -> Outcome:
    return WORLDS[world](seed)


@pytest.mark.parametrize("world", WORLDS)
def test_the_same_seed_is_the_same_run_to_the_last_byte(world: str) -> None:
    trace = Trace(is_kept=True)
    assert WORLDS[world](SEED, trace) == once(world)
    assert trace.lines
    assert once(world).counts.total() > 0
    assert once(world).worth.total() > 0


@pytest.mark.parametrize("world", WORLDS)
def test_another_seed_is_another_run(world: str) -> None:
    assert once(world, SEED + 1).digest != once(world).digest


@pytest.mark.parametrize("hash_seed", ["1", "2"])
def test_how_a_process_hashes_is_no_part_of_it(hash_seed: str) -> None:
    module = "tests.kit.simulation.worlds"
    command = f"from {module} import WORLDS; print(*[WORLDS[w]({SEED}).digest for w in WORLDS])"
    done = subprocess.run(
        [sys.executable, "-c", command],
        env=os.environ | {"PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == [once(world).digest for world in WORLDS]


@pytest.mark.parametrize("world", WORLDS)
def test_a_failure_says_how_to_see_it_again(world: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: Faults, timeline: object) -> None:
        raise Violation("by hand")

    monkeypatch.setattr(Faults, "strike", fail)
    with pytest.raises(Violation) as caught:
        WORLDS[world](17)
    named = "" if world == "clusters" else f" {world}"
    command = f"python -m tests.kit.simulation{named} --seed 17 --trace"
    assert caught.value.__notes__ == [f"Replay it: {command}"]
