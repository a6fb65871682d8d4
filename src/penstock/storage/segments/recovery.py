"""From a folder as a crash left it to a list of whole segments.

The folder walk gives the map; only segments without a sealed name are read. The invariant: what
was flushed is kept or the log is refused, never cut. That rests on the order in
`storage.segments.jobs`:

- a sealed name is whole and has no gap before it: anything else is damage, and refused;
- while a segment is unsealed, nothing behind it was acknowledged as durable: if its end was torn
  away, the segments behind it go too;
- inside an unsealed file, a missing end or sectors of zeros are a torn write and cut; any other
  damage is decayed data that may have been acknowledged, and the log is refused, bytes untouched;
- segments are deleted from the oldest on: a name that says "deleted" takes all older ones along;
- a compacted segment gets its name when it is whole: sealed ones that lie within it are what it
  was made of, and go; `compaction.cleaned` is one that was not finished, and goes too.
"""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from penstock.model.errors import CorruptLog, InvalidBatch
from penstock.model.removal import Removal
from penstock.records.header import HEADER_BYTES, BatchHeader, read_header
from penstock.storage.files.files import Directory, File
from penstock.storage.segments.index import OFFSET_SUFFIX, TIME_SUFFIX, SegmentIndex
from penstock.storage.segments.jobs import seal_segment
from penstock.storage.segments.scan import Damage, corrupt, find_batch, is_tear, scan, walk
from penstock.storage.segments.segment import LOG_SUFFIX, Segment

logger = logging.getLogger(__name__)

DELETED_SUFFIX: Final = ".deleted"
# What a compaction writes to, until it gives the file its name.
CLEANED_NAME: Final = "compaction.cleaned"
_NAME: Final = re.compile(r"(\d{20})(?:-(\d{20})|\.open)\.(log|log\.deleted|index|time)")


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanEnd:
    """How an orderly shutdown left a log. While it fits, the active segment is not read again."""

    first_offset: int
    """Of the active segment."""
    size_bytes: int
    next_offset: int


