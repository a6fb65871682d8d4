"""What is staged, what is decided, what may go: the rules, one by one."""

from __future__ import annotations

import pytest

from penstock.coordination.staging import table as table_module
from penstock.coordination.staging.records import (
    Decision,
    NamedAttempt,
    StagedBatch,
    aborted,
    decision_key,
    encode_decision,
)
from penstock.coordination.staging.table import (
    Complete,
    Decided,
    Later,
    New,
    Repeated,
    StagedWrites,
)
from penstock.model.errors import Busy, CorruptLog, InvalidRequest, StagedBatchesMissing
from penstock.model.limits import (
    LAST_EPOCH_SILENCE_MS_MAX,
    STAGED_SILENCE_MS_MAX,
    WRITE_SILENCE_MS_MAX,
)


def batch(
    attempt: str = "a", sequence: int = 0, *, epoch: int = 0, write: str = "w", records: int = 10
) -> StagedBatch:
    return StagedBatch(write, epoch, attempt, sequence, "orders", "id", 0, records)


class Staging:
    """A table, and the log that a shell would keep for it."""

    def __init__(self) -> None:
        self.table = StagedWrites()
        self.offset = 0

    def stage(
        self, attempt: str = "a", count: int = 1, *, epoch: int = 0, write: str = "w"
    ) -> None:
        for sequence in range(count):
            one = batch(attempt, sequence, epoch=epoch, write=write)
            assert self.table.stage(one) == New()
            self.table.staged(one, self.offset, 1000)
            self.offset += 1

    def decide(self, epoch: int, *attempts: tuple[str, int], write: str = "w") -> Decision:
        named = [NamedAttempt(*one) for one in attempts]
        complete = self.table.commit(write, epoch, named, self.offset)
        assert isinstance(complete, Complete), complete
        decision = make_decision(epoch, *named, write=write, records=complete.records)
        self.table.decided(decision)
        return decision

    def finish(self, epoch: int, write: str = "w") -> None:
        self.table.copied(write)
        self.table.done(write, epoch)


def make_decision(
    epoch: int,
    *attempts: NamedAttempt,
    write: str = "w",
    records: int = 0,
    is_last: bool = False,
    is_done: bool = False,
) -> Decision:
    return Decision(
        write=write,
        epoch=epoch,
        producer_id=100 + epoch,
        attempts=attempts,
        records=records,
        decided_ms=1000,
        is_last=is_last,
        is_done=is_done,
    )


# --- staging -----------------------------------------------------------------------------------


def test_a_repeated_batch_is_the_one_that_is_there() -> None:
    staging = Staging()
    staging.stage(count=3)
    assert staging.table.stage(batch(sequence=1)) == Repeated(1)
    assert staging.table.stage(batch(sequence=3)) == New()


def test_a_batch_without_those_before_it_is_refused() -> None:
    staging = Staging()
    with pytest.raises(StagedBatchesMissing, match="stages batch 1, and 0 are there"):
        staging.table.stage(batch(sequence=1))
    staging.stage()
    with pytest.raises(StagedBatchesMissing, match="stages batch 2, and 1 are there"):
        staging.table.stage(batch(sequence=2))


def test_what_could_not_be_written_is_staged_again() -> None:
    staging = Staging()
    staging.stage(count=4)
    staging.table.unstaged(batch(sequence=2), 2)
    staging.table.unstaged(batch(sequence=3), 3)
    assert staging.table.stage(batch(sequence=2)) == New()
    staging.table.unstaged(batch(sequence=0), 0)
    staging.table.unstaged(batch(sequence=1), 1)
    assert staging.table.stage(batch()) == New()
    assert staging.table.low_offset() is None


def test_what_is_to_be_decided_may_turn_out_not_to_be_written() -> None:
    staging = Staging()
    staging.stage(count=2)
    staging.table.commit("w", 0, [NamedAttempt("a", 2)], staging.offset)
    staging.table.unstaged(batch(sequence=0), 0)
    staging.table.unstaged(batch(sequence=1), 1)
    staging.table.undecided("w")
    assert staging.table.stage(batch()) == New()
    assert staging.table.low_offset() is None


