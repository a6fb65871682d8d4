"""Writes an inspection into a folder: `report.html`, and a folder of Parquet for each table.

Not what the page looks like (`report.page`). By Arrow on the driver: the tables are small, and the
folder is on the machine of whoever asked, also where Spark runs elsewhere. What an earlier
inspection wrote there is replaced, other files are left alone.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict, fields
from tempfile import TemporaryFile
from typing import Any, Final, get_type_hints

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.model.errors import InvalidRequest
from penstock.spark.inspection.evidence.tables import ROW_CLASSES, Tables
from penstock.spark.inspection.finding import Example, Finding
from penstock.spark.inspection.options import InspectOptions
from penstock.spark.inspection.report.page import render

REPORT: Final = "report.html"
_ARROW: Final = {
    int: pa.int64(),
    float: pa.float64(),
    str: pa.string(),
    bytes: pa.binary(),
    bool: pa.bool_(),
}
_EXAMPLE: Final = pa.struct(
    [("partition", pa.int64()), ("offset", pa.int64()), ("text", pa.string())]
)


def prepare_folder(folder: str) -> None:
    """Make the folder, and see that something can be written there: before an inspection, which
    takes its time, and not after."""
    try:
        os.makedirs(folder, exist_ok=True)
        with TemporaryFile(dir=folder):
            return
    except OSError as error:
        raise _unwritable(folder, error) from None


def write_files(
    folder: str,
    options: InspectOptions,
    findings: Sequence[Finding],
    tables: Tables,
    *,
    at_ms: int,
    took_ms: int,
) -> str:
    """Write everything; the path of the report."""
    path = os.path.join(folder, REPORT)
    page = render(options, findings, tables, at_ms=at_ms, took_ms=took_ms)
    try:
        os.makedirs(folder, exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(page)
        for name, kind in ROW_CLASSES.items():
            rows = [asdict(row) for row in getattr(tables, name)]
            _write(folder, name, pa.Table.from_pylist(rows, _schema(kind)))
        _write(folder, "findings", _findings_table(findings))
    except OSError as error:
        raise _unwritable(folder, error) from None
    return path


def _unwritable(folder: str, error: OSError) -> InvalidRequest:
    return InvalidRequest(f"The report cannot be written to {folder}: {error.strerror or error}.")


def _write(folder: str, name: str, table: pa.Table) -> None:
    """A folder, as Spark writes tables, so that both are read the same way."""
    place = os.path.join(folder, f"{name}.parquet")
    os.makedirs(place, exist_ok=True)
    pq.write_table(table, os.path.join(place, "part-0.parquet"))


def _schema(kind: type[Any]) -> pa.Schema:
    hints = get_type_hints(kind)
    return pa.schema([(field.name, _arrow_type(hints[field.name])) for field in fields(kind)])


def _arrow_type(hint: Any) -> pa.DataType:
    if hint in _ARROW:
        return _ARROW[hint]
    # `int | None`: every column may be null in Arrow.
    (inner,) = (each for each in hint.__args__ if each is not type(None))
    return _ARROW[inner]


def _findings_table(findings: Sequence[Finding]) -> pa.Table:
    names = [field.name for field in fields(Finding)]
    assert {field.name for field in fields(Example)} == {"partition", "offset", "text"}
    types = {"count": pa.int64(), "examples": pa.list_(_EXAMPLE)}
    schema = pa.schema([(name, types.get(name, pa.string())) for name in names])
    return pa.Table.from_pylist([asdict(finding) for finding in findings], schema)
