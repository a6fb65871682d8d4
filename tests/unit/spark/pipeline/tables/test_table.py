"""R-SPK-4: a folder of Parquet in which every reader finds each row once, whatever was killed."""

from __future__ import annotations

import errno
import json
import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from penstock.model.errors import Busy, InvalidConfig, StorageFailed
from penstock.spark.pipeline.tables.table import ParquetTable
from tests.unit.spark.pipeline.kill import KILL_PARTS, Killed, killed_at


def writing(*rows: int, parts: int = 2) -> Callable[[str], int]:
    """What Spark does in a batch: files in partition folders, and some that are no data."""

    def write(folder: str) -> int:
        for part in range(parts):
            place = Path(folder) / f"part={part}"
            place.mkdir(parents=True)
            mine = pa.table({"row": pa.array(rows[part::parts], pa.int64())})
            pq.write_table(mine, place / "part-00000-x.snappy.parquet")
            (place / ".part-00000-x.snappy.parquet.crc").write_bytes(b"crc")
        (Path(folder) / "_SUCCESS").touch()
        return len(rows)

    return write


def rows_of(folder: Path) -> list[int]:
    """As a reader that knows nothing of us."""
    if not found_by_pattern(folder):
        return []  # such a dataset has no columns
    rows: list[int] = (
        ds.dataset(folder, format="parquet", partitioning="hive").to_table()["row"].to_pylist()
    )
    return sorted(rows)


def found_by_pattern(folder: Path) -> list[Path]:
    """What `**/*.parquet` finds, as DuckDB is asked: it skips no names."""
    return list(folder.rglob("*.parquet"))


def test_batches_are_added_once(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    with ParquetTable(str(folder)) as table:
        assert table.is_empty()
        assert table.last_batch("query") is None
        assert table.commit("query", 0, writing(1, 2, 3))
        assert not table.commit("query", 0, writing(1, 2, 3))
        assert table.commit("query", 1, writing(4))
        assert table.commit("another", 0, writing(5, 6))
        assert rows_of(folder) == [1, 2, 3, 4, 5, 6]
    with ParquetTable(str(folder)) as table:
        assert table.last_batch("query") == 1
        assert not table.commit("query", 1, writing(4))
        assert not table.is_empty()
    assert len(found_by_pattern(folder)) == 5, "a file without rows is none"
    assert [each.name for each in tmp_path.iterdir()] == ["out"], "nothing is left beside it"


def test_a_batch_without_rows_is_remembered(tmp_path: Path) -> None:
    with ParquetTable(str(tmp_path / "out")) as table:
        assert table.commit("query", 0, lambda folder: 0)
        assert table.last_batch("query") == 0
        assert table.is_empty()


def test_a_batch_may_replace_what_is_there(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    journals = folder / "_penstock" / "writers"
    with ParquetTable(str(folder)) as table:
        table.add(writing(1, 2, 3, parts=3))
        table.add(writing(4, 5), is_replacing=True)
        assert rows_of(folder) == [4, 5]
        assert not (folder / "part=2").exists(), "a folder without files goes"
        assert not list(journals.iterdir()), "of what is done and does not come back nothing stays"
        table.add(lambda staged: 0, is_replacing=True)
        assert rows_of(folder) == []


def test_a_batch_without_rows_leaves_its_columns(tmp_path: Path) -> None:
    """In one file, and only where there is no other: else the folder could not be read."""
    folder = tmp_path / "out"
    with ParquetTable(str(folder)) as table:
        for _ in range(2):
            table.add(writing())
            (file,) = found_by_pattern(folder)
        assert pq.read_schema(file).names == ["row"]
        table.add(writing(1), is_replacing=True)
        table.add(writing())
        assert len(found_by_pattern(folder)) == 1
        assert rows_of(folder) == [1]
        table.add(writing(), is_replacing=True)
        assert len(found_by_pattern(folder)) == 1
        assert rows_of(folder) == []


def test_what_was_done_once_is_not_done_again(tmp_path: Path) -> None:
    """A file that went and that somebody put back stays."""
    folder = tmp_path / "out"
    with ParquetTable(str(folder)) as table:
        table.commit("query", 0, writing(1, parts=1))
    (file,) = found_by_pattern(folder)
    journal = folder / "_penstock" / "writers" / "query.json"
    kept = {**json.loads(journal.read_text()), "remove": [str(file.relative_to(folder))]}
    journal.write_text(json.dumps(kept))
    with ParquetTable(str(folder)) as table:
        assert table.last_batch("query") == 0
    assert rows_of(folder) == [1]


def test_rows_that_lie_on_another_machine_are_told(tmp_path: Path) -> None:
    """Executors wrote them to their own file systems: the driver must not take that for nothing."""
    folder = tmp_path / "out"
    write = writing(1, 2, 3)
    with ParquetTable(str(folder)) as table:
        with pytest.raises(
            InvalidConfig, match=r"7 rows were written and 3 of them are in .*share"
        ):
            table.commit("query", 0, lambda staged: write(staged) + 4)
        with pytest.raises(InvalidConfig, match="7 rows were written and 0 of them"):
            table.commit("query", 0, lambda staged: 7)
        assert table.last_batch("query") is None
    assert rows_of(folder) == []


def test_a_write_that_fails_leaves_nothing(tmp_path: Path) -> None:
    def fail(folder: str) -> int:
        writing(1, 2)(folder)
        raise ValueError("no")

    folder = tmp_path / "out"
    with ParquetTable(str(folder)) as table:
        with pytest.raises(ValueError, match="no"):
            table.commit("query", 0, fail)
        assert table.commit("query", 0, writing(1, 2))
    assert rows_of(folder) == [1, 2]
    with ParquetTable(str(folder)):
        assert [each.name for each in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize("part", range(KILL_PARTS))
def test_killed_at_every_step_of_a_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: int
) -> None:
    """After a restart and the same batch again, whose rows may be cut into files otherwise."""

    def change(table: ParquetTable) -> None:
        table.commit("query", 1, writing(4, 5, 6, 7))

    def look(folder: Path) -> None:
        counted = Counter(rows_of(folder))
        assert {1, 2, 3} <= counted.keys() <= {1, 2, 3, 4, 5, 6, 7}
        assert set(counted.values()) == {1}, "a row twice"
        assert len(found_by_pattern(folder)) <= 4, "staged files are not found"

    steps = _kill_at(tmp_path / "whole", monkeypatch, None, change, look)
    assert steps > 10
    for step in range(part, steps, KILL_PARTS):
        _kill_at(tmp_path / str(step), monkeypatch, step, change, look)
        folder = tmp_path / str(step) / "out"
        with ParquetTable(str(folder)) as table:
            table.commit("query", 1, writing(7, 6, 5, 4, parts=1))
        assert rows_of(folder) == [1, 2, 3, 4, 5, 6, 7], step


@pytest.mark.parametrize("part", range(KILL_PARTS))
@pytest.mark.parametrize("rows", [(4, 5, 6, 7), ()])
def test_killed_at_every_step_of_a_replacement(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: tuple[int, ...], part: int
) -> None:
    """After a restart there is what was, or what is to be, and nothing between."""

    def change(table: ParquetTable) -> None:
        table.add(writing(*rows) if rows else lambda staged: 0, is_replacing=True)

    def look(folder: Path) -> None:
        assert set(Counter(rows_of(folder)).values()) <= {1}

    outcomes = []
    steps = _kill_at(tmp_path / "whole", monkeypatch, None, change, look)
    for step in range(part, steps, KILL_PARTS):
        _kill_at(tmp_path / str(step), monkeypatch, step, change, look)
        folder = tmp_path / str(step) / "out"
        outcomes.append(rows_of(folder))
        assert os.listdir(folder / "_penstock" / "writers") == ["query.json"]
    old, new = [1, 2, 3], list(rows)
    decided = outcomes.index(new)
    assert outcomes == [old] * decided + [new] * (len(outcomes) - decided)
    assert decided > 0


def _kill_at(
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    step: int | None,
    change: Callable[[ParquetTable], None],
    look: Callable[[Path], None],
) -> int:
    """Kill a change of rows 1, 2, 3 there, and start again. How many steps it took."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)  # no power is lost here
    folder = home / "out"
    with ParquetTable(str(folder)) as table:
        table.commit("query", 0, writing(1, 2, 3))
    table = ParquetTable(str(folder))
    # What a reader sees at each step is looked at once: in the run that is not killed.
    looks = (lambda: look(folder)) if step is None else (lambda: None)
    with killed_at(monkeypatch, step, looks) as killer:
        try:
            with table:
                change(table)
        except Killed:
            assert step is not None
    if table._lock >= 0:
        os.close(table._lock)
    with ParquetTable(str(folder)):
        look(folder)
        assert not (home / "_out.staging").exists()
    return killer.count


def test_a_link_is_followed_and_another_file_system_is_told_in_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files are renamed into the folder: what is staged must be on its file system."""
    (tmp_path / "disk").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "disk")
    with ParquetTable(str(tmp_path / "link")) as table:
        assert table.staging == str(tmp_path / "_disk.staging")

    def refuse(source: str, target: str) -> None:
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))

    monkeypatch.setattr(os, "rename", refuse)
    with pytest.raises(InvalidConfig, match="take a folder in it"):
        ParquetTable(str(tmp_path / "disk")).__enter__()


