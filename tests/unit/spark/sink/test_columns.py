"""From Arrow batches to outgoing columns: what is refused, and what comes out of the bytes."""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa
import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from penstock.model.errors import InvalidRequest
from penstock.records import Codec, Message, decode_messages, encode_columns
from penstock.spark.sink.columns import HEADERS_TYPE, TopicRows, check_columns, rows_by_topic

NOW_MS = 1_700_000_000_000
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def schema(**types: object) -> StructType:
    return StructType([StructField(name, kind) for name, kind in types.items()])  # type: ignore[arg-type]


def messages(rows: TopicRows) -> list[Message]:
    """What the rows are once encoded, all in one partition."""
    partitions = bytes(4 * rows.columns.row_count)
    encoded = encode_columns(
        rows.columns, partitions, codec=Codec.NONE, batch_bytes=1 << 20, now_ms=NOW_MS
    )
    return [
        message
        for batch in encoded
        for message in decode_messages(bytes(batch.data), rows.topic, 0, 0)
    ]


def one_topic(batch: pa.RecordBatch) -> list[Message]:
    [rows] = rows_by_topic(batch, "orders", NOW_MS)
    return messages(rows)


def test_the_columns_of_the_kafka_sink_are_accepted() -> None:
    """R-SPK-2: the same names and types, so that a job moves by changing one word."""
    check_columns(
        schema(
            key=StringType(),
            value=BinaryType(),
            headers=HEADERS_TYPE,
            topic=StringType(),
            partition=IntegerType(),
            timestamp=TimestampType(),
        ),
        None,
    )
    check_columns(schema(key=BinaryType(), value=StringType()), "orders")


def test_nulls_need_not_be_allowed_in_the_schema() -> None:
    header = StructType(
        [StructField("key", StringType(), False), StructField("value", BinaryType(), False)]
    )
    given = StructType(
        [
            StructField("value", StringType(), False),
            StructField("headers", ArrayType(header, False), False),
        ]
    )
    check_columns(given, "orders")


@pytest.mark.parametrize(
    ("types", "sentence"),
    [
        ({"key": BinaryType()}, "There is no column `value`"),
        ({"value": LongType()}, "Column `value` is bigint: it must be binary or string"),
        ({"value": StringType(), "partition": LongType()}, "it must be int"),
        ({"value": StringType(), "topic": BinaryType()}, "it must be string"),
        ({"value": StringType(), "timestamp": TimestampNTZType()}, "it must be timestamp"),
        ({"value": StringType(), "headers": ArrayType(StringType())}, "it must be array<struct"),
        ({"value": StringType(), "offset": LongType()}, "Column `offset` cannot be written"),
    ],
)
def test_what_cannot_be_written_is_refused(types: dict[str, object], sentence: str) -> None:
    with pytest.raises(InvalidRequest) as raised:
        check_columns(schema(**types), "orders")
    assert sentence in str(raised.value)


def test_a_column_that_is_there_twice_is_refused() -> None:
    twice = StructType([StructField("value", StringType()), StructField("value", BinaryType())])
    with pytest.raises(InvalidRequest, match="there twice"):
        check_columns(twice, "orders")


def test_there_must_be_a_topic() -> None:
    with pytest.raises(InvalidRequest, match="There is no topic to write to"):
        check_columns(schema(value=StringType()), None)


def full_batch() -> pa.RecordBatch:
    headers = [
        [("a", b"1"), ("b", None)],
        None,
        [],
        [("c", b"3")],
    ]
    moments = [datetime(2026, 11, 16, 2, 0, second, 999_999, tzinfo=UTC) for second in range(3)]
    return pa.record_batch(
        {
            "key": pa.array(["k0", None, "k2", ""]),
            "value": pa.array([b"v0", b"v1", None, b""]),
            "headers": pa.array(
                [
                    None if row is None else [{"key": k, "value": v} for k, v in row]
                    for row in headers
                ],
                HEADERS,
            ),
            "timestamp": pa.array([*moments, None], pa.timestamp("us", tz="UTC")),
        }
    )