def test_a_failure_of_what_was_dropped_does_not_touch_what_came_instead() -> None:
    staging = Staging()
    staging.stage(count=2)
    staging.table.abort("w", 0, ["a"])
    staging.stage(count=2)
    staging.table.unstaged(batch(sequence=0), 0)
    staging.table.unstaged(batch(sequence=1), 1)
    assert staging.table.stage(batch(sequence=1)) == Repeated(3)


def test_what_is_staged_for_a_decided_epoch_does_not_count() -> None:
    staging = Staging()
    staging.stage(epoch=5)
    decision = staging.decide(5, ("a", 1))
    for epoch in (4, 5):
        assert staging.table.stage(batch("b", epoch=epoch)) == Decided(decision)
    assert staging.table.stage(batch("b", epoch=6)) == New()


def test_nothing_is_staged_while_the_epoch_is_being_decided() -> None:
    staging = Staging()
    staging.stage()
    staging.table.commit("w", 0, [NamedAttempt("a", 1)], staging.offset)
    with pytest.raises(Busy):
        staging.table.stage(batch("b"))
    assert staging.table.stage(batch("b", epoch=1)) == New()


def test_abort_drops_what_is_named_and_nothing_else() -> None:
    staging = Staging()
    staging.stage("a")
    staging.stage("b")
    staging.stage("a", epoch=1)
    assert staging.table.abort("w", 0, ["a", "unknown", "a"]) == [aborted("w", 0, "a")]
    assert staging.table.abort("other", 0, ["a"]) == []
    assert staging.table.stage(batch("a", 1, epoch=1)) == New()
    assert staging.table.stage(batch("b", 1)) == New()
    with pytest.raises(StagedBatchesMissing):
        staging.table.stage(batch("a", 1))


def test_what_is_decided_or_may_be_is_not_aborted() -> None:
    staging = Staging()
    staging.stage()
    staging.table.commit("w", 0, [NamedAttempt("a", 1)], staging.offset)
    assert staging.table.abort("w", 0, ["a"]) == []
    decision = make_decision(0, NamedAttempt("a", 1))
    staging.table.decided(decision)
    assert staging.table.abort("w", 0, ["a"]) == []
    assert [list(offsets) for offsets in staging.table.staged_offsets(decision)] == [[0]]


# --- deciding ----------------------------------------------------------------------------------


def test_a_commit_counts_what_is_staged() -> None:
    staging = Staging()
    staging.stage("a", 2)
    staging.stage("b", 3)
    named = [NamedAttempt("b", 3), NamedAttempt("a", 2)]
    assert staging.table.commit("w", 0, named, staging.offset) == Complete(50)


def test_a_commit_of_nothing_is_complete() -> None:
    assert Staging().table.commit("w", 0, [], 9) == Complete(0)
    assert Staging().table.commit("w", 0, [NamedAttempt("idle", 0)], 9) == Complete(0)


@pytest.mark.parametrize("count", [0, 1, 3])
def test_a_commit_names_exactly_what_is_staged(count: int) -> None:
    """R-SPK-2: a batch too few or too many, and nothing is committed."""
    staging = Staging()
    staging.stage("a", 2)
    with pytest.raises(StagedBatchesMissing, match="Attempt a of epoch 0 of 'w' has 2 batches"):
        staging.table.commit("w", 0, [NamedAttempt("a", count)], staging.offset)
    assert staging.table.decision("w") is None
    staging.decide(0, ("a", 2))


def test_what_is_not_durable_is_not_decided() -> None:
    staging = Staging()
    staging.stage("a", 2)
    with pytest.raises(StagedBatchesMissing, match="not flushed yet"):
        staging.table.commit("w", 0, [NamedAttempt("a", 2)], 1)
    assert staging.table.stage(batch("a", 2)) == New(), "and everything is as before"
    assert staging.table.commit("w", 0, [NamedAttempt("a", 2)], 2) == Complete(20)


