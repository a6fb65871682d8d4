"""From Arrow batches of Spark to the columns that a topic takes, with no object per message.

Not the encoding (`records.encode_columns`) and not the choice of a partition where none is given.
The names and types are those of Spark's Kafka sink, and `timestamp`. The invariant: buffers are
handed on where they lie, with the slices that they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import calcsize
from typing import Final, Literal, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from penstock.model.errors import InvalidRequest
from penstock.records import BinaryColumn, HeaderColumns, OutgoingColumns

HEADERS_TYPE: Final = ArrayType(
    StructType([StructField("key", StringType()), StructField("value", BinaryType())])
)

_TYPES: Final[dict[str, tuple[DataType, ...]]] = {
    "key": (BinaryType(), StringType()),
    "value": (BinaryType(), StringType()),
    "headers": (HEADERS_TYPE,),
    "topic": (StringType(),),
    "partition": (IntegerType(),),
    "timestamp": (TimestampType(),),
}


class TopicRows(NamedTuple):
    """Rows of one topic, in the order they came."""

    topic: str
    columns: OutgoingColumns
    partitions: pa.Array | None
    """int32, null where the key decides; None where it decides for every row."""


def check_columns(schema: StructType, topic: str | None) -> None:
    """Raise InvalidRequest unless rows of this schema can be written.

    topic: the option's, which takes the place of the column.
    """
    for field in schema.fields:
        _check_column(field)
    names = schema.fieldNames()
    if len(set(names)) < len(names):
        raise InvalidRequest("A column is there twice: select each under a name of its own.")
    if "value" not in names:
        raise InvalidRequest(
            "There is no column `value`: select what the messages hold under that name, "
            "as to_json(struct(*)) AS value."
        )
    if topic is None and "topic" not in names:
        raise InvalidRequest(
            "There is no topic to write to: set the option `topic`, or add a column `topic`."
        )


def rows_by_topic(batch: pa.RecordBatch, topic: str | None, now_ms: int) -> Iterator[TopicRows]:
    """The batch's rows as the columns of each topic they go to.

    now_ms: the time of rows that have none of their own.
    """
    if batch.num_rows == 0:
        return
    if topic is not None:
        yield _topic_rows(topic, batch, now_ms)
        return
    topics = batch.column("topic")
    if topics.null_count:
        raise InvalidRequest(
            f"{topics.null_count} of {batch.num_rows} rows have no topic (the column `topic` is "
            f"null): fill it, or set the option `topic`."
        )
    encoded = topics.dictionary_encode()
    names = encoded.dictionary.to_pylist()
    if len(names) == 1:
        yield _topic_rows(names[0], batch, now_ms)
        return
    for number, name in enumerate(names):
        yield _topic_rows(name, batch.filter(pc.equal(encoded.indices, number)), now_ms)


def _check_column(field: StructField) -> None:
    wanted = _TYPES.get(field.name)
    if wanted is None:
        raise InvalidRequest(
            f"Column `{field.name}` cannot be written: a message has {', '.join(_TYPES)}; select "
            f"those, and put the rest into `value`, as to_json(struct(…)) AS value."
        )
    if not any(_same_type(field.dataType, one) for one in wanted):
        names = " or ".join(one.simpleString() for one in wanted)
        raise InvalidRequest(
            f"Column `{field.name}` is {field.dataType.simpleString()}: it must be {names}; "
            f"cast it."
        )


def _same_type(given: DataType, wanted: DataType) -> bool:
    """Equal, whatever either says of nulls."""
    if isinstance(wanted, ArrayType):
        return isinstance(given, ArrayType) and _same_type(given.elementType, wanted.elementType)
    if isinstance(wanted, StructType):
        return (
            isinstance(given, StructType)
            and given.fieldNames() == wanted.fieldNames()
            and all(map(_same_type, (f.dataType for f in given), (f.dataType for f in wanted)))
        )
    return isinstance(given, type(wanted))


def _topic_rows(topic: str, batch: pa.RecordBatch, now_ms: int) -> TopicRows:
    columns = dict(zip(batch.schema.names, batch.columns, strict=True))
    partitions = columns.get("partition")
    outgoing = OutgoingColumns(
        row_count=batch.num_rows,
        keys=_binary_column(columns["key"]) if "key" in columns else None,
        values=_binary_column(columns["value"]),
        headers=_header_columns(columns["headers"]) if "headers" in columns else None,
        timestamps_ms=_timestamps_ms(columns.get("timestamp"), now_ms),
    )
    if partitions is not None and partitions.null_count == batch.num_rows:
        partitions = None
    return TopicRows(topic, outgoing, partitions)


def _binary_column(array: pa.Array) -> BinaryColumn:
    if array.type not in (pa.binary(), pa.string()):
        array = array.cast(pa.binary())  # Spark may be set to send its large types
    validity, offsets, data = array.buffers()
    return BinaryColumn(
        # An array of no rows may have no buffers at all.
        offsets=_slice(offsets or bytes(4), "i", array.offset, len(array) + 1),
        data=memoryview(data or b""),
        validity=validity,
        validity_offset=array.offset,
    )


def _header_columns(array: pa.Array) -> HeaderColumns:
    headers = array.values
    if headers.null_count and array.flatten().null_count:
        raise InvalidRequest("A row has a header that is null: leave it out of `headers`.")
    validity, offsets = array.buffers()[:2]
    return HeaderColumns(
        offsets=_slice(offsets, "i", array.offset, len(array) + 1),
        keys=_binary_column(headers.field("key")),
        values=_binary_column(headers.field("value")),
        validity=validity,
        validity_offset=array.offset,
    )


def _timestamps_ms(array: pa.Array | None, now_ms: int) -> memoryview | None:
    """int64; None where no row has a time of its own."""
    if array is None or array.null_count == len(array):
        return None
    # Spark counts microseconds, a record milliseconds. The rest is cut off, towards the past also
    # before 1970, where Arrow's division cuts towards the present.
    microseconds = array.cast(pa.int64())
    moments = pc.divide(microseconds, 1000)
    is_rounded_up = pc.less(microseconds, pc.multiply(moments, 1000))
    moments = pc.subtract(moments, is_rounded_up.cast(pa.int64()))
    if moments.null_count:
        moments = moments.fill_null(now_ms)
    return number_view(moments, "q")


def number_view(array: pa.Array, kind: Literal["i", "q"]) -> memoryview:
    """The numbers of an array without nulls: int32 ("i") or int64 ("q")."""
    assert array.null_count == 0, array.null_count
    return _slice(array.buffers()[1], kind, array.offset, len(array))


def _slice(buffer: object, kind: Literal["i", "q"], first: int, count: int) -> memoryview:
    # Arrow's own view is of signed bytes, which cast to nothing else.
    view = memoryview(buffer).cast("B")  # type: ignore[arg-type]
    width = calcsize(kind)
    return view[first * width : (first + count) * width].cast(kind)