def test_every_part_of_a_message() -> None:
    """R-SPK-2."""
    found = one_topic(full_batch())
    assert [message.key for message in found] == [b"k0", None, b"k2", b""]
    assert [message.value for message in found] == [b"v0", b"v1", None, b""]
    assert [message.headers for message in found] == [
        (("a", b"1"), ("b", None)),
        (),
        (),
        (("c", b"3"),),
    ]
    seconds = [1_794_794_400 + second for second in range(3)]
    assert [message.timestamp_ms for message in found] == [
        *(second * 1000 + 999 for second in seconds),
        NOW_MS,
    ]


def test_the_rest_of_a_millisecond_is_cut_off_towards_the_past() -> None:
    """Also before 1970."""
    microseconds = [-2_000, -1_999, -1_001, -1_000, 1_000, 1_001, 1_999, 2_000]
    batch = pa.record_batch(
        {
            "value": pa.array([b""] * len(microseconds)),
            "timestamp": pa.array(microseconds, pa.timestamp("us", tz="UTC")),
        }
    )
    [rows] = rows_by_topic(batch, "orders", NOW_MS)
    assert rows.columns.timestamps_ms is not None
    assert list(rows.columns.timestamps_ms) == [-2, -2, -2, -1, 1, 1, 1, 2]


def test_slices_and_large_types_are_the_same_rows() -> None:
    batch = pa.concat_batches([full_batch()] * 5)
    everything = [message[2:] for message in map(parts, one_topic(batch))]
    for first, count in ((1, 7), (3, 2), (9, 11), (19, 1)):
        found = [message[2:] for message in map(parts, one_topic(batch.slice(first, count)))]
        assert found == everything[first : first + count]
    large = batch.set_column(0, "key", batch.column("key").cast(pa.large_string()))
    large = large.set_column(1, "value", batch.column("value").cast(pa.large_binary()))
    assert [message[2:] for message in map(parts, one_topic(large))] == everything


def parts(message: Message) -> tuple[object, ...]:
    return (
        message.topic,
        message.offset,
        message.key,
        message.value,
        message.headers,
        message.timestamp_ms,
    )


def test_rows_are_grouped_by_their_topic_in_order() -> None:
    batch = pa.record_batch(
        {
            "value": pa.array([b"%d" % row for row in range(9)]),
            "topic": pa.array(["a", "b", "c"] * 3),
            "partition": pa.array([0, None, 2] * 3, pa.int32()),
        }
    )
    grouped = list(rows_by_topic(batch, None, NOW_MS))
    assert [rows.topic for rows in grouped] == ["a", "b", "c"]
    assert [[message.value for message in messages(rows)] for rows in grouped] == [
        [b"0", b"3", b"6"],
        [b"1", b"4", b"7"],
        [b"2", b"5", b"8"],
    ]
    chosen = [rows.partitions and rows.partitions.to_pylist() for rows in grouped]
    assert chosen == [[0, 0, 0], None, [2, 2, 2]]


def test_the_option_wins_over_the_column() -> None:
    batch = pa.record_batch({"value": pa.array([b"1"]), "topic": pa.array(["other"])})
    [rows] = rows_by_topic(batch, "orders", NOW_MS)
    assert rows.topic == "orders"


def test_a_row_without_a_topic_is_an_error() -> None:
    batch = pa.record_batch({"value": pa.array([b"1", b"2"]), "topic": pa.array(["a", None])})
    with pytest.raises(InvalidRequest, match="1 of 2 rows have no topic"):
        list(rows_by_topic(batch, None, NOW_MS))


def test_a_header_that_is_null_is_an_error() -> None:
    headers = pa.array([[None]], HEADERS)
    batch = pa.record_batch({"value": pa.array([b"1"]), "headers": headers})
    with pytest.raises(InvalidRequest, match="a header that is null"):
        one_topic(batch)
    nameless = pa.array([[{"key": None, "value": b"1"}]], HEADERS)
    batch = pa.record_batch({"value": pa.array([b"1"]), "headers": nameless})
    with pytest.raises(InvalidRequest, match="has no name"):
        one_topic(batch)


def test_a_batch_of_no_rows_is_nothing() -> None:
    assert list(rows_by_topic(full_batch()[:0], "orders", NOW_MS)) == []
