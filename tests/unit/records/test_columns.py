"""records.columns: the same records as messages have, in Arrow's layout."""

from __future__ import annotations

import pytest

from penstock.model.errors import BatchTooLarge
from penstock.records import BinaryColumn, build_batch, columns
from tests.unit.records.implementations import Implementation
from tests.unit.records.oracles import aiokafka_build
from tests.unit.records.test_builder import RECORDS


def values_of(column: BinaryColumn) -> list[bytes | None]:
    """What Arrow would read in the column."""
    rows = len(column.offsets) - 1
    assert len(column.validity) == (rows + 7) // 8
    assert column.offsets[rows] == len(column.data)
    assert column.offsets.typecode == "i"
    return [
        bytes(column.data[column.offsets[row] : column.offsets[row + 1]])
        if column.validity[row // 8] >> row % 8 & 1
        else None
        for row in range(rows)
    ]


@pytest.mark.parametrize("codec", range(5))
def test_columns_hold_the_records(codec: int, implementation: Implementation) -> None:
    payload = aiokafka_build(RECORDS, codec) * 2
    columns = implementation.reading.decode_columns(payload, 0, True)
    both = RECORDS * 2
    assert columns.record_count == len(both)
    assert [*columns.offsets] == [*range(len(RECORDS))] * 2
    assert columns.offsets.typecode == columns.timestamps_ms.typecode == "q"
    assert [*columns.timestamps_ms] == [timestamp_ms for timestamp_ms, *_ in both]
    assert values_of(columns.keys) == [key for _, key, _, _ in both]
    assert values_of(columns.values) == [value for _, _, value, _ in both]
    names = [name for name, _ in (pair for *_, headers in both for pair in headers)]
    assert values_of(columns.headers.keys) == [name.encode() for name in names]
    pairs = [value for *_, headers in both for _, value in headers]
    assert values_of(columns.headers.values) == pairs
    starts = columns.headers.offsets
    counts = [starts[row + 1] - starts[row] for row in range(len(both))]
    assert counts == [len(headers) for *_, headers in both]


def test_headers_only_where_asked_for(implementation: Implementation) -> None:
    assert implementation.reading.decode_columns(aiokafka_build(RECORDS), 0).headers is None


def test_from_an_offset(implementation: Implementation) -> None:
    payload = build_batch([(b"%d" % n, None) for n in range(20)], base_offset=100)
    columns = implementation.reading.decode_columns(payload, 113)
    assert [*columns.offsets] == [*range(113, 120)]
    assert values_of(columns.keys) == [b"%d" % n for n in range(13, 20)]
    assert values_of(columns.values) == [None] * 7
    assert implementation.reading.decode_columns(payload, 120).record_count == 0


def test_nothing_gives_empty_columns(implementation: Implementation) -> None:
    columns = implementation.reading.decode_columns(b"", 0, include_headers=True)
    assert (columns.record_count, len(columns.offsets), len(columns.keys.offsets)) == (0, 0, 1)
    assert [*columns.headers.offsets] == [0]


def test_more_than_int32_offsets_can_hold_is_refused(
    implementation: Implementation, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = bytes(build_batch([(None, bytes(100))]))
    monkeypatch.setattr(columns, "COLUMN_BYTES_MAX", 200)
    assert implementation.reading.decode_columns(batch, 0).record_count == 1
    with pytest.raises(BatchTooLarge, match="decode fewer of them at a time"):
        implementation.reading.decode_columns(batch * 2, 0)
