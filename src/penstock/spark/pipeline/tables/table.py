"""A folder of Parquet files in which whoever reads it finds every row exactly once.

Readers need not know of us: Spark, Arrow and DuckDB read the folder as it is. What is not yet, or
no longer, a part of it lies in a folder beside it (`_NAME.staging`), where no pattern finds it;
what we remember lies in `_penstock` inside, a name that readers skip.

A batch is written to the staging folder, then its writer's journal is replaced by one that names
the batch and its files: that is the decision. Then the files are renamed into the folder. Whatever
was killed, `open` carries out what was decided and throws away the rest. The invariants: a batch of
a writer is decided once, so a batch that is tried again changes nothing; and a file in the folder
is complete, on the disk, and never changed. While a batch's room in the staging folder is there,
what was decided may not be done; when it is gone, it is.

Only POSIX file systems: it rests on renames. One process at a time writes to a folder (a lock).
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self
from uuid import uuid4

import pyarrow.parquet as pq

from penstock.model.errors import Busy, InvalidConfig, StorageFailed
from penstock.spark.pipeline.tables.durable_files import DRAFT, replace_file, sync_file, sync_folder

OWN_FOLDER: Final = "_penstock"
_JOURNALS: Final = "writers"
_JOURNAL: Final = ".json"
_LOCK: Final = "lock"
_SUFFIX: Final = ".parquet"
_VERSION: Final = 1
# Of a writer's name, in its files' names: enough to tell writers apart.
_NAME_LENGTH: Final = 12
# Of writers of one batch, which nobody asks for when it is done.
_ONCE: Final = "once-"

Write = Callable[[str], int]
"""Writes Parquet files to a folder that is not there yet, in partition folders of its own. How many
rows those say who wrote them, which may have been other machines."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Decision:
    """What one batch of a writer does to the folder. Paths are relative to it, or to its room in
    the staging folder."""

    batch: int
    room: str
    add: tuple[tuple[str, str], ...]
    remove: tuple[str, ...]


