"""This broker's copy of a partition: batches are proposed, become durable, become committed.

It owns the log and the high watermark. With a single voter, a batch is committed as soon as it is
as durable here as the topic asks; with more voters Raft will say so, behind the same interface.
Not the checks of what may be proposed: those are the partition's.

The invariant: `done` of a proposal is called exactly once, without an error only when the batch is
durable, and in the order of the proposals; the high watermark never goes back, and nothing beyond
it is ever read.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable
from typing import Protocol

from penstock.model.errors import OffsetOutOfRange, PenstockError, StorageError, StorageFailed
from penstock.model.ids import Term
from penstock.model.removal import Removal
from penstock.model.topic_config import Durability
from penstock.net.clock import Clock
from penstock.records.header import BatchHeader
from penstock.replication.driver import Driver
from penstock.replication.flusher import Flusher
from penstock.storage.jobs import FlushJob
from penstock.storage.log import Log, StartOffsetJob
from penstock.storage.recovery import CleanEnd
from penstock.storage.removals import HistoryJob
from penstock.storage.slice import FileSlice

logger = logging.getLogger(__name__)

Done = Callable[[PenstockError | None], None]


class Listener(Protocol):
    """Who hears of a replica's progress: the partition in front of it."""

    def on_written(self, error: StorageError | None) -> None:
        """What was proposed in this turn is in the file, or none of it is."""
        ...

    def on_high_watermark(self) -> None:
        """There is more to read."""
        ...


