"""Columns as Arrow: the rows are those of the messages, the types those that Spark wants."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema

from penstock.model.ids import TopicPartition
from penstock.records import BatchBuilder, Codec, build_batch, decode_columns
from penstock.records.header import stamp_append_time
from penstock.spark.source.arrow_columns import ROWS_MAX, ArrowRows
from penstock.spark.source.options import parse_options
from penstock.spark.source.schema import make_parser, source_schema

ZERO = TopicPartition("orders", 3)


def record_batches(payload: bytes | bytearray, **options: str) -> list[pa.RecordBatch]:
    parsed = parse_options({"bootstrap": "h:1", "subscribe": "orders", **options})
    schema = source_schema(parsed)
    rows = ArrowRows(schema, ZERO, make_parser(parsed))
    columns = decode_columns(
        payload, 0, parsed.include_headers, producer_times=rows.needs_producer_times
    )
    found = list(rows.record_batches(columns))
    for batch in found:
        batch.validate(full=True)
        assert batch.schema.equals(to_arrow_schema(schema, timezone="UTC"))
    return found


def rows_of(payload: bytes | bytearray, **options: str) -> list[dict[str, Any]]:
    return [row for batch in record_batches(payload, **options) for row in batch.to_pylist()]


def test_every_column() -> None:
    payload = build_batch([(b"k", b"v"), (None, None)], base_offset=7, timestamp_ms=1_500)
    moment = datetime(1970, 1, 1, 0, 0, 1, 500_000, tzinfo=UTC)
    common = {"topic": "orders", "partition": 3, "timestamp": moment, "timestampType": 0}
    assert rows_of(payload) == [
        {"key": b"k", "value": b"v", "offset": 7, **common},
        {"key": None, "value": None, "offset": 8, **common},
    ]


def test_headers_and_rows_without() -> None:
    """As in Spark's Kafka source, no headers are null and not an empty list."""
    builder = BatchBuilder(10_000)
    builder.append(0, None, b"1", [("a", b"x"), ("ü", None), ("a", b"")])
    builder.append(0, None, b"2")
    builder.append(0, None, b"3", [("b", b"y")])
    found = [row["headers"] for row in rows_of(builder.build(), includeHeaders="true")]
    assert found == [
        [{"key": "a", "value": b"x"}, {"key": "ü", "value": None}, {"key": "a", "value": b""}],
        None,
        [{"key": "b", "value": b"y"}],
    ]
    bare = build_batch([(None, b"1")])
    assert [row["headers"] for row in rows_of(bare, includeHeaders="true")] == [None]


def test_whose_clock_it_was_is_known_per_batch() -> None:
    stamped = build_batch([(None, b"2")], base_offset=1, timestamp_ms=5)
    stamp_append_time(memoryview(stamped), 9)
    payload = build_batch([(None, b"1")], timestamp_ms=5) + stamped
    found = [(row["timestampType"], row["timestamp"].microsecond) for row in rows_of(payload)]
    assert found == [(0, 5_000), (1, 9_000)]


def test_what_batches_say_of_themselves() -> None:
    builder = BatchBuilder(10_000, Codec.ZSTD)
    for number in range(3):
        builder.append(10 + number, None, b"%d" % number * 100)
    compressed = builder.build(
        base_offset=4, producer_id=77, producer_epoch=2, base_sequence=2**31 - 2
    )
    stamp_append_time(memoryview(compressed), 99)
    payload = build_batch([(None, b"x")], base_offset=3, timestamp_ms=6) + compressed
    rows = rows_of(payload, includeBatch="true")
    assert [row["batchOffset"] for row in rows] == [3, 4, 4, 4]
    assert [row["batchRecords"] for row in rows] == [1, 3, 3, 3]
    assert [row["batchBytes"] for row in rows][1:] == [len(compressed)] * 3
    assert [row["codec"] for row in rows] == ["none", "zstd", "zstd", "zstd"]
    assert [row["producerId"] for row in rows] == [-1, 77, 77, 77]
    assert [row["producerEpoch"] for row in rows] == [-1, 2, 2, 2]
    # 0 comes after the largest.
    assert [row["sequence"] for row in rows] == [-1, 2**31 - 2, 2**31 - 1, 0]
    assert rows[0]["appendTime"] is None
    assert [row["appendTime"].microsecond for row in rows[1:]] == [99_000] * 3
    assert [row["createTime"].microsecond for row in rows] == [6_000, 10_000, 11_000, 12_000]
    assert [row["timestamp"].microsecond for row in rows] == [6_000, 99_000, 99_000, 99_000]


def test_typed_values() -> None:
    payload = build_batch([(None, b'{"id": 5}'), (None, b"no"), (None, None)])
    rows = rows_of(payload, valueFormat="json", valueSchema="id BIGINT")
    assert [(row["id"], row["_corrupt"]) for row in rows] == [
        (5, None),
        (None, b"no"),
        (None, None),
    ]


@pytest.mark.parametrize("timestamp_ms", [2**62 - 1, -1])
def test_any_time_that_a_batch_can_have(timestamp_ms: int) -> None:
    for options in ({}, {"includeBatch": "true"}):
        payload = build_batch([(None, b"1")], timestamp_ms=timestamp_ms)
        (batch,) = record_batches(payload, **options)
        expected = min(timestamp_ms, (2**63 - 1) // 1000) * 1000
        assert batch.column("timestamp").cast(pa.int64()).to_pylist() == [expected]
        stamp_append_time(memoryview(payload), timestamp_ms)
        (batch,) = record_batches(payload, **options)
        assert batch.column("timestamp").cast(pa.int64()).to_pylist() == [expected]


def test_many_rows_come_in_pieces() -> None:
    payload = build_batch([(None, b"")] * (ROWS_MAX + 1))
    pieces = record_batches(payload)
    assert [piece.num_rows for piece in pieces] == [ROWS_MAX, 1]
    assert pieces[1].column("topic").to_pylist() == ["orders"]
    assert record_batches(b"") == []
