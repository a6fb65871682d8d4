"""records.column_encoder: batches of columns are the batches that a builder makes of their rows."""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from penstock.model.errors import InvalidRequest
from penstock.records import (
    BatchBuilder,
    BinaryColumn,
    Codec,
    EncodedBatch,
    HeaderColumns,
    OutgoingColumns,
    decode_messages,
    murmur2,
)
from penstock.records.header import check_produced
from tests.kit.records.column_rows import binary_column, outgoing
from tests.kit.records.implementations import Implementation
from tests.kit.records.oracles import Record
from tests.unit.records.test_builder import RECORDS

NOW_MS = 1_700_000_000_000
MANY: list[Record] = [
    (NOW_MS + n % 7, b"key %d" % n if n % 3 else None, bytes(n % 50), (("n", b"%d" % n),) * (n % 3))
    for n in range(300)
]


def encode(
    implementation: Implementation,
    columns: OutgoingColumns,
    partitions: Sequence[int] | None = None,
    codec: int = Codec.NONE,
    batch_bytes: int = 1 << 20,
) -> list[EncodedBatch]:
    numbers = array("i", partitions or bytes(4 * columns.row_count))
    batches: list[EncodedBatch] = implementation.column_writing.encode_columns(
        columns, numbers, codec=codec, batch_bytes=batch_bytes, now_ms=NOW_MS
    )
    return batches


def built(
    records: Sequence[Record], partitions: Sequence[int], codec: int, batch_bytes: int
) -> dict[int, list[bytes]]:
    """The batches of each partition that a builder makes of the records, one by one."""
    batches: dict[int, list[bytes]] = defaultdict(list)
    builders: dict[int, BatchBuilder] = {}
    for record, partition in zip(records, partitions, strict=True):
        builder = builders.setdefault(partition, BatchBuilder(batch_bytes, codec))
        if builder.append(*record) < 0:
            batches[partition].append(bytes(builder.build()))
            builders[partition] = builder = BatchBuilder(batch_bytes, codec)
            builder.append(*record)
    for partition, builder in builders.items():
        batches[partition].append(bytes(builder.build()))
    return batches


def by_partition(batches: Sequence[EncodedBatch]) -> dict[int, list[bytes]]:
    found: dict[int, list[bytes]] = defaultdict(list)
    for batch in batches:
        assert check_produced(memoryview(batch.data)).record_count == batch.record_count
        found[batch.partition].append(bytes(batch.data))
    return found


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("batch_bytes", [100, 1000, 1 << 20])
def test_the_same_bytes_as_a_builder_makes(
    codec: Codec, batch_bytes: int, implementation: Implementation
) -> None:
    partitions = [n * n % 5 for n in range(len(MANY))]
    batches = encode(implementation, outgoing(MANY), partitions, codec, batch_bytes)
    assert by_partition(batches) == built(MANY, partitions, codec, batch_bytes)


def test_everything_a_record_can_have(implementation: Implementation) -> None:
    (batch,) = encode(implementation, outgoing(RECORDS))
    messages = decode_messages(batch.data, "t", 0, 0)
    assert [(m.timestamp_ms, m.key, m.value, m.headers) for m in messages] == RECORDS


@pytest.mark.parametrize("skipped_bits", [0, 1, 7, 8, 13])
def test_slices_of_arrow_arrays(skipped_bits: int, implementation: Implementation) -> None:
    """Offsets need not begin at 0, nor validity at a whole byte."""
    columns = outgoing(RECORDS, skipped_bits=skipped_bits)
    (batch,) = encode(implementation, columns)
    assert [batch.data] == [bytearray(b) for b in built(RECORDS, [0] * len(RECORDS), 0, 1 << 20)[0]]


def test_any_buffer_will_do(implementation: Implementation) -> None:
    column = binary_column([b"one", None, b"three"])
    assert column.validity is not None
    wraps: list[Any] = [bytes, bytearray, memoryview, lambda data: array("b", data)]
    for wrap in wraps:
        same = BinaryColumn(
            offsets=memoryview(bytes(column.offsets)),
            data=wrap(column.data),
            validity=wrap(column.validity),
        )
        columns = OutgoingColumns(row_count=3, values=same)
        (batch,) = encode(implementation, columns)
        values = [message.value for message in decode_messages(batch.data, "t", 0, 0)]
        assert values == [b"one", None, b"three"]


def test_columns_that_are_not_there(implementation: Implementation) -> None:
    (batch,) = encode(implementation, OutgoingColumns(row_count=2))
    messages = decode_messages(batch.data, "t", 0, 0)
    expected = (NOW_MS, None, None, ())
    assert [(m.timestamp_ms, m.key, m.value, m.headers) for m in messages] == [expected] * 2
    assert encode(implementation, OutgoingColumns(row_count=0)) == []


