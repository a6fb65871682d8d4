"""records.column_decoder: the same records as messages have, in Arrow's layout."""

from __future__ import annotations

import pytest

from penstock.model.errors import BatchTooLarge, InvalidBatch
from penstock.records import BatchBuilder, Codec, build_batch, columns, control_batch
from penstock.records.header import read_header, stamp_append_time, write_header
from tests.kit.broker.running import peak_bytes
from tests.kit.records.column_rows import rows_of, values_of
from tests.kit.records.implementations import Implementation
from tests.kit.records.oracles import aiokafka_build
from tests.unit.records.test_builder import RECORDS
from tests.unit.records.test_codec import raw_batch, raw_record


@pytest.mark.parametrize("codec", range(5))
def test_columns_hold_the_records(codec: int, implementation: Implementation) -> None:
    payload = aiokafka_build(RECORDS, codec) * 2
    decoded = implementation.column_reading.decode_columns(payload, 0, True)
    assert rows_of(decoded) == [(offset, *record) for offset, record in enumerate(RECORDS)] * 2


def test_headers_only_where_asked_for(implementation: Implementation) -> None:
    decode = implementation.column_reading.decode_columns
    assert decode(aiokafka_build(RECORDS), 0).headers is None


def test_from_an_offset_to_an_offset(implementation: Implementation) -> None:
    decode = implementation.column_reading.decode_columns
    batches = [
        bytes(build_batch([(b"%d" % n, None) for n in range(first, first + 20)], base_offset=first))
        for first in (100, 120, 140)
    ]
    payload = b"".join(batches)
    decoded = decode(payload, 113)
    assert [*decoded.offsets] == [*range(113, 160)]
    assert values_of(decoded.keys) == [b"%d" % n for n in range(113, 160)]
    assert values_of(decoded.values) == [None] * 47
    assert decode(payload, 160).record_count == 0
    for start, end in ((0, 100), (113, 113), (113, 114), (118, 123), (120, 140), (0, 1000)):
        decoded = decode(payload, start, end_offset=end)
        assert [*decoded.offsets] == [*range(max(start, 100), min(end, 160))]
        assert values_of(decoded.keys) == [b"%d" % offset for offset in decoded.offsets]


def test_the_batches_that_rows_came_from(implementation: Implementation) -> None:
    """What is the same for all rows of a batch is told once, and nothing of batches without."""
    batches = [
        build_batch([(None, b"a")] * 3, base_offset=0),
        control_batch(1, b"commit", timestamp_ms=1, base_offset=3),
        build_batch(
            [(None, b"b" * 100)] * 2,
            base_offset=4,
            codec=Codec.LZ4,
            producer_id=9,
            producer_epoch=1,
            base_sequence=7,
        ),
        build_batch([(None, b"c")] * 4, base_offset=6),
    ]
    payload = b"".join(map(bytes, batches))
    decode = implementation.column_reading.decode_columns
    first, _, second, third = (read_header(batch) for batch in batches)
    assert decode(payload, 0).batches == [(3, first), (2, second), (4, third)]
    assert decode(payload, 2, end_offset=7).batches == [(1, first), (2, second), (1, third)]
    assert decode(payload, 4, end_offset=6).batches == [(2, second)]
    (batch,) = decode(payload, 5, end_offset=6).batches
    assert (batch.rows, batch.header.codec, batch.header.producer_id) == (1, Codec.LZ4, 9)


def test_times_of_the_broker_or_of_the_producer(implementation: Implementation) -> None:
    builder = BatchBuilder(1 << 20)
    for timestamp_ms in (1000, 900, 1100):
        builder.append(timestamp_ms, None, b"value")
    batch = builder.build()
    decode = implementation.column_reading.decode_columns
    assert [*decode(batch, 0).timestamps_ms] == [1000, 900, 1100]
    stamp_append_time(memoryview(batch), 5000)
    assert [*decode(batch, 0).timestamps_ms] == [5000] * 3
    decoded = decode(batch, 0, producer_times=True)
    assert [*decoded.timestamps_ms] == [1000, 900, 1100]
    header = decoded.batches[0].header
    assert (header.is_append_time, header.max_timestamp_ms) == (True, 5000)


def test_nothing_gives_empty_columns(implementation: Implementation) -> None:
    decoded = implementation.column_reading.decode_columns(b"", 0, include_headers=True)
    assert (decoded.record_count, len(decoded.offsets), len(decoded.keys.offsets)) == (0, 0, 1)
    assert [*decoded.headers.offsets] == [0]
    assert decoded.batches == []


def test_more_headers_than_there_was_room_for_at_first(implementation: Implementation) -> None:
    builder = BatchBuilder(1 << 30)
    content = [
        [(f"name {row}-{index}", bytes(row % 300) if index % 3 else None) for index in range(row)]
        for row in (0, 1, 70, 0, 300, 2)
    ]
    for headers in content:
        builder.append(0, None, None, headers)
    decoded = implementation.column_reading.decode_columns(builder.build(), 0, True)
    assert [list(headers) for *_, headers in rows_of(decoded)] == content


