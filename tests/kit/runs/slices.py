"""Which of the long tests is in which slice: each slice takes about as long as every other.

How long they take is kept in `soak.json`, which names all of them and which a run with
`--keep-seconds` brings up to date. Not which slice is on: that says `tiers`. The invariant: slices
follow from that table alone, so a slice is the same in every run of a commit.

    python -m tests.kit.runs.slices          prints them
"""

from __future__ import annotations

import functools
import json
from pathlib import Path
from zlib import crc32

SLICES = 5
TABLE = Path(__file__).with_name("soak.json")


@functools.cache
def soak_seconds() -> dict[str, float]:
    """Of the long tests, by their names."""
    known: dict[str, float] = json.loads(TABLE.read_text())
    return known


def divided(seconds: dict[str, float]) -> list[list[str]]:
    """The longest first, each into the slice that takes least so far."""
    slices: list[list[str]] = [[] for _ in range(SLICES)]
    loads = [0.0] * SLICES
    for name, taken in sorted(seconds.items(), key=lambda each: (-each[1], each[0])):
        lightest = loads.index(min(loads))
        slices[lightest].append(name)
        loads[lightest] += taken
    return slices


@functools.cache
def _slices_of_all() -> dict[str, int]:
    divided_now = divided(soak_seconds())
    return {name: number for number, names in enumerate(divided_now) for name in names}


def slice_of(name: str) -> int:
    """Of one that the table does not have yet, any."""
    number = _slices_of_all().get(name)
    return crc32(name.encode()) % SLICES if number is None else number


def main() -> None:
    for number, names in enumerate(divided(soak_seconds())):
        print(f"slice {number}: {sum(soak_seconds()[name] for name in names):.0f} s")
        for name in names:
            print(f"  {soak_seconds()[name]:5.1f} s  {name.removeprefix('tests/')}")


if __name__ == "__main__":
    main()
