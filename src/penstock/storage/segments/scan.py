"""Going through a log file batch by batch: by headers alone, or checking every byte.

Not a repair: `storage.segments.recovery` decides what to do with what is found here. The invariant:
nothing read from the file is used before it was checked, and memory stays within one batch of the
largest size whatever the file holds.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from penstock.model.errors import BatchError, CorruptLog, InvalidBatch
from penstock.model.limits import BATCH_BYTES_MAX, KIB
from penstock.records.header import HEADER_BYTES, BatchHeader, check_batch, read_header
from penstock.storage.files.files import File

# Read at once where all bytes are needed: large enough that the calls do not show.
SCAN_CHUNK_BYTES: Final = 256 * KIB
# Read at once where headers are needed: what one index interval has by default.
WALK_CHUNK_BYTES: Final = 4 * KIB
# What a disk writes whole or not at all. Bytes that never arrived read as zeros from here on.
SECTOR_BYTES: Final = 512
_MAGIC_POSITION: Final = 16
_MAGIC: Final = b"\x02"
_BASE_OFFSET: Final = struct.Struct(">q")
# Zeros over base offset and length: no batch begins like this.
_ZERO_HEAD_BYTES: Final = 12


class Damage(NamedTuple):
    """The first place of a file that is not the batch it should be."""

    position: int
    next_offset: int
    """The offset that was expected there."""
    reason: str
    whole: bool
    """The batch has its right checksum but stands in the wrong place: no torn write does that."""


Visit = Callable[[int, BatchHeader], None]


def walk(
    file: File,
    position: int,
    end: int,
    offset: int | None,
    chunk_bytes: int = WALK_CHUNK_BYTES,
    *,
    gaps: bool = False,
) -> Iterator[tuple[int, BatchHeader]]:
    """(position, header) of the batches from a boundary to the end, records unread.

    CorruptLog where a header is nonsense, has another offset than its predecessor leads to (with
    `gaps`: an earlier one), or says that the batch goes beyond the end. `offset` is that of the
    first, or None if it is not known.
    """
    chunk = b""
    chunk_start = position
    while position < end:
        if position + HEADER_BYTES > chunk_start + len(chunk):
            chunk = file.read_at(position, min(max(chunk_bytes, HEADER_BYTES), end - position))
            chunk_start = position
        try:
            header = read_header(chunk, position - chunk_start)
        except InvalidBatch:
            raise corrupt(file.path, position, "there is no batch header") from None
        if offset is not None and (
            header.base_offset < offset or (header.base_offset > offset and not gaps)
        ):
            raise corrupt(file.path, position, _misplaced(header, offset))
        if position + header.length > end:
            raise corrupt(file.path, position, f"the batch goes on beyond the end {end}")
        yield position, header
        offset = header.next_offset
        position += header.length


def scan(file: File, end: int, offset: int, visit: Visit, *, gaps: bool = False) -> Damage | None:
    """Check every batch from the beginning of the file to the end, visiting the good ones.

    Stops at the first whose header, length, checksum, offset or term is wrong. With `gaps` an
    offset may be later than its predecessor leads to.
    """
    window = _Window(file, end)
    position = 0
    term = 0
    while position < end:
        try:
            header = _check_at(window, position)
        except BatchError as error:
            return Damage(position, offset, _reason(error), whole=False)
        if header.base_offset < offset or (header.base_offset > offset and not gaps):
            return Damage(position, offset, _misplaced(header, offset), whole=True)
        if header.term < term:
            reason = f"the batch has term {header.term}, after term {term}"
            return Damage(position, offset, reason, whole=True)
        visit(position, header)
        term = header.term
        offset = header.next_offset
        position += header.length
    return None


def is_tear(file: File, damage: Damage, end: int) -> bool:
    """Whether the damage is the mark of a write that a crash cut short, not of decayed data.

    A torn write misses its end, or has zeros in whole sectors that never reached the disk (file
    systems may keep later sectors and lose earlier ones). Everything flushed is neither, so what
    is cut as a tear was never acknowledged as durable.
    """
    if _head_is_lost(file, damage):
        return True
    if damage.whole:
        return False
    stretch_end = find_batch(file, damage, end)
    if stretch_end is None:
        stretch_end = end
        if _runs_past(file, damage.position, end):
            return True
    return _has_zero_sector(file, damage.position, stretch_end)


def find_batch(file: File, damage: Damage, end: int) -> int | None:
    """The position of the first whole batch behind the damage with an offset that may follow."""
    searched = _Window(file, end)
    checked = _Window(file, end)
    # Each offset takes a byte at the very least, so a larger step is chance or forgery.
    offset_max = damage.next_offset + end - damage.position
    position = damage.position + 1
    while position + HEADER_BYTES <= end:
        chunk = bytes(searched.view(position, HEADER_BYTES))
        magic = chunk.find(_MAGIC, _MAGIC_POSITION)
        while 0 <= magic <= len(chunk) - HEADER_BYTES + _MAGIC_POSITION:
            start = magic - _MAGIC_POSITION
            (offset,) = _BASE_OFFSET.unpack_from(chunk, start)
            if damage.next_offset < offset <= offset_max:
                try:
                    _check_at(checked, position + start)
                    return position + start
                except BatchError:
                    pass
            magic = chunk.find(_MAGIC, magic + 1)
        position += len(chunk) - HEADER_BYTES + 1
    return None


def corrupt(path: str, position: int, what: str) -> CorruptLog:
    return CorruptLog(
        f"{path} is damaged at position {position}: {what}; restore the file, or see what is left "
        f"of it by `penstock inspect`."
    )


class _Window:
    """The part of a file last read, so that small steps do not read it again."""

    __slots__ = ("_data", "_end", "_file", "_start")

    def __init__(self, file: File, end: int) -> None:
        self._file = file
        self._end = end
        self._start = 0
        self._data = memoryview(b"")

    def view(self, position: int, length: int) -> memoryview:
        """All bytes at hand from the position on: at least `length`, unless the file ends."""
        if position < self._start or position + length > self._start + len(self._data):
            wanted = min(max(length, SCAN_CHUNK_BYTES), self._end - position)
            self._data = memoryview(self._file.read_at(position, wanted))
            self._start = position
        return self._data[position - self._start :]


def _check_at(window: _Window, position: int) -> BatchHeader:
    header = read_header(window.view(position, HEADER_BYTES))
    if header.length > BATCH_BYTES_MAX:
        raise InvalidBatch(f"A batch of {header.length} bytes is larger than any may be.")
    return check_batch(window.view(position, header.length))


def _misplaced(header: BatchHeader, offset: int) -> str:
    return f"the batch has offset {header.base_offset}, not {offset}"


def _reason(error: BatchError) -> str:
    return "there is no whole batch" if isinstance(error, InvalidBatch) else "the checksum is wrong"


def _runs_past(file: File, position: int, end: int) -> bool:
    if end - position < HEADER_BYTES:
        return True
    try:
        header = read_header(file.read_at(position, HEADER_BYTES))
    except InvalidBatch:
        return False
    return position + header.length > end


def _head_is_lost(file: File, damage: Damage) -> bool:
    """Whether the sector that the batch begins in has zeros instead of it, up to the sector's end;
    the sectors behind may be there. The offset tells whether they are more than its own zeros."""
    head = file.read_at(damage.position, SECTOR_BYTES - damage.position % SECTOR_BYTES)
    return not any(head) and any(damage.next_offset.to_bytes(8)[: len(head)])


def _has_zero_sector(file: File, start: int, end: int) -> bool:
    """Whether a whole sector, or what the stretch has of one, is nothing but zeros."""
    position = start
    window = _Window(file, end)
    while position < end:
        sector_end = min(position - position % SECTOR_BYTES + SECTOR_BYTES, end)
        sector = window.view(position, sector_end - position)[: sector_end - position]
        clipped = position == start and len(sector) < _ZERO_HEAD_BYTES
        if not clipped and not any(sector):
            return True
        position = sector_end
    return False