def test_header_names_are_text_whatever_was_written(implementation: Implementation) -> None:
    """A byte that is no UTF-8 takes three bytes as its replacement, and all of them have room."""
    decode = implementation.column_reading.decode_columns
    name = b"\xff" * 20
    headers = b"\x28" + name + b"\x01" + b"\x04\xc3\xa9\x00" + b"\x02a\x01"
    body = b"\0\0\0\x01\x01" + b"\x06" + headers
    (row,) = rows_of(decode(raw_batch(raw_record(body)), 0, True))
    assert row[4] == (("\N{REPLACEMENT CHARACTER}" * 20, None), ("é", b""), ("a", None))
    builder = BatchBuilder(1 << 30)
    for _ in range(2000):
        builder.append(0, None, None, [("größe", b"x"), ("plain", None)])
    batch = bytearray(builder.build().replace("ö".encode(), b"\xf6\xf6"))
    write_header(batch, read_header(batch))
    rows = rows_of(decode(batch, 0, True))
    replaced = "gr\N{REPLACEMENT CHARACTER}\N{REPLACEMENT CHARACTER}ße"
    assert {row[4] for row in rows} == {((replaced, b"x"), ("plain", None))}
    assert len(rows) == 2000


def test_headers_cost_what_they_take(implementation: Implementation) -> None:
    """Not what a batch of this size could have had."""
    batch = bytes(build_batch([(None, bytes(10_000))] * 300))
    decode = implementation.column_reading.decode_columns
    without = peak_bytes(lambda: decode(batch, 0))
    assert peak_bytes(lambda: decode(batch, 0, True)) < without + 100_000


def test_records_outside_the_range_are_checked_too(implementation: Implementation) -> None:
    good = raw_record(b"\0\0\0\x01\x01\0")
    bad = raw_record(b"\0\0\x02\x01\x01\x02\x02a\x01\0")
    batch = raw_batch(good + bad, record_count=2, last_offset_delta=1)
    decode = implementation.column_reading.decode_columns
    for include_headers in (False, True):
        for start, end in ((0, 1), (1, 2), (0, 2)):
            with pytest.raises(InvalidBatch, match="headers do not end"):
                decode(batch, start, include_headers, end)


@pytest.mark.parametrize("part", ["name", "content"])
def test_a_header_may_not_reach_into_the_next_record(
    part: str, implementation: Implementation
) -> None:
    """Its bytes are there, in the batch, but room was made for a record of this size only."""
    length = b"\x80\x80\x10"  # 128 KiB
    header = length if part == "name" else b"\0" + length
    first = raw_record(b"\0\0\0\x01\x01\x02" + header)
    batch = raw_batch(first + bytes(1 << 20), record_count=2, last_offset_delta=1)
    for include_headers in (False, True):
        with pytest.raises(InvalidBatch, match="says it has 131072 bytes"):
            implementation.column_reading.decode_columns(batch, 0, include_headers)


def test_more_than_int32_offsets_can_hold_is_refused(
    implementation: Implementation, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = bytes(build_batch([(None, bytes(100))]))
    monkeypatch.setattr(columns, "COLUMN_BYTES_MAX", 200)
    assert implementation.column_reading.decode_columns(batch, 0).record_count == 1
    with pytest.raises(BatchTooLarge, match="decode fewer of them at a time"):
        implementation.column_reading.decode_columns(batch * 2, 0)


def test_pieces_of_bounded_size_cut_between_batches(implementation: Implementation) -> None:
    decode = implementation.column_reading.decode_pieces
    sizes = (3, 3, 7, 1, 1, 1)
    first = [sum(sizes[:place]) for place in range(len(sizes))]
    payload = b"".join(
        build_batch([(None, bytes(100))] * size, base_offset=offset, codec=Codec.ZSTD)
        for size, offset in zip(sizes, first, strict=True)
    )

    def rows(start: int, end: int | None, **bounds: int) -> list[int]:
        given = {"rows_max": 1000, "bytes_max": 1 << 20, **bounds}
        pieces = list(decode(payload, start, True, end, **given))
        offsets = [offset for piece in pieces for offset in piece.offsets]
        assert offsets == list(range(start, 16 if end is None else end))
        return [piece.record_count for piece in pieces]

    assert rows(0, None) == [16]
    assert rows(0, None, rows_max=6) == [6, 7, 3]
    assert rows(0, None, bytes_max=700) == [6, 7, 3]
    assert rows(0, None, rows_max=1) == [3, 3, 7, 1, 1, 1]
    assert rows(4, 15, rows_max=6) == [2, 7, 2]
    assert list(decode(payload, 16, rows_max=6, bytes_max=700)) == []


def test_pieces_together_may_be_more_than_memory_holds(
    implementation: Implementation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The limit against bombs is for what is held at once."""
    monkeypatch.setattr(implementation.cursor, "DECOMPRESSED_BYTES_MAX", 150_000)
    batch = bytes(build_batch([(None, bytes(100_000))], codec=Codec.ZSTD))
    with pytest.raises(InvalidBatch):
        implementation.column_reading.decode_columns(batch * 3, 0)
    decode = implementation.column_reading.decode_pieces
    assert len(list(decode(batch * 3, 0, rows_max=1000, bytes_max=150_000))) == 3
    bomb = bytes(build_batch([(None, bytes(200_000))], codec=Codec.ZSTD))
    with pytest.raises(InvalidBatch):
        list(decode(bomb, 0, rows_max=1000, bytes_max=150_000))
