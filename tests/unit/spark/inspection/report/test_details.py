"""The folded tables of the report."""

from __future__ import annotations

from penstock.spark.inspection.evidence.tables import RemovalRow, Tables
from penstock.spark.inspection.report.details import details_section
from tests.kit.spark.healthy_topic import key_row, partition_row
from tests.unit.spark.inspection.report.test_html import Seen


def test_cells_are_written_for_people() -> None:
    removal = RemovalRow(
        topic="orders",
        partition=0,
        first_offset=0,
        end_offset=1_234,
        cause="retention_time",
        at_ms=1_790_000_000_000,
        detail="retention_ms is 60000",
    )
    texts = Seen(
        details_section(
            Tables(partitions=(partition_row(3, 0),), keys=(key_row(b"a", 5),), removals=(removal,))
        )
    ).texts
    for text in ("39.1 KiB", "0.5 %", "1,234", "2026-09-21 14:13:20", "retention_ms is 60000", "-"):
        assert text in texts


def test_empty_tables_are_left_out() -> None:
    assert "<details" not in details_section(Tables())
