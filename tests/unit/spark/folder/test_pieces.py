"""A log file in pieces: bounds, boundaries, and what is not a batch."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.records.header import stamp
from penstock.spark.folder import pieces as folder_pieces
from penstock.spark.folder.pieces import Pieces, ReadOnlyDirectory
from tests.kit.storage.logs import make_batch

FOREVER = 2**63 - 1


def write(folder: Path, *batches: bytes, offset: int = 0, records: int = 1) -> ReadOnlyDirectory:
    """A file `log` of batches that follow one another."""
    data = bytearray()
    for batch in batches:
        view = memoryview(bytearray(batch))
        stamp(view, offset, 0)
        data += view
        offset += records
    (folder / "log").write_bytes(data)
    return ReadOnlyDirectory(str(folder))


def pieces_of(directory: ReadOnlyDirectory, *, gaps: bool = False) -> Pieces:
    return Pieces(directory.open("log"), 0, 0, FOREVER, gaps=gaps)


def test_pieces_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    batch = make_batch(b"x" * 100, records=10)
    directory = write(tmp_path, *[batch] * 10, records=10)
    monkeypatch.setattr(folder_pieces, "_WINDOW_BYTES", 3 * len(batch) + 10)
    found = list(pieces_of(directory))
    assert [len(piece.payload) // len(batch) for piece in found] == [3, 3, 3, 1]
    assert [piece.position for piece in found] == [0, *(3 * len(batch) * n for n in (1, 2, 3))]
    assert [piece.next_offset for piece in found] == [30, 60, 90, 100]


@pytest.mark.parametrize("window_bytes", [1, 61, 70, 100, 1000])
def test_a_batch_larger_than_a_window_comes_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, window_bytes: int
) -> None:
    monkeypatch.setattr(folder_pieces, "_WINDOW_BYTES", max(window_bytes, 61))
    batches = [make_batch(b"x" * size) for size in (10, 5000, 20, 0)]
    pieces = pieces_of(write(tmp_path, *batches))
    assert sum(len(piece.payload) for piece in pieces) == sum(map(len, batches))
    assert pieces.damage is None
    assert pieces.next_offset == 4


def test_it_stops_at_the_limit(tmp_path: Path) -> None:
    directory = write(tmp_path, *[make_batch()] * 10)
    pieces = Pieces(directory.open("log"), 0, 0, 4, gaps=False)
    assert [piece.next_offset for piece in pieces] == [4]


@pytest.mark.parametrize("records", [1, 3])
def test_damage_ends_it_and_it_can_go_on_behind(tmp_path: Path, records: int) -> None:
    batch = make_batch(b"value", records=records)
    directory = write(tmp_path, *[batch] * 6, records=records)
    path = tmp_path / "log"
    data = bytearray(path.read_bytes())
    for place in (1, 4):
        data[place * len(batch) + 70] ^= 1
    path.write_bytes(data)
    pieces = pieces_of(directory)
    ends = []
    while True:
        ends += [piece.next_offset // records for piece in pieces]
        if pieces.damage is None:
            break
        assert pieces.damage.reason == "the checksum is wrong"
        assert not pieces.is_torn()
        assert pieces.resume() is not None
    assert ends == [1, 4, 6]


def test_a_file_that_ends_inside_a_batch_is_torn(tmp_path: Path) -> None:
    batch = make_batch(b"value")
    directory = write(tmp_path, batch, batch)
    path = tmp_path / "log"
    for cut in (1, len(batch) - 61, len(batch) - 60, len(batch) - 1):
        path.write_bytes(path.read_bytes()[: 2 * len(batch) - cut])
        pieces = pieces_of(directory)
        assert [piece.next_offset for piece in pieces] == [1]
        assert pieces.is_torn()
        assert pieces.resume() is None


def test_offsets_must_follow_unless_there_may_be_gaps(tmp_path: Path) -> None:
    first, second = bytearray(make_batch()), bytearray(make_batch())
    stamp(memoryview(second), 5, 0)
    (tmp_path / "log").write_bytes(bytes(first + second))
    directory = ReadOnlyDirectory(str(tmp_path))
    assert [piece.next_offset for piece in pieces_of(directory, gaps=True)] == [6]
    pieces = pieces_of(directory)
    assert [piece.next_offset for piece in pieces] == [1]
    assert pieces.damage is not None
    assert pieces.damage.reason == "the batch has offset 5, not 1"
    assert pieces.resume() == (len(first), 5)
    assert [piece.next_offset for piece in pieces] == [6]


def test_a_file_that_shrinks_meanwhile_is_damage(tmp_path: Path) -> None:
    directory = write(tmp_path, *[make_batch()] * 2)
    pieces = pieces_of(directory)
    (tmp_path / "log").write_bytes(b"")
    assert list(pieces) == []
    assert pieces.damage is not None


def test_nothing_can_be_written(tmp_path: Path) -> None:
    directory = write(tmp_path, make_batch())
    with pytest.raises(OSError, match="Bad file descriptor"):
        directory.open("log").append([b"x"])
    with pytest.raises(OSError, match="Read-only"):
        directory.open("other", create=True)
