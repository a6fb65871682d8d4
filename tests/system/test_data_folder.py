"""Direct reading of folders that brokers work on: records deleted, topics compacted, retention at
work while somebody reads."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

import penstock
from penstock.client.blocking.client import BlockingClient
from penstock.model import ids
from penstock.model.errors import OffsetOutOfRange
from penstock.spark.folder.folder import Folder
from penstock.testing import broker
from tests.kit.broker.running import allow_small_segments
from tests.system.kafka.drivers.driver import until

NEVER_MS = 2**31 - 1


def write(mq: BlockingClient, topic: str, count: int, keys: int) -> None:
    with mq.producer() as producer:
        for number in range(count):
            producer.send(topic, b"%d" % number * 50, key=b"%d" % (number % keys))
            if number % 10 == 0:
                producer.flush()


def offsets_of(mq: BlockingClient, topic: str) -> list[int]:
    (entry,) = mq.admin.describe_topic(topic).partitions
    start, end = entry.log_start_offset, entry.high_watermark
    return [offset for columns in mq.read_range(topic, 0, start, end) for offset in columns.offsets]


def offsets_in(folder: Folder, topic: str) -> list[int]:
    start, end = folder.partitions(topic)[0][:2]
    return [
        offset for columns in folder.read_range(topic, 0, start, end) for offset in columns.offsets
    ]


def test_deleted_records_and_compaction(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """R-SPK-1: the rows that the broker serves, also where it has taken some away."""
    allow_small_segments(monkeypatch)
    data = tmp_path / "data"
    with (
        broker(data=str(data), retention_check_ms=50) as address,
        penstock.connect_blocking(address) as mq,
    ):
        mq.admin.create_topic("cut", 1, {"segment_bytes": "4096"})
        settings = {"cleanup_policy": "compact", "min_cleanable_dirty_ratio": "0.01"}
        mq.admin.create_topic("table", 1, {"segment_bytes": "4096", **settings})
        write(mq, "cut", 200, 200)
        write(mq, "table", 400, 7)
        admin = AdminClient({"bootstrap.servers": address})
        deleted = admin.delete_records([TopicPartition("cut", 0, 55)])
        for future in deleted.values():
            assert future.result().low_watermark == 55

        def is_compacted() -> bool:
            # Files come and go meanwhile: what is read is whole and in order all the same.
            found = offsets_in(Folder(str(data)), "table")
            assert found == sorted(set(found))
            return len(offsets_of(mq, "table")) < 200

        until(is_compacted, "the topic is compacted")
    with (
        broker(data=str(data), retention_check_ms=NEVER_MS) as address,
        penstock.connect_blocking(address) as mq,
    ):
        expected = {topic: offsets_of(mq, topic) for topic in ("cut", "table")}
    folder = Folder(str(data))
    assert expected["cut"] == list(range(55, 200))
    for topic, offsets in expected.items():
        assert offsets_in(folder, topic) == offsets
    removals = folder.removals(ids.TopicPartition("cut", 0))
    assert [removal.cause for removal in removals] == ["deleted"]


def test_retention_under_a_reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is gone is said, and why is known from the folder too."""
    allow_small_segments(monkeypatch)
    data = tmp_path / "data"
    with (
        broker(data=str(data), retention_check_ms=50) as address,
        penstock.connect_blocking(address) as mq,
    ):
        mq.admin.create_topic("orders", 1, {"segment_bytes": "4096", "durability": "fsync"})
        write(mq, "orders", 300, 300)
        start, end = Folder(str(data)).partitions("orders")[0][:2]
        assert start == 0
        assert 200 < end < 300
        reading = Folder(str(data)).read_range("orders", 0, start, end)
        next(reading)
        mq.admin.alter_topic("orders", {"retention_bytes": "8192"})
        until(
            lambda: mq.admin.describe_topic("orders").partitions[0].log_start_offset > 200,
            "retention has come",
        )
        with pytest.raises(OffsetOutOfRange):
            list(reading)
    folder = Folder(str(data))
    start, end = folder.partitions("orders")[0][:2]
    assert 200 < start < end == 300
    assert offsets_in(folder, "orders") == list(range(start, end))
    assert {removal.cause for removal in folder.removals(ids.TopicPartition("orders", 0))} == {
        "retention_size"
    }
