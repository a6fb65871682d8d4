"""Decided epochs on their way into their partitions: copied to the end, then noted as done.

What is decided is in the table; one try to copy is `copy`'s. The invariants: of one write at
most one copy runs; a decided epoch is carried out to its end, by this run of the broker, a later
one or another broker; its staged batches are needed until it is durable that it is done; and the
loop is never held for longer than one chunk, whatever there is to copy and however many copies run.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable
from functools import partial

from penstock.broker.carrier.parts import Parts
from penstock.broker.staging.copy import Copy
from penstock.broker.staging.log import StagingLog
from penstock.coordination.staging.records import Decision, encode_decision
from penstock.coordination.staging.table import StagedWrites
from penstock.model.errors import InternalError, PenstockError

logger = logging.getLogger(__name__)

Told = Callable[[PenstockError | None, bool], None]
"""Is told what a copy failed by, or else whether all of it is readable: if not, time is over."""


class StagedCopies:
    """One for each time that the topics are read. All calls come from the event loop."""

    def __init__(self, parts: Parts, log: StagingLog, table: StagedWrites) -> None:
        self._parts = parts
        self._log = log
        self._table = table
        self._kept_producers = parts.partitions.kept_producers
        self._loop = asyncio.get_running_loop()
        self._copies: dict[str, Copy] = {}
        # Those that can go on, one after another: one chunk in a turn of the loop.
        self._line: OrderedDict[Copy, None] = OrderedDict()
        self._next_turn: asyncio.Handle | None = None
        # By write, who waits for its copy, and until when.
        self._waiting: dict[str, dict[Told, asyncio.TimerHandle]] = {}
        # Carried out, but it is not durable yet that they are.
        self._copied: dict[str, Copy] = {}
        self._noting: set[Copy] = set()
        # Why nobody waits any more.
        self._closing: PenstockError | None = None
        self._is_cancelled = False

    def start(self, decision: Decision) -> None:
        """Another try to carry out the decision, unless one is under way."""
        if decision.write in self._copies or self._is_cancelled:
            return
        self._kept_producers.add(decision.producer_id)
        try:
            copy = Copy(
                decision,
                self._table.staged_offsets(decision),
                source=self._log.staged,
                parts=self._parts,
                term=self._log.term,
                ready=self._stand_in_line,
            )
        except PenstockError as error:
            self._failed(decision, error)
            return
        self._copies[decision.write] = copy
        self._stand_in_line(copy)

    def decided(self, decision: Decision) -> None:
        """It is durable: that the one before it is done, and that this one is to be."""
        self._forget(decision.write)
        if not decision.is_done:
            self.start(decision)

    def wait(self, decision: Decision, deadline_s: float, told: Told) -> None:
        """Until all of it is readable, but not for longer. What a copy failed by is tried again
        later all the same."""
        write = decision.write
        if write not in self._copies and self._table.is_copied(decision):
            told(None, True)
        elif self._closing is not None:
            told(self._closing, False)
        else:
            timer = self._loop.call_at(deadline_s, self._late, write, told)
            self._waiting.setdefault(write, {})[told] = timer
            if write not in self._copies:
                self.start(decision)

    def go_on(self) -> None:
        """Try again what failed."""
        for decision in self._table.unfinished():
            if not self._table.is_copied(decision):
                self.start(decision)
        self.note()

    def note(self) -> None:
        """Let staged batches go when it is durable that nobody needs them. Not at once: the next
        decision of the write, if it comes soon, says the same, and of others many are noted
        together; nor while the next one is being made, which a record that says so must not
        follow. The turn is ended."""
        copies = {
            self._copied[decision.write]
            for decision in self._table.unfinished()
            if self._table.is_copied(decision)
        } - self._noting
        if not copies:
            return
        try:
            records = [encode_decision(copy.decision.done()) for copy in copies]
            self._log.write(records, partial(self._noted, copies))
        except PenstockError as error:
            logger.warning("Writes that are done are not noted as such: %s", error)
            return
        self._noting |= copies
        self._parts.driver.end_turn()

    def _noted(self, copies: set[Copy], error: PenstockError | None) -> None:
        if not copies <= self._noting:
            return  # this broker looks after them no longer
        self._noting -= copies
        if error is not None:
            logger.warning("Writes that are done are not noted as such: %s", error)
            return
        for copy in copies:
            self._table.done(copy.decision.write, copy.decision.epoch)
            if self._copied.get(copy.decision.write) is copy:
                self._forget(copy.decision.write)
        self._log.trim(self._table.low_offset())

    def _forget(self, write: str) -> None:
        """A record is durable that says that its decision is done, if there was one."""
        copy = self._copied.pop(write, None)
        if copy is not None:
            self._kept_producers.discard(copy.decision.producer_id)
            copy.forget_producer()

    def begin_closing(self, reason: PenstockError) -> None:
        """From now on nobody waits for a copy to end."""
        if self._closing is None:
            self._closing = reason
            for write in list(self._waiting):
                self._tell(write, reason)

    def cancel(self) -> None:
        """Go no further, wherever the copies are: whoever comes next goes on."""
        self._is_cancelled = True
        if self._next_turn is not None:
            self._next_turn.cancel()
        self._line.clear()
        self._copies.clear()
        self._copied.clear()
        self._noting.clear()

    def _stand_in_line(self, copy: Copy) -> None:
        if self._copies.get(copy.decision.write) is copy:
            self._line[copy] = None
            if self._next_turn is None:
                self._next_turn = self._loop.call_soon(self._take_turn)

    def _take_turn(self) -> None:
        """A chunk of the first in line, or its end."""
        copy, _ = self._line.popitem(last=False)
        self._next_turn = self._loop.call_soon(self._take_turn) if self._line else None
        try:
            # It may be over since it came into line.
            if self._copies.get(copy.decision.write) is copy and copy.go_on():
                self._done(copy)
        except PenstockError as error:
            self._failed(copy.decision, error)
        except Exception:
            logger.exception("A copy of staged writes ended by a bug.")
            self._failed(copy.decision, InternalError())
        # Also what was proposed before an error: its bytes are needed until here only.
        self._parts.driver.end_turn()

    def _done(self, copy: Copy) -> None:
        write = copy.decision.write
        del self._copies[write]
        self._table.copied(write)
        self._copied[write] = copy
        self._tell(write, None)

    def _failed(self, decision: Decision, error: PenstockError) -> None:
        self._copies.pop(decision.write, None)
        logger.warning(
            "Epoch %d of write %r is decided and not written yet: %s",
            decision.epoch,
            decision.write,
            error,
        )
        self._tell(decision.write, error)

    def _tell(self, write: str, error: PenstockError | None) -> None:
        for told, timer in self._waiting.pop(write, {}).items():
            timer.cancel()
            told(error, error is None)

    def _late(self, write: str, told: Told) -> None:
        del self._waiting[write][told]
        told(None, False)
