"""The sparse index of one segment: offset → position, time → position, and where terms began.

An entry stands for the first batch after every `index_interval_bytes` of log; position 0 needs
none. Entry `i` says: the batch at `positions[i]` has base offset `first + offsets[i]`, and no
message before it is newer than `timestamps[i]`. Not the truth: the log is. The invariant: an index
file is used only if its checksums hold and it describes a log of exactly the size that is there;
anything else is reported, and the index is made again from the log.

Each segment has two files, little endian, with one header:

    magic "PSOF" (.index) or "PSTI" (.time) | entries, u32 | terms, u32 | log bytes, u32
    | max timestamp, i64 | CRC-32C of the body, u32 | CRC-32C of the header before it, u32
    .index body: entries × offset u32, entries × position u32, terms × offset u32, terms × term i32
    .time body:  entries × timestamp i64

The term is the one field of a stamped batch that no checksum covers and no neighbour contradicts;
the list of where each term began lets `storage.log.verify` see a change in it.
"""

from __future__ import annotations

import struct
import sys
from array import array
from bisect import bisect_left, bisect_right
from typing import Final

from crc32c import crc32c

from penstock.storage.files.files import Directory, File

OFFSET_SUFFIX: Final = ".index"
TIME_SUFFIX: Final = ".time"
NO_TIMESTAMP: Final = -1

_OFFSET_MAGIC: Final = b"PSOF"
_TIME_MAGIC: Final = b"PSTI"
_HEADER: Final = struct.Struct("<4sIIIqI")
_CRC: Final = struct.Struct("<I")
_HEADER_BYTES: Final = _HEADER.size + _CRC.size


class IndexDamage(Exception):
    """An index file is missing, damaged, or of another state of the log."""

    def __init__(self, path: str, position: int, reason: str) -> None:
        super().__init__(f"{path} cannot be used, from position {position} on: {reason}.")
        self.position = position
        self.reason = reason


class SegmentIndex:
    """The index in memory, growing with its segment."""

    __slots__ = ("max_timestamp_ms", "offsets", "positions", "term_offsets", "terms", "timestamps")

    def __init__(self) -> None:
        self.offsets = array("I")
        self.positions = array("I")
        self.timestamps = array("q")
        self.term_offsets = array("I")
        self.terms = array("i")
        self.max_timestamp_ms = NO_TIMESTAMP

    def add(
        self, offset: int, position: int, max_timestamp_ms: int, term: int, interval_bytes: int
    ) -> None:
        """Take in the batch at the position; `offset` is relative to the segment's first."""
        positions = self.positions
        if position - (positions[-1] if positions else 0) >= interval_bytes:
            self.offsets.append(offset)
            positions.append(position)
            self.timestamps.append(self.max_timestamp_ms)
        if max_timestamp_ms > self.max_timestamp_ms:
            self.max_timestamp_ms = max_timestamp_ms
        if not self.terms or self.terms[-1] != term:
            self.term_offsets.append(offset)
            self.terms.append(term)

    @property
    def last_term(self) -> int:
        """The term of the last batch; -1 if there is none."""
        return self.terms[-1] if self.terms else -1

    def floor(self, offset: int) -> tuple[int, int]:
        """(offset, position) of the last entry at or before the relative offset."""
        entry = bisect_right(self.offsets, offset) - 1
        return (self.offsets[entry], self.positions[entry]) if entry >= 0 else (0, 0)

    def floor_position(self, position: int) -> tuple[int, int]:
        """(offset, position) of the last entry at or before the position."""
        entry = bisect_right(self.positions, position) - 1
        return (self.offsets[entry], self.positions[entry]) if entry >= 0 else (0, 0)

    def floor_time(self, timestamp_ms: int) -> tuple[int, int]:
        """(offset, position) of the last entry before which every message is older."""
        entry = bisect_left(self.timestamps, timestamp_ms) - 1
        return (self.offsets[entry], self.positions[entry]) if entry >= 0 else (0, 0)

    def ceiling_position(self, position: int) -> tuple[int, int] | None:
        """(position, newest timestamp before it) of the first entry not before the position."""
        entry = bisect_left(self.positions, position)
        if entry == len(self.positions):
            return None
        return self.positions[entry], self.timestamps[entry]

    def newest_before(self, position: int) -> int:
        """The newest timestamp before an entry's position, or before the beginning."""
        return self.timestamps[self.positions.index(position)] if position else NO_TIMESTAMP

    def cut(self, offset: int, position: int, max_timestamp_ms: int) -> None:
        """Forget the batches from the position on, whose first has the relative offset."""
        entry = bisect_left(self.positions, position)
        del self.offsets[entry:], self.positions[entry:], self.timestamps[entry:]
        term = bisect_left(self.term_offsets, offset)
        del self.term_offsets[term:], self.terms[term:]
        self.max_timestamp_ms = max_timestamp_ms


