"""Each command starts in an interpreter that has imported nothing before. Most processes of tests
are forks of one that has imported everything: in these, an import that is missing is there, and so
is one that works in another order alone."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import penstock.cli
from penstock.cli.main import _COMMANDS, _GROUPS
from tests.kit.processes.up import PENSTOCK, environment

pytestmark = pytest.mark.executed
PROCESSES = 2  # each is busy until it ends
# First what is imported for a command line, then what functions import that have not been called.
START = """
import json, sys
from importlib import import_module
from penstock.cli.main import main

later = json.loads(sys.argv.pop(1))
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
while left := later.keys() & sys.modules:
    for name in [name for module in left for name in later.pop(module)]:
        import_module(name)
"""


def imported_by_functions(path: Path) -> list[str]:
    """Those of our own modules."""
    functions = [
        node
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    imports = [each for function in functions for each in ast.walk(function)]
    names = [each.module or "" for each in imports if isinstance(each, ast.ImportFrom)]
    return [name for name in names if name.startswith("penstock.")]


def test_each_command_imports_what_it_needs() -> None:
    folder = Path(penstock.cli.__file__).parent
    later = {
        ".".join(("penstock.cli", *path.relative_to(folder).with_suffix("").parts)): names
        for path in sorted(folder.rglob("*.py"))
        if (names := imported_by_functions(path))
    }
    assert later["penstock.cli.commands.up"][-1:] == ["penstock.broker.broker"]
    starts = [
        [sys.executable, "-c", START, json.dumps(later), command, "--help"]
        for command in (*_COMMANDS, *_GROUPS)
    ]

    def said_by(command: list[str]) -> str:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, env=environment()
        )
        return "" if done.returncode == 0 else f"{command[-2]}: {done.stderr[-2_000:]}"

    with ThreadPoolExecutor(PROCESSES) as pool:
        complaints = list(pool.map(said_by, [*starts, [PENSTOCK, "topics", "--help"]]))
    assert not [said for said in complaints if said]
