"""One meta server's copy of the log and the state that follows from it (R-REP-5).

Entries are proposed to the replica; what is committed is read from the log, applied in order, and
whoever proposed it here is told the outcome. When enough has come, the state is written down
(`metaserver.snapshots`). Not who may ask for what (`metaserver.service`).

The invariant: the state is that of all entries before `applied_offset`, without a hole: where the
log begins after it, nothing is applied until a snapshot of another server has filled the hole.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from penstock.model.errors import (
    BatchError,
    CorruptFacts,
    NotLeader,
    PenstockError,
    RegistryUnavailable,
    StorageError,
    StorageFailed,
)
from penstock.model.limits import META_SNAPSHOT_CHANGES, MIB
from penstock.net.clock import Clock
from penstock.records import build_batch
from penstock.records.header import BatchHeader, read_header
from penstock.records.view import BatchView, batches
from penstock.registry.metaserver.entries import Entry, decode_entry
from penstock.registry.metaserver.feed import Feed
from penstock.registry.metaserver.snapshots import Snapshots
from penstock.registry.metaserver.state import MetaState, Outcome, Snapshot
from penstock.replication.disk.flusher import Flusher
from penstock.replication.replica.replica import Replica
from penstock.storage.files.files import Directory

logger = logging.getLogger(__name__)

_READ_BYTES: Final = 1 * MIB

Done = Callable[[Outcome | PenstockError], None]


class Audience(Protocol):
    """Who hears of what is applied."""

    def on_applied(self, entry: Entry) -> None:
        """The facts are others since this entry."""
        ...

    def on_caught_up(self) -> None:
        """All that is known to be committed is applied."""
        ...

    def on_leadership(self, is_leader: bool) -> None:
        """This server leads, and has applied all that is committed; or it does so no longer."""
        ...


class MetaMachine:
    """Implements `replication.replica.replica.Listener`. All calls come from the event loop."""

    def __init__(
        self,
        folder: Directory,
        replica: Replica,
        flusher: Flusher,
        clock: Clock,
        *,
        snapshot_changes: int = META_SNAPSHOT_CHANGES,
    ) -> None:
        """Before the replica starts. StorageError if the snapshot cannot be read."""
        self.state = MetaState()
        self.feed = Feed()
        self.applied_offset = 0
        # Why nothing more can be applied: what is committed cannot be understood here.
        self.failure: StorageError | None = None
        self.audience: Audience | None = None
        self.replica = replica
        self._snapshots = Snapshots(folder, replica, flusher, entries_max=snapshot_changes)
        self._clock = clock
        self._is_applying = False
        # Who proposed what is not applied yet, by its offset.
        self._waiting: dict[int, Done] = {}
        found = self._snapshots.read()
        if found is not None:
            self._restore(found)
        replica.listener = self

    @property
    def has_hole(self) -> bool:
        """Whether the log begins after what is applied."""
        return self.applied_offset < self.replica.log.first_offset

    @property
    def has_all(self) -> bool:
        """Whether the log has everything that was committed before whoever leads was elected, as
        far as is known: what is committed is of that leader's term."""
        raft = self.replica.consensus.raft
        state = raft.state
        is_led = raft.leader is not None and raft.leader != state.me
        return is_led and state.terms.term_before(state.commit_offset) == state.term

    def check_serves(self) -> None:
        """Raise unless this server leads and its state has no hole."""
        if self.failure is not None:
            raise StorageFailed(self.failure.message)
        if not self.replica.is_leader:
            raise NotLeader("This meta server does not lead: ask which one does.")
        if self.has_hole:
            raise RegistryUnavailable("This meta server waits for a snapshot: ask again later.")

    def propose(self, entry: bytes, done: Done) -> None:
        """Write an entry; `done` gets its outcome when it is applied, or why it is not known. The
        turn must end."""
        self.check_serves()
        batch = memoryview(build_batch([(None, entry)], timestamp_ms=self._clock.now_ms()))

        def finished(error: PenstockError | None) -> None:
            # Without an error it is committed, and about to be applied.
            if error is not None and (proposer := self._waiting.pop(offset, None)) is not None:
                proposer(error)

        offset = self.replica.propose(read_header(batch), batch, finished)
        self._waiting[offset] = done

    async def when_idle(self) -> None:
        """No job runs any more, so that the log may be closed."""
        await self._snapshots.when_saved()
        idle = asyncio.get_running_loop().create_future()
        self.replica.idleness.when(lambda: None if idle.done() else idle.set_result(None))
        await idle

    def snapshot(self) -> Snapshot:
        return self.state.snapshot(self.applied_offset)

    def install(self, snapshot: Snapshot) -> None:
        """Go on from another server's state, if it fills the hole."""
        if not (self.has_hole and self.replica.log.first_offset <= snapshot.offset):
            return
        logger.info("The state up to offset %d is another server's", snapshot.offset)
        self._restore(snapshot)
        self._snapshots.save(self.snapshot())
        self._catch_up()

    def _restore(self, snapshot: Snapshot) -> None:
        self.state = snapshot.restore()
        self.feed = Feed()
        self.applied_offset = snapshot.offset

    # --- applying --------------------------------------------------------------------------------

    def _catch_up(self) -> None:
        if self._is_applying or self.failure is not None:
            return
        self._is_applying = True
        try:
            self._apply_committed()
        except (StorageError, BatchError) as error:
            # To skip it would be to differ from the others: better not to serve at all.
            logger.error("Nothing more is applied at offset %d: %s", self.applied_offset, error)
            self.failure = error if isinstance(error, StorageError) else CorruptFacts(error.message)
        finally:
            self._is_applying = False
        if self.audience is not None:
            self.audience.on_caught_up()
        if self._snapshots.is_due and self.failure is None:
            self._snapshots.save(self.snapshot())

    def _apply_committed(self) -> None:
        replica, log = self.replica, self.replica.log
        while not self.has_hole and self.applied_offset < replica.high_watermark:
            part, _ = log.read_stored(self.applied_offset, _READ_BYTES, replica.high_watermark)
            for batch in batches(part.read()):
                if not batch.header.is_control:
                    self._apply_batch(batch)
                self.applied_offset = batch.header.next_offset
                self._snapshots.bytes_since += batch.header.length

    def _apply_batch(self, batch: BatchView) -> None:
        for record in batch.records():
            data = record.value or b""
            entry = decode_entry(data, f"The entry at offset {record.offset}")
            outcome, is_news = self.state.apply(entry)
            self._snapshots.entries_since += 1
            if is_news:
                self.feed.add(self.state.version, data)
                if self.audience is not None:
                    self.audience.on_applied(entry)
            proposer = self._waiting.pop(record.offset, None)
            if proposer is not None:
                proposer(outcome)

    # --- replication.replica.Listener ------------------------------------------------------------

    def on_written(self, error: StorageError | None) -> None:
        """Nothing follows before it is committed."""

    def on_replicated(self, headers: Sequence[BatchHeader]) -> None:
        """Nothing follows before it is committed."""

    def on_truncated(self, offset: int) -> None:
        """What is applied was committed, and is not cut. A log that begins anew leaves a hole."""
        if self.has_hole:
            logger.warning("A snapshot is needed: the log begins anew at offset %d", offset)

    def on_high_watermark(self) -> None:
        self._catch_up()

    def on_leadership(self, is_leader: bool) -> None:
        if self.audience is not None:
            self.audience.on_leadership(is_leader)
