"""Why a partition's log does not hold what it held: its latest removals, in `removals.journal`.

Not the removing: retention, deletions and recovery tell of what they did. The invariant: an entry
is written when what it speaks of is gone for good, so a crash may leave a removal without an entry,
and never an entry that is wrong. That is worth more than to have all of them, so a journal that
cannot be read is dropped, and one that cannot be written holds up nothing.

The list is bounded. When it is full, the two oldest removals of one cause that follow one another
become one, which says since when; where no two do, the oldest is forgotten.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from penstock.model.errors import StorageError, StorageFailed
from penstock.model.limits import REMOVALS_MAX
from penstock.model.removal import REMOVAL_CAUSES, Removal, RemovalCause
from penstock.storage.files.files import Directory, typed
from penstock.storage.files.journal import read_journal, remove_journal, write_journal

logger = logging.getLogger(__name__)

REMOVALS_JOURNAL: Final = "removals.journal"
# The year 9999, where Python's calendar ends.
_TIME_MS_MAX: Final = 253_402_300_799_000
_VERBS: Final[dict[RemovalCause, str]] = {
    "retention_time": "removed by retention",
    "retention_size": "removed by retention",
    "deleted": "deleted",
    "truncated": "cut off",
}


class Entry(NamedTuple):
    """A removal, or several of one cause that followed one another: the last time and detail."""

    removal: Removal
    since_ms: int
    """When the first of them was."""

    def shown(self) -> Removal:
        """As one removal, which says in words if it was several."""
        if self.since_ms == self.removal.at_ms:
            return self.removal
        detail = f"{self.removal.detail}, in steps since {time_text(self.since_ms)}"
        return replace(self.removal, detail=detail)


class RemovalHistory:
    """The removals of one log. All calls come from the thread that writes it; jobs run elsewhere,
    one at a time."""

    __slots__ = ("_directory", "_entries", "_job", "_unwritten")

    def __init__(self, directory: Directory) -> None:
        self._directory = directory
        # None until somebody asks: most partitions are never asked.
        self._entries: tuple[Entry, ...] | None = None
        self._unwritten = False
        self._job: HistoryJob | None = None

    def latest(self) -> list[Removal]:
        """The latest removals, oldest first."""
        return [entry.shown() for entry in self._loaded()]

    def explain(self, offset: int, start_offset: int) -> Removal | None:
        """The latest removal that took the offset away, if one is remembered: from the beginning of
        a log that starts behind the offset, or else from its end."""
        for removal in reversed(self.latest()):
            if offset < start_offset:
                if removal.cause != "truncated" and _holds(removal, offset):
                    return removal
            # Whoever had read all that was cut off stands where it ended.
            elif removal.cause == "truncated" and _holds(removal, offset - 1):
                return removal
        return None

    def add(self, removals: Iterable[Removal]) -> None:
        """Remember what is gone by now; durable by the next job."""
        for removal in removals:
            assert removal.first_offset < removal.end_offset, removal
            self._entries = _bounded([*self._loaded(), Entry(removal, removal.at_ms)])
            self._unwritten = True

    def keep(self, removal: Removal) -> None:
        """Remember what is gone, durably if the disk lets us: where there is no loop to wait for
        a job."""
        self.add([removal])
        job = self.job()
        assert job is not None, "a job is under way already"
        job.run()
        self.finish(job)

    def clip(self, end_offset: int) -> None:
        """Durably forget removals from the beginning that reach beyond the offset, where the log
        ends: a crash took away more than was removed, and the offsets go to other messages."""
        kept = []
        for entry in self._loaded():
            removal = entry.removal
            if removal.cause != "truncated":
                removal = replace(removal, end_offset=min(removal.end_offset, end_offset))
            if removal.first_offset < removal.end_offset:
                kept.append(Entry(removal, entry.since_ms))
        if tuple(kept) == self._entries:
            return
        self._entries = tuple(kept)
        try:
            _write(self._directory, self._entries)
        except StorageError as error:
            logger.warning("What was removed from %s is forgotten: %s", self._directory.path, error)
            remove_journal(self._directory, REMOVALS_JOURNAL)

    def job(self) -> HistoryJob | None:
        """What makes everything added so far durable; None if it is, or a job is under way."""
        if self._job is not None or not self._unwritten:
            return None
        self._unwritten = False
        self._job = HistoryJob(self._directory, self._loaded())
        return self._job

    def finish(self, job: HistoryJob) -> None:
        """Take in that the job is over. What it could not write goes with the next."""
        assert job is self._job, "not the job under way"
        self._job = None
        if job.error is not None:
            logger.warning("Removals of %s are not written: %s", self._directory.path, job.error)

    def _loaded(self) -> tuple[Entry, ...]:
        if self._entries is None:
            self._entries = read_entries(self._directory)
        return self._entries


class HistoryJob:
    """Makes a log's removals durable. Run once, on any thread, one at a time for a log."""

    __slots__ = ("_directory", "_entries", "error")

    def __init__(self, directory: Directory, entries: Sequence[Entry]) -> None:
        # Until the job has run to its end nothing of it counts as durable.
        self.error: StorageError | None = StorageFailed("The writing has not ended.")
        self._directory = directory
        self._entries = entries

    def run(self) -> None:
        """Do it. First make the names that say "deleted" durable: before that a crash could bring
        back what the entries call gone."""
        try:
            self._directory.flush()
            _write(self._directory, self._entries)
            self.error = None
        except OSError as error:
            self.error = typed(error, f"flushing {self._directory.path}")
        except StorageError as error:
            self.error = error


