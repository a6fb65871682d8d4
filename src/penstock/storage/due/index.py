"""Which message is due next, of more than fit in memory: entries sorted by when they are due.

The latest entries are in memory, in order; when there are too many, they become a file
(`storage.due.run`), and files become larger ones. It is made from a log and can be made again: what
is known beside it is kept in one journal with it, as of one offset of that log. Not what the
entries mean. The invariants: the journal names only files that are durable and whole; whatever a
crash leaves, `open` finds an index as it was at the offset that it tells, or none; and memory does
not grow with the number of entries.

    journal: offset, i64 | term, i64 | files, u32 | (name length, u16 | name | entries, u32)… |
    state
"""

from __future__ import annotations

import heapq
import logging
import struct
from bisect import bisect_right, insort
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final

from penstock.model.errors import CorruptLog, StorageError
from penstock.model.limits import DUE_ENTRIES_IN_MEMORY_MAX, DUE_RUNS_MAX
from penstock.storage.due.run import (
    ENTRY_BYTES,
    KEY_BYTES,
    SUFFIX,
    DueRun,
    Entry,
    RunCursor,
    RunWriter,
    key_of,
    pack,
    read_key,
    unpack,
)
from penstock.storage.files.files import Directory, remove_if_there, typed
from penstock.storage.files.journal import read_journal, remove_journal, write_journal

logger = logging.getLogger(__name__)

_JOURNAL: Final = "due.journal"
_HEADER: Final = struct.Struct(">qqI")
_RUN: Final = struct.Struct(">HI")
# So many at once into the sorted list, one by one; more are sorted anew, which looks at all of it.
_INSERTED_SINGLY_MAX: Final = 64
# Files that become one: so an entry is written anew two or three times at most.
_MERGED_AT_ONCE: Final = 16
# Entries that are merged before others have a turn: a few milliseconds.
_MERGED_PER_TURN: Final = 2_000


# Later than any message.
LAST: Final = (2**62, 2**62)


@dataclass(frozen=True, slots=True)
class Found:
    """An index as it was left."""

    index: DueIndex
    offset: int
    """What the log says before it is in the index."""
    term: int
    state: bytes