def test_attempts_of_other_epochs_and_writes_are_not_there() -> None:
    staging = Staging()
    staging.stage("a", epoch=1)
    staging.stage("a", write="other")
    with pytest.raises(StagedBatchesMissing):
        staging.table.commit("w", 0, [NamedAttempt("a", 1)], staging.offset)


def test_an_epoch_is_decided_once() -> None:
    """R-SPK-2: whatever a second commit names, and also for the epochs before."""
    staging = Staging()
    staging.stage("a", epoch=3)
    staging.stage("b", epoch=3)
    decision = staging.decide(3, ("a", 1))
    for epoch in (0, 3):
        assert staging.table.commit("w", epoch, [NamedAttempt("b", 1)], 2) == Decided(decision)


def test_one_decision_of_a_write_after_the_other() -> None:
    staging = Staging()
    staging.stage(epoch=0)
    staging.stage(epoch=1)
    staging.table.commit("w", 0, [NamedAttempt("a", 1)], staging.offset)
    assert staging.table.commit("w", 0, [], staging.offset) == Later(None)
    assert staging.table.commit("w", 1, [NamedAttempt("a", 1)], staging.offset) == Later(None)
    decision = make_decision(0, NamedAttempt("a", 1))
    staging.table.decided(decision)
    assert staging.table.commit("w", 1, [NamedAttempt("a", 1)], staging.offset) == Later(decision)
    staging.table.copied("w")
    assert staging.table.commit("w", 1, [NamedAttempt("a", 1)], staging.offset) == Complete(10)


def test_a_decision_that_could_not_be_made_leaves_all_as_it_was() -> None:
    staging = Staging()
    staging.stage()
    staging.table.commit("w", 0, [NamedAttempt("a", 1)], staging.offset)
    staging.table.undecided("w")
    assert staging.table.decision("w") is None
    staging.decide(0, ("a", 1))
    table = StagedWrites()
    table.commit("w", 0, [], 9)
    table.undecided("w")
    assert table.forgettable(10**15) == []


def test_a_commit_that_contradicts_itself() -> None:
    with pytest.raises(InvalidRequest, match="twice"):
        StagedWrites().commit("w", 0, [NamedAttempt("a", 1), NamedAttempt("a", 1)], 9)
    with pytest.raises(InvalidRequest, match="named"):
        StagedWrites().commit("w", 0, [NamedAttempt("", 1)], 9)


# --- what is needed ----------------------------------------------------------------------------


def test_a_decision_drops_what_it_does_not_name() -> None:
    """So that nothing leaks: of this epoch, and of those before."""
    staging = Staging()
    staging.stage("old", epoch=0)
    staging.stage("zombie", epoch=1)
    staging.stage("a", 2, epoch=1)
    staging.stage("next", epoch=2)
    assert staging.table.low_offset() == 0
    decision = staging.decide(1, ("a", 2))
    assert staging.table.low_offset() == 2
    assert [list(offsets) for offsets in staging.table.staged_offsets(decision)] == [[2, 3]]
    staging.finish(1)
    assert staging.table.low_offset() == 4
    assert staging.table.unfinished() == []


def test_the_oldest_batch_needed_is_that_of_any_write() -> None:
    staging = Staging()
    for write in "xyz":
        staging.stage(write=write)
    staging.table.abort("y", 0, ["a"])
    assert staging.table.low_offset() == 0
    staging.table.abort("x", 0, ["a"])
    assert staging.table.low_offset() == 2


def test_what_is_decided_is_needed_until_it_is_done() -> None:
    staging = Staging()
    staging.stage()
    decision = staging.decide(0, ("a", 1))
    staging.table.copied("w")
    assert staging.table.low_offset() == 0
    assert staging.table.unfinished() == [decision]
    assert staging.table.is_copied(decision)
    staging.table.done("w", 0)
    assert staging.table.low_offset() is None
    assert staging.table.decision("w") == decision.done()


