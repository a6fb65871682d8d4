"""R-SPK-4: small files become large ones, and whoever reads meanwhile sees each row once."""

from __future__ import annotations

import errno
import logging
import os
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.spark.pipeline.tables import compaction, exchange
from penstock.spark.pipeline.tables.compaction import (
    CLOSED_FOLDER_FILES_MAX,
    OPEN_FOLDER_FILES_MAX,
    Compactor,
    DataFile,
    Merged,
    choose,
    merge_files,
)
from penstock.spark.pipeline.tables.exchange import CannotExchange
from penstock.spark.pipeline.tables.table import ParquetTable
from tests.unit.spark.pipeline.kill import KILL_PARTS, Killed, killed_at

TODAY = "2026-11-16"
BEFORE = "2026-11-15"
SCHEMA = pa.schema(
    [
        ("value", pa.binary()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", tz="UTC")),
        ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
    ],
    metadata={"org.apache.spark.sql.parquet.row.metadata": "{}"},
)


def fill(
    folder: Path, date: str, first: int, *, files: int = 3, rows: int = 4, value_bytes: int = 1
) -> None:
    place = folder / "topic=t" / f"date={date}"
    place.mkdir(parents=True, exist_ok=True)
    for number in range(files):
        start = first + number * rows
        table = pa.table(
            {
                "value": [
                    None if row % 3 == 0 else os.urandom(value_bytes)
                    for row in range(start, start + rows)
                ],
                "offset": list(range(start, start + rows)),
                "timestamp": [datetime(2026, 11, 15, tzinfo=UTC)] * rows,
                "headers": [None, [], [{"key": "k", "value": b"v"}], [{"key": "k", "value": None}]]
                * (rows // 4),
            },
            schema=SCHEMA,
        )
        pq.write_table(table, place / f"w-{start:010}.parquet")


def compact(
    table: ParquetTable, folder: str, target_bytes: int, *, is_ending: bool = True
) -> Merged:
    return Compactor(table, target_bytes).compact(folder, TODAY, is_ending=is_ending)


def rows_of(folder: Path) -> list[dict[str, object]]:
    read = ds.dataset(folder, format="parquet", partitioning="hive").to_table()
    rows: list[dict[str, object]] = read.sort_by("offset").to_pylist()
    return rows


def names(folder: Path, date: str) -> list[str]:
    return sorted(os.listdir(folder / "topic=t" / f"date={date}"))


def test_files_of_a_closed_date_are_merged_and_others_left(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    with ParquetTable(str(folder)) as table:
        fill(folder, BEFORE, 0)
        fill(folder, TODAY, 100)
        before = rows_of(folder)
        assert compact(table, "topic=t", 1_000_000) == Merged(
            folders=1, files_before=3, files_after=1
        )
        assert len(names(folder, BEFORE)) == 1
        assert len(names(folder, TODAY)) == 3
        assert rows_of(folder) == before
        assert compact(table, "topic=t", 1_000_000) == Merged()
        assert compact(table, "topic=none", 1_000_000) == Merged()
    assert [each.name for each in tmp_path.iterdir()] == ["out"]


def test_a_date_that_grows_is_merged_when_it_has_many_files(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    with ParquetTable(str(folder)) as table:
        fill(folder, TODAY, 0, files=OPEN_FOLDER_FILES_MAX)
        before = rows_of(folder)
        compact(table, "topic=t", 1_000_000)
        assert len(names(folder, TODAY)) == 1
        assert rows_of(folder) == before


def test_a_closed_date_to_which_late_rows_come_is_not_merged_at_each_of_them(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "out"
    with ParquetTable(str(folder)) as table:
        fill(folder, BEFORE, 0, files=CLOSED_FOLDER_FILES_MAX - 1)
        assert compact(table, "topic=t", 1_000_000, is_ending=False) == Merged()
        fill(folder, BEFORE, 100, files=1)
        assert compact(table, "topic=t", 1_000_000, is_ending=False).files_after == 1


def test_large_files_stay_the_same_files(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    with ParquetTable(str(folder)) as table:
        fill(folder, BEFORE, 0, files=1, value_bytes=20_000)
        large = folder / "topic=t" / f"date={BEFORE}" / "w-0000000000.parquet"
        fill(folder, BEFORE, 4)
        node, size = large.stat().st_ino, large.stat().st_size
        before = rows_of(folder)
        compact(table, "topic=t", size)
        assert len(names(folder, BEFORE)) == 2
        assert large.stat().st_ino == node
        assert rows_of(folder) == before


@pytest.mark.parametrize("part", range(KILL_PARTS))
def test_killed_at_every_step_of_a_compaction(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: int
) -> None:
    """At each of them, and after the restart, a reader finds each row exactly once."""
    steps = _compact_until(tmp_path / "whole", monkeypatch, None, is_watched=part == 0)
    assert steps > 10
    for step in range(part, steps, KILL_PARTS):
        _compact_until(tmp_path / str(step), monkeypatch, step)


def _compact_until(
    home: Path, monkeypatch: pytest.MonkeyPatch, step: int | None, *, is_watched: bool = False
) -> int:
    """Kill it there, start again, finish. How many steps it took, where nothing was killed."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)  # no power is lost here
    folder = home / "out"
    with ParquetTable(str(folder)):
        fill(folder, BEFORE, 0, files=1, value_bytes=20_000)
        fill(folder, BEFORE, 4)
        fill(folder, "2026-11-14", 100)
    expected = rows_of(folder)
    looks = 0

    def look() -> None:
        nonlocal looks
        looks += 1
        assert rows_of(folder) == expected

    table = ParquetTable(str(folder))
    # What a reader sees at each step is looked at once: in a run that is not killed.
    with killed_at(monkeypatch, step, look if is_watched else lambda: None) as killer:
        try:
            with table:
                assert compact(table, "topic=t", 30_000).folders == 2
        except Killed:
            assert step is not None
    if table._lock >= 0:
        os.close(table._lock)
    with ParquetTable(str(folder)) as table:
        look()
        compact(table, "topic=t", 30_000)
        look()
        assert len(list(folder.rglob("*.parquet"))) == 3
    assert not list(home.glob("_*"))
    return killer.count


@pytest.mark.parametrize("call", ["exchange", "link"])
def test_where_it_cannot_be_done_nothing_is_merged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, call: str
) -> None:
    """That is found before files are merged, and told once."""

    def exchange_refused(first: str, second: str) -> None:
        raise CannotExchange

    def link_refused(source: str, target: str) -> None:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    if call == "exchange":
        monkeypatch.setattr(exchange, "exchange", exchange_refused)
    else:
        monkeypatch.setattr(os, "link", link_refused)
    monkeypatch.setattr(compaction, "merge_files", None)
    folder = tmp_path / "out"
    with ParquetTable(str(folder)) as table, caplog.at_level(logging.WARNING):
        fill(folder, BEFORE, 0)
        fill(folder, "2026-11-14", 100)
        before = rows_of(folder)
        compactor = Compactor(table, 1_000_000)
        for _ in range(2):
            assert compactor.compact("topic=t", TODAY, is_ending=True) == Merged()
        assert rows_of(folder) == before
    assert [each.message[:26] for each in caplog.records] == ["Small files stay as they a"]
    assert [each.name for each in tmp_path.iterdir()] == ["out"]


def test_row_groups_are_gathered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction, "_GROUP_ROWS", 10)
    fill(tmp_path, BEFORE, 0, files=5, rows=8)
    paths = sorted(str(path) for path in tmp_path.rglob("*.parquet"))
    target = str(tmp_path / "merged")
    merge_files(paths, target)
    merged = pq.ParquetFile(target)
    assert [merged.metadata.row_group(each).num_rows for each in range(3)] == [16, 16, 8]
    assert merged.read()["offset"].to_pylist() == list(range(40))
    assert merged.schema_arrow.metadata == SCHEMA.metadata


@given(st.lists(st.integers(1, 200), max_size=60), st.integers(2, 40), st.integers(2, 150))
def test_what_is_chosen(sizes: list[int], files_min: int, target_bytes: int) -> None:
    files = [DataFile(f"{number:03}", size) for number, size in enumerate(sizes)]
    groups = choose(files, files_min=files_min, target_bytes=target_bytes)
    chosen = [each for group in groups for each in group]
    assert len(set(chosen)) == len(chosen)
    assert all(each.size_bytes < target_bytes // 2 for each in chosen)
    for group in groups:
        assert len(group) > 1
        assert sum(each.size_bytes for each in group) <= target_bytes
    small = [each for each in files if each.size_bytes < target_bytes // 2]
    if len(small) < files_min:
        assert not groups