class Replica:
    """One voter, alone. All calls come from the event loop."""

    def __init__(
        self,
        name: str,
        log: Log,
        *,
        term: Term,
        durability: Durability,
        driver: Driver,
        flusher: Flusher,
        clock: Clock,
    ) -> None:
        self.name = name
        self.log = log
        self.durability = durability
        # Whatever a lone voter finds in its log has the majority it needs.
        self.high_watermark = log.next_offset
        self.failure: StorageError | None = None
        self.listener: Listener | None = None
        self._term = term
        self._driver = driver
        self._flusher = flusher
        self._clock = clock
        self._dirty = False
        self._flushing: FlushJob | None = None
        # (end offset, done), in the order of their proposal. A tuple each: this is the hot path.
        self._waiting: deque[tuple[int, Done]] = deque()
        # Deletions of records: the job that makes one durable, and (offset, done) of all that wait.
        self._deleting: StartOffsetJob | None = None
        self._deletions: list[tuple[int, Done]] = []
        self._explaining: HistoryJob | None = None
        self._on_idle: list[Callable[[], None]] = []

    def propose(self, header: BatchHeader, batch: memoryview, done: Done | None) -> int:
        """Append a batch; `done` is called when it is committed or has failed. Returns the offset
        of its first record, which holds only if `done` brings no error. The bytes of `batch` are
        stamped in place and needed until the turn ends."""
        if self.failure is not None:
            raise StorageFailed(self.failure.message)
        base_offset = self.log.stage(header, batch, self._term)
        if done is not None:
            self._waiting.append((self.log.next_offset, done))
        if not self._dirty:
            self._dirty = True
            self._driver.mark_dirty(self)
        return base_offset

    def when_committed(self, end_offset: int, done: Done) -> None:
        """Call `done` when everything before `end_offset`, proposed earlier, is committed."""
        if end_offset <= self.high_watermark:
            done(None)
        elif self.failure is not None:
            done(self.failure)
        else:
            self._waiting.append((end_offset, done))

    def read(self, offset: int, max_bytes: int) -> FileSlice:
        return self.log.read(offset, max_bytes, self.high_watermark)

    def delete_before(self, offset: int, done: Done) -> None:
        """Let the records before the offset be gone; `done` is called when that is durable, or has
        failed. At most everything committed can go; what is gone already is no error."""
        if self.failure is not None:
            raise StorageFailed(self.failure.message)
        if not 0 <= offset <= self.high_watermark:
            raise OffsetOutOfRange(
                f"Records before offset {offset} cannot be deleted: the partition has "
                f"{self.log.start_offset} to {self.high_watermark}; name one of these."
            )
        if offset <= self.log.start_offset:
            done(None)
            return
        self._deletions.append((offset, done))
        self._delete()

    def explain(self, removals: Iterable[Removal]) -> None:
        """Remember why offsets are gone. What is gone by now: files may still be unlinked."""
        self.log.removals.add(removals)
        self._keep_explanations()

    def write_proposed(self) -> None:
        """Called by the driver at the end of the turn."""
        self._dirty = False
        try:
            self.log.write_staged(self._clock.now_ms())
        except StorageError as error:
            self._undo(error)
            return
        except Exception as error:
            # A bug of ours: whoever waits must hear of it, and nobody knows what is in the file.
            logger.exception("Writing to %s failed in a way nobody foresaw", self.name)
            self._fail(StorageFailed(f"The broker failed to write: {error!r}."))
            return
        if self.listener is not None:
            self.listener.on_written(None)
        if self.durability == "os":
            self._advance(self.log.written_offset)
        self._flush()

    def set_durability(self, durability: Durability) -> None:
        """Let it hold from now on, also for what waits: less may be enough for that now."""
        self.durability = durability
        if self.failure is None:
            if durability == "os":
                self._advance(self.log.written_offset)
            self._flush()

    def roll(self) -> None:
        """Begin a new segment, so that retention can take the old one."""
        if self._dirty:
            self.write_proposed()
        self.log.roll()
        self._flush()

    def when_idle(self, then: Callable[[], None]) -> None:
        """Call `then` when no job is running, so that the log may be closed."""
        if self._is_idle():
            then()
        else:
            self._on_idle.append(then)

    def discard(self) -> None:
        """Let the files go as they are: the partition is deleted."""
        assert self._is_idle(), "discarded while a job was running"
        self.log.discard()

    def close(self) -> CleanEnd | None:
        """Make everything durable and let the files go. None when the log had failed."""
        assert self._is_idle(), "closed while a job was running"
        clean_end = self.log.close()
        if clean_end is not None:
            self._advance(clean_end.next_offset)
        return clean_end

    def _flush(self) -> None:
        """Start the next flush, unless one runs: that one's end starts it. So everything that
        arrives while the disk is busy is covered by one flush."""
        if self._flushing is not None or self.failure is not None:
            return
        try:
            job = self.log.flush_job(include_active=self.durability == "fsync")
        except StorageError as error:
            self._fail(error)
            return
        if job is not None:
            self._flushing = job
            self._flusher.submit(job, self._flushed)

    def _flushed(self) -> None:
        job, self._flushing = self._flushing, None
        assert job is not None
        try:
            self._advance(self.log.finish_flush(job))
            self._flush()
        except StorageError as error:
            self._fail(error)
        finally:
            self._tell_if_idle()

    def _delete(self) -> None:
        """Make the largest offset that was asked for durable, unless a job runs: it covers the
        others."""
        if self._deleting is not None or not self._deletions:
            return
        offset = max(offset for offset, _ in self._deletions)
        try:
            job = self.log.start_offset_job(offset)
        except StorageError as error:
            self._end_deletions(offset, error)
            return
        self._deleting = job
        self._flusher.submit(job, self._deleted)

    def _deleted(self) -> None:
        job, self._deleting = self._deleting, None
        assert job is not None
        start_offset = self.log.start_offset
        try:
            self.log.finish_start_offset(job)
        except StorageError as error:
            self._end_deletions(job.offset, error)
        else:
            self._note_deletion(start_offset)
            self._end_deletions(job.offset, None)
        self._delete()
        self._keep_explanations()
        self._tell_if_idle()

    def _end_deletions(self, offset: int, error: StorageError | None) -> None:
        deletions, self._deletions = self._deletions, []
        for deletion in deletions:
            if deletion[0] <= offset:
                deletion[1](error)
            else:
                self._deletions.append(deletion)

    def _note_deletion(self, first_offset: int) -> None:
        # Retention may have been faster, and then there is nothing more to say.
        if first_offset < self.log.start_offset:
            removal = Removal(
                first_offset=first_offset,
                end_offset=self.log.start_offset,
                cause="deleted",
                at_ms=self._clock.now_ms(),
                detail=f"everything before offset {self.log.start_offset} was to go",
            )
            self.log.removals.add([removal])

    def _keep_explanations(self) -> None:
        """Make them durable, unless a job runs: the next one covers them."""
        job = self.log.removals.job()
        if job is not None:
            self._explaining = job
            self._flusher.submit(job, self._explained)

    def _explained(self) -> None:
        job, self._explaining = self._explaining, None
        assert job is not None
        self.log.removals.finish(job)
        self._keep_explanations()
        self._tell_if_idle()

    def _is_idle(self) -> bool:
        return self._flushing is None and self._deleting is None and self._explaining is None

    def _tell_if_idle(self) -> None:
        if self._is_idle():
            idle, self._on_idle = self._on_idle, []
            for then in idle:
                then()

    def _advance(self, offset: int) -> None:
        if offset <= self.high_watermark:
            return
        self.high_watermark = offset
        waiting = self._waiting
        while waiting and waiting[0][0] <= offset:
            waiting.popleft()[1](None)
        if self.listener is not None:
            self.listener.on_high_watermark()

    def _undo(self, error: StorageError) -> None:
        """The turn's batches are not in the file: their offsets go to the next ones."""
        if self.listener is not None:
            self.listener.on_written(error)
        if self.log.failed:
            self._fail(error)
            return
        end_offset = self.log.next_offset
        waiting, self._waiting = self._waiting, deque()
        for proposal in waiting:
            if proposal[0] > end_offset:
                proposal[1](error)
            else:
                self._waiting.append(proposal)

    def _fail(self, error: StorageError) -> None:
        """The disk did not keep what it was given: nothing more is written here, since no later
        success could make up for it. What is committed can still be read."""
        if self.failure is not None:
            return
        logger.error("%s is read-only from now on: %s", self.name, error)
        self.failure = error
        self.log.failure = self.log.failure or error.message
        waiting, self._waiting = self._waiting, deque()
        for _, done in waiting:
            done(error)
        # Those who waited are told of the failure, so it must not come back after a restart: the
        # kernel may still have it in its cache, and would say that it is on the disk.
        self.when_idle(lambda: self.log.abandon(self.high_watermark))