class DueIndex:
    """All calls come from one thread."""

    def __init__(
        self,
        directory: Directory,
        *,
        in_memory_max: int = DUE_ENTRIES_IN_MEMORY_MAX,
        runs_max: int = DUE_RUNS_MAX,
    ) -> None:
        """One with nothing in it, in an empty folder."""
        self._directory = directory
        self._in_memory_max = in_memory_max
        self._runs_max = runs_max
        self._sorted: list[bytes] = []
        self._new: list[bytes] = []
        self._runs: list[DueRun] = []
        self._next_name = 0
        # Rises whenever readers have to look for their place again.
        self.version = 0
        self._is_merging = False
        self._job: SaveJob | None = None
        # Which files are no longer needed once the next journal is written.
        self._stale: list[str] = []

    @classmethod
    def open(cls, directory: Directory) -> Found | None:
        """What was saved last; None if there is nothing that can be believed."""
        try:
            payload = read_journal(directory, _JOURNAL)
            if payload is None:
                return None
            return cls._open(directory, payload)
        except (StorageError, struct.error, UnicodeDecodeError) as error:
            logger.warning("The due index is made anew from its log: %s", error)
            return None

    @classmethod
    def _open(cls, directory: Directory, payload: bytes) -> Found:
        index = cls(directory)
        offset, term, count = _HEADER.unpack_from(payload)
        position = _HEADER.size
        for _ in range(count):
            length, entries = _RUN.unpack_from(payload, position)
            position += _RUN.size
            name = payload[position : position + length].decode()
            position += length
            index._runs.append(DueRun.open(directory, name, entries))
        try:
            names = {run.name for run in index._runs}
            for name in directory.names():
                if name.endswith(SUFFIX):
                    index._next_name = max(index._next_name, _number(name) + 1)
                    if name not in names:
                        directory.remove(name)
        except OSError as error:
            raise typed(error, f"opening {directory.path}") from error
        return Found(index, offset, term, payload[position:])

    # --- writing -------------------------------------------------------------------------------

    def put(self, due_ms: int, number: int, offset: int, lane: int, size: int) -> None:
        """A message waits, and is at the offset. Said again of one that is there, it was moved."""
        self._new.append(pack(due_ms, number, offset, lane, size))

    def cancel(self, due_ms: int, number: int, offset: int) -> None:
        """It does not wait any more. offset: which says so."""
        self._new.append(pack(due_ms, number, offset, 0, 0))

    @property
    def is_full(self) -> bool:
        """Whether it should be saved, so that memory does not grow."""
        return len(self._sorted) + len(self._new) >= self._in_memory_max

    @property
    def is_half_full(self) -> bool:
        return 2 * (len(self._sorted) + len(self._new)) >= self._in_memory_max

    def prune(self, floor: tuple[int, int]) -> None:
        """Forget what of memory is not needed: all up to the floor."""
        self._settle()
        del self._sorted[: self._after(key_of(*floor))]

    def save(self, offset: int, term: int, state: bytes, floor: tuple[int, int]) -> SaveJob | None:
        """Have all of it on disk, but for what is up to the floor; the job is to be run, by any
        thread, and then `saved`. None while there is one. StorageError: all is as it was."""
        if self._job is not None:
            return None
        self.prune(floor)
        if self._sorted:
            writer = RunWriter(self._directory, self._name())
            writer.write(_latest(self._sorted))
            self._runs.append(writer.finish())
            self._sorted = []
        self._drop_spent(key_of(*floor))
        self.version += 1
        self._job = self._save_job(offset, term, state)
        return self._job

    def saved(self, job: SaveJob) -> None:
        """The job is over. Raises the StorageError that it failed by: the next one does its
        work."""
        assert job is self._job, "not the job under way"
        self._job = None
        if job.error is not None:
            self._stale += job.stale
            raise job.error
        for run in job.runs:
            run.is_flushed = True

    def _save_job(self, offset: int, term: int, state: bytes) -> SaveJob:
        assert not {run.name for run in self._runs} & set(self._stale), self._stale
        parts = [_HEADER.pack(offset, term, len(self._runs))]
        for run in self._runs:
            parts += (_RUN.pack(len(run.name), run.count), run.name.encode())
        stale, self._stale = self._stale, []
        return SaveJob(self._directory, b"".join([*parts, state]), list(self._runs), stale)

    def merge(self, floor: tuple[int, int]) -> Generator[None, None, None]:
        """Make few files of many, if there are too many; others have a turn now and then. It is
        durable with the next `save`."""
        if self._is_merging or len(self._runs) <= self._runs_max:
            return
        self._is_merging = True
        try:
            smallest = sorted(self._runs, key=lambda run: run.count)[:_MERGED_AT_ONCE]
            run = yield from self._merge(smallest, key_of(*floor))
            self._runs = [each for each in self._runs if each not in smallest]
            self._runs.append(run)
            self._stale += [each.name for each in smallest]
            self.version += 1
        finally:
            self._is_merging = False

    def _merge(self, runs: list[DueRun], lowest: bytes) -> Generator[None, None, DueRun]:
        writer = RunWriter(self._directory, self._name())
        entries = _latest(heapq.merge(*(_peeked(RunCursor(run, lowest)) for run in runs)))
        while part := list(islice(entries, _MERGED_PER_TURN)):
            writer.write(part)
            yield
        return writer.finish()

    def _drop_spent(self, lowest: bytes) -> None:
        """Let go of files that have nothing more to tell."""
        if self._is_merging:
            return
        kept = []
        for run in self._runs:
            if run.is_spent(lowest):
                self._stale.append(run.name)
            else:
                kept.append(run)
        self._runs = kept

    def _name(self) -> str:
        self._next_name += 1
        return f"{self._next_name - 1:012d}{SUFFIX}"

    # --- reading -------------------------------------------------------------------------------

    def find(self, due_ms: int, number: int) -> Entry | None:
        """The message, if it waits."""
        self._settle()
        key = key_of(due_ms, number)
        before = key_of(due_ms, number - 1)
        found: list[bytes] = []
        at = self._after(before)
        while at < len(self._sorted) and self._sorted[at].startswith(key):
            found.append(self._sorted[at])
            at += 1
        for run in self._runs:
            cursor = RunCursor(run, before)
            while cursor.head is not None and cursor.head.startswith(key):
                found.append(cursor.head)
                cursor.advance()
        if not found:
            return None
        entry = unpack(max(found))
        return entry if entry.size else None

    def sorted_after(self, key: bytes) -> Iterator[bytes]:
        """What is in memory and comes later, in order, superseded entries with the others."""
        self._settle()
        for at in range(self._after(key), len(self._sorted)):
            yield self._sorted[at]

    @property
    def is_damaged(self) -> bool:
        """Whether it has to be made anew: CorruptLog was raised by what is in a file."""
        return any(run.is_damaged for run in self._runs)

    def runs(self) -> list[DueRun]:
        return self._runs

    def _settle(self) -> None:
        """Put the new entries in their places."""
        new = self._new
        if not new:
            return
        if len(new) <= _INSERTED_SINGLY_MAX:
            for entry in new:
                insort(self._sorted, entry)
        else:
            self._sorted += new
            self._sorted.sort()
        self._new = []

    def _after(self, key: bytes) -> int:
        # Larger than every entry of that key.
        return bisect_right(self._sorted, key + b"\xff" * (ENTRY_BYTES - KEY_BYTES))


