"""Whatever tasks, drivers and crashes do: what is read from the topics is what was in memory.

A shell in miniature keeps the two logs, loses what was not durable at a crash, copies slowly, and
lets go of what nobody needs. The named checkers hold after every step.
"""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from penstock.coordination.staging.records import (
    Decision,
    NamedAttempt,
    StagedBatch,
    decision_key,
    encode_decision,
)
from penstock.coordination.staging.table import (
    Complete,
    Decided,
    New,
    Repeated,
    StagedWrites,
)
from penstock.model.errors import Busy, StagedBatchesMissing
from penstock.model.limits import STAGED_SILENCE_MS_MAX, WRITE_SILENCE_MS_MAX

WRITES = st.sampled_from(["x", "y"])
EPOCHS = st.integers(0, 3)
ATTEMPTS = st.sampled_from(["a", "b", "c"])


class Shell(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.table = StagedWrites()
        self.now_ms = 1000
        self.staged: dict[int, tuple[StagedBatch, int]] = {}
        """What `__staged` has: the batch and its time, by offset."""
        self.next_offset = 0
        self.writes: list[tuple[bytes, bytes | None]] = []
        self.decided: dict[tuple[str, int], Decision] = {}
        """The one decision of each epoch, since its write was last forgotten."""
        self.copied: set[tuple[str, int]] = set()

    @rule(write=WRITES, epoch=EPOCHS, attempt=ATTEMPTS, sequence=st.integers(0, 3))
    def stage(self, write: str, epoch: int, attempt: str, sequence: int) -> None:
        batch = StagedBatch(write, epoch, attempt, sequence, "orders", "id", 0, 1)
        try:
            verdict = self.table.stage(batch)
        except StagedBatchesMissing:
            return
        if isinstance(verdict, New):
            self.table.staged(batch, self.next_offset, self.now_ms)
            self._append(batch)
        elif isinstance(verdict, Repeated):
            assert self.staged[verdict.offset][0] == batch, "the answer is about another batch"
        else:
            assert isinstance(verdict, Decided)
            assert epoch <= verdict.decision.epoch

    @rule(write=WRITES, epoch=EPOCHS, attempts=st.lists(ATTEMPTS, max_size=3))
    def abort(self, write: str, epoch: int, attempts: list[str]) -> None:
        for mark in self.table.abort(write, epoch, attempts):
            self._append(mark)

    @rule(
        write=WRITES,
        epoch=EPOCHS,
        counts=st.dictionaries(ATTEMPTS, st.integers(0, 3), max_size=3),
        is_durable=st.booleans(),
    )
    def commit(self, write: str, epoch: int, counts: dict[str, int], is_durable: bool) -> None:
        named = tuple(NamedAttempt(*one) for one in counts.items())
        try:
            verdict = self.table.commit(write, epoch, named, self.next_offset)
        except StagedBatchesMissing:
            return
        if not isinstance(verdict, Complete):
            return
        if not is_durable:
            self.table.undecided(write)
            return
        before = self.table.decision(write)
        assert before is None or (write, before.epoch) in self.copied, "decided out of order"
        decision = Decision(
            write=write,
            epoch=epoch,
            producer_id=len(self.writes),
            attempts=named if verdict.records else (),
            records=verdict.records,
            decided_ms=self.now_ms,
            is_last=False,
            is_done=not verdict.records,
        )
        assert (write, epoch) not in self.decided, "decided twice"
        self.writes.append(encode_decision(decision))
        self.decided[write, epoch] = decision
        if decision.is_done:
            self.copied.add((write, epoch))
        self.table.decided(decision)

    @rule(is_durable=st.booleans())
    def copy(self, is_durable: bool) -> None:
        for decision in self.table.unfinished():
            if not self.table.is_copied(decision):
                self._copy(decision)
            if is_durable:
                self.writes.append(encode_decision(decision.done()))
                self.table.done(decision.write, decision.epoch)

    def _copy(self, decision: Decision) -> None:
        for named, offsets in zip(
            decision.attempts, self.table.staged_offsets(decision), strict=True
        ):
            batches = [self.staged[offset][0] for offset in offsets]
            numbers = [(batch.write, batch.epoch, batch.attempt) for batch in batches]
            assert numbers == [(decision.write, decision.epoch, named.attempt)] * named.batches
            assert [batch.sequence for batch in batches] == list(range(named.batches))
        self.copied.add((decision.write, decision.epoch))
        self.table.copied(decision.write)

    @rule()
    def trim(self) -> None:
        low = self.table.low_offset()
        low = self.next_offset if low is None else low
        self.staged = {at: one for at, one in self.staged.items() if at >= low}

    @rule(silence_ms=st.sampled_from([1, STAGED_SILENCE_MS_MAX + 1, WRITE_SILENCE_MS_MAX + 1]))
    def expire(self, silence_ms: int) -> None:
        self.now_ms += silence_ms
        for mark in self.table.expire(self.now_ms, 2):
            self._append(mark)
        for decision in self.table.forgettable(self.now_ms):
            assert decision.is_done
            self.writes.append((decision_key(decision.write), None))
            self.table.forgotten(decision)
            for key in [key for key in self.decided if key[0] == decision.write]:
                del self.decided[key]
                self.copied.discard(key)

    @rule()
    @precondition(lambda self: self.staged or self.writes)
    def restart(self) -> None:
        before = self.table
        self.table = self._read()
        # The first thing that the shell does.
        before.expire(self.now_ms, 1000)
        for mark in self.table.expire(self.now_ms, 1000):
            self._append(mark)
        assert picture(self.table) == picture(before)
        for decision in self.table.unfinished():
            self.copied.discard((decision.write, decision.epoch))

    def _read(self) -> StagedWrites:
        table = StagedWrites()
        for key, value in self.writes:
            table.replay_decision(key, value)
        for offset, (batch, timestamp_ms) in self.staged.items():
            table.replay_staged(batch, offset, timestamp_ms)
        table.replayed()
        return table

    def _append(self, batch: StagedBatch) -> None:
        self.staged[self.next_offset] = (batch, self.now_ms)
        self.next_offset += 1

    @invariant()
    def what_is_decided_can_be_carried_out(self) -> None:
        for decision in self.table.unfinished():
            offsets = [at for part in self.table.staged_offsets(decision) for at in part]
            assert all(at in self.staged for at in offsets)

    @invariant()
    def nothing_is_busy_between_steps(self) -> None:
        for write in ("x", "y"):
            try:
                self.table.stage(StagedBatch(write, 9, "probe", 0, "orders", "id", 0, 1))
            except Busy as error:
                raise AssertionError(error) from error


def picture(table: StagedWrites) -> object:
    """All that the table holds, without what only this run of the broker knows."""
    return (
        {
            name: (
                write.decision,
                {
                    number: {
                        attempt: (list(staged.offsets), list(staged.records))
                        for attempt, staged in epoch.attempts.items()
                    }
                    for number, epoch in write.epochs.items()
                },
            )
            for name, write in table._writes.items()
        },
        table._batch_count,
        len(table._attempts),
        table.low_offset(),
    )


Shell.TestCase.settings = settings(max_examples=200, stateful_step_count=40, deadline=None)
test_staged_writes = Shell.TestCase
