"""Making a log durable, one flush after the other.

Not what follows from it. The invariant: at most one flush runs, and everything that arrives while
the disk is busy is covered by the next one; a flush that failed is never followed by another.
"""

from __future__ import annotations

from collections.abc import Callable

from penstock.model.errors import StorageError
from penstock.replication.disk.flusher import Flusher
from penstock.storage.log.log import Log
from penstock.storage.segments.jobs import FlushJob


class Flushing:
    """Of one log. on_durable: everything before the offset is; it may start the next flush.
    on_failed: nothing more can be written. on_over: called after either."""

    __slots__ = (
        "_flusher",
        "_job",
        "_log",
        "_on_durable",
        "_on_failed",
        "_on_over",
        "includes_active",
    )

    def __init__(
        self,
        log: Log,
        flusher: Flusher,
        *,
        includes_active: bool,
        on_durable: Callable[[int], None],
        on_failed: Callable[[StorageError], None],
        on_over: Callable[[], None],
    ) -> None:
        # Or else only what was rolled is flushed, as the topic's durability has it.
        self.includes_active = includes_active
        self._log = log
        self._flusher = flusher
        self._on_durable = on_durable
        self._on_failed = on_failed
        self._on_over = on_over
        self._job: FlushJob | None = None

    @property
    def is_running(self) -> bool:
        return self._job is not None

    def start(self) -> None:
        """Start the next flush, unless one runs: that one's end starts it."""
        if self._job is not None or self._log.failed or self._log.cutter.is_changing:
            return
        try:
            job = self._log.writer.flush_job(include_active=self.includes_active)
        except StorageError as error:
            self._on_failed(error)
            return
        if job is not None:
            self._job = job
            self._flusher.submit(job, self._over)

    def _over(self) -> None:
        job, self._job = self._job, None
        assert job is not None
        try:
            offset = self._log.writer.finish_flush(job)
        except StorageError as error:
            self._on_failed(error)
        else:
            self._on_durable(offset)
        self._on_over()