def write_index(
    directory: Directory, stem: str, index: SegmentIndex, log_bytes: int, *, flush: bool
) -> None:
    """Write both files of the index. OSError if the disk will not: the log can do without."""
    entries = len(index.positions)
    assert len(index.offsets) == len(index.timestamps) == entries, (stem, entries)
    assert len(index.terms) == len(index.term_offsets), (stem, len(index.terms))
    assert not entries or index.positions[-1] < log_bytes, (stem, index.positions[-1], log_bytes)
    offset_body = b"".join(
        _to_bytes(column)
        for column in (index.offsets, index.positions, index.term_offsets, index.terms)
    )
    time_body = _to_bytes(index.timestamps)
    for suffix, magic, body in (
        (OFFSET_SUFFIX, _OFFSET_MAGIC, offset_body),
        (TIME_SUFFIX, _TIME_MAGIC, time_body),
    ):
        header = _HEADER.pack(
            magic,
            entries,
            len(index.terms),
            log_bytes,
            index.max_timestamp_ms,
            crc32c(body),
        )
        file = directory.open(stem + suffix, create=True)
        file.truncate(0)
        file.append([header, _CRC.pack(crc32c(header)), body])
        if flush:
            file.flush()
        file.close()


def read_index(directory: Directory, stem: str, log_bytes: int) -> SegmentIndex:
    """The index as written for a log of that size; IndexDamage if it is anything else."""
    index = SegmentIndex()
    entries, terms, index.max_timestamp_ms, body = check_index_file(
        directory, stem + OFFSET_SUFFIX, log_bytes
    )
    index.offsets = _from_bytes("I", body[: entries * 4])
    index.positions = _from_bytes("I", body[entries * 4 : entries * 8])
    index.term_offsets = _from_bytes("I", body[entries * 8 : entries * 8 + terms * 4])
    index.terms = _from_bytes("i", body[entries * 8 + terms * 4 :])
    time_entries, _, _, body = check_index_file(directory, stem + TIME_SUFFIX, log_bytes)
    if time_entries != entries:
        reason = f"it has {time_entries} entries, {stem}{OFFSET_SUFFIX} has {entries}"
        raise IndexDamage(f"{directory.path}/{stem}{TIME_SUFFIX}", 4, reason)
    index.timestamps = _from_bytes("q", body)
    return index


def read_max_timestamp(directory: Directory, stem: str, log_bytes: int) -> int:
    """The newest timestamp of the segment from the header of its `.time` file alone."""
    return _read_header(directory, stem + TIME_SUFFIX, log_bytes)[3]


def check_index_file(
    directory: Directory, name: str, log_bytes: int
) -> tuple[int, int, int, bytes]:
    """(entries, terms, max timestamp, body) of a sound index file of a log of that size."""
    file, entries, terms, max_timestamp_ms, crc = _read_header(directory, name, log_bytes)
    body = file.read_at(_HEADER_BYTES, file.size())
    columns = 2 * (entries + terms) * 4 if name.endswith(OFFSET_SUFFIX) else entries * 8
    if len(body) != columns or crc32c(body) != crc:
        raise IndexDamage(file.path, _HEADER_BYTES, "its entries have a wrong checksum")
    return entries, terms, max_timestamp_ms, body


def _read_header(
    directory: Directory, name: str, log_bytes: int
) -> tuple[File, int, int, int, int]:
    path = f"{directory.path}/{name}"
    if not directory.exists(name):
        raise IndexDamage(path, 0, "it is missing")
    file = directory.open(name)
    data = file.read_at(0, _HEADER_BYTES)
    header = data[: _HEADER.size]
    if len(data) < _HEADER_BYTES or _CRC.unpack_from(data, _HEADER.size)[0] != crc32c(header):
        raise IndexDamage(path, 0, "its header has a wrong checksum")
    magic, entries, terms, found_bytes, max_timestamp_ms, crc = _HEADER.unpack(header)
    if magic != (_OFFSET_MAGIC if name.endswith(OFFSET_SUFFIX) else _TIME_MAGIC):
        raise IndexDamage(path, 0, "it does not begin like an index")
    if found_bytes != log_bytes:
        raise IndexDamage(path, 12, f"it is of a log of {found_bytes} bytes, there are {log_bytes}")
    return file, entries, terms, max_timestamp_ms, crc


def _to_bytes(column: array[int]) -> bytes:
    if sys.byteorder == "big":
        column = array(column.typecode, column)
        column.byteswap()
    return column.tobytes()


def _from_bytes(typecode: str, data: bytes) -> array[int]:
    column = array(typecode, data)
    if sys.byteorder == "big":
        column.byteswap()
    return column