@dataclass(frozen=True, slots=True)
class LogFile:
    """A log file as its name has it."""

    name: str
    first_offset: int
    last_offset: int | None
    """None while it is unsealed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """Offsets that a crash tore from the end of a log, as far as what was left showed them: there
    may have been more. They go to the next messages."""

    first_offset: int
    end_offset: int
    detail: str

    def removal(self, at_ms: int) -> Removal:
        return Removal(
            first_offset=self.first_offset,
            end_offset=self.end_offset,
            cause="truncated",
            at_ms=at_ms,
            detail=self.detail,
        )


def log_files(names: list[str], *, deleted: bool = False) -> list[LogFile]:
    """The log files among the names, oldest first."""
    wanted = "log.deleted" if deleted else "log"
    found = []
    for name in names:
        match = _NAME.fullmatch(name)
        if match is not None and match[3] == wanted:
            last = None if match[2] is None else int(match[2])
            found.append(LogFile(name, int(match[1]), last))
    return sorted(found, key=lambda file: file.first_offset)


def recover(
    directory: Directory, interval_bytes: int, clean_end: CleanEnd | None
) -> tuple[list[Segment], Cut | None]:
    """The segments, oldest first; all but the last are sealed, the last may be sealed too. And
    what had to be cut from the end.

    CorruptLog if the folder cannot be what a crash left. Everything that is returned is durable.
    """
    names = directory.names()
    files = _finish_compaction(directory, names, _finish_deletions(directory, names))
    _check_names(directory, files)
    _remove_orphans(directory, names, files)
    segments = [_segment(directory, file, interval_bytes) for file in files]
    unsealed = [segment for segment in segments if not segment.sealed]
    if len(unsealed) == 1 and _is_clean(unsealed[0], segments[-1], clean_end):
        assert clean_end is not None
        unsealed[0].next_offset = clean_end.next_offset
        return segments, None
    return segments, _recover_unsealed(directory, segments)


def _is_clean(segment: Segment, last: Segment, clean_end: CleanEnd | None) -> bool:
    return (
        clean_end is not None
        and segment is last
        and segment.first_offset == clean_end.first_offset
        and segment.size_bytes == clean_end.size_bytes
    )


def _finish_deletions(directory: Directory, names: list[str]) -> list[LogFile]:
    """Remove what a deletion had begun with; the files that stay."""
    deleted = log_files(names, deleted=True)
    files = log_files(names)
    if not deleted:
        return files
    deleted_through = max(file.last_offset or 0 for file in deleted)
    doomed = [
        file
        for file in files
        if file.last_offset is not None and file.last_offset <= deleted_through
    ]
    # The marks go last, and when they are durable themselves: until then another crash finds the
    # same, or a part of it.
    for file in doomed:
        directory.remove(file.name)
    directory.flush()
    for file in deleted:
        directory.remove(file.name)
    return [file for file in files if file not in doomed]


def _finish_compaction(
    directory: Directory, names: list[str], files: list[LogFile]
) -> list[LogFile]:
    """Remove what a compaction left over, before or after its result got its name.

    A name that comes back after another crash is removed again: whatever lets go of the result
    flushes the folder, and this with it.
    """
    if CLEANED_NAME in names:
        directory.remove(CLEANED_NAME)
    replaced = replaced_files(files)
    for file in replaced:
        directory.remove(file.name)
    return [file for file in files if file not in replaced]


def replaced_files(files: list[LogFile]) -> list[LogFile]:
    """The sealed ones that lie within another: compaction has made that one of them."""
    replaced: list[LogFile] = []
    end = -1
    # Of those that begin alike the longest comes first; then what lies within it follows.
    for file in sorted(files, key=lambda file: (file.first_offset, -(file.last_offset or 0))):
        if file.last_offset is None:
            end = -1
        elif file.last_offset <= end:
            replaced.append(file)
        else:
            end = file.last_offset
    return replaced


def _check_names(directory: Directory, files: list[LogFile]) -> None:
    """Sealed segments must follow one another; what comes after an unsealed one is seen later."""
    for file in files:
        if file.last_offset is not None and file.last_offset < file.first_offset:
            raise CorruptLog(f"{directory.path}/{file.name} ends before it begins: rename it back.")
    for before, after in pairwise(files):
        if before.last_offset is None:
            follows = after.first_offset > before.first_offset
        else:
            follows = after.first_offset == before.last_offset + 1
        if not follows:
            raise CorruptLog(
                f"{directory.path}/{after.name} does not follow {before.name}: a file is missing "
                f"or was renamed; restore it."
            )


def _remove_orphans(directory: Directory, names: list[str], files: list[LogFile]) -> None:
    """Remove indexes whose log has another name by now, or is gone."""
    stems = {file.name.removesuffix(LOG_SUFFIX) for file in files}
    for name in names:
        match = _NAME.fullmatch(name)
        if match is not None and match[3] in ("index", "time"):
            stem = name.removesuffix(OFFSET_SUFFIX).removesuffix(TIME_SUFFIX)
            if stem not in stems:
                directory.remove(name)


def _segment(directory: Directory, file: LogFile, interval_bytes: int) -> Segment:
    size_bytes = directory.size(file.name)
    sealed = file.last_offset is not None
    if sealed and size_bytes == 0:
        raise corrupt(f"{directory.path}/{file.name}", 0, "it is empty")
    return Segment(
        directory,
        first_offset=file.first_offset,
        next_offset=file.first_offset if file.last_offset is None else file.last_offset + 1,
        size_bytes=size_bytes,
        sealed=sealed,
        interval_bytes=interval_bytes,
    )


def _recover_unsealed(directory: Directory, segments: list[Segment]) -> Cut | None:
    """Scan what is not sealed, cut what was torn, seal all but the last."""
    cut = None
    unsealed_bytes = sum(segment.size_bytes for segment in segments if not segment.sealed)
    for place, segment in enumerate(segments):
        if segment.sealed:
            continue
        size_before = segment.size_bytes
        segment, damage = _scan(segment)
        segments[place] = segment
        behind = segments[place + 1 :]
        is_gap = bool(behind) and segment.next_offset != behind[0].first_offset
        if damage is not None or is_gap:
            cut = _cut(segment, size_before, damage, behind)
        if is_gap:
            _drop(directory, segment, behind)
            del segments[place + 1 :]
        if segment.size_bytes != size_before:
            segment.file.truncate(segment.size_bytes)
        if place + 1 < len(segments):
            seal_segment(directory, segment)
            segment.seal()
        elif size_before:
            # What was found may be in the cache alone, after a crash of the process.
            segment.file.flush()
    if unsealed_bytes:
        directory.flush()
    return cut


def _scan(segment: Segment) -> tuple[Segment, Damage | None]:
    """The segment up to the end of its whole batches, and what comes there instead of another. The
    file is left as it is."""
    index = SegmentIndex()
    first_offset = segment.first_offset
    end = 0
    next_offset = first_offset

    def visit(position: int, header: BatchHeader) -> None:
        nonlocal end, next_offset
        offset = header.base_offset - first_offset
        index.add(offset, position, header.max_timestamp_ms, header.term, segment.interval_bytes)
        end = position + header.length
        next_offset = header.next_offset

    damage = scan(segment.file, segment.size_bytes, first_offset, visit)
    if damage is not None:
        if not is_tear(segment.file, damage, segment.size_bytes):
            raise corrupt(segment.path, damage.position, damage.reason)
        logger.warning(
            "%s was torn by a crash at position %d (%s): %d bytes cut, it goes on at offset %d.",
            segment.path,
            damage.position,
            damage.reason,
            segment.size_bytes - damage.position,
            damage.next_offset,
        )
    scanned = Segment(
        segment.directory,
        first_offset=first_offset,
        next_offset=next_offset,
        size_bytes=end,
        sealed=False,
        interval_bytes=segment.interval_bytes,
        index=index,
    )
    return scanned, damage


def _cut(
    segment: Segment, size_bytes: int, damage: Damage | None, behind: list[Segment]
) -> Cut | None:
    """What is known of the offsets that go with a tear; None if no trace of any is left."""
    end_offset = segment.next_offset
    if damage is not None:
        end_offset = max(end_offset, _end_of_torn(segment.file, size_bytes, damage))
    for lost in behind:
        end_offset = max(end_offset, lost.first_offset, _end_of(lost.file, 0, lost.size_bytes))
    if end_offset == segment.next_offset:
        return None
    cut_bytes = size_bytes - segment.size_bytes + sum(lost.size_bytes for lost in behind)
    reason = damage.reason if damage is not None else "its last batches are missing"
    return Cut(
        first_offset=segment.next_offset,
        end_offset=end_offset,
        detail=f"a crash tore the end of the log, {reason}: {cut_bytes} bytes were cut",
    )


def _end_of_torn(file: File, size_bytes: int, damage: Damage) -> int:
    """The end of the torn batch if its header is left, and of what was written after it. A tear
    leaves zeros or nothing, so a number that is left is not too large."""
    end_offset = 0
    try:
        header = read_header(file.read_at(damage.position, HEADER_BYTES))
        if header.base_offset == damage.next_offset:
            end_offset = header.next_offset
    except InvalidBatch:
        pass
    position = find_batch(file, damage, size_bytes)
    return end_offset if position is None else max(end_offset, _end_of(file, position, size_bytes))


def _end_of(file: File, position: int, size_bytes: int) -> int:
    """Where the batches from the position on end, as far as there are any; 0 if there are none."""
    end_offset = 0
    try:
        for _, header in walk(file, position, size_bytes, None):
            end_offset = header.next_offset
    except CorruptLog:
        pass  # this end may be torn as well
    return end_offset


def _drop(directory: Directory, torn: Segment, behind: list[Segment]) -> None:
    """Remove the unsealed segments behind a torn one. A crash in between is no worse: what is
    left of them is still behind a tear."""
    first = behind[0]
    if first.first_offset < torn.next_offset or any(segment.sealed for segment in behind):
        raise CorruptLog(
            f"{torn.path} ends before offset {torn.next_offset}, but {first.path} begins at "
            f"{first.first_offset}: a file is damaged or was renamed; restore it."
        )
    for segment in behind:
        logger.warning(
            "%s was written after what a crash tore from %s: %d bytes removed.",
            segment.path,
            torn.path,
            segment.size_bytes,
        )
        directory.remove(segment.stem + LOG_SUFFIX)
