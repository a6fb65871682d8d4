"""The folder of a report: a page for people, Parquet for machines."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from penstock.model.errors import InvalidRequest
from penstock.spark.inspection import InspectOptions
from penstock.spark.inspection.evidence.tables import ROW_CLASSES, Tables
from penstock.spark.inspection.report.files import write_files
from tests.unit.spark.inspection.report.test_page import FINDING, full_tables

OPTIONS = InspectOptions(topics=("orders",), path="data")


def test_every_table_is_written_also_empty_ones(tmp_path: Path) -> None:
    """R-SPK-3: the inspection as tables."""
    folder = tmp_path / "deep" / "out"
    report = write_files(str(folder), OPTIONS, [FINDING], full_tables(), at_ms=0, took_ms=0)
    assert Path(report).read_text().startswith("<!doctype html>")
    for name, kind in ROW_CLASSES.items():
        table = pq.read_table(folder / f"{name}.parquet")
        assert table.column_names == [field.name for field in fields(kind)]
        assert table.num_rows == len(getattr(full_tables(), name))
    (finding,) = pq.read_table(folder / "findings.parquet").to_pylist()
    assert (finding["severity"], finding["kind"]) == ("critical", "hole")
    assert finding["examples"][0]["offset"] == 113


def test_a_second_report_replaces_the_first(tmp_path: Path) -> None:
    for tables in (full_tables(), Tables()):
        write_files(str(tmp_path), OPTIONS, [], tables, at_ms=0, took_ms=0)
    assert pq.read_table(tmp_path / "keys.parquet").num_rows == 0


def test_a_folder_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("a file")
    with pytest.raises(InvalidRequest, match="cannot be written to"):
        write_files(str(tmp_path / "out"), OPTIONS, [], Tables(), at_ms=0, took_ms=0)


def test_all_tables_have_their_class() -> None:
    assert [field.name for field in fields(Tables)] == list(ROW_CLASSES)
