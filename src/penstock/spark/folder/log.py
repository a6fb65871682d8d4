"""One partition's log as its folder has it, read without a broker and without changing anything.

What recovery would do to the folder is only thought here: files that a deletion or a compaction has
finished with are passed over, a torn end is not read. Not the folder of all topics: `folder` is.
The invariant: what is damaged is an error that names file and position or, if asked for, skipped
with a warning that says how much; no record is handed out twice, or out of order.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from itertools import pairwise
from typing import Final, Literal

from penstock.client.consuming.range_reader import PIECE_BYTES_MAX, PIECE_ROWS_MAX
from penstock.model.errors import BatchError, CorruptLog, InvalidBatch, OffsetOutOfRange
from penstock.records import Columns, decode_pieces
from penstock.records.header import HEADER_BYTES, BatchHeader, read_header
from penstock.records.view import batches
from penstock.spark.folder.pieces import Piece, Pieces, ReadOnlyDirectory
from penstock.storage.files.files import File, typed
from penstock.storage.files.os_files import OsFile
from penstock.storage.log.compacted import is_compacted
from penstock.storage.log.start_offset import read_start_offset
from penstock.storage.segments.chain import out_of_range
from penstock.storage.segments.index import IndexDamage, read_index, read_max_timestamp
from penstock.storage.segments.recovery import LogFile, log_files, replaced_files
from penstock.storage.segments.scan import Damage
from penstock.storage.segments.segment import LOG_SUFFIX

logger = logging.getLogger(__name__)

OnDamage = Literal["fail", "skip"]

# A running broker may rename and remove files between a look at the folder and their opening.
_LOOKS_MAX: Final = 5
_OFFSET_MAX: Final = 2**63 - 1
_TIMESTAMP_UNKNOWN: Final = 2**63 - 1


class PartitionLog:
    """The log in a partition's folder. What is there is looked up at every question."""

    def __init__(self, path: str, on_damage: OnDamage = "fail") -> None:
        self._directory = ReadOnlyDirectory(path)
        self._on_damage = on_damage

    def extent(self, *, sealed_only: bool) -> tuple[int, int]:
        """Where the log begins, and the offset behind its last whole batch; with `sealed_only`
        behind its last sealed segment."""
        try:
            files = self._files()
            if not files:
                return 0, 0
            end = self._end(files, sealed_only=sealed_only)
            return min(max(self._start_offset(), files[0].first_offset), end), end
        except OSError as error:
            raise typed(error, f"reading {self._directory.path}") from error

    def read(
        self, start: int, end: int, *, include_headers: bool = False, producer_times: bool = False
    ) -> Iterator[Columns]:
        """The records with start <= offset < end, in pieces; OffsetOutOfRange if not all of these
        offsets are in the log any more, or yet."""
        if start >= end:
            return
        try:
            self._check_start(start)
            for file, piece in self._pieces(start, end):
                for columns in self._decoded(file, piece, end, include_headers, producer_times):
                    if columns.record_count:
                        yield columns
        except OSError as error:
            raise typed(error, f"reading {self._directory.path}") from error

    def headers(self, start: int, end: int) -> Iterator[BatchHeader]:
        """What the batches with these offsets say of themselves, control batches too; those that
        are damaged are passed over, if that was asked for."""
        try:
            for _, piece in self._pieces(start, end):
                for batch in batches(piece.payload):
                    if batch.header.last_offset >= start:
                        yield batch.header
        except OSError as error:
            raise typed(error, f"reading {self._directory.path}") from error

    def find_timestamp(self, timestamp_ms: int, start: int, end: int) -> int:
        """The first offset of the range whose record is not older; the end if there is none."""
        try:
            for file in self._files():
                file_end = end if file.last_offset is None else min(file.last_offset + 1, end)
                begin = max(start, file.first_offset)
                if begin >= file_end or self._newest(file) < timestamp_ms:
                    continue
                for opened, piece in self._pieces(begin, file_end, timestamp_ms):
                    if piece.max_timestamp_ms >= timestamp_ms:
                        for columns in self._decoded(opened, piece, file_end):
                            moments = zip(columns.offsets, columns.timestamps_ms, strict=True)
                            for offset, moment_ms in moments:
                                if moment_ms >= timestamp_ms:
                                    return offset
            return end
        except OSError as error:
            raise typed(error, f"reading {self._directory.path}") from error

    # --- what is there -------------------------------------------------------------------------

    def _files(self) -> list[LogFile]:
        """The files that hold the log, oldest first, as they would be after a recovery."""
        for _ in range(_LOOKS_MAX):
            names = self._directory.names()
            deleted = log_files(names, deleted=True)
            deleted_through = max((file.last_offset or 0 for file in deleted), default=-1)
            files = [
                file
                for file in log_files(names)
                if file.last_offset is None or file.last_offset > deleted_through
            ]
            replaced = replaced_files(files)
            files = [file for file in files if file not in replaced]
            if all(_follows(*pair) for pair in pairwise(files)):
                break
        return files

    def _start_offset(self) -> int:
        try:
            return read_start_offset(self._directory)
        except CorruptLog as error:
            if self._on_damage == "fail":
                raise
            logger.warning("%s Read from the first message that is there.", error)
            return 0

    def _end(self, files: list[LogFile], *, sealed_only: bool) -> int:
        end = files[0].first_offset
        before = files[0]
        for file in files:
            if file.first_offset != end:
                unsealed = before.last_offset is None and file.last_offset is None
                if unsealed and file.first_offset > end:
                    # Written after what a crash tore from the one before: never acknowledged.
                    break
                self._lose_file(file, end)
            if file.last_offset is not None:
                end = file.last_offset + 1
            elif sealed_only:
                break
            else:
                end = self._end_of_unsealed(file)
            before = file
        return end

    def _end_of_unsealed(self, file: LogFile) -> int:
        """The offset behind its last whole batch that a recovery would keep."""
        opened = self._directory.open(file.name)
        size_bytes = opened.size()
        begin = self._begin(file, opened, _OFFSET_MAX)
        pieces = Pieces(opened, *begin, _OFFSET_MAX, gaps=False)
        while True:
            for _ in pieces:
                pass
            if pieces.damage is None:
                return pieces.next_offset
            if pieces.is_torn():
                logger.warning(
                    "%s was torn by a crash at position %d: its last %d bytes are not read.",
                    opened.path,
                    pieces.position,
                    size_bytes - pieces.position,
                )
                return pieces.next_offset
            self._check_skipping(opened.path, pieces.damage)
            if pieces.resume() is None:
                return pieces.next_offset

    def _newest(self, file: LogFile) -> int:
        """The newest timestamp of a file, or a later one if nobody has written it down."""
        try:
            size_bytes = self._directory.size(file.name)
            return read_max_timestamp(self._directory, _stem(file), size_bytes)
        except (IndexDamage, FileNotFoundError):
            return _TIMESTAMP_UNKNOWN

    # --- reading -------------------------------------------------------------------------------

    def _check_start(self, start: int) -> None:
        files = self._files()
        if not files or start < max(self._start_offset(), files[0].first_offset):
            raise self._out_of_range(start)

    def _pieces(
        self, start: int, end: int, timestamp_ms: int | None = None
    ) -> Iterator[tuple[OsFile, Piece]]:
        """The batches that hold the offsets from start to end, and what file they are from; of a
        file those that are older than the time may be left out."""
        offset = start
        looks = 0
        while offset < end:
            file = self._file_of(offset)
            try:
                opened = self._directory.open(file.name)
            except FileNotFoundError:
                # It was sealed, compacted or removed since: look again.
                looks += 1
                if looks == _LOOKS_MAX:
                    raise
                continue
            looks = 0
            offset = max(offset, file.first_offset)
            is_sealed = file.last_offset is not None
            limit_offset = end if file.last_offset is None else min(end, file.last_offset + 1)
            begin = self._begin(file, opened, offset, timestamp_ms)
            gaps = is_sealed and is_compacted(self._directory)
            pieces = Pieces(opened, *begin, limit_offset, gaps=gaps)
            for piece in self._sound(opened, pieces, limit_offset, is_sealed=is_sealed):
                yield opened, piece._replace(from_offset=offset)
            if not is_sealed and pieces.next_offset < end:
                if self._file_of(pieces.next_offset).first_offset == file.first_offset:
                    raise self._out_of_range(end)
                limit_offset = pieces.next_offset
            offset = limit_offset

    def _file_of(self, offset: int) -> LogFile:
        """The file that holds the offset, or would; where files are missing the next one."""
        files = self._files()
        for before, file, after in zip((None, *files), files, (*files[1:], None), strict=False):
            last_offset = file.last_offset
            if last_offset is None:
                last_offset = _OFFSET_MAX if after is None else after.first_offset - 1
            if last_offset >= offset:
                if file.first_offset > offset:
                    if before is None:
                        break
                    self._lose_file(file, offset)
                return file
        raise self._out_of_range(offset)

    def _begin(
        self, file: LogFile, opened: File, offset: int, timestamp_ms: int | None = None
    ) -> tuple[int, int]:
        """(position, offset) of a batch from which on the wanted ones are found; the beginning of
        the file where there is no index that says more."""
        start = (0, file.first_offset)
        try:
            index = read_index(self._directory, _stem(file), opened.size())
        except IndexDamage:
            return start
        entry = index.floor(offset - file.first_offset)
        if timestamp_ms is not None:
            entry = max(entry, index.floor_time(timestamp_ms))
        base_offset, position = file.first_offset + entry[0], entry[1]
        try:
            found = read_header(opened.read_at(position, HEADER_BYTES)).base_offset
        except InvalidBatch:
            return start
        return (position, base_offset) if found == base_offset else start

    def _sound(
        self, file: OsFile, pieces: Pieces, limit_offset: int, *, is_sealed: bool
    ) -> Iterator[Piece]:
        """The pieces, beyond what is damaged if it may be skipped."""
        while True:
            yield from pieces
            damage = pieces.damage
            if damage is None and is_sealed and pieces.next_offset < limit_offset:
                reason = f"it ends before offset {limit_offset}"
                damage = Damage(pieces.position, pieces.next_offset, reason, whole=False)
            if damage is None:
                return
            self._check_skipping(file.path, damage)
            resumed = pieces.resume() if pieces.damage is not None else None
            if resumed is None:
                end_offset = limit_offset if is_sealed else damage.next_offset
                self._report(file.path, damage, file.size(), end_offset)
                return
            self._report(file.path, damage, *resumed)

    def _decoded(
        self,
        file: OsFile,
        piece: Piece,
        end: int,
        include_headers: bool = False,
        producer_times: bool = False,
    ) -> Iterator[Columns]:
        def decode(payload: memoryview) -> Iterator[Columns]:
            return decode_pieces(
                payload,
                piece.from_offset,
                include_headers,
                end,
                producer_times=producer_times,
                rows_max=PIECE_ROWS_MAX,
                bytes_max=PIECE_BYTES_MAX,
            )

        next_offset = 0
        try:
            for columns in decode(piece.payload):
                yield columns
                if columns.batches:
                    next_offset = columns.batches[-1].header.next_offset
        except BatchError:
            # Its checksum is right and its records are not: a producer has sent it like that.
            position = piece.position
            for batch in batches(piece.payload):
                header = batch.header
                if header.base_offset >= next_offset:
                    try:
                        yield from decode(batch.view)
                    except BatchError as error:
                        damage = Damage(position, header.base_offset, str(error), whole=True)
                        self._check_skipping(file.path, damage)
                        end_position = position + header.length
                        self._report(file.path, damage, end_position, header.next_offset)
                position += header.length

    # --- what is wrong -------------------------------------------------------------------------

    def _check_skipping(self, path: str, damage: Damage) -> None:
        if self._on_damage == "fail":
            raise CorruptLog(
                f"{path} is damaged at position {damage.position}: {damage.reason.rstrip('.')}; "
                f"restore the file, or read past it with onDamage=skip."
            )

    def _report(self, path: str, damage: Damage, end_position: int, end_offset: int) -> None:
        logger.warning(
            "%s is damaged at position %d (%s): %d bytes skipped, with offsets %d to %d.",
            path,
            damage.position,
            damage.reason.rstrip("."),
            end_position - damage.position,
            damage.next_offset,
            end_offset - 1,
        )

    def _lose_file(self, file: LogFile, offset: int) -> None:
        """What is before a file does not lead to it."""
        path = f"{self._directory.path}/{file.name}"
        if self._on_damage == "fail":
            raise CorruptLog(
                f"{path} does not go on at offset {offset}: a file is missing or was renamed; "
                f"restore it, or read past it with onDamage=skip."
            )
        logger.warning(
            "%s does not go on at offset %d: a file is missing, with offsets up to %d.",
            path,
            offset,
            file.first_offset - 1,
        )

    def _out_of_range(self, offset: int) -> OffsetOutOfRange:
        start, end = self.extent(sealed_only=False)
        error = out_of_range(offset, start, end)
        error.log_start_offset, error.log_end_offset = start, end
        return error


def _follows(before: LogFile, after: LogFile) -> bool:
    if before.last_offset is None:
        return after.first_offset > before.first_offset
    return after.first_offset == before.last_offset + 1


def _stem(file: LogFile) -> str:
    return file.name.removesuffix(LOG_SUFFIX)
