"""records.header: what it reads, refuses and stamps."""

from __future__ import annotations

import struct

import pytest
from crc32c import crc32c

from penstock.model.errors import BatchError, CorruptBatch, InvalidBatch
from penstock.records import build_batch, control_batch
from penstock.records.header import (
    HEADER_BYTES,
    BatchHeader,
    check_batch,
    check_produced,
    read_header,
    stamp,
    stamp_append_time,
    write_header,
)
from tests.kit.records.oracles import aiokafka_build

PAIRS = [(b"a", b"first"), (None, b"second"), (b"c", None)]


def batch_with(**changes: int) -> memoryview:
    """A sound batch but for these fields of its header, with a right checksum."""
    batch = build_batch(PAIRS, producer_id=7, producer_epoch=1, base_sequence=10)
    write_header(batch, read_header(batch)._replace(**changes))
    return memoryview(batch)


def test_reads_what_another_producer_wrote() -> None:
    batch = aiokafka_build(
        [(1000, b"k", b"v", ()), (990, None, b"w", ())],
        codec=0,
        producer_id=12345678901,
        producer_epoch=3,
        base_sequence=42,
    )
    header = check_batch(memoryview(batch))
    assert header == BatchHeader(
        base_offset=0,
        length=len(batch),
        term=header.term,
        attributes=0,
        last_offset_delta=1,
        base_timestamp_ms=1000,
        max_timestamp_ms=1000,
        producer_id=12345678901,
        producer_epoch=3,
        base_sequence=42,
        record_count=2,
        crc=crc32c(batch[21:]),
    )
    assert (header.last_offset, header.next_offset, header.last_sequence) == (1, 2, 43)
    assert (header.is_control, header.is_transactional, header.is_append_time) == (False,) * 3


def test_flags() -> None:
    assert read_header(build_batch(PAIRS, transactional=True)).is_transactional
    assert read_header(control_batch(2, b"", timestamp_ms=1)).is_control
    text = [(b"key", b"value" * 100)]
    assert [read_header(build_batch(text, codec=codec)).codec for codec in range(5)] == [*range(5)]


def test_sequence_wraps_as_in_kafka() -> None:
    """After 2147483647 comes 0."""
    assert read_header(batch_with(base_sequence=2**31 - 3)).last_sequence == 2**31 - 1
    assert read_header(batch_with(base_sequence=2**31 - 2)).last_sequence == 0
    assert read_header(batch_with(base_sequence=2**31 - 1)).last_sequence == 1
    assert read_header(build_batch(PAIRS)).last_sequence == -1


def test_reads_at_a_position() -> None:
    batch = build_batch(PAIRS, base_offset=5)
    payload = memoryview(b"before" + batch)
    assert read_header(payload, 6) == check_batch(payload, 6) == read_header(batch)


@pytest.mark.parametrize("length", range(HEADER_BYTES))
def test_a_cut_header_is_refused(length: int) -> None:
    with pytest.raises(InvalidBatch, match=f"{length} bytes at position 0"):
        read_header(build_batch(PAIRS)[:length])


def test_a_cut_batch_is_refused() -> None:
    batch = build_batch(PAIRS)
    for length in range(HEADER_BYTES, len(batch)):
        with pytest.raises(InvalidBatch, match=f"says it has {len(batch)} bytes, but only"):
            check_batch(memoryview(batch)[:length])


@pytest.mark.parametrize(
    "changes",
    [
        {"base_offset": -1},
        {"base_offset": 2**63 - 2},
        {"last_offset_delta": -1},
        {"record_count": -1},
        {"attributes": 5},
        {"attributes": 7},
    ],
)
def test_a_header_that_makes_no_sense_is_refused(changes: dict[str, int]) -> None:
    with pytest.raises(InvalidBatch, match="not a batch of format 2"):
        read_header(batch_with(**changes))


