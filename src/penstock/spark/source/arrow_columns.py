"""Decoded columns as Arrow record batches with the source's schema.

Buffers are handed on as they are; what a whole batch has in common is repeated by Arrow. The
invariant: no Python object is made per message, and a record batch has exactly the Arrow schema
that Spark expects.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from penstock.model.ids import TopicPartition
from penstock.records import BinaryColumn, Codec, Columns, HeaderColumns
from penstock.records.columns import BatchRows
from penstock.spark.source.schema import CORRUPT

if TYPE_CHECKING:
    from penstock.spark.values import ValueParser

# Spark is fastest with 10,000 to 50,000 rows at a time.
ROWS_MAX: Final = 50_000
# The last moment that Arrow can say in microseconds.
_TIME_MS_MAX: Final = (2**63 - 1) // 1000
_SEQUENCE_MASK: Final = 2**31 - 1
_TIME_MS: Final = pa.timestamp("ms", tz="UTC")
_TIME_US: Final = pa.timestamp("us", tz="UTC")
_CODECS: Final = {codec.value: codec.name.lower() for codec in Codec}
_CREATE_TIME: Final = 0
_APPEND_TIME: Final = 1


class ArrowRows:
    """Makes record batches of the columns of one partition."""

    def __init__(
        self, schema: StructType, partition: TopicPartition, parser: ValueParser | None
    ) -> None:
        self._schema = to_arrow_schema(schema, timezone="UTC")
        self._parser = parser
        self._has_headers = "headers" in self._schema.names
        self._has_batch = "batchOffset" in self._schema.names
        # The same in every row: made once, and sliced.
        self._topic = pa.repeat(pa.scalar(partition.topic, pa.string()), ROWS_MAX)
        self._number = pa.repeat(pa.scalar(partition.partition, pa.int32()), ROWS_MAX)
        self._types = {
            kind: pa.repeat(pa.scalar(kind, pa.int32()), ROWS_MAX)
            for kind in (_CREATE_TIME, _APPEND_TIME)
        }

    @property
    def needs_producer_times(self) -> bool:
        """Whether columns must have the producer's times where the broker stamped its own."""
        return self._has_batch

    def record_batches(self, columns: Columns) -> Iterator[pa.RecordBatch]:
        """The rows, at most ROWS_MAX at a time."""
        count = columns.record_count
        if count == 0:
            return
        arrays = self._arrays(columns)
        whole = pa.RecordBatch.from_arrays(
            [arrays[name] for name in self._schema.names], schema=self._schema
        )
        if count <= ROWS_MAX:
            yield whole
            return
        for first in range(0, count, ROWS_MAX):
            yield whole.slice(first, ROWS_MAX)

    def _arrays(self, columns: Columns) -> dict[str, pa.Array]:
        count = columns.record_count
        arrays = {
            "key": _binary(columns.keys, count, pa.binary()),
            "topic": self._constant(self._topic, count),
            "partition": self._constant(self._number, count),
            "offset": pa.Array.from_buffers(
                pa.int64(), count, [None, pa.py_buffer(columns.offsets)]
            ),
            "timestampType": self._timestamp_types(columns),
        }
        values = _binary(columns.values, count, pa.binary())
        if self._parser is None:
            arrays["value"] = values
        else:
            typed, arrays[CORRUPT] = self._parser.parse(values)
            arrays |= zip(self._parser.schema.fieldNames(), typed, strict=True)
        if self._has_headers:
            assert columns.headers is not None
            arrays["headers"] = _header_lists(
                columns.headers, count, self._schema.field("headers").type
            )
        times = _times(columns)
        if self._has_batch:
            arrays |= _batch_columns(columns.batches, arrays["offset"])
            arrays["createTime"] = times
            # The columns have the producers' times: the broker's come first, as without them.
            times = pc.coalesce(arrays["appendTime"], times)
        arrays["timestamp"] = times
        return arrays

    def _timestamp_types(self, columns: Columns) -> pa.Array:
        kinds = [
            _APPEND_TIME if batch.header.is_append_time else _CREATE_TIME
            for batch in columns.batches
        ]
        if len(set(kinds)) == 1:
            return self._constant(self._types[kinds[0]], columns.record_count)
        return _spread(_run_ends(columns.batches), kinds, pa.int32())

    @staticmethod
    def _constant(column: pa.Array, count: int) -> pa.Array:
        if count <= len(column):
            return column.slice(0, count)
        return pa.repeat(column[0], count)


