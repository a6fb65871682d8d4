"""Producer sequences: each accepted once and in order (R-PRO-2)."""

from __future__ import annotations

import struct
from dataclasses import dataclass

import pytest

from penstock.coordination.producers.state import UNKNOWN_OFFSET, ProducerState
from penstock.model import limits
from penstock.model.errors import CorruptLog, OutOfOrderSequence, ProducerFenced, UnknownProducer

SEQUENCE_MAX = 2**31 - 1


@dataclass
class Batch:
    base_sequence: int
    count: int = 10
    producer_id: int = 7
    producer_epoch: int = 0

    @property
    def last_sequence(self) -> int:
        return (self.base_sequence + self.count - 1) & SEQUENCE_MAX


def append(state: ProducerState, batch: Batch, base_offset: int, now_ms: int = 0) -> None:
    assert state.check(batch) is None
    state.record(batch, base_offset, now_ms)


def test_batches_in_order_are_new() -> None:
    state = ProducerState()
    for number in range(20):
        append(state, Batch(number * 10), number * 10)


def test_a_repeated_batch_gets_its_first_offset() -> None:
    """R-PRO-2: a retry of any of the last five batches is recognised."""
    state = ProducerState()
    for number in range(8):
        append(state, Batch(number * 10), 1000 + number * 10)
    for number in range(3, 8):
        assert state.check(Batch(number * 10)) == 1000 + number * 10


def test_an_older_batch_than_the_window_is_refused_not_appended_again() -> None:
    state = ProducerState()
    for number in range(8):
        append(state, Batch(number * 10), number * 10)
    with pytest.raises(OutOfOrderSequence):
        state.check(Batch(20))


def test_a_missing_batch_is_noticed() -> None:
    state = ProducerState()
    append(state, Batch(0), 0)
    with pytest.raises(OutOfOrderSequence, match="after 9"):
        state.check(Batch(20))


def test_a_batch_with_the_right_start_but_another_length_is_no_repetition() -> None:
    state = ProducerState()
    append(state, Batch(0), 0)
    with pytest.raises(OutOfOrderSequence):
        state.check(Batch(0, count=5))


def test_an_unknown_producer_starts_at_zero() -> None:
    state = ProducerState()
    with pytest.raises(UnknownProducer, match="new producer id"):
        state.check(Batch(10))
    assert state.check(Batch(0)) is None


def test_sequences_wrap_after_the_largest() -> None:
    state = ProducerState()
    state.record(Batch(SEQUENCE_MAX - 4, count=5), 0, 0)
    append(state, Batch(0), 5)
    assert state.check(Batch(0)) == 5


def test_a_batch_may_span_the_wrap() -> None:
    state = ProducerState()
    state.record(Batch(SEQUENCE_MAX - 2, count=5), 0, 0)
    assert state.check(Batch(2)) is None


def test_an_older_epoch_is_fenced() -> None:
    state = ProducerState()
    append(state, Batch(0, producer_epoch=1), 0)
    with pytest.raises(ProducerFenced):
        state.check(Batch(10, producer_epoch=0))


def test_a_newer_epoch_starts_at_zero() -> None:
    state = ProducerState()
    append(state, Batch(0), 0)
    with pytest.raises(OutOfOrderSequence):
        state.check(Batch(10, producer_epoch=1))
    append(state, Batch(0, producer_epoch=1), 10)
    assert state.check(Batch(0, producer_epoch=1)) == 10


def test_what_was_undone_may_be_sent_again() -> None:
    state = ProducerState()
    append(state, Batch(0), 0)
    undo = [state.record(Batch(number * 10), number * 10, 0) for number in range(1, 8)]
    for previous in reversed(undo):
        state.restore(7, previous)
    assert state.check(Batch(0)) == 0
    append(state, Batch(10), 10)


def test_undoing_the_first_batch_forgets_the_producer() -> None:
    state = ProducerState()
    state.restore(7, state.record(Batch(0), 0, 0))
    assert len(state) == 0


def test_silent_producers_are_forgotten() -> None:
    state = ProducerState()
    append(state, Batch(0, producer_id=1), 0, now_ms=0)
    append(state, Batch(0, producer_id=2), 10, now_ms=1000)
    state.expire(limits.PRODUCER_SILENCE_MS_MAX + 500)
    assert len(state) == 1
    assert state.check(Batch(0, producer_id=2)) == 10


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.coordination.producers.state.PRODUCERS_PER_PARTITION_MAX", 3)
    state = ProducerState()
    for producer_id in range(5):
        append(state, Batch(0, producer_id=producer_id), producer_id)
    assert len(state) == 3
    assert state.check(Batch(0, producer_id=4)) == 4