def test_one_process_at_a_time(tmp_path: Path) -> None:
    first, second = (ParquetTable(str(tmp_path / "out")) for _ in range(2))
    with first, pytest.raises(Busy, match="Another process writes to"):
        second.__enter__()
    with ParquetTable(str(tmp_path / "out")):
        pass


def test_a_place_that_cannot_be_written_to_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InvalidConfig, match="cannot be written to: Not a directory"):
        ParquetTable(str(tmp_path / "file")).__enter__()


def test_a_damaged_journal_is_told_and_not_guessed_at(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    with ParquetTable(str(folder)) as table:
        table.commit("query", 0, writing(1))
    journal = folder / "_penstock" / "writers" / "query.json"
    whole = journal.read_text()
    for damage in (whole[:-5], "[]", "{}", '{"version": 1}'):
        journal.write_text(damage)
        with pytest.raises(StorageFailed, match=r"query\.json is damaged"):
            ParquetTable(str(folder)).__enter__()
    journal.write_text(json.dumps({**json.loads(whole), "version": 2}))
    with pytest.raises(StorageFailed, match="newer Penstock"):
        ParquetTable(str(folder)).__enter__()
    journal.write_text(whole)
    with ParquetTable(str(folder)) as table:
        assert table.last_batch("query") == 0


def test_no_row_is_left_out_for_the_name_of_its_column(tmp_path: Path) -> None:
    """Spark itself reads folders of such a name."""

    def write(folder: str) -> int:
        place = Path(folder) / "_day=1"
        place.mkdir(parents=True)
        pq.write_table(pa.table({"row": pa.array([1], pa.int64())}), place / "part-0.parquet")
        return 1

    folder = tmp_path / "out"
    with ParquetTable(str(folder)) as table:
        assert table.commit("query", 0, write)
    assert len(found_by_pattern(folder)) == 1