class DueReader:
    """Takes entries in order, from a place on. Entries that are put in before its place later are
    not seen."""

    def __init__(self, index: DueIndex, after: tuple[int, int]) -> None:
        self._index = index
        self._after = key_of(*after)
        self.is_at_end = False
        self._version = -1
        self._cursors: list[RunCursor] = []

    def take(self, until: tuple[int, int], count_max: int) -> list[Entry]:
        """The next messages up to that one, of which those that were cancelled are left out;
        `is_at_end` tells whether there are more."""
        taken: list[Entry] = []
        end = key_of(*until)
        last: bytes | None = None
        count = 0
        self.is_at_end = False
        for entry in self._entries():
            if entry[:KEY_BYTES] > end:
                break
            if last is not None and entry[:KEY_BYTES] != last[:KEY_BYTES]:
                self._keep(last, taken)
                count += 1
                if count >= count_max:
                    return taken
            last = entry
        self.is_at_end = True
        if last is not None:
            self._keep(last, taken)
        return taken

    @property
    def after(self) -> tuple[int, int]:
        """All up to here was taken."""
        return read_key(self._after)

    def next_due_ms(self) -> int | None:
        """When the next one is due, cancelled or not; None if there is none."""
        entry = next(self._entries(), None)
        return None if entry is None else unpack(entry).due_ms

    def _keep(self, entry: bytes, taken: list[Entry]) -> None:
        self._after = entry[:KEY_BYTES]
        found = unpack(entry)
        if found.size:
            taken.append(found)

    def _entries(self) -> Iterator[bytes]:
        """From the reader's place on."""
        if self._version != self._index.version:
            self._version = self._index.version
            self._cursors = [RunCursor(run, self._after) for run in self._index.runs()]
        after, cursors = self._after, self._cursors
        for cursor in cursors:
            while cursor.head is not None and cursor.head[:KEY_BYTES] <= after:
                cursor.advance()
        heads = [_peeked(cursor) for cursor in cursors if cursor.head is not None]
        return heapq.merge(self._index.sorted_after(after), *heads)


class SaveJob:
    """Makes files durable, then the journal that names them; then removes what it no longer
    does."""

    def __init__(
        self, directory: Directory, payload: bytes, runs: list[DueRun], stale: list[str]
    ) -> None:
        self._directory = directory
        self._payload = payload
        self.runs = runs
        self.stale = stale
        self.error: StorageError | None = None

    def run(self) -> None:
        try:
            for run in self.runs:
                if not run.is_flushed:
                    run.flush()
            # A name that the journal has must be there.
            self._directory.flush()
            write_journal(self._directory, _JOURNAL, self._payload)
            for name in self.stale:
                remove_if_there(self._directory, name)
        except OSError as error:
            self.error = typed(error, f"saving {self._directory.path}")
        except StorageError as error:
            self.error = error


def discard(directory: Directory) -> None:
    """Forget what was saved."""
    remove_journal(directory, _JOURNAL)
    try:
        for name in directory.names():
            if name.endswith(SUFFIX):
                directory.remove(name)
    except OSError as error:
        raise typed(error, f"emptying {directory.path}") from error


def scan(
    index: DueIndex, after: tuple[int, int], see: Callable[[Entry], None]
) -> Generator[None, None, None]:
    """Every message that waits, later than that, in order; others have a turn now and then. What
    changes meanwhile may be seen or not."""
    reader = DueReader(index, after)
    while not reader.is_at_end:
        for entry in reader.take(LAST, _MERGED_PER_TURN):
            see(entry)
        yield


def _peeked(cursor: RunCursor) -> Iterator[bytes]:
    """The entries from where a cursor stands. It moves along, and stays with the last one that was
    asked for: others may have been taken instead."""
    while cursor.head is not None:
        yield cursor.head
        cursor.advance()


def _latest(entries: Iterable[bytes]) -> Iterator[bytes]:
    """Of those with the same key the last."""
    last: bytes | None = None
    for entry in entries:
        if last is not None and entry[:KEY_BYTES] != last[:KEY_BYTES]:
            yield last
        last = entry
    if last is not None:
        yield last


def _number(name: str) -> int:
    digits = name.removesuffix(SUFFIX)
    if not digits.isdigit():
        raise CorruptLog(f"{name!r} is no file of a due index.")
    return int(digits)
