"""A partition's folder read without a broker: the rows of the log, and nothing written."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.model.errors import CorruptLog, OffsetOutOfRange, StorageFailed
from penstock.records import BinaryColumn, control_batch, decode_messages
from penstock.records.header import check_batch, read_header, stamp, write_header
from penstock.spark.folder import log as folder_log
from penstock.spark.folder import pieces as folder_pieces
from penstock.spark.folder.log import OnDamage, PartitionLog
from penstock.storage.files.os_files import OsDirectory
from penstock.storage.log.log import Log
from tests.kit.storage.compacting import compact, keyed_batch, put
from tests.kit.storage.logs import (
    NOW_MS,
    append,
    delete_records,
    flush,
    make_batch,
    open_log,
    read_all,
)

Rows = list[tuple[int, int, bytes | None, bytes | None]]


@pytest.fixture(autouse=True)
def small_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder_pieces, "_WINDOW_BYTES", 700)


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    """Sealed segments and an open one, forty offsets."""
    opened = open_log(OsDirectory(str(tmp_path)))
    for number in range(20):
        append(opened, make_batch(b"value %d" % number * 20, records=2))
    flush(opened)
    yield opened
    if not opened.failed:
        opened.discard()


def rows_of(log: Log) -> Rows:
    """What a consumer is given."""
    return [
        (message.offset, message.timestamp_ms, message.key, message.value)
        for _, batch in read_all(log)
        for message in decode_messages(batch, "t", 0, log.start_offset)
    ]


def rows_in(
    folder: Path, start: int | None = None, end: int | None = None, on_damage: OnDamage = "fail"
) -> Rows:
    partition = PartitionLog(str(folder), on_damage)
    first, last = partition.extent(sealed_only=False)
    rows: Rows = []
    for columns in partition.read(
        first if start is None else start, last if end is None else end, include_headers=True
    ):
        for row in range(columns.record_count):
            key, value = (text(column, row) for column in (columns.keys, columns.values))
            rows.append((columns.offsets[row], columns.timestamps_ms[row], key, value))
    return rows


def text(column: BinaryColumn, row: int) -> bytes | None:
    assert column.validity is not None
    if not column.validity[row >> 3] >> (row & 7) & 1:
        return None
    return bytes(column.data[column.offsets[row] : column.offsets[row + 1]])


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def sealed(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("*.log") if "-" in path.name)


def test_all_rows_of_sealed_and_open_segments(log: Log, tmp_path: Path) -> None:
    before = files(tmp_path)
    assert len(sealed(tmp_path)) > 3
    assert PartitionLog(str(tmp_path)).extent(sealed_only=False) == (0, 40)
    assert rows_in(tmp_path) == rows_of(log)
    assert files(tmp_path) == before, "nothing is written"


def test_only_sealed_segments_while_a_broker_writes(log: Log, tmp_path: Path) -> None:
    last = int(sealed(tmp_path)[-1].name[21:41])
    assert PartitionLog(str(tmp_path)).extent(sealed_only=True) == (0, last + 1)


def test_every_range(log: Log, tmp_path: Path) -> None:
    whole = rows_of(log)
    for start in range(0, 41, 3):
        for end in range(start, 41):
            assert rows_in(tmp_path, start, end) == whole[start:end]


def test_ranges_that_are_not_there(log: Log, tmp_path: Path) -> None:
    with pytest.raises(OffsetOutOfRange, match="0 to 40") as raised:
        rows_in(tmp_path, 0, 41)
    assert (raised.value.log_start_offset, raised.value.log_end_offset) == (0, 40)
    for start in (40, 45):
        with pytest.raises(OffsetOutOfRange):
            rows_in(tmp_path, start, 46)


def test_deleted_records_stay_deleted(log: Log, tmp_path: Path) -> None:
    delete_records(log, 13)
    assert PartitionLog(str(tmp_path)).extent(sealed_only=False) == (13, 40)
    assert rows_in(tmp_path) == rows_of(log)
    assert rows_in(tmp_path)[0][0] == 13
    with pytest.raises(OffsetOutOfRange, match="13 to 40"):
        rows_in(tmp_path, 12, 20)


def test_retention_that_a_crash_cut_short(log: Log, tmp_path: Path) -> None:
    """Its mark takes all older segments along, as recovery has it."""
    whole = rows_of(log)
    second = sealed(tmp_path)[1]
    second.rename(tmp_path / f"{second.name}.deleted")
    start = int(sealed(tmp_path)[1].name[:20])
    assert rows_in(tmp_path)[0][0] == start
    assert rows_in(tmp_path) == whole[start:]


def test_a_compacted_log_and_what_a_crash_left_of_it(tmp_path: Path) -> None:
    log = open_log(OsDirectory(str(tmp_path)))
    for number in range(40):
        put(log, keyed_batch([(b"key %d" % (number % 5), b"value %d" % number * 9)]))
    flush(log)
    before = {path: path.read_bytes() for path in sealed(tmp_path)}
    compact(log)
    rows = rows_of(log)
    assert len(rows) < 40
    assert rows_in(tmp_path) == rows
    for start in range(41):
        assert rows_in(tmp_path, start) == [row for row in rows if row[0] >= start]
    # The result has its name, and what it was made of was not removed yet.
    for path, data in before.items():
        if not path.exists():
            path.write_bytes(data)
    (tmp_path / "compaction.cleaned").write_bytes(b"unfinished")
    assert rows_in(tmp_path) == rows
    log.discard()


def test_a_torn_end_is_not_read(log: Log, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """R-STO-2: what a crash left, as recovery would keep it."""
    (active,) = tmp_path.glob("*.open.log")
    whole = rows_of(log)
    data = active.read_bytes()
    active.write_bytes(data[:-7])
    kept = rows_in(tmp_path)
    assert kept == whole[: len(kept)]
    assert len(kept) == 38
    assert "torn by a crash" in caplog.text
    with pytest.raises(OffsetOutOfRange):
        rows_in(tmp_path, 0, 40, "skip")
    recovered = open_log(OsDirectory(str(shutil.copytree(tmp_path, tmp_path / "copy"))))
    assert rows_of(recovered) == kept
    recovered.discard()


def test_the_index_that_an_orderly_stop_left_is_used_for_the_end(log: Log, tmp_path: Path) -> None:
    rows = rows_of(log)
    log.close()
    (active,) = tmp_path.glob("*.open.log")
    assert active.with_suffix(".index").exists()
    assert rows_in(tmp_path) == rows


def test_indexes_may_be_missing_or_damaged(log: Log, tmp_path: Path) -> None:
    rows = rows_of(log)
    for number, path in enumerate([*tmp_path.glob("*.index"), *tmp_path.glob("*.time")]):
        if number % 2:
            path.unlink()
        else:
            path.write_bytes(b"nonsense")
    before = files(tmp_path)
    for start in range(0, 40, 3):
        assert rows_in(tmp_path, start) == rows[start:]
    assert PartitionLog(str(tmp_path)).find_timestamp(NOW_MS, 5, 40) == 5
    assert files(tmp_path) == before


def test_damage_names_file_and_position(log: Log, tmp_path: Path) -> None:
    path = sealed(tmp_path)[1]
    data = bytearray(path.read_bytes())
    data[100] ^= 1
    path.write_bytes(data)
    with pytest.raises(CorruptLog, match=rf"{path.name} is damaged at position 0: the checksum"):
        rows_in(tmp_path)
    with pytest.raises(CorruptLog, match="onDamage=skip"):
        rows_in(tmp_path)


def test_damage_can_be_skipped(log: Log, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = sealed(tmp_path)[1]
    first = int(path.name[:20])
    data = bytearray(path.read_bytes())
    length = check_batch(memoryview(data)).length
    data[100] ^= 1
    path.write_bytes(data)
    lost = {first, first + 1}
    assert rows_in(tmp_path, on_damage="skip") == rows_of_sound(log, lost)
    assert f"{length} bytes skipped, with offsets {first} to {first + 1}" in caplog.text


def rows_of_sound(log: Log, lost: set[int]) -> Rows:
    """The values are their offsets: see the fixture."""
    return [
        (offset, NOW_MS + offset % 2, None, b"value %d" % (offset // 2) * 20)
        for offset in range(log.written_offset)
        if offset not in lost
    ]


@pytest.mark.parametrize("what", ["end", "all", "file", "open"])
def test_larger_damage_can_be_skipped(
    log: Log, tmp_path: Path, what: str, caplog: pytest.LogCaptureFixture
) -> None:
    path = sealed(tmp_path)[1]
    first, last = int(path.name[:20]), int(path.name[21:41])
    data = path.read_bytes()
    match what:
        case "end":
            path.write_bytes(data[: len(data) // 2 + 30])
            first += 2 * (len(data) // 2 // check_batch(memoryview(data)).length)
        case "all":
            path.write_bytes(b"nonsense" * 100)
        case "file":
            path.unlink()
        case "open":
            (path,) = tmp_path.glob("*.open.log")
            first = int(path.name[:20])
            opened = bytearray(path.read_bytes())
            last = first + 1
            opened[70] ^= 1
            path.write_bytes(opened)
    with pytest.raises(CorruptLog):
        rows_in(tmp_path)
    lost = set(range(first, last + 1))
    assert rows_in(tmp_path, on_damage="skip") == rows_of_sound(log, lost)
    assert str(last) in caplog.text


@pytest.mark.parametrize("place", [0, 1])
def test_records_that_make_no_sense(
    place: int,
    log: Log,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A producer may have sent a batch with the right checksum and nonsense in it. What of its
    window was handed out before it does not come again."""
    monkeypatch.setattr(folder_log, "PIECE_ROWS_MAX", 1)
    path = sealed(tmp_path)[0]
    data = bytearray(path.read_bytes())
    begin = place * check_batch(memoryview(data)).length
    header = check_batch(memoryview(data), begin)
    nonsense = bytearray(data[begin : begin + header.length])
    nonsense[61:] = b"\xff" * (header.length - 61)
    write_header(nonsense, header)
    stamp(memoryview(nonsense), header.base_offset, 0)
    data[begin : begin + header.length] = nonsense
    path.write_bytes(data)
    with pytest.raises(CorruptLog, match=f"{path.name} is damaged at position {begin}"):
        rows_in(tmp_path)
    lost = {header.base_offset, header.last_offset}
    assert rows_in(tmp_path, on_damage="skip") == rows_of_sound(log, lost)
    assert f"offsets {header.base_offset} to {header.last_offset}" in caplog.text


