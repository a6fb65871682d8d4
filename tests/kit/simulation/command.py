"""The command line of the simulation: one seed with its trace, or many with a summary.

Not the runs. The invariant: the exit code is 0 only if every seed kept every promise, and what
failed is told with the command that shows it again.
"""

from __future__ import annotations

import argparse
import sys
import traceback
from collections.abc import Sequence
from dataclasses import replace

from tests.kit.simulation.many import Failed, Summary, run_many
from tests.kit.simulation.runs import USUAL_WORLD, Outcome, replay_command
from tests.kit.simulation.trace import Trace
from tests.kit.simulation.worlds import WORLDS


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.kit.simulation",
        description="Run simulated worlds, each from a seed, and check what must hold.",
    )
    parser.add_argument(
        "world", nargs="?", choices=list(WORLDS), default=USUAL_WORLD, help="default: %(default)s"
    )
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--seed", type=int, help="run this one, and say what it did")
    which.add_argument("--seeds", type=_seeds, metavar="FIRST:END", help="run these")
    parser.add_argument("--trace", action="store_true", help="with --seed: print all that happens")
    parser.add_argument("--processes", type=int, default=2, help="with --seeds (default: 2)")
    parser.add_argument(
        "--until-failure", action="store_true", help="with --seeds: end with the first that fails"
    )
    options = parser.parse_args(arguments)
    if options.seed is not None:
        return _run_one(options.world, options.seed, is_traced=options.trace)
    return _run_many(
        options.world, options.seeds, options.processes, is_eager=options.until_failure
    )


def _seeds(text: str) -> range:
    first, separator, end = text.partition(":")
    return range(int(first), int(end)) if separator else range(int(first))


def _run_one(world: str, seed: int, *, is_traced: bool) -> int:
    trace = Trace(is_kept=is_traced)
    error = None
    try:
        _say(_describe(WORLDS[world](seed, trace)))
    except Exception as failure:
        error = failure
    for line in trace.lines:
        _say(line)
    if error is None:
        return 0
    _say("".join(traceback.format_exception(error)))
    return 1


def _run_many(world: str, seeds: range, processes: int, *, is_eager: bool) -> int:
    summary = Summary()
    for result in run_many(world, seeds, processes, is_shown=sys.stderr.isatty()):
        summary.add(result)
        if isinstance(result, Failed):
            _say(f"seed {result.seed}: {result.reason}")
            _say(f"  {replay_command(world, result.seed)}")
            if is_eager:
                break
    _say(summary.text())
    return 1 if summary.failed else 0


def _describe(outcome: Outcome) -> str:
    counts = ", ".join(f"{name} {count}" for name, count in sorted(outcome.counts.items()))
    plain = replace(outcome, counts=type(outcome.counts)())
    return f"{plain}\n{counts}"


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
