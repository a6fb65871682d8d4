"""Plants known bugs in a copy of the source, one at a time, and shows what notices each.

    python -m tests.mutations                          all of them, in two processes
    python -m tests.mutations --seeds 500 "skipped CRC"
    python -m tests.mutations --area delivery --area client

First everything runs without a bug: what fails then would pass for noticing one, so it is an error
and nothing is planted. Of each bug the simulation runs its seeds in order until one fails, if it
has the code at all; then the tests that may notice the bug run until one fails. A bug that neither
notices is an error, and so is one that no longer fits.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, NamedTuple

from tests.mutations.catalogue import AREAS, NAMED
from tests.mutations.mutation import SOURCE, Mutation

ROOT: Final = SOURCE.parents[1]
SEEDS: Final = 200
# A planted bug may have the code go round in circles: that is noticed, too.
SIMULATION_S_MAX: Final = 1_800
TESTS_S_MAX: Final = 1_200


class Verdict(NamedTuple):
    mutation: Mutation
    simulation: str
    tests: str

    @property
    def is_noticed(self) -> bool:
        return bool(self.simulation or self.tests)


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutations")
    parser.add_argument("names", nargs="*", help="which (default: all)")
    parser.add_argument("--seeds", type=int, default=SEEDS, help=f"default: {SEEDS}")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--named", action="store_true", help="only those that must be known")
    parser.add_argument("--area", action="append", choices=list(AREAS), help="may be repeated")
    options = parser.parse_args(arguments)
    areas = [AREAS[area] for area in options.area or AREAS]
    known = NAMED if options.named else [each for area in areas for each in area]
    chosen = [each for each in known if not options.names or each.name in options.names]
    if not chosen:
        parser.error(f"no such mutation: {options.names}")
    verdicts = []
    with ThreadPoolExecutor(options.processes) as pool:
        if failures := failing_anyway(chosen, options.seeds, pool):
            print("without any bug:", *failures, sep="\n")
            return 1
        for verdict in pool.map(lambda each: judge(each, options.seeds), chosen):
            print(row(verdict, options.seeds), flush=True)
            verdicts.append(verdict)
    unnoticed = [verdict for verdict in verdicts if not verdict.is_noticed]
    by_simulation = sum(bool(verdict.simulation) for verdict in verdicts)
    print(
        f"{len(verdicts)} bugs planted, {len(verdicts) - len(unnoticed)} noticed,",
        f"{by_simulation} of them by the simulation",
    )
    return 1 if unnoticed else 0


def failing_anyway(chosen: Sequence[Mutation], seeds: int, pool: ThreadPoolExecutor) -> list[str]:
    """What fails in the source as it is: of each set of tests the first."""
    environment = os.environ | {"PYTHONPATH": str(SOURCE.parent)}
    simulations = [seeds] if any(mutation.is_simulated for mutation in chosen) else []
    tests = dict.fromkeys(mutation.tests for mutation in chosen)
    by_simulation = pool.map(lambda each: noticed_by_simulation(each, environment), simulations)
    by_tests = pool.map(lambda each: noticed_by_tests(each, environment), tests)
    return [failure for failure in (*by_simulation, *by_tests) if failure]


def judge(mutation: Mutation, seeds: int) -> Verdict:
    with tempfile.TemporaryDirectory(prefix="penstock-mutation-") as folder:
        copy = Path(folder) / "src" / "penstock"
        shutil.copytree(SOURCE, copy)  # what is compiled, too: it says of which source it is
        mutation.plant(copy)
        environment = os.environ | {"PYTHONPATH": str(copy.parent)}
        simulation = ""
        if mutation.is_simulated:
            simulation = noticed_by_simulation(seeds, environment)
        return Verdict(mutation, simulation, noticed_by_tests(mutation.tests, environment))


def noticed_by_simulation(seeds: int, environment: dict[str, str]) -> str:
    """What the simulation says of the first seed that fails; empty if none does."""
    command = ["-m", "tests.kit.simulation", "--seeds", f"0:{seeds}", "--until-failure"]
    output = complaint([*command, "--processes", "1"], environment, SIMULATION_S_MAX)
    found = re.search(r"^seed (\d+): (.*)$", output, re.MULTILINE)
    return f"seed {int(found[1]) + 1}: {found[2]}" if found else last_line(output)


def noticed_by_tests(tests: Sequence[str], environment: dict[str, str]) -> str:
    """The first test that fails; empty if none does."""
    options = ["-x", "-q", "-p", "no:cacheprovider", "--no-header", "-rfE", "--tb=no"]
    output = complaint(["-m", "pytest", *options, *tests], environment, TESTS_S_MAX)
    found = re.search(r"^(?:FAILED|ERROR) (\S+)", output, re.MULTILINE)
    return found[1].rpartition("/")[2] if found else last_line(output)


def complaint(arguments: Sequence[str], environment: dict[str, str], limit_s: int) -> str:
    """What it puts out, if it fails or does not end."""
    try:
        done = subprocess.run(
            [sys.executable, *arguments],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            timeout=limit_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return "it does not end"
    return f"{done.stdout}{done.stderr}\nit ended with {done.returncode}" if done.returncode else ""


def last_line(output: str) -> str:
    return output.rpartition("\n")[2]


def row(verdict: Verdict, seeds: int) -> str:
    unnoticed = f"not in {seeds} seeds" if verdict.mutation.is_simulated else "does not have it"
    simulation = verdict.simulation or unnoticed
    tests = verdict.tests or "no"
    mark = "noticed" if verdict.is_noticed else "UNNOTICED"
    return f"{mark:<9} | {verdict.mutation.name:<60} | {simulation[:110]:<110} | {tests}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