class ParquetTable:
    """One such folder; a context manager that holds its lock."""

    def __init__(self, folder: str) -> None:
        # Where a link leads to: the staging folder must be on the same file system.
        self.folder = os.path.realpath(folder)
        parent, name = os.path.split(self.folder)
        self.staging = os.path.join(parent, f"_{name}.staging")
        self._journals = os.path.join(self.folder, OWN_FOLDER, _JOURNALS)
        self._lock = -1

    def __enter__(self) -> Self:
        try:
            os.makedirs(self._journals, exist_ok=True)
            self._take_lock()
            self._recover()
            self._check_renames()
        except OSError as error:
            self.close()
            raise InvalidConfig(
                f"{self.folder} cannot be written to: {error.strerror or error}."
            ) from None
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let others write."""
        if self._lock >= 0:
            _remove_empty(self.staging)
            os.close(self._lock)
            self._lock = -1

    def is_empty(self) -> bool:
        """Whether there is no file in it."""
        return next(self._files(), None) is None

    def last_batch(self, writer: str) -> int | None:
        """The last batch of this writer that was decided."""
        decision = self._decision(self._journal(writer))
        return None if decision is None else decision.batch

    def commit(self, writer: str, batch: int, write: Write) -> bool:
        """Add a batch, unless it was decided before: then nothing is done and False comes back."""
        last = self.last_batch(writer)
        if last is not None and last >= batch:
            return False
        self._add(writer, batch, write)
        return True

    def add(self, write: Write, *, is_replacing: bool = False) -> None:
        """Add rows whose writer does not come back. `is_replacing`: what was in the table goes.
        Without rows, and where no file would be left to say the columns, a file of none stays."""
        writer = f"{_ONCE}{uuid4().hex}"
        there = tuple(self._files())
        self._add(
            writer,
            0,
            write,
            remove=there if is_replacing else (),
            keeps_columns=is_replacing or not there,
        )
        _unlink(self._journal(writer))

    def _add(
        self,
        writer: str,
        batch: int,
        write: Write,
        *,
        remove: tuple[str, ...] = (),
        keeps_columns: bool = False,
    ) -> None:
        room = uuid4().hex
        staged = os.path.join(self.staging, room)
        os.makedirs(self.staging, exist_ok=True)
        said = write(staged)
        # Also where nothing was written: it stands for what is decided and not done.
        os.makedirs(staged, exist_ok=True)
        rows = {path: _row_count(path) for path in sorted(parquet_files(staged))}
        if sum(rows.values()) != said:
            raise InvalidConfig(
                f"{said} rows were written and {sum(rows.values())} of them are in {staged}: "
                "executors have another file system there; take a folder that all machines share, "
                "or a URL such as s3a://bucket/folder."
            )
        kept = [path for path, count in rows.items() if count]
        if not kept and keeps_columns:
            kept = list(rows)[:1]
        files = [os.path.relpath(path, staged) for path in kept]
        self._sync_staged(staged, files)
        name = f"{writer.removeprefix(_ONCE).replace('-', '')[:_NAME_LENGTH]}-{batch:010}"
        decision = _Decision(
            batch=batch,
            room=room,
            add=tuple(
                (each, os.path.join(os.path.dirname(each), f"{name}-{number:05}{_SUFFIX}"))
                for number, each in enumerate(files)
            ),
            remove=remove,
        )
        self._decide(self._journal(writer), decision)
        self._carry_out(decision)

    def room(self) -> str:
        """A new folder in the staging folder, for work on this table. It is gone after a crash."""
        folder = os.path.join(self.staging, uuid4().hex)
        os.makedirs(folder)
        return folder

    def _take_lock(self) -> None:
        path = os.path.join(self.folder, OWN_FOLDER, _LOCK)
        self._lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Busy(f"Another process writes to {self.folder}: end it first.") from None

    def _recover(self) -> None:
        for name in sorted(os.listdir(self._journals)):
            path = os.path.join(self._journals, name)
            if name.endswith(DRAFT):
                _unlink(path)
                continue
            decision = self._decision(path)
            if decision is not None and os.path.isdir(os.path.join(self.staging, decision.room)):
                self._carry_out(decision)
            if name.startswith(_ONCE):
                _unlink(path)
        shutil.rmtree(self.staging, ignore_errors=True)

    def _check_renames(self) -> None:
        """Before anything is decided: what lies beside the folder may be on another file system."""
        probe = os.path.join(self.folder, OWN_FOLDER, "probe")
        os.makedirs(self.staging)
        try:
            os.rename(self.staging, probe)
        except OSError as error:
            os.rmdir(self.staging)
            if error.errno != errno.EXDEV:
                raise
            raise InvalidConfig(
                f"{self.folder} is where a file system is mounted, and what is written must first "
                "lie beside it: take a folder in it."
            ) from None
        os.rmdir(probe)

    def _carry_out(self, decision: _Decision) -> None:
        """Every part of it may have been done before: a staged file that is gone has its place."""
        staged = os.path.join(self.staging, decision.room)
        for name in decision.remove:
            _unlink(os.path.join(self.folder, name))
        for source, target in decision.add:
            path = os.path.join(self.folder, target)
            if os.path.exists(os.path.join(staged, source)):
                os.makedirs(os.path.dirname(path), exist_ok=True)
                os.rename(os.path.join(staged, source), path)
        places = {os.path.dirname(name) for name in decision.remove}
        for name in places:
            self._remove_emptied(name)
        for name in places | {os.path.dirname(target) for _, target in decision.add}:
            self._sync_way(name)
        shutil.rmtree(staged, ignore_errors=True)

    def _remove_emptied(self, name: str) -> None:
        """The folder of files that went, and those above it that have nothing else."""
        while name:
            _remove_empty(os.path.join(self.folder, name))
            name = os.path.dirname(name)

    def _sync_staged(self, staged: str, files: list[str]) -> None:
        """A decision must not survive a loss of power that its files do not."""
        for name in files:
            sync_file(os.path.join(staged, name))
        for place, _, _ in os.walk(staged):
            sync_folder(place)
        sync_folder(self.staging)
        sync_folder(os.path.dirname(self.staging))

    def _sync_way(self, name: str) -> None:
        """Make the folder's entries durable, and the entries that lead to it."""
        while True:
            folder = os.path.join(self.folder, name)
            if os.path.isdir(folder):
                sync_folder(folder)
            if not name:
                return
            name = os.path.dirname(name)

    def _journal(self, writer: str) -> str:
        return os.path.join(self._journals, f"{writer}{_JOURNAL}")

    def _decide(self, path: str, decision: _Decision) -> None:
        document = {
            "version": _VERSION,
            "batch": decision.batch,
            "room": decision.room,
            "add": decision.add,
            "remove": decision.remove,
        }
        replace_file(path, json.dumps(document).encode())

    def _decision(self, path: str) -> _Decision | None:
        try:
            with open(path, encoding="utf-8") as file:
                document = json.load(file)
            if document["version"] != _VERSION:
                raise StorageFailed(f"{path} was written by a newer Penstock: use that one.")
            return _Decision(
                batch=int(document["batch"]),
                room=str(document["room"]),
                add=tuple((str(source), str(target)) for source, target in document["add"]),
                remove=tuple(str(name) for name in document["remove"]),
            )
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError):
            raise StorageFailed(
                f"{path} is damaged: it says what was written last; restore it, or write to a new "
                "folder."
            ) from None

    def _files(self) -> Iterator[str]:
        for path in parquet_files(self.folder):
            yield os.path.relpath(path, self.folder)


def parquet_files(folder: str) -> Iterator[str]:
    """As Spark looks for them: names that begin with _ or . are skipped, but for the folders of a
    column whose name does."""
    for place, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name[0] not in "_." or "=" in name]
        for name in names:
            if name.endswith(_SUFFIX) and name[0] not in "_.":
                yield os.path.join(place, name)


def _row_count(path: str) -> int:
    return int(pq.read_metadata(path).num_rows)


def _unlink(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        return


def _remove_empty(folder: str) -> None:
    try:
        os.rmdir(folder)
    except OSError:
        return  # it is not empty, or not there
