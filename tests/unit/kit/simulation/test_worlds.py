"""Whatever the world, a run follows from its seed alone."""

from __future__ import annotations

import pytest

from tests.kit.simulation.checkers import Violation
from tests.kit.simulation.faults import Faults
from tests.kit.simulation.trace import Trace
from tests.kit.simulation.worlds import WORLDS

SEED = 3


@pytest.mark.parametrize("world", ["raft", "shared"])
def test_the_same_seed_is_the_same_run(world: str) -> None:
    trace = Trace(is_kept=True)
    once = WORLDS[world](SEED, trace)
    assert trace.lines
    assert WORLDS[world](SEED) == once
    assert WORLDS[world](SEED + 1).digest != once.digest
    assert once.counts
    assert all(once.worth.total() and taken_ms >= 0 for taken_ms in once.healed_ms.values())


@pytest.mark.parametrize("world", ["raft", "shared"])
def test_a_failure_says_how_to_see_it_again(world: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: Faults, timeline: object) -> None:
        raise Violation("by hand")

    monkeypatch.setattr(Faults, "strike", fail)
    with pytest.raises(Violation) as caught:
        WORLDS[world](17)
    command = f"python -m tests.kit.simulation {world} --seed 17 --trace"
    assert caught.value.__notes__ == [f"Replay it: {command}"]
