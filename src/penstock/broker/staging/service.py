"""Staged writes, from when this broker begins to lead their topics until it no longer does: batches
are kept, attempts are dropped, old writes are forgotten.

The table decides, the internal topics keep it; what is committed is the affair of `decisions` and
`copies`, and who leads `coordinator`'s. The invariant: nobody is told that something is staged or
dropped before the record that says so is durable.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Generator, Sequence
from functools import partial
from typing import Final

from penstock.broker.carrier.parts import Parts
from penstock.broker.staging.batch import STAGED_HEAD_BYTES, wrap
from penstock.broker.staging.copies import StagedCopies
from penstock.broker.staging.decisions import Decisions
from penstock.broker.staging.log import StagingLog, Told
from penstock.broker.topics.openings import Opened
from penstock.broker.topics.remote_admission import StagedAdmission
from penstock.broker.turns.handler_tasks import settle
from penstock.coordination.staging.records import (
    Decision,
    StagedBatch,
    check_write,
    decision_key,
)
from penstock.coordination.staging.table import Decided, New, Repeated, StagedWrites
from penstock.model.errors import (
    BatchTooLarge,
    Busy,
    InvalidRequest,
    InvalidTopic,
    NotCoordinator,
    PenstockError,
    ShuttingDown,
    StorageFailed,
)
from penstock.model.ids import is_internal
from penstock.model.limits import ATTEMPTS_PER_COMMIT_MAX, BATCH_BYTES_MAX, FRAME_BYTES_MAX
from penstock.records.header import NO_TERM, stamp

logger = logging.getLogger(__name__)

StageAnswer = Callable[[PenstockError | None, bool], None]
"""Is told the error, or else whether the epoch was decided before."""

# How soon it is noted what is done, and what failed is tried again, with nobody asking for it.
_TICK_S: Final = 5.0
# How often it is looked for what may be forgotten: once in so many ticks.
_EXPIRY_TICKS: Final = 12
# What is staged becomes a little larger by saying whose it is, and no batch may be too large.
_BATCH_BYTES_MAX: Final = BATCH_BYTES_MAX - STAGED_HEAD_BYTES
# So many records about the end of a thing in one turn.
_RECORDS_AT_ONCE: Final = 500


class Staging:
    """One for each time that the topics are read. All calls come from the event loop."""

    def __init__(self, parts: Parts) -> None:
        """Before anything is read."""
        self.log = StagingLog(parts)
        self._table = StagedWrites()
        self._admission = StagedAdmission(parts.topics, parts.leaders, parts.clock)
        self._kept_producers = parts.partitions.kept_producers
        self._driver = parts.driver
        self._clock = parts.clock
        self._loop = asyncio.get_running_loop()
        self._copies = StagedCopies(parts, self.log, self._table)
        self.decisions = Decisions(self.log, self._table, self._copies)
        # Of what came before there were topics to keep it in.
        self._early_bytes = 0
        self._house_keeping: asyncio.Task[None] | None = None

    # --- its life ------------------------------------------------------------------------------

    def read_decisions(self) -> Generator[None, None, None]:
        """Learn what is decided, and whose batches the partitions must not forget. At the start of
        a broker it comes before the partitions that have them are opened."""
        yield from self.log.read_decisions(self._table.replay_decision)
        for decision in self._table.unfinished():
            self._kept_producers.add(decision.producer_id)

    def read_staged(self) -> Generator[None, None, None]:
        """After that, learn what is staged."""
        yield from self.log.read_staged(self._table.replay_staged)
        self._table.replayed()

    def serve(self) -> None:
        """When all is read: carry out what is decided."""
        try:
            self._expire()
        except PenstockError as error:
            self.fail(error)
        if self.is_open:
            for decision in self._table.unfinished():
                self._copies.start(decision)
            self._house_keeping = self._loop.create_task(self._keep_house())

    @property
    def is_open(self) -> bool:
        """Whether there are staged writes."""
        return self.log.refusal is None

    def fail(self, error: PenstockError) -> None:
        """It could not be read."""
        logger.error("Staged writes cannot be served: %s", error)
        self.log.refusal = StorageFailed(f"Staged writes cannot be served: {error}")

    def begin_closing(self) -> None:
        """From now on nobody waits for a copy to end."""
        self._copies.begin_closing(ShuttingDown())

    def abdicate(self) -> None:
        """Another broker looks after staged writes: nothing more is begun here. What is on its way
        is told how it ends by whoever keeps it."""
        self.log.refusal = NotCoordinator()
        self._copies.begin_closing(self.log.refusal)
        self._copies.cancel()
        self._kept_producers.clear()
        if self._house_keeping is not None:
            self._house_keeping.cancel()

    async def stop(self) -> None:
        self.log.refusal = ShuttingDown()
        self.begin_closing()
        if self._house_keeping is not None:
            self._house_keeping.cancel()
            await asyncio.wait([self._house_keeping])
        await self.log.made()
        # It is written when the partitions are closed, and the next start need not copy again.
        self._copies.note()
        self._copies.cancel()

    # --- staging -------------------------------------------------------------------------------

    def stage(self, batch: StagedBatch, opened: Opened, answer: StageAnswer) -> None:
        """Keep a batch, without its topic's id and its count of records, which are found out here.
        Raises if it cannot be kept, and then does not call `answer`. The bytes of what was opened
        are needed until the turn ends."""
        if not self.log.is_ready:
            self.log.check_open()
            self._stage_early(batch, opened, answer)
            return
        verdict = self._table.stage(batch)
        match verdict:
            case New():
                self._stage_new(batch, opened, answer)
            case Repeated():
                replica = self.log.staged.replica
                replica.when_committed(verdict.offset + 1, lambda error: answer(error, False))
            case Decided():
                answer(None, True)

    def _stage_new(self, batch: StagedBatch, opened: Opened, answer: StageAnswer) -> None:
        if is_internal(batch.topic):
            raise InvalidTopic(f"{batch.topic!r} holds the broker's own state: only it writes it.")
        topic_id, admitted, header = self._admission.admit(
            batch.topic, batch.partition, opened.header, opened.batch, opened.by
        )
        if header.length > _BATCH_BYTES_MAX:
            raise BatchTooLarge(
                f"A batch of {header.length} bytes is larger than the {_BATCH_BYTES_MAX} that can "
                "be staged: stage smaller ones."
            )
        # In the log it stands inside another batch: recovery must not take it for one that follows.
        stamp(admitted, 0, NO_TERM)
        staged = batch._replace(topic_id=topic_id, records=header.record_count)
        now_ms = self._clock.now_ms()

        def finished(error: PenstockError | None) -> None:
            if error is not None:
                self._table.unstaged(staged, offset)
            answer(error, False)

        offset = self.log.stage(wrap(staged, admitted, now_ms), finished)
        self._table.staged(staged, offset, now_ms)

    def _stage_early(self, batch: StagedBatch, opened: Opened, answer: StageAnswer) -> None:
        """There are no topics yet: they are made first."""
        size_bytes = len(opened.batch)
        if self._early_bytes + size_bytes > FRAME_BYTES_MAX:
            raise Busy("The topics of staged writes are being made: try again.")
        self._early_bytes += size_bytes
        kept = opened._replace(batch=memoryview(bytearray(opened.batch)))

        def made(problem: PenstockError | None) -> None:
            self._early_bytes -= size_bytes
            try:
                if problem is not None:
                    raise problem
                self.stage(batch, kept, answer)
            except PenstockError as error:
                answer(error, False)

        self.log.when_made(made)

    async def abort(self, write: str, epoch: int, attempts: Sequence[str]) -> None:
        """Drop what these attempts staged, unless it is decided."""
        self.log.check_open()
        check_write(write, epoch)
        if len(attempts) > ATTEMPTS_PER_COMMIT_MAX:
            raise InvalidRequest(
                f"The call names {len(attempts)} attempts: {ATTEMPTS_PER_COMMIT_MAX} is the limit, "
                "make several calls."
            )
        told = []
        for at in range(0, len(attempts), _RECORDS_AT_ONCE):
            marks = self._table.abort(write, epoch, attempts[at : at + _RECORDS_AT_ONCE])
            if marks:
                one: asyncio.Future[PenstockError | None] = self._loop.create_future()
                told.append(one)
                self._mark(marks, partial(settle, one))
                await asyncio.sleep(0)
        for one in told:
            error = await one
            if error is not None:
                raise error
        self.log.trim(self._table.low_offset())

    def _mark(self, marks: Sequence[StagedBatch], told: Told) -> None:
        """Note in `__staged` what was dropped, in the same turn: so it comes before anything that
        is staged anew under the same name."""
        now_ms = self._clock.now_ms()
        self.log.mark([wrap(mark, None, now_ms) for mark in marks], told)
        self._driver.end_turn()

    def committed_epoch(self, write: str) -> int | None:
        """The last epoch that is decided."""
        self.log.check_open()
        check_write(write, 0)
        decision = self._table.decision(write)
        return None if decision is None else decision.epoch

    # --- now and then --------------------------------------------------------------------------

    async def _keep_house(self) -> None:
        tick = 0
        while True:
            await asyncio.sleep(_TICK_S)
            tick += 1
            try:
                is_more_left = True
                while is_more_left:
                    is_more_left = self.one_round(is_expiry_due=tick % _EXPIRY_TICKS == 0)
                    await asyncio.sleep(0)
            except PenstockError as error:
                logger.warning("Staged writes could not be tidied: %s", error)
            except Exception:
                # A bug of ours must not end the tidying for good.
                logger.exception("Staged writes could not be tidied")

    def one_round(self, *, is_expiry_due: bool) -> bool:
        """Note what is done, try again what failed; drop and forget what is old. Whether more of it
        may be left."""
        if self.log.failure is not None:
            return False
        self._copies.go_on()
        is_more_left = is_expiry_due and self._expire()
        if is_expiry_due:
            self._forget_silent()
        self.log.trim(self._table.low_offset(), is_due=is_expiry_due)
        return is_more_left

    def _expire(self) -> bool:
        """Drop some of what is old; whether there was any."""
        marks = self._table.expire(self._clock.now_ms(), _RECORDS_AT_ONCE)
        if marks:
            logger.warning(
                "%d attempts of staged writes are dropped: nobody went on with their epochs, of "
                "which the first is epoch %d of %r.",
                len(marks),
                marks[0].epoch,
                marks[0].write,
            )
            self._mark(marks, lambda _: None)
        return bool(marks)

    def _forget_silent(self) -> None:
        decisions = self._table.forgettable(self._clock.now_ms())[:_RECORDS_AT_ONCE]
        if decisions:
            records = [(decision_key(decision.write), None) for decision in decisions]
            self.log.write(records, partial(self._forget, decisions))
            self._driver.end_turn()

    def _forget(self, decisions: Sequence[Decision], error: PenstockError | None) -> None:
        if error is not None:
            logger.warning("Old writes are not forgotten yet: %s", error)
            return
        for decision in decisions:
            self._table.forgotten(decision)
