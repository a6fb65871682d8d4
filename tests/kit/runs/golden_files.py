"""Scenario files of `command / ---- / output` blocks: run one, and compare or rewrite it.

Not a language: what a command means is the interpreter's business. The invariant: a file that is
rewritten passes, and rewriting changes nothing but outputs, so that a change of behaviour is
reviewed as a diff. A block is

    # Comments stand before a command and are kept.
    a command, of one line or several
    ----
    what it puts out, up to the next empty line

Set PENSTOCK_REWRITE_GOLDEN=1 to write what the code does now into the files.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from penstock.model.errors import PenstockError

SEPARATOR = "----"


def run_golden(path: Path, interpret: Callable[[str], str]) -> None:
    """Give the file's commands to `interpret`, in order, and hold its answers against the file.
    An error of ours is an output too: its name and its sentence."""
    expected = path.read_text()
    made = "\n".join(_run(block, interpret) for block in _blocks(expected))
    if made == expected:
        return
    if os.environ.get("PENSTOCK_REWRITE_GOLDEN") == "1":
        path.write_text(made)
        return
    difference = difflib.unified_diff(
        expected.splitlines(), made.splitlines(), "the file", "the code", lineterm="", n=8
    )
    raise AssertionError("\n".join([f"{path.name} differs:", *difference]))


def _blocks(text: str) -> Iterator[list[str]]:
    """The lines of each block: runs of lines between empty ones."""
    block: list[str] = []
    for line in [*text.splitlines(), ""]:
        if line.strip():
            block.append(line.rstrip())
        elif block:
            yield block
            block = []


def _run(block: list[str], interpret: Callable[[str], str]) -> str:
    """The block as it should be in the file. One of comments alone stays as it is."""
    head = block[: block.index(SEPARATOR)] if SEPARATOR in block else block
    command = [line for line in head if not line.startswith("#")]
    if not command:
        return "".join(f"{line}\n" for line in head)
    try:
        output = interpret("\n".join(command)).splitlines()
    except PenstockError as error:
        output = [f"{type(error).__name__}: {error}"]
    assert all(line.strip() for line in output), f"an empty line would end the block: {output}"
    return "".join(f"{line.rstrip()}\n" for line in [*head, SEPARATOR, *output])
