"""A run of a world: what it was worth, and how to see it again.

Not what happens in it. The invariant: a run that fails says by which command it is seen again.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from tests.kit.simulation.trace import Trace

# The world that is meant where none is named.
USUAL_WORLD: Final = "clusters"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a run was worth: without elections and acknowledgements it would prove nothing."""

    seed: int
    simulated_ms: int
    worth: Counter[str]
    counts: Counter[str]
    """How often what befell it."""
    healed_ms: Mapping[str, int]
    """How long it took, after everything was mended, until something came true."""
    digest: str
    """The same whenever the seed is run by the same code."""


class RunSeed(Protocol):
    """Runs a world."""

    def __call__(self, seed: int, trace: Trace | None = None) -> Outcome: ...


def replayable(world: str) -> Callable[[Callable[[int, Trace], Outcome]], RunSeed]:
    """Of what runs that world: a failure says how to see it again."""

    def decorate(live: Callable[[int, Trace], Outcome]) -> RunSeed:
        @functools.wraps(live)
        def run_seed(seed: int, trace: Trace | None = None) -> Outcome:
            try:
                return live(seed, trace or Trace())
            except Exception as error:
                error.add_note(f"Replay it: {replay_command(world, seed)}")
                raise

        return run_seed

    return decorate


def replay_command(world: str, seed: int) -> str:
    named = "" if world == USUAL_WORLD else f" {world}"
    return f"python -m tests.kit.simulation{named} --seed {seed} --trace"