def test_what_is_handed_out_at_once_is_bounded(
    log: Log, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By rows, and by bytes, which of compressed messages may be many."""
    monkeypatch.setattr(folder_pieces, "_WINDOW_BYTES", 1 << 20)
    for bound, least in (("PIECE_ROWS_MAX", 3), ("PIECE_BYTES_MAX", 400)):
        with monkeypatch.context() as patch:
            patch.setattr(folder_log, bound, least)
            pieces = list(PartitionLog(str(tmp_path)).read(0, 40))
        assert {piece.record_count for piece in pieces} == {2}
        assert [offset for piece in pieces for offset in piece.offsets] == list(range(40))


def test_a_damaged_start_offset(log: Log, tmp_path: Path) -> None:
    (tmp_path / "start.journal").write_bytes(b"nonsense")
    with pytest.raises(CorruptLog, match=r"start\.journal"):
        rows_in(tmp_path)
    assert len(rows_in(tmp_path, on_damage="skip")) == 40


def test_times_are_found_as_the_log_finds_them(tmp_path: Path) -> None:
    log = open_log(OsDirectory(str(tmp_path)))
    # Not in order: the first at or after a time counts.
    for number, moment in enumerate((0, 50, 20, 90, 60, 10, 100, 30, 95, 200, 150)):
        append(log, make_batch(b"%d" % number * 300, records=3, timestamp_ms=NOW_MS + moment))
    flush(log)
    partition = PartitionLog(str(tmp_path))
    for start in (0, 7, 20):
        for moment in range(-5, 210, 5):
            found = partition.find_timestamp(NOW_MS + moment, start, 33)
            rows = [row for row in rows_of(log) if row[0] >= start and row[1] >= NOW_MS + moment]
            assert found == (rows[0][0] if rows else 33)
    log.discard()


def test_files_may_go_while_it_reads(log: Log, tmp_path: Path) -> None:
    """Retention of a running broker: what is gone is said, what is open is read to its end."""
    whole = rows_of(log)
    reading = PartitionLog(str(tmp_path)).read(0, 40)
    next(reading)
    for path in sealed(tmp_path)[:-1]:
        path.unlink()
    with pytest.raises(OffsetOutOfRange):
        list(reading)
    start = int(sealed(tmp_path)[0].name[:20])
    assert rows_in(tmp_path, start) == whole[start:]


def test_a_segment_that_is_sealed_while_it_is_opened_is_found_under_its_name(
    log: Log, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (active,) = tmp_path.glob("*.open.log")
    partition = PartitionLog(str(tmp_path))
    real_open = folder_pieces.ReadOnlyFile

    def rename_first(path: str) -> folder_pieces.ReadOnlyFile:
        if active.exists():
            os.rename(active, tmp_path / f"{active.name[:20]}-{39:020}.log")
        return real_open(path)

    monkeypatch.setattr(folder_pieces, "ReadOnlyFile", rename_first)
    start = int(active.name[:20])
    assert sum(columns.record_count for columns in partition.read(start, 40)) == 40 - start


def test_headers_are_told_of_control_batches_too(tmp_path: Path) -> None:
    """As of all that is sound; where damage is skipped, not of what is damaged."""
    made = [
        make_batch(b"one", records=2),
        control_batch(2, b"", timestamp_ms=NOW_MS),
        make_batch(b"two", records=3),
        control_batch(2, b"", timestamp_ms=NOW_MS),
    ]
    content, offset = b"", 0
    for batch in map(bytearray, made):
        stamp(memoryview(batch), offset, 0)
        offset += read_header(batch).last_offset_delta + 1
        content += batch
    path = tmp_path / f"{0:020}-{offset - 1:020}.log"
    path.write_bytes(content)

    def headers(start: int, end: int) -> list[tuple[int, bool]]:
        found = PartitionLog(str(tmp_path), "skip").headers(start, end)
        return [(header.base_offset, header.is_control) for header in found]

    assert headers(0, 7) == [(0, False), (2, True), (3, False), (6, True)]
    assert headers(2, 3) == [(2, True)]
    assert headers(4, 6) == [(3, False)]
    path.write_bytes(content.replace(b"two", b"owt"))
    assert headers(2, 7) == [(2, True), (6, True)]


def test_an_empty_folder_and_none(tmp_path: Path) -> None:
    assert PartitionLog(str(tmp_path)).extent(sealed_only=False) == (0, 0)
    with pytest.raises(StorageFailed):
        PartitionLog(str(tmp_path / "nowhere")).extent(sealed_only=False)
