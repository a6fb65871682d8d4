"""A stream's places where the brokers that are asked do not all know the same. What a real broker
and Spark make of it is in tests/system."""

from __future__ import annotations

from itertools import count

import pytest
from pyspark.sql.datasource import CaseInsensitiveDict
from pyspark.sql.streaming.datasource import ReadAllAvailable

from penstock.model.ids import TopicPartition
from penstock.spark.errors import DataLoss
from penstock.spark.planning.extent import Extent
from penstock.spark.planning.offsets import StreamOffset
from penstock.spark.source import stream_reader
from penstock.spark.source.data_source import PenstockDataSource
from penstock.spark.source.stream_reader import StreamReader
from tests.kit.spark.memory_logs import MemoryLogs

ALL = ReadAllAvailable()


class BehindLogs(MemoryLogs):
    """The first few times, of a broker that has heard of the first partition only."""

    def __init__(self, answers: int, **topics: list[int]) -> None:
        super().__init__(**topics)
        self._answers = answers
        self._count = count()

    def partitions(self, topic: str) -> dict[int, Extent]:
        extents = super().partitions(topic)
        return {0: extents[0]} if next(self._count) < self._answers else extents


@pytest.fixture
def reader(monkeypatch: pytest.MonkeyPatch) -> StreamReader:
    monkeypatch.setattr(stream_reader, "_LOOK_S", 0)
    given = {"bootstrap": "127.0.0.1:1", "subscribe": "orders", "startingOffsets": "earliest"}
    source = PenstockDataSource(CaseInsensitiveDict(given))
    made = source.streamReader(source.schema())
    assert isinstance(made, StreamReader)
    return made


def use(monkeypatch: pytest.MonkeyPatch, logs: MemoryLogs) -> None:
    monkeypatch.setattr(StreamReader, "_logs", property(lambda _: logs))


def test_a_broker_that_is_behind_is_asked_again(
    reader: StreamReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R-SPK-3: one that has not heard of the latest partitions does not make them lost."""
    use(monkeypatch, MemoryLogs(orders=[0, 3]))
    place = reader.latestOffset(reader.initialOffset(), ALL)
    use(monkeypatch, BehindLogs(2, orders=[0, 5]))
    end = StreamOffset.from_json(reader.latestOffset(place, ALL))
    assert end.positions[TopicPartition("orders", 1)] == 5
    assert end.lost_total == 0


def test_one_that_stays_behind_is_believed_in_the_end(
    reader: StreamReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch, MemoryLogs(orders=[0, 3]))
    place = reader.latestOffset(reader.initialOffset(), ALL)
    monkeypatch.setattr(stream_reader, "LEADER_PATIENCE_S", 0)
    use(monkeypatch, BehindLogs(10, orders=[0, 5]))
    with pytest.raises(DataLoss, match="orders"):
        reader.latestOffset(place, ALL)