def test_the_next_decision_says_as_well_that_the_last_one_is_done() -> None:
    staging = Staging()
    staging.stage(epoch=0)
    staging.stage(epoch=1)
    first = staging.decide(0, ("a", 1))
    staging.table.copied("w")
    staging.table.commit("w", 1, [NamedAttempt("a", 1)], staging.offset)
    assert staging.table.unfinished() == [], "a record that it is done could come too late"
    second = make_decision(1, NamedAttempt("a", 1))
    staging.table.decided(second)
    staging.table.done("w", 0)
    assert staging.table.decision("w") == second
    assert staging.table.is_copied(first)
    assert not staging.table.is_copied(second)


# --- bounds and time ---------------------------------------------------------------------------


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """R-NET-5: no client can make the broker remember without end."""
    monkeypatch.setattr(table_module, "WRITES_MAX", 2)
    monkeypatch.setattr(table_module, "STAGED_ATTEMPTS_MAX", 3)
    monkeypatch.setattr(table_module, "STAGED_BATCHES_MAX", 5)
    staging = Staging()
    staging.stage("a", write="x")
    staging.stage("a", write="y")
    with pytest.raises(Busy, match="has 2 writes"):
        staging.table.stage(batch("a", write="z"))
    with pytest.raises(Busy, match="has 2 writes"):
        staging.table.commit("z", 0, [], 0)
    staging.stage("b", write="y")
    with pytest.raises(Busy, match="has 3 attempts"):
        staging.table.stage(batch("c", write="y"))
    staging.table.abort("y", 0, ["b"])
    staging.stage("c", 3, write="y")
    with pytest.raises(Busy, match="has 5 batches"):
        staging.table.stage(batch("c", 3, write="y"))
    assert staging.table.stage(batch("c", 2, write="y")) == Repeated(5)
    staging.table.unstaged(batch("c", 1, write="y"), 4)
    assert staging.table.stage(batch("c", 1, write="y")) == New()


def test_a_commit_names_so_many_attempts_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_module, "ATTEMPTS_PER_COMMIT_MAX", 2)
    named = [NamedAttempt(str(number), 0) for number in range(3)]
    with pytest.raises(InvalidRequest, match="3 attempts: 2 is the limit"):
        StagedWrites().commit("w", 0, named, 9)


def test_an_epoch_that_is_left_alone_is_dropped() -> None:
    staging = Staging()
    staging.stage("a")
    later_ms = 1000 + STAGED_SILENCE_MS_MAX
    one = batch("b")
    staging.table.stage(one)
    staging.table.staged(one, 1, 2000)
    assert staging.table.expire(later_ms + 500, 9) == []
    assert staging.table.stage(batch("a", 1)) == New(), "another task of the epoch is at work"
    marks = [aborted("w", 0, "a"), aborted("w", 0, "b")]
    assert staging.table.expire(later_ms + 1001, 1) == marks[:1], "so many at once"
    assert staging.table.expire(later_ms + 1001, 9) == marks[1:]
    assert staging.table.low_offset() is None
    with pytest.raises(StagedBatchesMissing):
        staging.table.stage(batch("a", 1))


def test_what_is_decided_never_expires() -> None:
    staging = Staging()
    staging.stage()
    decision = staging.decide(0, ("a", 1))
    assert staging.table.expire(10**15, 9) == []
    assert staging.table.forgettable(10**15) == []
    assert [list(offsets) for offsets in staging.table.staged_offsets(decision)] == [[0]]


@pytest.mark.parametrize(
    ("is_last", "silence_ms"), [(True, LAST_EPOCH_SILENCE_MS_MAX), (False, WRITE_SILENCE_MS_MAX)]
)
def test_a_write_is_forgotten_after_long_silence(is_last: bool, silence_ms: int) -> None:
    table = StagedWrites()
    decision = make_decision(0, is_last=is_last, is_done=True)
    assert table.commit("w", 0, (), 0) == Complete(0)
    table.decided(decision)
    assert table.forgettable(1000 + silence_ms) == []
    assert table.forgettable(1001 + silence_ms) == [decision]
    assert table.decision("w") == decision, "not before that is durable"
    table.forgotten(decision)
    assert table.decision("w") is None