def _binary(column: BinaryColumn, count: int, kind: pa.DataType) -> pa.Array:
    validity = None if column.validity is None else pa.py_buffer(column.validity)
    offsets, data = pa.py_buffer(column.offsets), pa.py_buffer(column.data)
    return pa.Array.from_buffers(kind, count, [validity, offsets, data])


def _header_lists(headers: HeaderColumns, count: int, kind: pa.DataType) -> pa.Array:
    """A list of headers for each row; null for a row without, as in Spark's Kafka source."""
    total = len(headers.offsets) - 1 and headers.offsets[-1]
    pairs = pa.StructArray.from_arrays(
        [
            _binary(headers.keys, total, pa.string()),
            _binary(headers.values, total, pa.binary()),
        ],
        fields=list(kind.value_type),
    )
    offsets = pa.Array.from_buffers(pa.int32(), count + 1, [None, pa.py_buffer(headers.offsets)])
    # A boolean array's values are a bit for each row: they serve as the validity of the lists.
    has_some = pc.not_equal(offsets.slice(1), offsets.slice(0, count)).buffers()[1]
    return pa.Array.from_buffers(
        kind, count, [has_some, pa.py_buffer(headers.offsets)], children=[pairs]
    )


def _times(columns: Columns) -> pa.Array:
    """Milliseconds as Spark's microseconds. What is beyond their range is the last moment of it."""
    count = columns.record_count
    buffers = [None, pa.py_buffer(columns.timestamps_ms)]
    times = pa.Array.from_buffers(_TIME_MS, count, buffers)
    try:
        return times.cast(_TIME_US)
    except pa.ArrowInvalid:
        numbers = pa.Array.from_buffers(pa.int64(), count, buffers)
        within = pc.max_element_wise(pc.min_element_wise(numbers, _TIME_MS_MAX), -_TIME_MS_MAX)
        return within.cast(_TIME_MS).cast(_TIME_US)


def _run_ends(batches: Sequence[BatchRows]) -> pa.Array:
    """For each batch the row after its last."""
    return pa.array(accumulate(batch.rows for batch in batches), pa.int32())


def _spread(ends: pa.Array, values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """A value for each batch as a value for each row."""
    runs = pa.RunEndEncodedArray.from_arrays(ends, pa.array(values, kind))
    return pc.run_end_decode(runs)


def _batch_columns(batches: Sequence[BatchRows], offsets: pa.Array) -> dict[str, pa.Array]:
    """What each row's batch says of itself."""
    headers = [batch.header for batch in batches]
    ends = _run_ends(batches)

    def spread(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
        return _spread(ends, values, kind)

    batch_offsets = spread([header.base_offset for header in headers], pa.int64())
    first_sequences = spread([header.base_sequence for header in headers], pa.int64())
    # 0 comes after the largest sequence, as in Kafka.
    sequences = pc.bit_wise_and(
        pc.add(pc.subtract(offsets, batch_offsets), first_sequences), _SEQUENCE_MASK
    )
    sequences = pc.if_else(pc.less(first_sequences, 0), pa.scalar(-1, pa.int64()), sequences)
    append_times = [
        min(header.max_timestamp_ms, _TIME_MS_MAX) * 1000 if header.is_append_time else None
        for header in headers
    ]
    return {
        "batchOffset": batch_offsets,
        "batchRecords": spread([header.record_count for header in headers], pa.int32()),
        "batchBytes": spread([header.length for header in headers], pa.int32()),
        "codec": spread([_CODECS[header.codec] for header in headers], pa.string()),
        "producerId": spread([header.producer_id for header in headers], pa.int64()),
        "producerEpoch": spread([header.producer_epoch for header in headers], pa.int32()),
        "sequence": sequences.cast(pa.int32()),
        "appendTime": spread(append_times, _TIME_US),
    }
