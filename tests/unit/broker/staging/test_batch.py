"""A staged batch goes into a record and comes out of it as it was; anything else is damage."""

from __future__ import annotations

import pytest

from penstock.broker.staging.batch import STAGED_HEAD_BYTES, read_key, unwrap, wrap
from penstock.coordination.staging.records import StagedBatch, aborted
from penstock.model.errors import CorruptLog
from penstock.model.limits import ATTEMPT_NAME_LENGTH_MAX, WRITE_NAME_LENGTH_MAX
from penstock.records.header import read_header, write_header
from penstock.records.view import batches
from tests.kit.broker.running import batch

STAGED = StagedBatch("write", 7, "attempt", 3, "orders", "0" * 32, 2, 2)


@pytest.mark.parametrize("size", [1, 100, 100_000])
def test_what_goes_in_comes_out(size: int) -> None:
    inner = batch([b"x" * size, b"y"])
    wrapped = wrap(STAGED, memoryview(inner), 1000)
    end, staged, found = unwrap(wrapped)
    assert (end, staged, found) == (len(wrapped), STAGED, inner)


def test_one_after_the_other() -> None:
    parts = [
        wrap(STAGED._replace(sequence=number), memoryview(batch([b"a"])), 1) for number in (0, 1)
    ]
    both = memoryview(b"".join(parts))
    end, first, _ = unwrap(both)
    assert unwrap(both, end)[1].sequence == first.sequence + 1
    assert read_key(both, end)[1].sequence == 1


def test_it_is_a_record_as_any_other() -> None:
    inner = batch([b"a"])
    [view] = batches(wrap(STAGED, memoryview(inner), 1000))
    [record] = view.records()
    assert record.value == bytes(inner)
    assert record.timestamp_ms == 1000
    assert view.header.record_count == 1


def test_the_beginning_is_enough_to_know_whose_it_is() -> None:
    longest = "\N{PILE OF POO}" * WRITE_NAME_LENGTH_MAX
    staged = STAGED._replace(
        write=longest, attempt=longest[:ATTEMPT_NAME_LENGTH_MAX], topic="t" * 249
    )
    wrapped = wrap(staged, memoryview(batch([b"x" * 100_000])), 1000)
    header, found = read_key(bytes(wrapped[:STAGED_HEAD_BYTES]))
    assert found == staged
    assert header.length == len(wrapped)


def test_a_mark_has_no_batch() -> None:
    mark = wrap(aborted("write", 7, "attempt"), None, 1000)
    assert read_key(mark)[1] == aborted("write", 7, "attempt")
    with pytest.raises(CorruptLog):
        unwrap(mark)


def test_damage_is_found() -> None:
    wrapped = bytearray(wrap(STAGED, memoryview(batch([b"abc"])), 1000))
    for position in range(21, len(wrapped)):
        damaged = bytearray(wrapped)
        damaged[position] ^= 0x55
        with pytest.raises(CorruptLog):
            unwrap(memoryview(damaged))
    for length in range(len(wrapped)):
        with pytest.raises(CorruptLog):
            unwrap(memoryview(wrapped[:length]))


def test_bytes_with_a_right_checksum_are_not_believed_either() -> None:
    """Whatever stands in the record: CorruptLog, and no other error."""
    wrapped = bytearray(wrap(STAGED, memoryview(batch([b"abc"])), 1000))
    header = read_header(wrapped)
    for position in range(61, len(wrapped)):
        for byte in (0x00, 0x7F, 0x80, 0xFF):
            damaged = bytearray(wrapped)
            damaged[position] = byte
            write_header(damaged, header)
            try:
                unwrap(memoryview(damaged))
                read_key(bytes(damaged))
            except CorruptLog:
                continue


def test_other_batches_are_not_staged_ones() -> None:
    for values in ([b"a"], [b"a", b"b"], [None]):
        with pytest.raises(CorruptLog):
            unwrap(memoryview(batch(values)))
        with pytest.raises(CorruptLog):
            read_key(bytes(batch(values)))