def test_rows_whose_headers_are_null(implementation: Implementation) -> None:
    """Arrow may leave anything in the place of a null list."""
    headers = HeaderColumns(
        offsets=array("i", [0, 1, 2, 2]),
        keys=binary_column([b"a", b"b"]),
        values=binary_column([b"1", None]),
        validity=b"\x0c",
        validity_offset=1,
    )
    (batch,) = encode(implementation, OutgoingColumns(row_count=3, headers=headers))
    assert [m.headers for m in decode_messages(batch.data, "t", 0, 0)] == [(), (("b", None),), ()]


def test_no_row_has_a_header(implementation: Implementation) -> None:
    """Arrow's arrays of no element may have buffers of no bytes."""
    nothing = BinaryColumn(offsets=array("i"), data=b"", validity=None)
    headers = HeaderColumns(offsets=array("i", [0, 0]), keys=nothing, values=nothing)
    (batch,) = encode(implementation, OutgoingColumns(row_count=1, headers=headers))
    assert decode_messages(batch.data, "t", 0, 0)[0].headers == ()


def test_a_large_row_travels_alone(implementation: Implementation) -> None:
    values = binary_column([b"small", bytes(5000), b"small"])
    batches = encode(implementation, OutgoingColumns(row_count=3, values=values), None, 0, 1000)
    assert [batch.record_count for batch in batches] == [1, 1, 1]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (OutgoingColumns(row_count=2, keys=binary_column([b"a"])), "keys has 8 bytes of offsets"),
        (
            OutgoingColumns(
                row_count=1,
                values=BinaryColumn(offsets=array("i", [0, 5]), data=b"1234", validity=None),
            ),
            "values says that row 0 is from 0 to 5 of 4",
        ),
        (
            OutgoingColumns(
                row_count=1,
                values=BinaryColumn(offsets=array("i", [-1, 3]), data=b"1234", validity=None),
            ),
            "row 0 is from -1 to 3",
        ),
        (
            OutgoingColumns(
                row_count=1,
                values=BinaryColumn(offsets=array("i", [3, 1]), data=b"1234", validity=None),
            ),
            "row 0 is from 3 to 1",
        ),
        (
            OutgoingColumns(
                row_count=2,
                values=replace(binary_column([b"a", None]), validity=b"\xff", validity_offset=7),
            ),
            "values has 1 bytes of validity for 2 rows",
        ),
        (
            OutgoingColumns(
                row_count=2,
                values=replace(binary_column([b"a", None]), validity_offset=-8),
            ),
            "values has 1 bytes of validity for 2 rows",
        ),
        (
            OutgoingColumns(
                row_count=1,
                headers=HeaderColumns(
                    offsets=array("i", [0, 2]),
                    keys=binary_column([b"a"]),
                    values=binary_column([b"a", b"b"]),
                ),
            ),
            "headers says that row 0 is from 0 to 2 of 1",
        ),
        (
            OutgoingColumns(
                row_count=1,
                headers=HeaderColumns(
                    offsets=array("i", [0, 1]),
                    keys=binary_column([b"a", b"b"]),
                    values=binary_column([b"a"]),
                ),
            ),
            "header values has 8 bytes of offsets for 2 rows",
        ),
        (
            OutgoingColumns(
                row_count=1,
                headers=HeaderColumns(
                    offsets=array("i", [0, 1]),
                    keys=binary_column([None]),
                    values=binary_column([b"a"]),
                ),
            ),
            "A header of row 0 has no name",
        ),
        (OutgoingColumns(row_count=2, timestamps_ms=array("q", [1])), "8 bytes of timestamps"),
        (OutgoingColumns(row_count=1, timestamps_ms=array("q", [-2])), "A timestamp is -2 ms"),
    ],
)
def test_columns_that_are_wrong(
    columns: OutgoingColumns, message: str, implementation: Implementation
) -> None:
    with pytest.raises(InvalidRequest, match=message):
        encode(implementation, columns)


@pytest.mark.parametrize("partition", [-1, 10_000, 2**31 - 1])
def test_partitions_that_cannot_be(partition: int, implementation: Implementation) -> None:
    with pytest.raises(InvalidRequest, match=f"Row 1 is for partition {partition}"):
        encode(implementation, OutgoingColumns(row_count=2), [0, partition])


def test_a_partition_for_each_row(implementation: Implementation) -> None:
    with pytest.raises(InvalidRequest, match="4 bytes of partitions for 2 rows: 4 each are needed"):
        encode(implementation, OutgoingColumns(row_count=2), [0])


def test_keys_go_where_kafkas_clients_send_them(implementation: Implementation) -> None:
    """R-PRO-1: and rows without a key where the caller wants them."""
    keys = [None if n % 4 == 0 else b"key %d" % n * (n % 5) for n in range(200)]
    column = binary_column(keys, padding=b"before", skipped_bits=3)
    hashed = implementation.column_writing.hash_partitions(column, len(keys), 7, 4)
    assert hashed.typecode == "i"
    assert [*hashed] == [4 if key is None else (murmur2(key) & 0x7FFFFFFF) % 7 for key in keys]
    assert [*implementation.column_writing.hash_partitions(None, 3, 7, 2)] == [2, 2, 2]
