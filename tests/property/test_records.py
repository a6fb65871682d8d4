"""Records: round trips of anything, agreement with other codecs, and no trust in any byte."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from itertools import chain

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.model.errors import BatchError, InvalidRequest
from penstock.records import BinaryColumn, Codec, OutgoingColumns, build_batch
from penstock.records.compression import compress, decompress
from penstock.records.header import (
    HEADER_BYTES,
    check_produced,
    read_header,
    stamp,
    write_header,
)
from penstock.records.view import batches
from tests.kit.records.column_rows import outgoing, rows_of
from tests.kit.records.implementations import IMPLEMENTATIONS, Implementation
from tests.kit.records.oracles import (
    Record,
    aiokafka_build,
    aiokafka_read,
    kafka_python_build,
    kafka_python_read,
)
from tests.unit.records.test_column_encoder import built, by_partition

field = st.none() | st.binary(max_size=200)
name = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
headers = st.lists(st.tuples(name, field), max_size=4).map(tuple)
timestamp_ms = st.integers(0, 2**62 - 1)
record: st.SearchStrategy[Record] = st.tuples(timestamp_ms, field, field, headers)
records = st.lists(record, min_size=1, max_size=20)
codec = st.sampled_from(Codec)

both = pytest.mark.parametrize("implementation", IMPLEMENTATIONS, ids=lambda one: one.name)


def build(implementation: Implementation, content: Sequence[Record], codec: int) -> bytes:
    builder = implementation.writing.BatchBuilder(1 << 30, codec)
    for one in content:
        builder.append(*one)
    return bytes(builder.build())


@both
@given(content=records, codec=codec, start_offset=st.integers(0, 25))
@settings(max_examples=100, deadline=None)
def test_round_trip(
    implementation: Implementation, content: list[Record], codec: Codec, start_offset: int
) -> None:
    batch = build(implementation, content, codec)
    check_produced(memoryview(batch))
    expected = [(offset, *one) for offset, one in enumerate(content)][start_offset:]
    messages = implementation.reading.decode_messages(batch, "t", 0, start_offset)
    assert [(m.offset, m.timestamp_ms, m.key, m.value, m.headers) for m in messages] == expected


@both
@given(
    contents=st.lists(records, max_size=4),
    codec=codec,
    start=st.integers(0, 90),
    length=st.integers(0, 90) | st.none(),
)
@settings(max_examples=100, deadline=None)
def test_columns_are_what_messages_are(
    implementation: Implementation,
    contents: list[list[Record]],
    codec: Codec,
    start: int,
    length: int | None,
) -> None:
    payload = b""
    offset = 0
    for content in contents:
        batch = bytearray(build(implementation, content, codec))
        stamp(memoryview(batch), offset, 0)
        payload += batch
        offset += len(content)
    end = None if length is None else start + length
    expected = [(offset, *one) for offset, one in enumerate(chain(*contents))][start:end]
    columns = implementation.column_reading.decode_columns(payload, start, True, end)
    assert rows_of(columns) == expected
    messages = implementation.reading.decode_messages(payload, "t", 0, start)
    assert [m.offset for m in messages if end is None or m.offset < end] == [*columns.offsets]


@both
@given(
    content=st.lists(st.tuples(record, st.integers(0, 3)), max_size=30),
    codec=codec,
    batch_bytes=st.integers(1, 2000),
    skipped_bits=st.integers(0, 20),
)
@settings(max_examples=100, deadline=None)
def test_columns_become_the_batches_of_their_rows(
    implementation: Implementation,
    content: list[tuple[Record, int]],
    codec: Codec,
    batch_bytes: int,
    skipped_bits: int,
) -> None:
    rows = [one for one, _ in content]
    partitions = [partition for _, partition in content]
    batches = implementation.column_writing.encode_columns(
        outgoing(rows, skipped_bits=skipped_bits),
        array("i", partitions),
        codec=codec,
        batch_bytes=batch_bytes,
        now_ms=0,
    )
    assert by_partition(batches) == built(rows, partitions, codec, batch_bytes)


@given(
    offsets=st.lists(st.integers(-(2**31), 2**31 - 1) | st.integers(-2, 12), max_size=5),
    data=st.binary(max_size=10),
    validity=st.binary(max_size=3) | st.none(),
    validity_offset=st.integers(-3, 20),
)
@settings(max_examples=300, deadline=None)
def test_columns_of_noise(
    offsets: list[int], data: bytes, validity: bytes | None, validity_offset: int
) -> None:
    """Refused alike by both ways to run, or read alike: never a byte that is not theirs."""
    column = BinaryColumn(
        offsets=array("i", offsets), data=data, validity=validity, validity_offset=validity_offset
    )
    columns = OutgoingColumns(row_count=3, keys=column, values=column)
    outcomes = []
    for implementation in IMPLEMENTATIONS:
        try:
            (batch,) = implementation.column_writing.encode_columns(
                columns, array("i", [0, 0, 0]), codec=0, batch_bytes=1000, now_ms=0
            )
        except InvalidRequest as error:
            outcomes.append(str(error))
        else:
            outcomes.append(repr(batch))
    assert len(set(outcomes)) == 1


@given(content=records, codec=codec)
@settings(max_examples=100, deadline=None)
def test_both_implementations_write_the_same_bytes(content: list[Record], codec: Codec) -> None:
    first, *others = (build(one, content, codec) for one in IMPLEMENTATIONS)
    assert all(other == first for other in others)


@both
@given(content=records, codec=codec)
@settings(max_examples=100, deadline=None)
def test_others_read_ours_and_we_read_theirs(
    implementation: Implementation, content: list[Record], codec: Codec
) -> None:
    expected = [(offset, *one) for offset, one in enumerate(content)]
    ours = build(implementation, content, codec)
    assert aiokafka_read(ours) == expected
    theirs = [aiokafka_build(content, codec)]
    if codec in (Codec.NONE, Codec.GZIP):
        assert kafka_python_read(ours) == expected
        theirs.append(kafka_python_build(content, codec))
    for batch in theirs:
        messages = implementation.reading.decode_messages(batch, "t", 0, 0)
        assert [(m.offset, m.timestamp_ms, m.key, m.value, m.headers) for m in messages] == expected


@both
@given(noise=st.binary(max_size=400))
@settings(max_examples=300, deadline=None)
def test_noise_is_refused_or_empty(implementation: Implementation, noise: bytes) -> None:
    for payload in (noise, bytes(build_batch([(None, b"v")])) + noise):
        try:
            messages = implementation.reading.decode_messages(payload, "t", 0, 0)
        except BatchError:
            continue
        assert not noise
        assert len(messages) == bool(payload)


@given(content=st.binary(max_size=300), count=st.integers(0, 40), codec=codec)
@settings(max_examples=500, deadline=None)
def test_noise_within_a_right_checksum(content: bytes, count: int, codec: Codec) -> None:
    """Any bytes as the records of a batch: both ways to run refuse it, with one sentence, or read
    the same; and no part of what is read is longer than the batch."""
    batch = bytearray(HEADER_BYTES) + compress(codec, content)
    header = read_header(build_batch([(None, None)]))
    write_header(
        batch, header._replace(record_count=count, last_offset_delta=count, attributes=codec)
    )
    outcomes = []
    for implementation in IMPLEMENTATIONS:
        try:
            messages = implementation.reading.decode_messages(batch, "t", 0, 0)
            columns = implementation.column_reading.decode_columns(batch, 0, True)
        except BatchError as error:
            outcomes.append(str(error))
        else:
            assert columns.record_count == len(messages)
            assert len(columns.keys.data) + len(columns.values.data) <= len(content)
            assert [row[4] for row in rows_of(columns)] == [m.headers for m in messages]
            outcomes.append(repr(messages))
    assert len(set(outcomes)) == 1


@given(data=st.binary(max_size=2000), codec=codec)
@settings(max_examples=100, deadline=None)
def test_compression_round_trip(data: bytes, codec: Codec) -> None:
    assert decompress(codec, compress(codec, data)) == data


@given(noise=st.binary(max_size=300), codec=codec)
@settings(max_examples=300, deadline=None)
def test_decompression_of_noise_is_bounded(noise: bytes, codec: Codec) -> None:
    try:
        output = decompress(codec, noise, 10_000)
    except BatchError:
        return
    assert len(output) <= 10_000


@given(contents=st.lists(records, max_size=4))
@settings(max_examples=50, deadline=None)
def test_batches_end_to_end(contents: list[list[Record]]) -> None:
    payload = b"".join(build(IMPLEMENTATIONS[-1], content, Codec.NONE) for content in contents)
    assert [view.header.record_count for view in batches(payload)] == [*map(len, contents)]


@given(key=st.binary(max_size=40))
def test_both_implementations_hash_alike(key: bytes) -> None:
    assert len({one.writing.murmur2(key) for one in IMPLEMENTATIONS}) == 1