@pytest.mark.parametrize("magic", [-1, 0, 1, 3])
def test_other_formats_are_refused(magic: int) -> None:
    batch = build_batch(PAIRS)
    struct.pack_into(">b", batch, 16, magic)
    with pytest.raises(InvalidBatch, match=f"magic {magic},"):
        read_header(batch)


@pytest.mark.parametrize("length", [-(2**31), -1, 0, 48])
def test_a_length_shorter_than_the_header_is_refused(length: int) -> None:
    batch = build_batch(PAIRS)
    struct.pack_into(">i", batch, 8, length)
    with pytest.raises(InvalidBatch, match="not a batch of format 2"):
        read_header(batch)


def test_every_flipped_bit_is_found_or_harmless() -> None:
    """Outside the checksum are base offset, length, term, magic: a wrong length or magic is found,
    the broker writes the other two itself."""
    batch = build_batch(PAIRS, base_offset=100)
    sound = check_batch(memoryview(batch))
    for bit in range(len(batch) * 8):
        position = bit // 8
        damaged = bytearray(batch)
        damaged[position] ^= 1 << bit % 8
        try:
            header = check_batch(memoryview(damaged))
        except BatchError:
            continue
        assert position < 8 or 12 <= position < 16, f"bit {bit} was not noticed"
        assert header._replace(base_offset=100, term=sound.term) == sound


def test_the_checksum_error_says_where() -> None:
    batch = build_batch(PAIRS, base_offset=100)
    batch[-1] ^= 1
    with pytest.raises(CorruptBatch, match=r"position 3 \(base offset 100, \d+ bytes\)"):
        check_batch(memoryview(b"abc" + batch), 3)


# --- what a producer may send ------------------------------------------------------------------


def test_a_produced_batch() -> None:
    assert check_produced(memoryview(build_batch(PAIRS))).record_count == 3
    assert check_produced(memoryview(build_batch([(None, b"x")] * 5, codec=1))).record_count == 5


def test_a_payload_with_something_after_its_batch_is_refused() -> None:
    batch = build_batch(PAIRS)
    for extra in (b"\x00", bytes(HEADER_BYTES), batch):
        with pytest.raises(InvalidBatch, match="send one batch a call"):
            check_produced(memoryview(batch + extra))
    with pytest.raises(InvalidBatch, match="0 bytes"):
        check_produced(memoryview(b""))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"record_count": 0}, "0 records and last offset delta 2"),
        ({"record_count": 2}, "2 records and last offset delta 2"),
        ({"record_count": 2**31 - 1, "last_offset_delta": 2**31 - 2}, "cannot fit"),
        ({"attributes": 0x20}, "the broker's to write"),
        ({"attributes": 0x08}, "the broker's to write"),
        ({"producer_id": -2}, "all three or none"),
        ({"producer_epoch": -1}, "all three or none"),
        ({"base_sequence": -1}, "all three or none"),
        ({"producer_id": -1, "attributes": 0x10}, "no producer id"),
    ],
)
def test_what_a_producer_may_not_send(changes: dict[str, int], message: str) -> None:
    with pytest.raises(InvalidBatch, match=message):
        check_produced(batch_with(**changes))


def test_compaction_may_leave_gaps_but_a_producer_may_not() -> None:
    gaps = batch_with(last_offset_delta=9)
    assert check_batch(gaps).next_offset == 10
    with pytest.raises(InvalidBatch, match="without a gap"):
        check_produced(gaps)


# --- stamping ----------------------------------------------------------------------------------


def test_stamping_leaves_the_checksum_right() -> None:
    batch = build_batch(PAIRS)
    before = check_batch(memoryview(batch))
    stamp(memoryview(batch), 2**40, 17)
    after = check_batch(memoryview(batch))
    assert after == before._replace(base_offset=2**40, term=17)


def test_append_time() -> None:
    batch = build_batch(PAIRS, timestamp_ms=1000, codec=1)
    stamp_append_time(memoryview(batch), 5000)
    header = check_batch(memoryview(batch))
    assert header.is_append_time
    assert (header.base_timestamp_ms, header.max_timestamp_ms) == (1000, 5000)
