"""Some neighbours out of a batch, as a batch of their own: for those who get a part of it.

They keep their offsets and times. It is not compaction (`records.rewrite`): nobody stores a slice,
so it has no producer, and it is not compressed again. The invariants: a record in a slice is what
it is in its batch; and a slice's header has the offsets of its first and its last record, so that
no two slices overlap: clients that go by headers would pass over the second.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right

from penstock.records import locate_records, renumber_records
from penstock.records.header import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    write_header,
)
from penstock.records.plain import PlainBatch


class SliceableBatch:
    """A checked batch with its records found: opened once, cut as often as it takes."""

    __slots__ = (
        "_batch",
        "_ends",
        "_header",
        "_records",
        "base_offset",
        "next_offset",
        "offsets",
        "size_bytes",
    )

    def __init__(self, batch: memoryview, plain: PlainBatch) -> None:
        """The batch as it is, and opened. InvalidBatch if its records make no sense."""
        self._batch = batch
        self._header = plain.header._replace(
            producer_id=NO_PRODUCER_ID,
            producer_epoch=NO_PRODUCER_EPOCH,
            base_sequence=NO_SEQUENCE,
        )
        self.offsets, self._ends = locate_records(plain.header, plain.batch, len(plain.batch))
        self._records = plain.records
        self.size_bytes = len(self._records)
        """Of its records, opened."""
        self.base_offset = plain.header.base_offset
        self.next_offset = plain.header.next_offset

    def between(self, first: int, last: int) -> bytes | bytearray | memoryview:
        """The records of these offsets, both included; the whole batch as it is if that is all of
        them, and nothing if there are none."""
        begin, end = bisect_left(self.offsets, first), bisect_right(self.offsets, last)
        if begin >= end:
            return b""
        if end - begin == len(self.offsets):
            return self._batch
        start, stop = self._ends[begin - 1] if begin else 0, self._ends[end - 1]
        base_offset = self.offsets[begin]
        header = self._header._replace(
            base_offset=base_offset,
            last_offset_delta=self.offsets[end - 1] - base_offset,
            record_count=end - begin,
        )
        shift = base_offset - self._header.base_offset
        batch = renumber_records(header, self._records[start:stop], shift)
        write_header(batch, header)
        return batch
