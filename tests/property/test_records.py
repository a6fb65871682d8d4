"""Records: round trips of anything, agreement with other codecs, and no trust in any byte."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.model.errors import BatchError
from penstock.records import Codec, build_batch
from penstock.records.compression import compress, decompress
from penstock.records.header import HEADER_BYTES, check_produced, read_header, write_header
from penstock.records.view import batches
from tests.unit.records.implementations import IMPLEMENTATIONS, Implementation
from tests.unit.records.oracles import (
    Record,
    aiokafka_build,
    aiokafka_read,
    kafka_python_build,
    kafka_python_read,
)

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
    columns = implementation.reading.decode_columns(batch, start_offset, True)
    assert [*zip(columns.offsets, columns.timestamps_ms, strict=True)] == [
        (offset, timestamp_ms) for offset, timestamp_ms, *_ in expected
    ]
    assert columns.values.data == b"".join(value or b"" for _, _, _, value, _ in expected)


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
            columns = implementation.reading.decode_columns(batch, 0)
        except BatchError as error:
            outcomes.append(str(error))
        else:
            assert columns.record_count == len(messages)
            assert len(columns.keys.data) + len(columns.values.data) <= len(content)
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