def test_those_that_are_kept_are_not_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """R-SPK-2: neither for others nor for silence, also when they are read from a snapshot."""
    monkeypatch.setattr("penstock.coordination.producers.state.PRODUCERS_PER_PARTITION_MAX", 3)
    kept = {1, 2}
    state = ProducerState.decode(b"", kept)
    for producer_id in range(8):
        append(state, Batch(0, producer_id=producer_id), producer_id)
    state = ProducerState.decode(state.encode(), kept)
    assert [producer_id for producer_id, _ in state.producers()] == [1, 2, 7]
    assert state.last_batch(1) == (0, 9)
    assert state.last_batch(3) is None
    state.expire(limits.PRODUCER_SILENCE_MS_MAX + 1)
    assert [producer_id for producer_id, _ in state.producers()] == [1, 2]
    kept.clear()
    state.forget(1)
    state.forget(1)
    state.expire(limits.PRODUCER_SILENCE_MS_MAX + 1)
    assert len(state) == 0


def test_the_last_batch_tells_the_epoch_too() -> None:
    state = ProducerState()
    append(state, Batch(0), 0)
    append(state, Batch(0, producer_epoch=1), 10)
    append(state, Batch(10, producer_epoch=1), 20)
    assert state.last_batch(7) == (1, 19)


def test_where_the_log_tells_of_those_that_are_kept() -> None:
    kept = {1, 2, 9}
    state = ProducerState(kept)
    append(state, Batch(0, producer_id=5), 0)
    assert state.kept_offset() is None
    append(state, Batch(0, producer_id=1), 10)
    append(state, Batch(0, producer_id=2), 20)
    assert state.kept_offset() == 10
    append(state, Batch(10, producer_id=1), 30)
    assert state.kept_offset() == 20, "the last batch of each is enough"
    kept.clear()
    assert state.kept_offset() is None


def test_if_all_are_kept_none_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.coordination.producers.state.PRODUCERS_PER_PARTITION_MAX", 1)
    state = ProducerState({1, 2})
    for producer_id in (1, 2):
        append(state, Batch(0, producer_id=producer_id), producer_id)
    assert len(state) == 2


def test_a_snapshot_reads_back() -> None:
    """R-STO-7: the state survives as bytes."""
    state = ProducerState()
    for number in range(7):
        append(state, Batch(number * 10), number * 10, now_ms=number)
        append(state, Batch(number * 10, producer_id=8, producer_epoch=3), number * 10)
    again = ProducerState.decode(state.encode())
    assert again.encode() == state.encode()
    assert again.check(Batch(60)) == 60


def test_a_cut_snapshot_is_an_error() -> None:
    state = ProducerState()
    append(state, Batch(0), 0)
    data = state.encode()
    for length in range(1, len(data)):
        with pytest.raises(CorruptLog):
            ProducerState.decode(data[:length])


def test_what_was_known_before_an_offset_is_found_without_the_log() -> None:
    state = ProducerState()
    for number in range(7):
        append(state, Batch(number * 10), number * 10)
    before = state.before(50)
    assert before is not None
    assert before.check(Batch(50)) is None, "it is the next one again"
    assert [before.check(Batch(number * 10)) for number in (2, 3, 4)] == [20, 30, 40]
    with pytest.raises(OutOfOrderSequence):
        before.check(Batch(60))
    assert state.check(Batch(70)) is None, "the state itself is as it was"


def test_before_all_that_is_remembered_of_a_producer_its_next_sequence_is_known() -> None:
    state = ProducerState()
    for number in range(7):
        append(state, Batch(number * 10), number * 10)
    before = state.before(15)
    assert before is not None
    assert before.check(Batch(20)) is None
    with pytest.raises(OutOfOrderSequence):
        before.check(Batch(40))
    assert before.check(Batch(19, count=1)) == UNKNOWN_OFFSET, "it is there, nobody knows where"