def test_a_write_that_goes_on_meanwhile_is_not_forgotten() -> None:
    table = StagedWrites()
    assert table.commit("w", 0, (), 0) == Complete(0)
    table.decided(make_decision(0, is_done=True))
    [forgettable] = table.forgettable(10**15)
    later = make_decision(1, is_done=True)
    assert table.commit("w", 1, (), 0) == Complete(0)
    table.decided(later)
    table.forgotten(forgettable)
    assert table.decision("w") == later


# --- reading the topics again ------------------------------------------------------------------


def replay(staged: list[StagedBatch], *decisions: Decision) -> StagedWrites:
    table = StagedWrites()
    for decision in decisions:
        table.replay_decision(*encode_decision(decision))
    for offset, one in enumerate(staged):
        table.replay_staged(one, offset, 1000)
    table.replayed()
    return table


def test_what_was_staged_and_not_decided_goes_on() -> None:
    table = replay([batch("a", 0), batch("b", 0), batch("a", 1)])
    assert table.stage(batch("a", 1)) == Repeated(2)
    assert table.commit("w", 0, [NamedAttempt("a", 2)], 9) == Complete(20)


def test_a_decision_that_is_not_done_finds_its_batches() -> None:
    decision = make_decision(1, NamedAttempt("b", 1), NamedAttempt("a", 2))
    staged = [
        batch("old", 0, epoch=0),
        batch("a", 0, epoch=1),
        batch("b", 0, epoch=1),
        batch("zombie", 0, epoch=1),
        batch("a", 1, epoch=1),
        batch("next", 0, epoch=2),
    ]
    table = replay(staged, make_decision(0, is_done=True), decision)
    assert table.unfinished() == [decision]
    assert [list(offsets) for offsets in table.staged_offsets(decision)] == [[2], [1, 4]]
    assert not table.is_copied(decision)
    assert table.low_offset() == 1
    table.copied("w")
    table.done("w", 1)
    assert table.low_offset() == 5


def test_what_a_done_decision_named_is_not_needed() -> None:
    table = replay([batch("a", 0), batch("b", 0)], make_decision(0, is_done=True))
    assert table.low_offset() is None
    assert table.unfinished() == []


def test_what_was_aborted_does_not_come_back() -> None:
    staged = [batch("a", 0), batch("a", 1), aborted("w", 0, "a"), batch("b", 0)]
    table = replay(staged)
    assert table.low_offset() == 3
    assert table.stage(batch("a", 0)) == New()


def test_an_attempt_may_be_begun_again_under_its_name() -> None:
    staged = [batch("a", 0), batch("a", 1), aborted("w", 0, "a"), batch("a", 0)]
    table = replay(staged)
    assert table.commit("w", 0, [NamedAttempt("a", 1)], 9) == Complete(10)
    table = replay([batch("a", 0), batch("a", 1), batch("a", 0), batch("a", 1)])
    assert table.stage(batch("a", 1)) == Repeated(3)


def test_a_remainder_of_what_was_dropped_is_of_no_use() -> None:
    """The log begins wherever its oldest batch that was needed stood."""
    table = replay([batch("a", 1), batch("a", 2), aborted("w", 0, "a"), batch("b", 0)])
    assert table.low_offset() == 3
    with pytest.raises(StagedBatchesMissing):
        table.stage(batch("a", 3))


def test_a_forgotten_write_begins_anew() -> None:
    table = StagedWrites()
    table.replay_decision(*encode_decision(make_decision(7, is_done=True)))
    table.replay_decision(decision_key("w"), None)
    table.replay_decision(decision_key("never"), None)
    assert table.decision("w") is None


def test_a_decision_whose_batches_are_gone_is_not_guessed_at() -> None:
    decision = make_decision(0, NamedAttempt("a", 2))
    table = replay([batch("a", 0)], decision)
    with pytest.raises(CorruptLog, match="committed and cannot be written"):
        table.staged_offsets(decision)
