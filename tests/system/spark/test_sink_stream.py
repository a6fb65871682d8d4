"""`df.writeStream` to topics: each micro-batch once, also when Spark runs it again.

Kills are in `test_exactly_once`. Here a query is stopped and its checkpoint taken back to the point
where a driver that died between two of its steps would have left it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark import InheritableThread
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, DataFrameWriter, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

import penstock
import penstock.spark
import penstock.testing
from penstock.client.blocking.client import BlockingClient
from penstock.spark.errors import sentence


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with penstock.testing.broker(partitions_default=2) as address:
        yield address


@pytest.fixture
def mq(address: str, spark: SparkSession) -> Iterator[BlockingClient]:
    penstock.spark.register(spark)
    with penstock.connect_blocking(address) as mq:
        yield mq


class Lines:
    """A folder of text files, each a micro-batch of its lines."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files = 0
        folder.mkdir()

    def add(self, *lines: str) -> None:
        # Written elsewhere first: Spark must not see half of it.
        draft = self._folder.parent / "draft"
        draft.write_text("\n".join(lines))
        draft.rename(self._folder / f"{self._files:04d}.txt")
        self._files += 1

    def stream(self, spark: SparkSession) -> DataFrame:
        return spark.readStream.option("maxFilesPerTrigger", 1).text(str(self._folder))


@pytest.fixture
def lines(tmp_path: Path) -> Lines:
    return Lines(tmp_path / "lines")


def to_topic(rows: DataFrame, address: str, checkpoint: Path, **options: str) -> DataStreamWriter:
    writer = rows.writeStream.format("penstock").option("bootstrap", address).options(**options)
    writer = writer.queryName(checkpoint.name)
    return writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)


def run(writer: DataStreamWriter) -> None:
    query = writer.start()
    query.awaitTermination()


def values(mq: BlockingClient, topic: str) -> list[str]:
    partitions = mq.admin.describe_topic(topic).partitions
    count = sum(partition.high_watermark for partition in partitions)
    found: list[str] = []
    with mq.consumer(topic, start="earliest") as consumer:
        while len(found) < count:
            found += [(message.value or b"").decode() for message in consumer.fetch()]
    return sorted(found)


def forget_last_commit(checkpoint: Path) -> None:
    """As if the driver had died after the sink's commit and before it had noted it."""
    commits = sorted(path for path in (checkpoint / "commits").iterdir() if path.name.isdigit())
    last = max(commits, key=lambda path: int(path.name))
    last.unlink()
    (checkpoint / "commits" / f".{last.name}.crc").unlink(missing_ok=True)


def test_a_batch_that_is_run_again_is_not_written_again(
    spark: SparkSession, mq: BlockingClient, address: str, lines: Lines, tmp_path: Path
) -> None:
    """R-SPK-2: also when what is run again gives other bytes than the first time."""
    checkpoint = tmp_path / "checkpoint"
    rows = lines.stream(spark).selectExpr("concat(value, ' ', uuid()) AS value")
    lines.add("a", "b")
    lines.add("c")
    run(to_topic(rows, address, checkpoint, topic="again"))
    first = values(mq, "again")
    assert [value.split()[0] for value in first] == ["a", "b", "c"]
    forget_last_commit(checkpoint)
    lines.add("d")
    run(to_topic(rows, address, checkpoint, topic="again"))
    *before, last = values(mq, "again")
    assert before == first
    assert last.split()[0] == "d"


def test_another_checkpoint_is_another_write(
    spark: SparkSession, mq: BlockingClient, address: str, lines: Lines, tmp_path: Path
) -> None:
    lines.add("a")
    for number in range(2):
        run(to_topic(lines.stream(spark), address, tmp_path / f"point-{number}", topic="anew"))
    assert values(mq, "anew") == ["a", "a"]


