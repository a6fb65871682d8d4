"""Records deleted on request, and why offsets of a log are gone: made durable by jobs.

Not retention, and not the choice of what goes. The invariant: whoever asked for a deletion is told
once, and without an error only when a restart would not show the records again. Requests that wait
for the disk share the next write.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from penstock.model.errors import PenstockError, StorageError
from penstock.model.removal import Removal
from penstock.net.clock import Clock
from penstock.replication.disk.flusher import Flusher
from penstock.replication.disk.waiting import Done
from penstock.storage.log.log import Log, StartOffsetJob
from penstock.storage.log.removals import HistoryJob


class Deletions:
    """Of one log. on_over: called whenever a job is over."""

    def __init__(
        self, log: Log, flusher: Flusher, clock: Clock, on_over: Callable[[], None]
    ) -> None:
        self._log = log
        self._flusher = flusher
        self._clock = clock
        self._on_over = on_over
        # The job that makes a deletion durable, and (offset, done) of all that wait.
        self._deleting: StartOffsetJob | None = None
        self._waiting: list[tuple[int, Done]] = []
        self._explaining: HistoryJob | None = None

    @property
    def is_idle(self) -> bool:
        return self._deleting is None and self._explaining is None

    def delete_before(self, offset: int, done: Done) -> None:
        self._waiting.append((offset, done))
        self._delete()

    def leave(self, reason: PenstockError) -> None:
        """Nobody waits any more, whatever becomes of what is under way."""
        waiting, self._waiting = self._waiting, []
        for _, done in waiting:
            done(reason)

    def explain(self, removals: Iterable[Removal]) -> None:
        """Remember why offsets are gone. What is gone by now: files may still be unlinked."""
        self._log.removals.add(removals)
        self._keep_explanations()

    def _delete(self) -> None:
        """Make the largest offset that was asked for durable, unless a job runs: it covers the
        others."""
        if self._deleting is not None or not self._waiting:
            return
        offset = max(offset for offset, _ in self._waiting)
        try:
            job = self._log.cutter.start_offset_job(offset)
        except StorageError as error:
            self._tell(offset, error)
            return
        self._deleting = job
        self._flusher.submit(job, self._deleted)

    def _deleted(self) -> None:
        job, self._deleting = self._deleting, None
        assert job is not None
        start_offset = self._log.start_offset
        try:
            self._log.cutter.finish_start_offset(job)
        except StorageError as error:
            self._tell(job.offset, error)
        else:
            self._note(start_offset)
            self._tell(job.offset, None)
        self._delete()
        self._keep_explanations()
        self._on_over()

    def _tell(self, offset: int, error: StorageError | None) -> None:
        waiting, self._waiting = self._waiting, []
        for deletion in waiting:
            if deletion[0] <= offset:
                deletion[1](error)
            else:
                self._waiting.append(deletion)

    def _note(self, first_offset: int) -> None:
        # Retention may have been faster, and then there is nothing more to say.
        if first_offset < self._log.start_offset:
            removal = Removal(
                first_offset=first_offset,
                end_offset=self._log.start_offset,
                cause="deleted",
                at_ms=self._clock.now_ms(),
                detail=f"everything before offset {self._log.start_offset} was to go",
            )
            self._log.removals.add([removal])

    def _keep_explanations(self) -> None:
        """Make them durable, unless a job runs: the next one covers them."""
        job = self._log.removals.job()
        if job is not None:
            self._explaining = job
            self._flusher.submit(job, self._explained)

    def _explained(self) -> None:
        job, self._explaining = self._explaining, None
        assert job is not None
        self._log.removals.finish(job)
        self._keep_explanations()
        self._on_over()
