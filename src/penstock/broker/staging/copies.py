"""Decided epochs on their way into their partitions: copied to the end, then noted as done.

What is decided is in the table; one try to copy is `copy`'s. The invariants: of one write at
most one copy runs; a decided epoch is carried out to its end, by this run of the broker, a later
one or another broker; and its staged batches are needed until it is durable that it is done.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from penstock.broker.carrier.destination import Destinations
from penstock.broker.staging.copy import Copy
from penstock.broker.staging.log import StagingLog, Told
from penstock.coordination.staging.records import Decision, encode_decision
from penstock.coordination.staging.table import StagedWrites
from penstock.model.errors import PenstockError

logger = logging.getLogger(__name__)


class StagedCopies:
    """One for each time that the topics are read. All calls come from the event loop."""

    def __init__(
        self,
        table: StagedWrites,
        log: StagingLog,
        destinations: Callable[[], Destinations],
    ) -> None:
        self._table = table
        self._log = log
        self._partitions = log.partitions
        self._destinations = destinations
        self._loop = asyncio.get_running_loop()
        self._turn = asyncio.Lock()
        self._copies: dict[str, asyncio.Task[None]] = {}
        # Carried out, but it is not durable yet that they are.
        self._copied: dict[str, Copy] = {}
        self._noting: dict[Copy, asyncio.Task[None]] = {}
        # Why nobody waits any more.
        self._closing: asyncio.Future[PenstockError] = self._loop.create_future()

    def start(self, decision: Decision) -> asyncio.Task[None]:
        """Another try to carry out the decision, unless one is under way."""
        copy = self._copies.get(decision.write)
        if copy is None:
            copy = self._loop.create_task(self._copy(decision))
            copy.add_done_callback(note_bug)
            self._copies[decision.write] = copy
        return copy

    async def wait(self, decision: Decision, deadline_s: float) -> bool:
        """Wait until all of it is readable; False if the time was over first. Raises what the copy
        failed by, which is tried again later all the same."""
        while not self._table.is_copied(decision):
            if self._closing.done():
                raise self._closing.result()
            copy = self.start(decision)
            wait_s = max(deadline_s - self._loop.time(), 0.0)
            ends: set[asyncio.Future[Any]] = {copy, self._closing}
            await asyncio.wait(ends, timeout=wait_s, return_when=asyncio.FIRST_COMPLETED)
            if self._closing.done():
                raise self._closing.result()
            if not copy.done():
                return False
            copy.result()
        return True

    def go_on(self) -> None:
        """Try again what failed."""
        for decision in self._table.unfinished():
            if not self._table.is_copied(decision):
                self.start(decision)
            elif self._copied[decision.write] not in self._noting:
                self._note_done(decision)

    def begin_closing(self, reason: PenstockError) -> None:
        """From now on nobody waits for a copy to end."""
        if not self._closing.done():
            self._closing.set_result(reason)

    def cancel(self) -> list[asyncio.Task[None]]:
        """Go no further, wherever the copies are: whoever comes next goes on. What is ending."""
        tasks = [*self._copies.values(), *self._noting.values()]
        for task in tasks:
            task.cancel()
        return tasks

    async def _copy(self, decision: Decision) -> None:
        try:
            copy = Copy(
                decision,
                self._table.staged_offsets(decision),
                source=self._log.staged,
                destinations=self._destinations(),
                driver=self._log.driver,
                turn=self._turn,
            )
            await copy.run()
            self._table.copied(decision.write)
            self._copied[decision.write] = copy
            self._note_done(decision)
        except PenstockError as error:
            logger.warning(
                "Epoch %d of write %r is decided and not written yet: %s",
                decision.epoch,
                decision.write,
                error,
            )
            raise
        finally:
            del self._copies[decision.write]

    def _note_done(self, decision: Decision) -> None:
        """Let the staged batches go when it is durable that nobody needs them. Appended at once,
        without an await since it was seen to be so: it must not come after the next decision."""
        try:
            told = self._log.write([encode_decision(decision.done())])
        except PenstockError as error:
            logger.warning("A write that is done is not noted as such: %s", error)
            return
        copy = self._copied[decision.write]
        self._noting[copy] = self._loop.create_task(self._noted(decision, copy, told))

    async def _noted(self, decision: Decision, copy: Copy, told: Told) -> None:
        error = await told
        del self._noting[copy]
        if error is not None:
            logger.warning("A write that is done is not noted as such: %s", error)
            return
        self._table.done(decision.write, decision.epoch)
        if self._copied.get(decision.write) is copy:
            del self._copied[decision.write]
        self._partitions.kept_producers.discard(decision.producer_id)
        copy.forget_producer()
        self._log.trim(self._table.low_offset())


def note_bug(task: asyncio.Task[Any]) -> None:
    """Nobody may be waiting for the task to see what it ended by."""
    error = None if task.cancelled() else task.exception()
    if error is not None and not isinstance(error, PenstockError):
        logger.error("A task of staged writes ended by a bug.", exc_info=error)