@pytest.mark.parametrize("epoch", [0, 3])
def test_what_is_cut_off_twice_leaves_the_next_sequence_known(epoch: int) -> None:
    """R-PRO-2: the window is shorter after the first cut, and yet not whole."""
    state = ProducerState()
    for number in range(7):
        append(state, Batch(number * 10, producer_epoch=epoch), number * 10)
    once = state.before(35)
    assert once is not None
    append(once, Batch(40, producer_epoch=epoch), 41)
    twice = once.before(15)
    assert twice is not None
    assert twice.check(Batch(20, producer_epoch=epoch)) is None
    with pytest.raises(OutOfOrderSequence):
        twice.check(Batch(30, producer_epoch=epoch))


def test_before_a_producer_that_began_in_the_middle_the_log_must_tell() -> None:
    """R-PRO-2: what it sent before that is not here, so a repetition of it is not one."""
    state = ProducerState()
    state.record(Batch(40), 4, 0)
    append(state, Batch(50), 14)
    assert state.before(4) is None
    before = state.before(14)
    assert before is not None
    with pytest.raises(OutOfOrderSequence):
        before.check(Batch(39, count=1))
    assert before.check(Batch(50)) is None


def test_what_somebody_may_still_repeat_is_told() -> None:
    """R-PRO-2: compaction keeps these batches, or a copy of the log would not know them."""
    state = ProducerState()
    for number in range(7):
        append(state, Batch(number * 10), number * 10)
    append(state, Batch(0, producer_id=8), 35)
    assert state.remembered_offsets() == {20, 30, 35, 40, 50, 60}


def test_what_was_cut_off_is_told() -> None:
    state = ProducerState()
    for number in range(3):
        append(state, Batch(number * 10), number * 10)
    append(state, Batch(0, producer_id=8), 30)
    append(state, Batch(0, producer_id=9), 5)
    before = state.before(15)
    assert before is not None
    assert sorted(state.beyond(before)) == [(7, 0, 20), (8, 0, 0)]
    assert not list(before.beyond(before))


def test_before_its_first_batch_a_producer_is_not_known() -> None:
    state = ProducerState()
    append(state, Batch(0, producer_id=1), 10)
    append(state, Batch(0), 20)
    before = state.before(20)
    assert before is not None
    assert [producer_id for producer_id, _ in before.producers()] == [1]


def test_what_an_epoch_before_had_is_not_told() -> None:
    state = ProducerState()
    append(state, Batch(0), 10)
    append(state, Batch(0, producer_epoch=1), 20)
    assert state.before(20) is None
    assert state.before(21) is not None


def test_a_copy_of_what_is_known_changes_nothing() -> None:
    state = ProducerState()
    for number in range(7):
        append(state, Batch(number * 10), number * 10)
    known = state.encode()
    for number in range(7):
        state.record_copy(Batch(number * 10), number * 10, 0)
    assert state.encode() == known
    state.record_copy(Batch(70), 70, 0)
    assert state.check(Batch(80)) is None
    state.record_copy(Batch(0, producer_id=8), 5, 0)
    assert state.last_batch(8) == (0, 9)


@pytest.mark.parametrize("count", [0, 6])
def test_a_producer_of_no_batches_or_too_many_is_refused(count: int) -> None:
    with pytest.raises(CorruptLog, match=f"of {count} batches"):
        ProducerState.decode(struct.pack(">qhqB", 1, 0, 0, count) + bytes(16 * count))


def test_copies_of_staged_writes_are_remembered_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """R-SPK-2: neither kind pushes out the other, and copies are remembered for longer."""
    monkeypatch.setattr("penstock.coordination.producers.state.PRODUCERS_PER_PARTITION_MAX", 2)
    monkeypatch.setattr("penstock.coordination.producers.state.COPY_PRODUCERS_PER_PARTITION_MAX", 3)
    state = ProducerState()
    copies = [limits.COPY_PRODUCER_ID_MIN + number for number in range(4)]
    for place, producer_id in enumerate((1, *copies, 2, 3)):
        append(state, Batch(0, 1, producer_id), place)
    state = ProducerState.decode(state.encode())
    assert [producer_id for producer_id, _ in state.producers()] == [2, 3, *copies[1:]]
    state.expire(limits.PRODUCER_SILENCE_MS_MAX + 1)
    assert len(state) == 3
    assert state.last_batch(copies[2]) == (0, 0)
    state.forget(copies[2])
    state.expire(limits.COPY_PRODUCER_SILENCE_MS_MAX + 1)
    assert len(state) == 0
