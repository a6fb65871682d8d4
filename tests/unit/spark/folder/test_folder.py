"""A data folder that a real broker has left, or is using: the rows that it would serve."""

from __future__ import annotations

import pickle
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest

import penstock
from penstock.model.errors import CorruptLog, InvalidConfig, StorageFailed, UnknownTopic
from penstock.model.ids import TopicPartition
from penstock.records import Columns
from penstock.spark.folder.folder import Folder
from penstock.spark.planning.extent import Extent
from penstock.storage.files.journal import write_journal
from penstock.storage.files.os_files import OsDirectory
from penstock.testing import broker
from tests.kit.broker.running import allow_small_segments

CODECS: tuple[Literal["none", "gzip", "snappy", "lz4", "zstd"], ...] = (
    "none",
    "gzip",
    "snappy",
    "lz4",
    "zstd",
)
MESSAGES = 1500
DAMAGED = b"nonsense"

Partition = tuple[str, int]
Served = dict[Partition, tuple[Extent, list[Columns]]]


def fill(address: str) -> None:
    """Topics of several partitions and segments, with every codec."""
    with penstock.connect_blocking(address) as mq:
        # What is acknowledged as durable has its segments before it sealed.
        settings = {"segment_bytes": "4096", "durability": "fsync"}
        mq.admin.create_topic("orders", 2, settings)
        mq.admin.create_topic("stamped", 1, {"timestamp_type": "append"})
        mq.admin.create_topic("empty", 1)
        mq.admin.create_topic("gone", 1)
        mq.admin.delete_topic("gone")
        for codec in CODECS:
            with mq.producer(compression=codec) as producer:
                for number in range(MESSAGES // len(CODECS)):
                    key = None if number % 7 == 0 else b"key %d" % number
                    value = None if number % 11 == 0 else b"%d of %s" % (number, codec.encode()) * 9
                    headers = [("codec", codec.encode()), ("none", None)] if number % 3 else []
                    for topic in ("orders", "stamped"):
                        producer.send(topic, value, key=key, headers=headers, timestamp_ms=number)
                    if number % 50 == 0:
                        producer.flush()
        mq.admin.commit_offsets("group", {("orders", 0): 1})


def served(address: str) -> Served:
    """All that the broker has, as its clients get it."""
    found: Served = {}
    with penstock.connect_blocking(address) as mq:
        for summary in mq.admin.list_topics():
            described = mq.admin.describe_topic(summary.name)
            for entry in described.partitions:
                start, end = entry.log_start_offset, entry.high_watermark
                columns = mq.read_range(
                    summary.name, entry.partition, start, end, include_headers=True
                )
                extent = Extent(start, end, described.topic_id)
                found[summary.name, entry.partition] = extent, list(columns)
    return found


def rows(pieces: list[Columns]) -> list[tuple[object, ...]]:
    """Wherever the pieces were cut."""
    found: list[tuple[object, ...]] = []
    for columns in pieces:
        headers = columns.headers
        assert headers is not None
        names, contents = texts(headers.keys), texts(headers.values)
        pairs = list(zip(names, contents, strict=True))
        found += zip(
            columns.offsets,
            columns.timestamps_ms,
            texts(columns.keys),
            texts(columns.values),
            [
                tuple(pairs[headers.offsets[row] : headers.offsets[row + 1]])
                for row in range(columns.record_count)
            ],
            strict=True,
        )
    return found


def texts(column: penstock.records.BinaryColumn) -> list[bytes | None]:
    validity = column.validity
    return [
        bytes(column.data[column.offsets[row] : column.offsets[row + 1]])
        if validity is None or validity[row >> 3] >> (row & 7) & 1
        else None
        for row in range(len(column.offsets) - 1)
    ]


def read(folder: Folder, partition: Partition, extent: Extent) -> list[Columns]:
    start, end = extent[:2]
    return list(folder.read_range(*partition, start, end, include_headers=True))


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Served]]:
    """A folder that a broker has left in order, and what the broker served."""
    folder = tmp_path_factory.mktemp("filled")
    with pytest.MonkeyPatch.context() as monkeypatch:
        allow_small_segments(monkeypatch)
        with broker(data=str(folder)) as address:
            fill(address)
            found = served(address)
    yield folder, found
    shutil.rmtree(folder)


@pytest.fixture
def folder(filled: tuple[Path, Served], tmp_path: Path) -> Path:
    """A copy to damage."""
    return Path(shutil.copytree(filled[0], tmp_path / "data"))


def test_the_rows_are_those_of_the_broker(filled: tuple[Path, Served]) -> None:
    """R-SPK-1: the same rows as through the broker, with every codec, key, value and header."""
    path, expected = filled
    before = {file: file.stat().st_mtime_ns for file in path.rglob("*")}
    folder = Folder(str(path))
    assert folder.topics() == ["empty", "orders", "stamped"]
    for partition, (extent, columns) in expected.items():
        if partition[0] in folder.topics():
            assert folder.partitions(partition[0])[partition[1]] == extent
            assert rows(read(folder, partition, extent)) == rows(columns)
    assert len(list((path / "topics" / "orders" / "0").glob("*-*.log"))) > 1
    assert {file: file.stat().st_mtime_ns for file in path.rglob("*")} == before


def test_the_same_in_another_process(filled: tuple[Path, Served]) -> None:
    """It is pickled by its path."""
    path, expected = filled
    folder = Folder(str(path), "skip")
    folder.partitions("orders")
    copy: Folder = pickle.loads(pickle.dumps(folder))
    assert vars(copy) == vars(Folder(str(path), "skip"))
    extent, columns = expected["orders", 1]
    assert rows(read(copy, ("orders", 1), extent)) == rows(columns)


