"""R-SPK-1: a partition's folder read without a broker has the rows that a start on it would keep,
in whatever state a crash has left it; and nothing in it is changed."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.model.errors import CorruptLog
from penstock.records import decode_messages
from penstock.spark.folder import pieces as folder_pieces
from penstock.spark.folder.log import PartitionLog
from penstock.storage.files.os_files import OsDirectory
from penstock.storage.log.log import Log
from tests.kit.storage.compacting import compact, due, keyed_batch, put
from tests.kit.storage.logs import delete_records, flush, open_log, read_all

Row = tuple[int, int]

# What happens to a log, one thing after another.
steps = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(5, 20)),
        st.tuples(st.just("append"), st.integers(5, 20)),
        st.tuples(st.just("flush"), st.just(0)),
        st.tuples(st.just("compact"), st.just(0)),
        st.tuples(st.just("delete"), st.integers(0, 30)),
    ),
    min_size=3,
    max_size=8,
)
# What a crash makes of the end of the last file: bytes missing, or zeros in their place.
tears = st.tuples(st.integers(0, 700), st.booleans())


def run(log: Log, happenings: list[tuple[str, int]]) -> None:
    for what, amount in happenings:
        match what:
            case "append":
                for number in range(amount):
                    pairs = [(b"key %d" % (number % 3), b"x" * 150)] * (1 + number % 3)
                    put(log, keyed_batch(pairs, codec=number % 5))
            case "flush":
                flush(log)
            case "compact":
                if due(log) is not None:
                    compact(log)
            case _:
                delete_records(log, min(amount, log.written_offset))


def tear(folder: Path, missing: int, *, zeros: bool) -> None:
    unsealed = sorted(folder.glob("*.open.log"))
    if unsealed and missing:
        data = unsealed[-1].read_bytes()
        kept = data[: max(len(data) - missing, 0)]
        unsealed[-1].write_bytes(kept + bytes(len(data) - len(kept)) * zeros)


def rows_of(log: Log) -> list[Row]:
    return [
        (message.offset, message.timestamp_ms)
        for _, batch in read_all(log)
        for message in decode_messages(batch, "t", 0, log.start_offset)
    ]


def rows_in(folder: Path, start: int, end: int) -> list[Row]:
    return [
        row
        for columns in PartitionLog(str(folder)).read(start, end)
        for row in zip(columns.offsets, columns.timestamps_ms, strict=True)
    ]


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@settings(max_examples=100, deadline=None)
@given(steps, tears, st.booleans(), st.integers(0, 60), st.integers(0, 60))
def test_the_rows_are_those_that_recovery_keeps(
    happenings: list[tuple[str, int]],
    torn: tuple[int, bool],
    closed: bool,
    one: int,
    other: int,
) -> None:
    with (
        pytest.MonkeyPatch.context() as monkeypatch,
        tempfile.TemporaryDirectory(prefix="penstock-property-") as parent,
    ):
        monkeypatch.setattr(folder_pieces, "_WINDOW_BYTES", 500)
        folder = Path(parent) / "log"
        folder.mkdir()
        log = open_log(OsDirectory(str(folder)))
        run(log, happenings)
        if closed:
            log.close()
        else:
            log.discard()
            tear(folder, torn[0], zeros=torn[1])
        before = contents(folder)
        recovered = Path(parent) / "recovered"
        shutil.copytree(folder, recovered)
        try:
            log = open_log(OsDirectory(str(recovered)))
        except CorruptLog:
            with pytest.raises(CorruptLog):
                PartitionLog(str(folder)).extent(sealed_only=False)
            return
        extent = PartitionLog(str(folder)).extent(sealed_only=False)
        assert extent == (log.start_offset, log.written_offset)
        rows = rows_of(log)
        assert rows_in(folder, *extent) == rows
        start, end = (min(max(offset, extent[0]), extent[1]) for offset in sorted((one, other)))
        if start < end:
            expected = [row for row in rows if start <= row[0] < end]
            assert rows_in(folder, start, end) == expected
        assert contents(folder) == before
        log.discard()
