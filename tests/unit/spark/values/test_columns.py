"""Whole columns of text: what Arrow casts, and what it must not."""

from __future__ import annotations

import pyarrow as pa
import pytest

from penstock.spark.values.blocks import Unfit
from penstock.spark.values.columns import cast_text, has_maps, readable, restore

UTC = pa.timestamp("us", tz="UTC")


def cast(kind: pa.DataType, *texts: str | None) -> list[object]:
    column = cast_text(pa.array(texts, pa.string()), kind)
    assert column.type == kind
    return list(column.to_pylist())


def test_what_fits() -> None:
    assert cast(pa.int8(), "1", None, "-5") == [1, None, -5]
    assert cast(pa.bool_(), "true", "FALSE", None) == [True, False, None]
    assert cast(pa.float64(), "1.5", None) == [1.5, None]
    assert cast(pa.string(), "x", None) == ["x", None]
    assert cast(UTC, None, None) == [None, None]
    naive = cast(UTC, "2020-01-01 00:00:00", "2020-01-01")
    assert naive == cast(UTC, "2020-01-01T00:00:00Z", "2020-01-01T01:00+01:00")


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (pa.int64(), "0x1F"),
        (pa.int64(), "0X1F"),
        (pa.int8(), "128"),
        (pa.bool_(), "1"),
        (pa.float64(), "nan"),
        (pa.float32(), "1e39"),
        (pa.decimal128(5, 2), "1.234"),
        (pa.decimal128(5, 2), "1000"),
        (pa.date32(), "2020-01-01T00:00"),
        (UTC, "yesterday"),
    ],
)
def test_what_does_not_fit(kind: pa.DataType, text: str) -> None:
    with pytest.raises((pa.ArrowInvalid, ValueError)):
        cast(kind, text)
    with pytest.raises((pa.ArrowInvalid, ValueError)):
        cast(kind, None, text)


def test_dates_and_binaries_are_read_as_text_at_any_depth() -> None:
    kind = pa.list_(pa.field("element", pa.struct([("d", pa.date32()), ("b", pa.binary())])))
    text = pa.list_(pa.field("element", pa.struct([("d", pa.string()), ("b", pa.string())])))
    assert readable(kind) == text
    rows = [[{"d": "1970-01-02", "b": "YQ=="}, None, {"d": None, "b": None}], None, []]
    restored = restore(pa.array(rows, text), kind)
    restored.validate(full=True)
    assert restored.type == kind
    first = restored.to_pylist()[0]
    assert (first[0]["d"].isoformat(), first[0]["b"]) == ("1970-01-02", b"a")
    assert first[1:] == [None, {"d": None, "b": None}]
    assert restored.to_pylist()[1:] == [None, []]
    with pytest.raises(ValueError, match=r"multiple of 4|padding"):
        restore(pa.array([[{"d": None, "b": "YQ"}]], text), kind)


def test_numbers_that_are_none_are_found_at_any_depth() -> None:
    kind = pa.list_(pa.field("element", pa.float32()))
    assert restore(pa.array([[1.5, None]], kind), kind).to_pylist() == [[1.5, None]]
    with pytest.raises(Unfit):
        restore(pa.array([[1.5, float("inf")]], kind), kind)


def test_maps_are_found_at_any_depth() -> None:
    a_map = pa.map_(pa.string(), pa.int32())
    assert has_maps(pa.list_(pa.struct([("a", a_map)])))
    assert not has_maps(pa.list_(pa.struct([("a", pa.int32())])))