def sentence(removal: Removal) -> str:
    """What happened, for people, without a capital letter and a full stop."""
    last_offset = removal.end_offset - 1
    offsets = (
        f"offset {last_offset} was"
        if removal.first_offset == last_offset
        else f"offsets {removal.first_offset} to {last_offset} were"
    )
    return f"{offsets} {_VERBS[removal.cause]} at {time_text(removal.at_ms)} ({removal.detail})"


def time_text(at_ms: int) -> str:
    """The moment as ISO 8601 has it, to the second."""
    return f"{datetime.fromtimestamp(at_ms // 1000, UTC):%Y-%m-%dT%H:%M:%SZ}"


def read_entries(directory: Directory) -> tuple[Entry, ...]:
    """What the journal holds; nothing, with a warning, if it cannot be read."""
    try:
        payload = read_journal(directory, REMOVALS_JOURNAL)
        return () if payload is None else _decode(payload)
    except (StorageError, ValueError, TypeError, LookupError) as error:
        logger.warning("%s/%s is dropped: %s", directory.path, REMOVALS_JOURNAL, error)
        return ()


def _write(directory: Directory, entries: Sequence[Entry]) -> None:
    rows = [
        (
            removal.first_offset,
            removal.end_offset,
            removal.cause,
            removal.at_ms,
            since_ms,
            removal.detail,
        )
        for removal, since_ms in entries
    ]
    write_journal(directory, REMOVALS_JOURNAL, json.dumps(rows).encode())


def _decode(payload: bytes) -> tuple[Entry, ...]:
    """The entries; an error of Python's own if it is anything but a list of them."""
    return tuple(_entry(*row) for row in json.loads(payload)[-REMOVALS_MAX:])


def _entry(first: Any, end: Any, cause: Any, at_ms: Any, since_ms: Any, detail: Any) -> Entry:
    numbers = (first, end, at_ms, since_ms)
    if (
        any(type(number) is not int for number in numbers)
        or not 0 <= first < end < 2**63
        or not 0 <= min(at_ms, since_ms) <= max(at_ms, since_ms) <= _TIME_MS_MAX
        or cause not in REMOVAL_CAUSES
        or not isinstance(detail, str)
    ):
        raise ValueError(f"{numbers} is no removal")
    removal = Removal(first_offset=first, end_offset=end, cause=cause, at_ms=at_ms, detail=detail)
    return Entry(removal, since_ms)


def _bounded(entries: list[Entry]) -> tuple[Entry, ...]:
    """As many as are remembered."""
    while len(entries) > REMOVALS_MAX:
        for place in range(len(entries) - 1):
            merged = _merged(entries[place], entries[place + 1])
            if merged is not None:
                entries[place : place + 2] = [merged]
                break
        else:
            del entries[0]
    return tuple(entries)


def _merged(earlier: Entry, later: Entry) -> Entry | None:
    """Both as one, if the later one went on where the earlier ended, for the same cause."""
    old, new = earlier.removal, later.removal
    if old.cause != new.cause or old.end_offset != new.first_offset or old.cause == "truncated":
        return None
    detail = new.detail if new.detail == old.detail else f"{new.detail} at last"
    merged = replace(new, first_offset=old.first_offset, detail=detail)
    return Entry(merged, min(earlier.since_ms, new.at_ms))


def _holds(removal: Removal, offset: int) -> bool:
    return removal.first_offset <= offset < removal.end_offset
