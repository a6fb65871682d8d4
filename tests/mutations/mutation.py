"""A known bug to plant: tests that do not notice it are no tests.

Each edit takes the text `old`, which is in the file once, for `new`. Not the planting: whoever does
that works on a copy. The invariant, held by tests/tidy: every mutation still fits its files.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final, NamedTuple

SOURCE: Final = Path(__file__).parents[2] / "src" / "penstock"
_UNIT: Final = ("tests/unit/raft", "tests/unit/replication", "tests/property/test_raft.py")


class Edit(NamedTuple):
    file: str
    """Below src/penstock."""
    old: str
    new: str


class Mutation(NamedTuple):
    name: str
    edits: tuple[Edit, ...]
    tests: tuple[str, ...] = _UNIT
    """Those that may notice it, beside the simulation."""
    is_simulated: bool = True
    """Whether simulated clusters have the code that is changed."""

    def plant(self, source: Path) -> None:
        """In a copy of src/penstock."""
        for file, old, new in self.edits:
            path = source / file
            text = path.read_text()
            assert text.count(old) == 1, f"{self.name} does not fit {file} any more"
            path.write_text(text.replace(old, new))


def one(name: str, file: str, old: str, new: str, tests: tuple[str, ...] = _UNIT) -> Mutation:
    return Mutation(name, (Edit(file, old, new),), tests)


def outside(name: str, file: str, old: str, new: str, *tests: str) -> Mutation:
    """In code that simulated clusters do not have: these tests alone must notice it."""
    return Mutation(name, (Edit(file, old, new),), tests, is_simulated=False)
