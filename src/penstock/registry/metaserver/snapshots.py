"""A meta server's state written down now and then, and the log before it let go.

A snapshot is written new, flushed, and renamed; then the part of the log before the snapshot before
it goes, so that a server that is a little behind still finds what it lacks. Not what is in it
(`metaserver.state`). The invariant: no part of the log goes before a snapshot that tells of it is
durable.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from penstock.model.errors import StorageError, StorageFailed
from penstock.model.limits import META_SNAPSHOT_BYTES
from penstock.registry.metaserver.state import Snapshot, decode_snapshot, encode_snapshot
from penstock.replication.disk.flusher import Flusher
from penstock.replication.replica.replica import Replica
from penstock.storage.files.files import Directory
from penstock.storage.files.journal import read_journal, write_journal

logger = logging.getLogger(__name__)

SNAPSHOT: Final = "snapshot.journal"


class Snapshots:
    """Of one server. All calls come from the event loop."""

    def __init__(
        self, folder: Directory, replica: Replica, flusher: Flusher, *, entries_max: int
    ) -> None:
        """entries_max: so many entries are applied before the next is written, or fewer large
        ones."""
        # What was applied since the last one was taken.
        self.entries_since = 0
        self.bytes_since = 0
        self._folder = folder
        self._replica = replica
        self._flusher = flusher
        self._entries_max = entries_max
        # What lies before it is in a snapshot that is durable.
        self._durable_offset = 0
        self._saving: SnapshotJob | None = None
        # Who waits until nothing is being saved.
        self._on_saved: asyncio.Future[None] | None = None

    def read(self) -> Snapshot | None:
        """What was written last. StorageError."""
        found = read_journal(self._folder, SNAPSHOT)
        if found is None:
            return None
        snapshot = decode_snapshot(found, f"{self._folder.path}/{SNAPSHOT}")
        self._durable_offset = snapshot.offset
        return snapshot

    @property
    def is_due(self) -> bool:
        is_much = self.entries_since >= self._entries_max or self.bytes_since >= META_SNAPSHOT_BYTES
        return is_much and self._saving is None

    def save(self, snapshot: Snapshot) -> None:
        """Write it, unless another is being written."""
        if self._saving is None:
            self.entries_since = self.bytes_since = 0
            self._saving = SnapshotJob(self._folder, snapshot)
            self._flusher.submit(self._saving, self._saved)

    async def when_saved(self) -> None:
        """Nothing is being written any more."""
        if self._saving is not None:
            self._on_saved = asyncio.get_running_loop().create_future()
            await self._on_saved

    def _saved(self) -> None:
        job, self._saving = self._saving, None
        assert job is not None
        if self._on_saved is not None and not self._on_saved.done():
            self._on_saved.set_result(None)
        if job.error is not None:
            # The log goes on until the next one: a start reads more of it, nothing worse.
            logger.warning("A snapshot could not be written: %s", job.error)
            return
        kept_offset, self._durable_offset = self._durable_offset, job.snapshot.offset
        assert kept_offset <= self._durable_offset, (kept_offset, self._durable_offset)
        replica = self._replica
        if replica.failure is not None or replica.log.failed:
            return
        try:
            if kept_offset > replica.log.first_offset:
                for removal in replica.log.cutter.delete_before(kept_offset):
                    self._flusher.submit(removal, lambda: None)
            # So that all before this snapshot can go with the next.
            replica.roll()
        except StorageError as error:
            logger.warning("The log behind a snapshot could not be shortened: %s", error)


class SnapshotJob:
    """Makes a snapshot durable. Run once, on any thread: the state in it never changes."""

    def __init__(self, folder: Directory, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        # Until the job has run to its end nothing of it counts as durable.
        self.error: StorageError | None = StorageFailed("The snapshot has not been written.")
        self._folder = folder

    def run(self) -> None:
        try:
            write_journal(self._folder, SNAPSHOT, encode_snapshot(self.snapshot))
            self.error = None
        except StorageError as error:
            self.error = error
