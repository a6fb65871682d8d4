"""Offsets without a message: which of them are lost, and which hold what nobody is shown.

Control records (markers of transactions, of new leaders) take offsets and are no rows, so the rows
alone do not tell them from a hole. A client of a broker refuses to read over a hole, unless the log
is compacted: what is missing in its rows is none. In a data folder, where what is damaged is
skipped, the batches themselves are asked. The invariant: an offset that a sound control batch has
is not lost, every other one in a gap is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from penstock.records.header import BatchHeader
from penstock.spark.inspection.evidence.answers import Record

# Each is a look into a file. Where a partition has more gaps, the shortest are taken for control
# records: what is lost is whole batches and files, and longer than a few markers.
GAPS_MAX: Final = 1_000


Headers = Callable[[str, int, int, int], Iterable[BatchHeader]]
"""The headers of a partition's sound batches from one offset to another, as `Folder` has them."""


class Lost(NamedTuple):
    """Offsets in a row that should have messages."""

    topic: str
    partition: int
    offset: int
    """The first of them."""
    amount: int


def find_lost(headers_of: Headers, gaps: Iterable[Record]) -> list[Lost]:
    """What is lost of these gaps."""
    lost = []
    for gap in gaps:
        topic, partition, start = gap["topic"], gap["partition"], gap["offset"]
        end = start + gap["amount"]
        runs = _lost_runs(start, end, headers_of(topic, partition, start, end))
        lost += [Lost(topic, partition, *run) for run in runs]
    return lost


def _lost_runs(start: int, end: int, headers: Iterable[BatchHeader]) -> list[tuple[int, int]]:
    """(first, how many) for the offsets from start to end that are in none of the control batches,
    which are in the order of the log."""
    runs = []
    offset = start
    for header in headers:
        if header.is_control:
            if min(header.base_offset, end) > offset:
                runs.append((offset, min(header.base_offset, end) - offset))
            offset = max(offset, header.next_offset)
    if end > offset:
        runs.append((offset, end - offset))
    return runs
