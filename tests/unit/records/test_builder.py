"""records.builder: what other clients read in our batches, and Kafka's hash of a key."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.model.errors import InvalidRequest
from penstock.records.header import HEADER_BYTES, check_produced, read_header
from tests.kit.records.implementations import Implementation
from tests.kit.records.oracles import ORACLE_IDS, ORACLES, Read, Record, aiokafka_build

# Sizes and numbers around the edges of one, two and three byte varints.
RECORDS: list[Record] = [
    (1_700_000_000_000, b"key", b"value", ()),
    (1_700_000_000_063, None, b"", ()),
    (1_699_999_999_937, b"", None, ()),
    (1_700_000_000_064, None, None, (("trace", b"\x00\xff"), ("", None), ("Grüße", b""))),
    *((1_700_000_000_000 + index, b"k" * 63, b"v" * index, ()) for index in range(60, 70)),
    (0, b"k" * 8191, b"v" * 8192, (("name", b"x" * 9000),)),
    (4_600_000_000_000_000_000, b"far", b"future", ()),
]


def append_all(builder: Any, records: list[Record]) -> None:
    for index, (timestamp_ms, key, value, headers) in enumerate(records):
        assert builder.append(timestamp_ms, key, value, headers) == index


@pytest.mark.parametrize(("name", "build", "read", "codec"), ORACLES, ids=ORACLE_IDS)
def test_other_clients_read_ours(
    name: str, build: object, read: Read, codec: int, implementation: Implementation
) -> None:
    builder = implementation.writing.BatchBuilder(1 << 20, codec)
    append_all(builder, RECORDS)
    batch = bytes(builder.build())
    assert read_header(batch).codec == codec
    assert read(batch) == [(index, *record) for index, record in enumerate(RECORDS)]


def test_the_same_bytes_as_aiokafka(implementation: Implementation) -> None:
    builder = implementation.writing.BatchBuilder(1 << 20)
    append_all(builder, RECORDS)
    ours = builder.build(producer_id=5, producer_epoch=6, base_sequence=7)
    theirs = aiokafka_build(RECORDS, producer_id=5, producer_epoch=6, base_sequence=7)
    # But for the leader epoch, which is the broker's to write.
    assert ours[:12] + ours[16:] == theirs[:12] + theirs[16:]


def test_what_it_builds_may_be_produced(implementation: Implementation) -> None:
    writing = implementation.writing
    batch = writing.build_batch(
        [(b"k", b"v"), (None, None)],
        timestamp_ms=77,
        base_offset=12,
        producer_id=9,
        producer_epoch=2,
        base_sequence=2**31 - 1,
        transactional=True,
    )
    header = check_produced(memoryview(batch))
    assert (header.base_offset, header.last_offset_delta, header.record_count) == (12, 1, 2)
    assert (header.base_timestamp_ms, header.max_timestamp_ms) == (77, 77)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (9, 2, 2**31 - 1)
    assert header.is_transactional


def test_control_batch(implementation: Implementation) -> None:
    batch = implementation.writing.control_batch(
        1, b"marker", timestamp_ms=5, producer_id=9, producer_epoch=2, transactional=True
    )
    header = read_header(batch)
    assert (header.is_control, header.is_transactional, header.record_count) == (True, True, 1)
    (record,) = implementation.reading.decode_batch(header, memoryview(batch), 1 << 20)
    assert (record.key, record.value) == (b"\x00\x00\x00\x01", b"marker")


def test_a_full_batch_takes_no_more(implementation: Implementation) -> None:
    builder = implementation.writing.BatchBuilder(500)
    added = 0
    while builder.append(0, None, b"v" * 50) >= 0:
        added += 1
        assert builder.size_bytes <= 500
    assert builder.record_count == added == (500 - HEADER_BYTES) // 57
    size_bytes = builder.size_bytes
    assert builder.append(0, None, b"v" * 400) == -1
    assert builder.append(0, None, b"") == added, "a smaller one may still fit"
    assert len(builder.build()) == size_bytes + 7


def test_a_batch_that_is_widened_takes_more(implementation: Implementation) -> None:
    builder = implementation.writing.BatchBuilder(500)
    assert builder.append(0, None, b"v" * 400) == 0
    assert builder.append(0, None, b"v" * 400) == -1
    builder.widen(1000)
    assert builder.append(0, None, b"v" * 400) == 1
    assert builder.append(0, None, b"v" * 400) == -1
    assert check_produced(memoryview(builder.build())).record_count == 2


def test_the_first_record_always_fits(implementation: Implementation) -> None:
    builder = implementation.writing.BatchBuilder(100)
    assert builder.append(0, b"k" * 5000, b"v" * 100_000) == 0
    assert builder.append(0, None, None) == -1
    batch = builder.build()
    (message,) = implementation.reading.decode_messages(batch, "t", 0, 0)
    assert (message.key, message.value) == (b"k" * 5000, b"v" * 100_000)


def test_size_bytes_is_the_size_of_the_batch(implementation: Implementation) -> None:
    builder = implementation.writing.BatchBuilder(1 << 20)
    assert (builder.size_bytes, builder.record_count) == (HEADER_BYTES, 0)
    assert builder.max_timestamp_ms == -1
    append_all(builder, RECORDS)
    assert builder.max_timestamp_ms == max(timestamp_ms for timestamp_ms, *_ in RECORDS)
    assert builder.size_bytes == len(builder.build())


def test_what_does_not_shrink_is_not_compressed(implementation: Implementation) -> None:
    """A batch below its limit must not leave it by compression."""
    incompressible = bytes((number * 167 + 13) % 251 for number in range(60))
    for codec in range(5):
        batch = implementation.writing.build_batch([(None, incompressible)], codec=codec)
        assert read_header(batch).codec == 0
        (message,) = implementation.reading.decode_messages(batch, "t", 0, 0)
        assert message.value == incompressible


def test_bytes_like_fields(implementation: Implementation) -> None:
    class Text(bytes):
        pass

    backing = memoryview(b"0123456789")
    fields = [b"x", bytearray(b"abc"), backing[2:8:2], Text(b"sub"), memoryview(b"")]
    batch = implementation.writing.build_batch([(field, field) for field in fields])
    messages = implementation.reading.decode_messages(batch, "t", 0, 0)
    assert [message.key for message in messages] == [b"x", b"abc", b"246", b"sub", b""]


@pytest.mark.parametrize("field", ["text", 5, [1, 2]])
def test_other_fields_are_refused_and_leave_no_trace(
    field: object, implementation: Implementation
) -> None:
    builder = implementation.writing.BatchBuilder(1000)
    for arguments in ((field, None), (None, field), (None, b"v", [("name", field)])):
        with pytest.raises(TypeError, match="bytes-like"):
            builder.append(0, *arguments)
    assert builder.append(3, None, b"v") == 0
    assert read_header(builder.build()).base_timestamp_ms == 3


@pytest.mark.parametrize("timestamp_ms", [-2, -(2**62), 2**62, 2**63, -(2**63) - 1, 10**30])
def test_times_out_of_range_are_refused(timestamp_ms: int, implementation: Implementation) -> None:
    with pytest.raises(InvalidRequest, match=f"{timestamp_ms} ms"):
        implementation.writing.BatchBuilder(1000).append(timestamp_ms, None, None)


@pytest.mark.parametrize("order", [(-1, 2**62 - 1), (2**62 - 1, -1)])
def test_times_at_the_ends_of_the_range(
    order: tuple[int, int], implementation: Implementation
) -> None:
    builder = implementation.writing.BatchBuilder(1000)
    for timestamp_ms in order:
        builder.append(timestamp_ms, None, None)
    batch = builder.build()
    messages = implementation.reading.decode_messages(batch, "t", 0, 0)
    assert tuple(message.timestamp_ms for message in messages) == order


def test_a_builder_builds_once(implementation: Implementation) -> None:
    builder = implementation.writing.BatchBuilder(1000)
    with pytest.raises(AssertionError, match="at least one record"):
        builder.build()
    builder.append(0, None, None)
    builder.build()
    with pytest.raises(AssertionError, match="once"):
        builder.build()
    with pytest.raises(AssertionError, match="that was built"):
        builder.append(0, None, None)


@pytest.mark.parametrize(
    ("key", "number"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_murmur2_of_kafka(key: bytes, number: int, implementation: Implementation) -> None:
    """The values of Kafka's own UtilsTest."""
    murmur2 = implementation.writing.murmur2
    assert murmur2(key) == murmur2(bytearray(key)) == murmur2(memoryview(key)) == number


def test_murmur2_of_bytes_beyond_ascii(implementation: Implementation) -> None:
    """As kafka-python has it, for every length of tail."""
    from kafka.partitioner.default import murmur2 as theirs

    for length in range(9):
        key = bytes(range(255, 255 - length, -1))
        assert implementation.writing.murmur2(key) & 0xFFFFFFFF == theirs(key) & 0xFFFFFFFF