def test_times_and_append_times(filled: tuple[Path, Served]) -> None:
    path, expected = filled
    folder = Folder(str(path))
    extent, _ = expected["orders", 0]
    for moment_ms in (0, 1, 100, 299, 300, 5000):
        found = folder.find_timestamp("orders", 0, moment_ms)
        every = [row for row in rows(expected["orders", 0][1]) if row[1] >= moment_ms]  # type: ignore[operator]
        assert found == (every[0][0] if every else extent.end_offset)
    assert folder.find_timestamp("empty", 0, 5) == 0
    extent, columns = expected["stamped", 0]
    stamped = list(folder.read_range("stamped", 0, *extent[:2], producer_times=True))
    assert [moment for each in stamped for moment in each.timestamps_ms] != [
        moment for each in columns for moment in each.timestamps_ms
    ]


def test_a_running_broker_keeps_its_open_segment_to_itself(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    allow_small_segments(monkeypatch)
    data = tmp_path / "data"
    with broker(data=str(data)) as address:
        fill(address)
        expected = served(address)
        folder = Folder(str(data))
        for (topic, number), (extent, columns) in expected.items():
            if topic in folder.topics():
                found = folder.partitions(topic)[number]
                assert found.end_offset < extent.end_offset or not columns
                assert rows(read(folder, (topic, number), found)) == [
                    row
                    for row in rows(columns)
                    if row[0] < found.end_offset  # type: ignore[operator]
                ]
        assert folder.partitions("orders")[0].end_offset > 0
        assert caplog.text.count("A broker runs on") == 1
        # As a crash would leave it: killed, and the lock gone.
        copy = Path(shutil.copytree(data, tmp_path / "copy"))
    (copy / "lock").unlink()
    for path in (data, copy):
        folder = Folder(str(path))
        for (topic, number), (extent, columns) in expected.items():
            if topic in folder.topics():
                assert folder.partitions(topic)[number] == extent
                assert rows(read(folder, (topic, number), extent)) == rows(columns)


def test_without_a_registry_the_folders_tell(
    folder: Path, filled: tuple[Path, Served], caplog: pytest.LogCaptureFixture
) -> None:
    """R-SPK-1: rescue."""
    expected = {
        partition: (replace_id(extent), columns)
        for partition, (extent, columns) in filled[1].items()
    }
    registry = folder / "registry.journal"
    (folder / "topics" / "no topic!").mkdir()
    (folder / "topics" / "orders" / "99999999999").mkdir()
    for damage in (lambda: registry.write_bytes(DAMAGED), registry.unlink):
        damage()
        found = Folder(str(folder))
        assert found.topics() == ["empty", "orders", "stamped"]
        for partition in (("orders", 0), ("orders", 1), ("stamped", 0)):
            extent, columns = expected[partition]
            assert found.partitions(partition[0])[partition[1]] == extent
            assert rows(read(found, partition, extent)) == rows(columns)
    assert caplog.text.count("taken from the folders") == 1
    assert found.deletions("gone") == []


def replace_id(extent: Extent) -> Extent:
    return extent._replace(topic_id=None)


def test_topics_as_a_broker_would_find_them(folder: Path, filled: tuple[Path, Served]) -> None:
    shutil.copytree(folder / "topics" / "orders", folder / "topics" / "copied")
    found = Folder(str(folder))
    assert found.topics() == ["copied", "empty", "orders", "stamped"]
    assert found.partitions("copied")[0].topic_id is None
    shutil.rmtree(folder / "topics" / "empty")
    assert Folder(str(folder)).partitions("empty")[0][:2] == (0, 0)
    for name in ("gone", "nowhere"):
        with pytest.raises(UnknownTopic, match=name):
            found.partitions(name)
    with pytest.raises(UnknownTopic, match="partition 7"):
        found.find_timestamp("orders", 7, 0)


def test_what_was_deleted_is_known(filled: tuple[Path, Served]) -> None:
    folder = Folder(str(filled[0]))
    (gone,) = folder.deletions("gone")
    assert gone.name == "gone"
    assert [entry.partition for entry in gone.partitions] == [0]
    assert folder.deletions("orders") == []
    assert folder.removals(TopicPartition("orders", 0)) == []
    assert folder.removals(TopicPartition("nowhere", 0)) == ()


def test_what_is_no_data_folder(tmp_path: Path) -> None:
    with pytest.raises(InvalidConfig, match="no data folder"):
        Folder(str(tmp_path)).topics()
    (tmp_path / "topics").mkdir()
    assert Folder(str(tmp_path)).topics() == []
    write_journal(OsDirectory(str(tmp_path)), "meta", b'{"format_version": 2}')
    with pytest.raises(InvalidConfig, match="format 2"):
        Folder(str(tmp_path)).topics()


def test_damage_is_an_error_or_skipped(folder: Path, filled: tuple[Path, Served]) -> None:
    (folder / "meta").write_bytes(DAMAGED)
    path = min((folder / "topics" / "orders" / "0").glob("*-*.log"))
    data = bytearray(path.read_bytes())
    data[1000] ^= 1
    path.write_bytes(data)
    extent, columns = filled[1]["orders", 0]
    strict, lenient = Folder(str(folder)), Folder(str(folder), "skip")
    assert lenient.partitions("orders")[0] == strict.partitions("orders")[0] == extent
    with pytest.raises(CorruptLog, match=path.name):
        read(strict, ("orders", 0), extent)
    left = rows(read(lenient, ("orders", 0), extent))
    whole = rows(columns)
    assert set(left) < set(whole)
    assert len(left) > len(whole) // 2
    shutil.rmtree(folder / "topics" / "orders" / "0")
    with pytest.raises(StorageFailed):
        read(strict, ("orders", 0), extent)
