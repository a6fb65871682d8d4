# mypy: disallow-untyped-decorators=False, warn-return-any=False
"""The records of a batch that pass a test, cut out as bytes: the loop of a filtered read.

One source, two ways to run (docs/decisions/0002): as it stands, or compiled by Cython to
`penstock.records._selection`. Import from `penstock.records`, which picks. What a record must have
to pass is the caller's: it is given a row, and says yes by True. Putting what passed together
again is `records.rewrite`'s.

The invariant: a record is parsed once, and only what the test looks at is taken out of it: the key
if it is wanted, the headers that have a place; never the value.

Compiled, `data` below is a C pointer; interpreted, it is the bytes themselves. Both are indexed
and sliced alike.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import cython

from penstock.model.limits import RECORD_HEADERS_MAX
from penstock.records.header import BatchHeader

if cython.compiled:
    from cython.cimports.penstock.records._cursor import Cursor

    from penstock.records._cursor import open_batch  # type: ignore[import-not-found]
else:
    from penstock.records.cursor import Cursor, open_batch

# To walk over so many takes no longer than a test of one record does.
_HEADERS_PER_RECORD = cython.declare(cython.longlong, 16)


@cython.final
@cython.cclass
class Selection:
    """Looks at the records of one batch, some at a time."""

    __slots__ = (
        "_blank",
        "_cursor",
        "_dropped",
        "_kept",
        "_needs_key",
        "_newest_ms",
        "_places",
        "_start_offset",
        "_stretch_end",
        "_stretch_start",
        "_stretches",
        "_test",
    )
    _cursor: Cursor
    _start_offset: cython.longlong
    _places: dict[bytes, int]
    _blank: list[Any]
    _needs_key: cython.bint
    _test: Any
    # Where what passed begins and ends, one after another; neighbours are one stretch. The last
    # one, which may still grow, is beside the list.
    _stretches: list[tuple[int, int]]
    _stretch_start: cython.Py_ssize_t
    _stretch_end: cython.Py_ssize_t
    _kept: cython.longlong
    _dropped: cython.longlong
    _newest_ms: cython.longlong

    def __init__(
        self,
        header: BatchHeader,
        batch: memoryview,
        bytes_max: int,
        start_offset: int,
        places: Mapping[bytes, int],
        needs_key: bool,
        test: Callable[[list[Any]], object],
    ) -> None:
        """Of a checked batch, which may take `bytes_max` decompressed; of its records, those from
        the offset on. places: where in a row the value of a header stands: from 2 on, behind key
        and timestamp, without a gap. InvalidBatch if it cannot be opened."""
        assert sorted(places.values()) == list(range(2, 2 + len(places))), places
        self._cursor = open_batch(header, batch, bytes_max, RECORD_HEADERS_MAX)
        self._start_offset = start_offset
        self._places = dict(places)
        self._blank = [None] * len(places)
        self._needs_key = needs_key
        self._test = test
        self._stretches = []
        self._stretch_start = 0
        self._stretch_end = 0
        self._kept = 0
        self._dropped = 0
        self._newest_ms = -1

    @property
    def size_bytes(self) -> int:
        """Of all records, decompressed."""
        return self._cursor.end

    @property
    def kept_count(self) -> int:
        return self._kept

    @property
    def is_whole(self) -> bool:
        """Whether none that was asked about has been left out."""
        return self._dropped == 0

    @property
    def newest_ms(self) -> int:
        """The largest timestamp of those that passed."""
        return self._newest_ms

    def pieces(self) -> list[memoryview]:
        """The bytes of the records that passed, in their order."""
        records = memoryview(self._cursor.owner)
        stretches = [*self._stretches, (self._stretch_start, self._stretch_end)]
        return [records[start:end] for start, end in stretches]

    def look(self, records_max: int) -> bool:
        """Look at so many more records, or fewer that have many headers. False when there was none
        left; InvalidBatch where one makes no sense."""
        cursor: Cursor = self._cursor
        left: cython.longlong = records_max
        while left > 0:
            left -= 1
            start: cython.Py_ssize_t = cursor.position
            if not cursor.advance():
                return False
            left -= cursor.headers_left // _HEADERS_PER_RECORD
            if cursor.offset < self._start_offset:
                cursor.skip_headers()
                continue
            if self._test(self._row()) is True:
                self._keep(start, cursor.record_end)
            else:
                self._dropped += 1
        return True

    @cython.cfunc
    def _row(self) -> list[Any]:
        cursor: Cursor = self._cursor
        key: object = None
        if self._needs_key and cursor.key_length >= 0:
            key = cursor.data[cursor.key_position : cursor.key_position + cursor.key_length]
        row: list[Any] = [key, cursor.timestamp_ms]
        if not self._blank:
            cursor.skip_headers()
            return row
        row += self._blank
        while cursor.next_header():
            if cursor.content_length < 0:
                continue
            name: bytes = cursor.data[
                cursor.name_position : cursor.name_position + cursor.name_length
            ]
            place = self._places.get(name)
            if place is not None and row[place] is None:
                row[place] = cursor.data[
                    cursor.content_position : cursor.content_position + cursor.content_length
                ]
        return row

    @cython.cfunc
    def _keep(self, start: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.void:
        self._kept += 1
        self._newest_ms = max(self._newest_ms, self._cursor.timestamp_ms)
        if start != self._stretch_end:
            self._stretches.append((self._stretch_start, self._stretch_end))
            self._stretch_start = start
        self._stretch_end = end