def test_at_least_once_has_to_be_asked_for(
    spark: SparkSession, mq: BlockingClient, address: str, lines: Lines, tmp_path: Path
) -> None:
    """R-SPK-2: then a batch that is run again is there twice."""
    checkpoint = tmp_path / "checkpoint"
    lines.add("a")
    for _ in range(2):
        writer = to_topic(
            lines.stream(spark), address, checkpoint, topic="twice", delivery="at-least-once"
        )
        run(writer)
        if values(mq, "twice") == ["a"]:
            forget_last_commit(checkpoint)
    assert values(mq, "twice") == ["a", "a"]


@contextmanager
def setting(spark: SparkSession, name: str, value: str) -> Iterator[None]:
    before = spark.conf.get(name)
    assert before is not None
    spark.conf.set(name, value)
    try:
        yield
    finally:
        spark.conf.set(name, before)


def save_in_a_thread(writer: DataFrameWriter) -> None:
    """As docs/spark.md says how."""

    failed: list[PySparkException] = []

    def save() -> None:
        try:
            penstock.spark.register(writer._spark)
            writer.save()
        except PySparkException as error:
            failed.append(error)

    thread = InheritableThread(target=save)
    thread.start()
    thread.join()
    for error in failed:
        raise error


def test_foreach_batch_with_a_name_and_a_version(
    spark: SparkSession, mq: BlockingClient, address: str, lines: Lines, tmp_path: Path
) -> None:
    """R-SPK-2: the way of writing to several topics, or with output mode "update". A version that
    is there is not written again, and yet its rows are asked for, all of them: the state that the
    next batch needs is written with the last."""
    checkpoint = tmp_path / "checkpoint"
    names: set[str | None] = set()

    def write(rows: DataFrame, batch_id: int) -> None:
        query = rows.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
        names.add(query)
        nameless = rows.write.format("penstock").option("bootstrap", address)
        for save in (DataFrameWriter.save, save_in_a_thread):
            with pytest.raises(PySparkException) as raised:
                save(nameless.option("topic", "first").mode("append"))
            assert "set the options `txnAppId`" in (sentence(raised.value) or "")
        for topic in ("first", "second"):
            (
                rows.write.format("penstock")
                .option("bootstrap", address)
                .option("topic", topic)
                .option("txnAppId", f"{query}/{topic}")
                .option("txnVersion", batch_id)
                .mode("append")
                .save()
            )

    # More than goes into a pipe, and not all at once.
    long = sorted(f"{number:02}" * 25_000 for number in range(40))
    lines.add(*long, long[0])
    with setting(spark, "spark.sql.execution.arrow.maxRecordsPerBatch", "1"):
        for _ in range(2):
            writer = lines.stream(spark).dropDuplicates(["value"]).writeStream.foreachBatch(write)
            run(writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True))
            forget_last_commit(checkpoint)
    assert values(mq, "first") == values(mq, "second") == long
    [name] = names
    assert name is not None, "the query's id, which stays the same"
    rows = spark.sql("SELECT 'v' AS value").write.format("penstock").option("bootstrap", address)
    save_in_a_thread(rows.option("topic", "threads").mode("append"))
    assert values(mq, "threads") == ["v"]


def test_output_mode_complete_appends_the_whole_result(
    spark: SparkSession, mq: BlockingClient, address: str, lines: Lines, tmp_path: Path
) -> None:
    """As Spark's Kafka sink does."""
    counts = lines.stream(spark).groupBy("value").count()
    rows = counts.selectExpr("concat(value, '=', count) AS value")
    for batch in (("a", "b"), ("a",)):
        lines.add(*batch)
        writer = to_topic(rows, address, tmp_path / "checkpoint", topic="totals")
        run(writer.outputMode("complete"))
    assert values(mq, "totals") == ["a=1", "a=2", "b=1", "b=1"]


def test_a_query_that_cannot_write_says_so_in_one_sentence(
    spark: SparkSession, mq: BlockingClient, address: str, lines: Lines, tmp_path: Path
) -> None:
    lines.add("a")
    rows = lines.stream(spark).selectExpr("value", "1 AS number")
    with pytest.raises(StreamingQueryException) as raised:
        run(to_topic(rows, address, tmp_path / "checkpoint", topic="refused"))
    assert "Column `number` cannot be written" in (sentence(raised.value) or "")
