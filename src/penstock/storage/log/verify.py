"""Checking a partition's folder without a broker and without changing anything in it.

Every byte of every log, index and journal is read, in pieces. Not recovery: what is found is
reported, never mended. The invariant: a file is reported as sound only if each of its bytes is
what was written, as far as any checksum or neighbour can tell. A gap of offsets is damage, unless
the folder has the mark of `storage.log.compacted`: then gaps are counted.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from penstock.records.header import BatchHeader
from penstock.storage.files.files import Directory, typed
from penstock.storage.files.journal import SUFFIX as JOURNAL_SUFFIX
from penstock.storage.files.journal import find_damage
from penstock.storage.log.compacted import is_compacted
from penstock.storage.segments.index import (
    OFFSET_SUFFIX,
    TIME_SUFFIX,
    IndexDamage,
    SegmentIndex,
    check_index_file,
    read_index,
)
from penstock.storage.segments.recovery import LogFile, log_files, replaced_files
from penstock.storage.segments.scan import is_tear, scan
from penstock.storage.segments.segment import LOG_SUFFIX


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What a file holds, and the first thing that is wrong with it."""

    path: str
    size_bytes: int
    batches: int = 0
    records: int = 0
    first_offset: int = -1
    last_offset: int = -1
    gaps: int = 0
    """How often offsets are missing, as compaction leaves it."""
    position: int | None = None
    problem: str | None = None


def verify(directory: Directory) -> Iterator[Finding]:
    """A finding for each file, the logs in the order of their offsets."""
    try:
        names = directory.names()
        gaps = is_compacted(directory)
        expected_offset: int | None = None
        files = log_files(names)
        replaced = replaced_files(files)
        for file in files:
            stem = file.name.removesuffix(LOG_SUFFIX)
            size_bytes = directory.size(file.name)
            if file in replaced:
                path = f"{directory.path}/{file.name}"
                problem = "left over by a compaction that a crash cut short: a start will remove it"
                yield Finding(path=path, size_bytes=size_bytes, position=0, problem=problem)
                continue
            try:
                index = read_index(directory, stem, size_bytes)
            except IndexDamage:
                index = None
            seen = _Seen(file.first_offset, index)
            yield _verify_log(directory, file, expected_offset, seen, gaps=gaps)
            for suffix in (OFFSET_SUFFIX, TIME_SUFFIX):
                # An unsealed segment has an index only after an orderly shutdown.
                if file.last_offset is not None or stem + suffix in names:
                    yield _verify_index(directory, stem + suffix, size_bytes, seen)
            expected_offset = seen.next_offset if file.last_offset is None else file.last_offset + 1
        for name in sorted(names):
            if name.endswith(JOURNAL_SUFFIX):
                yield _verify_journal(directory, name)
    except OSError as error:
        raise typed(error, f"reading {directory.path}") from error


class _Seen:
    """What a scan saw of a segment, held against its index batch by batch."""

    def __init__(self, first_offset: int, index: SegmentIndex | None) -> None:
        self.first_offset = first_offset
        self.next_offset = first_offset
        self.batches = 0
        self.records = 0
        self.size_bytes = 0
        self.gaps = 0
        self.wrong_entry: str | None = None
        self.wrong_term: tuple[int, str] | None = None
        self._index = index
        self._entry = 0
        self._term = -1
        self._max_timestamp_ms = -1

    def visit(self, position: int, header: BatchHeader) -> None:
        if self._index is not None:
            self._compare(self._index, position, header)
        self.gaps += header.base_offset > self.next_offset
        self.batches += 1
        self.records += header.record_count
        self.next_offset = header.next_offset
        self.size_bytes = position + header.length
        self._max_timestamp_ms = max(self._max_timestamp_ms, header.max_timestamp_ms)

    def _compare(self, index: SegmentIndex, position: int, header: BatchHeader) -> None:
        offset = header.base_offset - self.first_offset
        entry = self._entry
        if entry < len(index.positions) and index.positions[entry] <= position:
            found = index.positions[entry], index.offsets[entry], index.timestamps[entry]
            real = position, offset, self._max_timestamp_ms
            if found != real and self.wrong_entry is None:
                self.wrong_entry = f"entry {entry} says {found}, the log has {real}"
            self._entry += 1
        if self._term + 1 < len(index.terms) and index.term_offsets[self._term + 1] <= offset:
            self._term += 1
        term = index.terms[self._term] if self._term >= 0 else -1
        if header.term != term and self.wrong_term is None:
            self.wrong_term = position, f"the batch has term {header.term}, the index says {term}"


def _verify_log(
    directory: Directory, file: LogFile, expected_offset: int | None, seen: _Seen, *, gaps: bool
) -> Finding:
    opened = directory.open(file.name)
    size_bytes = opened.size()
    # Only sealed segments are compacted.
    gaps = gaps and file.last_offset is not None
    damage = scan(opened, size_bytes, file.first_offset, seen.visit, gaps=gaps)
    position: int | None = None
    problem: str | None = None
    if damage is not None:
        position, problem = damage.position, damage.reason
        if file.last_offset is None and is_tear(opened, damage, size_bytes):
            problem = f"torn by a crash, {size_bytes - position} bytes will be cut: {problem}"
    elif expected_offset is not None and expected_offset != file.first_offset:
        position, problem = 0, f"the file before it ends before offset {expected_offset}"
    elif file.last_offset is not None and seen.next_offset != file.last_offset + 1:
        position, problem = size_bytes, f"it ends before offset {seen.next_offset}"
    elif seen.wrong_term is not None:
        position, problem = seen.wrong_term
    return Finding(
        path=opened.path,
        size_bytes=size_bytes,
        batches=seen.batches,
        records=seen.records,
        first_offset=file.first_offset,
        last_offset=seen.next_offset - 1,
        gaps=seen.gaps,
        position=position,
        problem=problem,
    )


def _verify_index(directory: Directory, name: str, log_bytes: int, seen: _Seen) -> Finding:
    position: int | None = None
    problem: str | None = None
    try:
        check_index_file(directory, name, log_bytes)
    except IndexDamage as damage:
        position, problem = damage.position, damage.reason
    else:
        if seen.wrong_entry is not None:
            position, problem = 0, seen.wrong_entry
    path = f"{directory.path}/{name}"
    size_bytes = directory.size(name) if directory.exists(name) else 0
    return Finding(path=path, size_bytes=size_bytes, position=position, problem=problem)


def _verify_journal(directory: Directory, name: str) -> Finding:
    file = directory.open(name)
    data = file.read_at(0, file.size())
    position, problem = find_damage(data) or (None, None)
    return Finding(path=file.path, size_bytes=len(data), position=position, problem=problem)
