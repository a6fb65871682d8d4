"""Epochs that are committed: decided once and durably, and whoever asked is told when all of it is
readable.

What a commit means is the table's to say, and carrying it out is the affair of `copies`. The
invariants: nobody is told that something is decided before the record that says so is durable; the
table holds a decision only from then on, so a record that could not be written leaves nothing to
take back; and whoever asks is told once: of what is decided, not later than it wants to wait.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from penstock.broker.producers.ids import draw_producer_id
from penstock.broker.staging.copies import StagedCopies
from penstock.broker.staging.log import StagingLog
from penstock.coordination.staging.records import Decision, NamedAttempt, encode_decision
from penstock.coordination.staging.table import Complete, Decided, Later, StagedWrites
from penstock.model.errors import Busy, PenstockError
from penstock.protocol import penstock_pb2 as pb

Answer = Callable[[PenstockError | pb.CommitStagedResponse], None]
"""Is told what became of a commit, or why nothing did."""


class _Asked(NamedTuple):
    """A commit that is yet to be answered."""

    write: str
    epoch: int
    attempts: Sequence[NamedAttempt]
    is_last: bool
    deadline_s: float
    answer: Answer


class Decisions:
    """One for each time that the topics are read. All calls come from the event loop."""

    def __init__(self, log: StagingLog, table: StagedWrites, copies: StagedCopies) -> None:
        self._log = log
        self._table = table
        self._copies = copies
        self._loop = asyncio.get_running_loop()
        # By write whose decision is on its way to the disk: who asked for another one since.
        self._deciding: dict[str, list[_Asked]] = {}

    def commit(
        self,
        write: str,
        epoch: int,
        attempts: Sequence[NamedAttempt],
        answer: Answer,
        *,
        is_last: bool,
        max_wait_s: float,
    ) -> None:
        """Decide that these attempts of the epoch count, unless it was decided before; answer when
        all of it is readable, or after so long. Raises if it cannot be decided, and then does not
        call `answer`. The end of the turn must follow."""
        deadline_s = self._loop.time() + max_wait_s
        self._go_on(_Asked(write, epoch, attempts, is_last, deadline_s, answer))

    def _go_on(self, asked: _Asked) -> None:
        log, write = self._log, asked.write
        is_ready = log.is_ready
        if not is_ready:
            log.check_open()
        verdict = self._table.commit(write, asked.epoch, asked.attempts, log.durable_offset)
        match verdict:
            case Decided():
                self._answer_when_copied(asked, verdict.decision, already=True)
            case Later(unfinished=None):
                self._deciding[write].append(asked)
            case Later(unfinished=Decision() as before):
                told = partial(self._before_copied, asked, before)
                self._copies.wait(before, asked.deadline_s, told)
            case Complete():
                self._deciding[write] = []
                if is_ready:
                    self._decide(asked, verdict.records, None)
                else:
                    log.when_made(partial(self._decide, asked, verdict.records))

    def _go_on_later(self, asked: _Asked) -> None:
        """What it waited for is over."""
        try:
            self._go_on(asked)
        except PenstockError as error:
            asked.answer(error)

    def _before_copied(
        self, asked: _Asked, before: Decision, error: PenstockError | None, is_copied: bool
    ) -> None:
        if is_copied:
            self._go_on_later(asked)
        else:
            late = Busy(f"Epoch {before.epoch} of {before.write!r} is not written yet.")
            asked.answer(error or late)

    def _answer_when_copied(self, asked: _Asked, decision: Decision, *, already: bool) -> None:
        def told(error: PenstockError | None, is_copied: bool) -> None:
            records = decision.records if decision.epoch == asked.epoch else 0
            asked.answer(
                error
                or pb.CommitStagedResponse(already=already, records=records, readable=is_copied)
            )

        self._copies.wait(decision, asked.deadline_s, told)

    def _decide(self, asked: _Asked, records: int, problem: PenstockError | None) -> None:
        """All that it names is staged. problem: why there are no topics."""
        decision = Decision(
            write=asked.write,
            epoch=asked.epoch,
            producer_id=draw_producer_id() if records else -1,
            attempts=tuple(asked.attempts) if records else (),
            records=records,
            decided_ms=self._log.clock.now_ms(),
            is_last=asked.is_last,
            is_done=not records,
        )
        told = partial(self._decided, asked, decision)
        try:
            if problem is not None:
                raise problem
            self._log.write([encode_decision(decision)], told)
        except PenstockError as error:
            told(error)

    def _decided(self, asked: _Asked, decision: Decision, error: PenstockError | None) -> None:
        """The decision is durable, or may never be. Whoever asked may be gone."""
        waiting = self._deciding.pop(decision.write)
        if error is not None:
            self._table.undecided(decision.write)
            asked.answer(error)
        else:
            self._table.decided(decision)
            self._copies.decided(decision)
            self._answer_when_copied(asked, decision, already=False)
        for other in waiting:
            self._go_on_later(other)
