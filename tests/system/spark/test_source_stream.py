"""`spark.readStream` with a real Spark and a real broker: batches, restarts, what is added."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

import penstock.spark
from penstock.spark.errors import sentence
from penstock.spark.planning.offsets import StreamOffset
from tests.system.spark.source_support import PATIENCE_S, Topics, broker_topics


@pytest.fixture(scope="module")
def topics() -> Iterator[Topics]:
    with broker_topics() as topics:
        yield topics


class Job:
    """A query that copies a topic to Parquet, and can be started again from its checkpoint."""

    def __init__(self, spark: SparkSession, topics: Topics, folder: Path, **options: str) -> None:
        self._spark = spark
        self._topics = topics
        self._folder = folder
        self.options = {"startingOffsets": "earliest", **options}

    def writer(self) -> DataStreamWriter:
        reader = self._spark.readStream.format("penstock").option("bootstrap", self._topics.address)
        frame = reader.options(**self.options).load()
        writer = frame.select("topic", "partition", "offset", "value").writeStream
        writer = writer.option("checkpointLocation", str(self._folder / "checkpoint"))
        return writer.format("parquet").option("path", str(self._folder / "rows"))

    def run(self) -> list[dict[str, Any]]:
        """Read what is there, to its end; the progress of each batch with rows."""
        query = self.writer().trigger(availableNow=True).start()
        assert query.awaitTermination(PATIENCE_S)
        return [dict(each) for each in query.recentProgress if each["numInputRows"]]

    def start(self) -> StreamingQuery:
        return self.writer().trigger(processingTime="0 seconds").start()

    def rows(self) -> list[tuple[str, int, int]]:
        frame = self._spark.read.schema(
            "topic STRING, partition INT, offset LONG, value BINARY"
        ).parquet(str(self._folder / "rows"))
        return sorted((row.topic, row.partition, row.offset) for row in frame.collect())


@pytest.fixture
def job(spark: SparkSession, topics: Topics, tmp_path: Path) -> Callable[..., Job]:
    penstock.spark.register(spark)

    def make(**options: str) -> Job:
        return Job(spark, topics, tmp_path, **options)

    return make


def places(topic: str, *counts: int) -> list[tuple[str, int, int]]:
    return [
        (topic, number, offset) for number, count in enumerate(counts) for offset in range(count)
    ]


def test_rate_limit_restart_and_lag(job: Callable[..., Job], topics: Topics) -> None:
    """R-SPK-1: rows per batch as limited, each once over restarts, and the lag where it belongs."""
    topics.admin.create_topic("limited", 2)
    topics.fill("limited", 60)
    topics.fill("limited", 20, partition=1)
    copy = job(subscribe="limited", maxOffsetsPerTrigger="25", groupId="copy")
    progress = copy.run()
    assert [each["numInputRows"] for each in progress] == [25, 25, 25, 5]
    assert copy.rows() == places("limited", 60, 20)
    # Spark calls commit of the last batch only when a next one begins; the lag is right before.
    assert [lag.lag for lag in topics.admin.group_lag("copy")] == [0, 0]
    topics.fill("limited", 10)
    assert [lag.lag for lag in topics.admin.group_lag("copy")] == [10, 0]
    assert [each["numInputRows"] for each in copy.run()] == [10]
    assert copy.run() == []
    assert copy.rows() == places("limited", 70, 20)


def test_a_query_that_died_at_any_point_of_a_batch(
    job: Callable[..., Job], topics: Topics, tmp_path: Path
) -> None:
    """The checkpoint is set back to what it is when a driver dies: the rows are the same."""
    topics.admin.create_topic("replayed", 1)
    topics.fill("replayed", 10)
    copy = job(subscribe="replayed", maxOffsetsPerTrigger="4")
    copy.run()
    checkpoint, written = tmp_path / "checkpoint", tmp_path / "rows" / "_spark_metadata"
    plans, commits = checkpoint / "offsets", checkpoint / "commits"
    for gone_of_the_last in ([commits], [commits, written]):
        last = max(_numbers(plans))
        for folder in gone_of_the_last:
            _remove(folder, last)
        topics.fill("replayed", 1)
        copy.run()
        end = topics.admin.find_offset("replayed", 0, "latest")
        assert copy.rows() == places("replayed", end)
    # And once more from the plan of the first batch, before which there is only its own word.
    for number in _numbers(plans):
        for folder in (commits, written) if number == 0 else (plans, commits, written):
            _remove(folder, number)
    copy.run()
    assert copy.rows() == places("replayed", end)


def _numbers(folder: Path) -> list[int]:
    return [int(file.name) for file in folder.iterdir() if file.name.isdecimal()]


def _remove(folder: Path, number: int) -> None:
    (folder / str(number)).unlink()
    (folder / f".{number}.crc").unlink(missing_ok=True)


def test_what_is_added_to_a_running_query(job: Callable[..., Job], topics: Topics) -> None:
    """R-SPK-1: new partitions and topics are found, and read from their beginning."""
    topics.admin.create_topic("grow-one", 1)
    topics.fill("grow-one", 5)
    copy = job(subscribePattern="grow-.*", startingOffsets="earliest")
    query = copy.start()
    query.processAllAvailable()
    topics.admin.add_partitions("grow-one", 2)
    topics.fill("grow-one", 4, partition=1)
    topics.admin.create_topic("grow-two", 1)
    topics.fill("grow-two", 3)
    query.processAllAvailable()
    query.stop()
    assert copy.rows() == places("grow-one", 5, 4) + places("grow-two", 3)


def test_a_topic_deleted_under_a_running_query(job: Callable[..., Job], topics: Topics) -> None:
    """R-SPK-3: the query ends with a sentence that says what was lost and when."""
    topics.admin.create_topic("doomed", 1)
    topics.fill("doomed", 5)
    copy = job(subscribe="doomed")
    query = copy.start()
    query.processAllAvailable()
    topics.admin.delete_topic("doomed")
    with pytest.raises(PySparkException) as raised:
        query.awaitTermination(PATIENCE_S)
    told = sentence(raised.value)
    assert told is not None
    assert "doomed" in told
    topics.admin.create_topic("doomed", 1)
    topics.fill("doomed", 3)
    copy.options["failOnDataLoss"] = "false"
    assert [each["numInputRows"] for each in copy.run()] == [3]


def test_messages_removed_under_a_stopped_query(job: Callable[..., Job], topics: Topics) -> None:
    """R-SPK-3: which offsets, how many, why and when; then a warning and a count instead."""
    topics.admin.create_topic("expired", 1)
    topics.fill("expired", 10)
    copy = job(subscribe="expired")
    copy.run()
    topics.fill("expired", 90)
    topics.delete_before("expired", 60)
    with pytest.raises(PySparkException) as raised:
        copy.run()
    told = sentence(raised.value)
    assert told is not None
    assert told.startswith(
        "Offsets 10 to 59 of expired[0] (50 messages) are gone: deleted on request"
    )
    assert told.endswith("failOnDataLoss=false to go on at offset 60, or with a new checkpoint.")
    copy.options["failOnDataLoss"] = "false"
    (progress,) = copy.run()
    assert progress["numInputRows"] == 40
    end = StreamOffset.from_json(json.loads(progress["sources"][0]["endOffset"]))
    assert end.lost_total == 50
    assert [offset for _, _, offset in copy.rows()] == [*range(10), *range(60, 100)]


def test_a_mistake_in_a_stream_is_one_sentence(job: Callable[..., Job]) -> None:
    for options, told in (
        ({"subscribe": "nowhere"}, "Topic nowhere does not exist"),
        ({"subscribe": "x", "endingOffsets": "latest"}, "endingOffsets is for batch reads"),
    ):
        with pytest.raises(PySparkException) as raised:
            job(**options).run()
        assert told in str(sentence(raised.value))
