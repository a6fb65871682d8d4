"""Threads that wait for the disk, so that the event loop does not.

A job touches only what nobody else changes while it runs (see `storage.log.writer`); its outcome is
applied on the loop. Not the choice of what to flush or when: that is the replica's.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Protocol

logger = logging.getLogger(__name__)


class Job(Protocol):
    """Work for the disk. It keeps its own outcome; an exception out of `run` is a bug."""

    def run(self) -> None: ...


class Flusher(Protocol):
    """Runs jobs beside the loop and says on the loop that they are over."""

    def submit(self, job: Job, finished: Callable[[], None]) -> None: ...


class ThreadFlusher:
    """A fixed set of threads on one queue. `start` and `stop` belong to the broker's life."""

    def __init__(self, loop: asyncio.AbstractEventLoop, threads: int) -> None:
        self._loop = loop
        self._queue: SimpleQueue[tuple[Job, Callable[[], None]] | None] = SimpleQueue()
        self._threads = [
            threading.Thread(target=self._work, name=f"penstock-flush-{number}", daemon=True)
            for number in range(threads)
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """End the threads once the queue is empty. Called when no replica is left."""
        for _ in self._threads:
            self._queue.put(None)
        for thread in self._threads:
            thread.join()

    def submit(self, job: Job, finished: Callable[[], None]) -> None:
        self._queue.put((job, finished))

    def _work(self) -> None:
        while (item := self._queue.get()) is not None:
            job, finished = item
            try:
                job.run()
            except Exception:
                # The job then has no outcome, which its owner takes for a failure.
                logger.exception("A disk job failed in a way nobody foresaw")
            self._loop.call_soon_threadsafe(finished)
