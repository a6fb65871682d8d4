"""`spark.read` with a real Spark and a real broker: the rows are what was produced."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, get_args

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession

import penstock
import penstock.spark
import penstock.testing
from penstock.client.producing.producer import Compression
from penstock.records import Message
from penstock.spark.errors import sentence
from tests.system.spark.source_support import Topics, broker_topics

BASE_MS = 1_700_000_000_000
CODECS = get_args(Compression)


@pytest.fixture(scope="module")
def topics() -> Iterator[Topics]:
    with broker_topics() as topics:
        topics.admin.create_topic("orders", 3)
        topics.admin.create_topic("stamped", 1, {"timestamp_type": "append"})
        topics.admin.create_topic("empty", 2)
        for turn, codec in enumerate(CODECS):
            with topics.mq.producer(compression=codec) as producer:
                for number in range(turn * 100, turn * 100 + 100):
                    producer.send(
                        "orders",
                        None if number % 7 == 0 else b"value %d " % number * 10,
                        key=None if number % 5 == 0 else b"key %d" % (number % 50),
                        headers=[("a", b"%d" % number), ("b", None)] if number % 3 == 0 else None,
                        partition=number % 3,
                        timestamp_ms=BASE_MS + number * 1000,
                    )
        with topics.mq.producer() as producer:
            for number in range(50):
                producer.send("stamped", b"%d" % number, timestamp_ms=BASE_MS + number)
        yield topics


@pytest.fixture
def spark(spark: SparkSession) -> SparkSession:
    penstock.spark.register(spark)
    return spark


def load(spark: SparkSession, topics: Topics, **options: str) -> DataFrame:
    reader = spark.read.format("penstock").option("bootstrap", topics.address)
    return reader.options(**options).load()


def produced(topics: Topics, topic: str) -> list[Message]:
    partitions = topics.admin.describe_topic(topic).partitions
    count = sum(partition.high_watermark for partition in partitions)
    found: list[Message] = []
    with topics.mq.consumer(topic, start="earliest") as consumer:
        while len(found) < count:
            found += consumer.fetch()
    return sorted(found, key=lambda message: (message.partition, message.offset))


def rows(frame: DataFrame) -> list[Row]:
    return sorted(frame.collect(), key=lambda row: (row.topic, row.partition, row.offset))


def places(frame: DataFrame) -> list[tuple[int, int]]:
    return [
        (row.partition, row.offset) for row in rows(frame.select("topic", "partition", "offset"))
    ]


def moment(time_ms: int) -> datetime:
    """As Spark hands out timestamps: local time without a zone."""
    utc = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=time_ms)
    return utc.astimezone().replace(tzinfo=None)


def as_row(message: Message, timestamp_type: int = 0) -> tuple[Any, ...]:
    headers = [Row(key=key, value=value) for key, value in message.headers] or None
    return (
        message.key,
        message.value,
        message.topic,
        message.partition,
        message.offset,
        moment(message.timestamp_ms),
        timestamp_type,
        headers,
    )


def test_rows_are_what_was_produced(spark: SparkSession, topics: Topics) -> None:
    """R-SPK-1: every column, with and without key, value and headers, of every codec."""
    frame = load(spark, topics, subscribe="orders", includeHeaders="true")
    assert frame.rdd.getNumPartitions() == 3
    expected = [as_row(message) for message in produced(topics, "orders")]
    assert len(expected) == 100 * len(CODECS)
    assert [tuple(row) for row in rows(frame)] == expected


def test_a_topic_that_stamps_the_time_of_appending(spark: SparkSession, topics: Topics) -> None:
    frame = load(spark, topics, subscribe="stamped", includeHeaders="true")
    expected = [as_row(message, 1) for message in produced(topics, "stamped")]
    assert [tuple(row) for row in rows(frame)] == expected
    batch = rows(load(spark, topics, subscribe="stamped", includeBatch="true"))
    assert [row.createTime for row in batch] == [moment(BASE_MS + n) for n in range(50)]
    assert [row.timestamp for row in batch] == [row[5] for row in expected]
    assert [row.appendTime for row in batch] == [row[5] for row in expected]
    assert [row.sequence for row in batch] == list(range(50))


def test_batches_are_described(spark: SparkSession, topics: Topics) -> None:
    frame = load(spark, topics, subscribe="orders", includeBatch="true").filter("partition = 0")
    found = {row.codec: row for row in rows(frame)}
    assert set(found) == set(CODECS)
    for row in rows(frame):
        assert row.batchOffset <= row.offset < row.batchOffset + row.batchRecords
        assert row.sequence >= 0
        assert row.appendTime is None
        assert row.createTime == row.timestamp
    assert found["zstd"].batchBytes < found["none"].batchBytes


def test_several_topics_a_pattern_and_assigned_partitions(
    spark: SparkSession, topics: Topics
) -> None:
    def count(**options: str) -> dict[str, int]:
        grouped = load(spark, topics, **options).groupBy("topic").count().collect()
        return {row["topic"]: row["count"] for row in grouped}

    everything = {"orders": 100 * len(CODECS), "stamped": 50}
    assert count(subscribe="orders,stamped") == everything
    assert count(subscribePattern="(orders|stamped|empty)") == everything
    assert count(subscribePattern=".*tamped") == {"stamped": 50}
    assert count(subscribe="empty") == {}
    assigned = load(spark, topics, assign='{"orders":[1],"stamped":[0]}')
    assert {place[0] for place in places(assigned)} == {0, 1}


def test_where_reading_begins_and_ends(spark: SparkSession, topics: Topics) -> None:
    """Every way that Spark's Kafka source has to say it."""

    def read(**options: str) -> list[tuple[int, int]]:
        return places(load(spark, topics, assign='{"orders":[0,1]}', **options))

    assert read(
        startingOffsets='{"orders":{"0":5,"1":-2}}', endingOffsets='{"orders":{"0":7,"1":2}}'
    ) == [(0, 5), (0, 6), (1, 0), (1, 1)]
    # Partition 0 has messages 0, 3, 6, … and partition 1 has 1, 4, 7, …, a second apart each.
    start, end = str(BASE_MS + 9_000), str(BASE_MS + 16_000)
    assert read(startingTimestamp=start, endingTimestamp=end) == [
        (0, 3),
        (0, 4),
        (0, 5),
        (1, 3),
        (1, 4),
    ]
    assert read(
        startingOffsetsByTimestamp=f'{{"orders":{{"0":{start},"1":{end}}}}}',
        endingOffsetsByTimestamp=f'{{"orders":{{"0":{end},"1":{BASE_MS + 22_000}}}}}',
    ) == [(0, 3), (0, 4), (0, 5), (1, 5), (1, 6)]
    late = str(BASE_MS + 10_000_000)
    assert read(startingTimestamp=late, startingOffsetsByTimestampStrategy="latest") == []
    assert len(read(startingOffsets="earliest", endingOffsets="latest")) == len(read())


def test_large_partitions_are_split(spark: SparkSession, topics: Topics) -> None:
    frame = load(spark, topics, subscribe="orders", minPartitions="8")
    assert frame.rdd.getNumPartitions() == 8
    assert places(frame) == places(load(spark, topics, subscribe="orders"))
    frame = load(spark, topics, subscribe="stamped", maxRecordsPerPartition="20")
    assert frame.rdd.getNumPartitions() == 3
    assert len(places(frame)) == 50


def test_filters_are_pushed_down(spark: SparkSession, topics: Topics) -> None:
    """R-SPK-1: fewer partitions and offsets are read, and the rows are the same."""
    frame = load(spark, topics, subscribe="orders,stamped")
    cached = frame.cache()
    assert cached.count() == 100 * len(CODECS) + 50
    at = moment(BASE_MS + 470_000).isoformat(sep=" ")
    for condition, tasks, is_exact in (
        ("partition = 1", 1, True),
        ("topic = 'orders' and partition in (0, 2)", 2, True),
        ("topic = 'orders' and offset >= 10 and offset < 12", 3, True),
        ("offset = 3 and partition = 0", 2, True),
        ("offset in (3, 5) and partition = 1", 1, False),
        (f"timestamp >= '{at}' and topic = 'orders'", 3, False),
        ("value is null and partition = 0", 2, False),
        ("partition = 99", 1, True),
    ):
        fresh = load(spark, topics, subscribe="orders,stamped").filter(condition)
        assert fresh.rdd.getNumPartitions() == tasks, condition
        assert places(fresh) == places(cached.filter(condition)), condition
        plan = fresh._jdf.queryExecution().executedPlan().toString()
        assert ("- *(1) Filter " not in plan) == is_exact, plan
    cached.unpersist()


def test_typed_values(spark: SparkSession, topics: Topics) -> None:
    """Rows that do not parse are told apart, and do not fail the job."""
    topics.admin.create_topic("json", 1)
    with topics.mq.producer() as producer:
        for value in (b'{"id": 1, "tags": ["a"]}', b"broken", None, b'{"id": "x"}'):
            producer.send("json", value, key=b"k")
    schema = "id BIGINT, tags ARRAY<STRING>"
    frame = load(spark, topics, subscribe="json", valueFormat="json", valueSchema=schema)
    found = [(row.id, row.tags, row._corrupt, row.key) for row in rows(frame)]
    assert found == [
        (1, ["a"], None, b"k"),
        (None, None, b"broken", b"k"),
        (None, None, None, b"k"),
        (None, None, b'{"id": "x"}', b"k"),
    ]


def test_a_data_folder_gives_the_same_rows(spark: SparkSession, tmp_path: Path) -> None:
    with broker_topics(data=str(tmp_path)) as topics:
        topics.admin.create_topic("orders", 2)
        topics.fill("orders", 100)
        topics.fill("orders", 50, partition=1)
        expected = rows(load(spark, topics, subscribe="orders", includeHeaders="true"))
    reader = spark.read.format("penstock").option("path", str(tmp_path))
    frame = reader.options(subscribe="orders", includeHeaders="true", minPartitions="4").load()
    assert frame.rdd.getNumPartitions() == 4
    assert rows(frame) == expected
    loaded = spark.read.format("penstock").option("subscribe", "orders").load(str(tmp_path))
    assert loaded.count() == 150


def test_spark_finds_the_source_by_itself(spark: SparkSession, topics: Topics) -> None:
    """Without `register`, in a session that does not ask for filter pushdown."""
    other = spark.newSession()
    other.conf.set("spark.sql.python.filterPushdown.enabled", "false")
    frame = load(other, topics, subscribe="orders").filter("partition = 1 and offset < 5")
    assert places(frame) == [(1, offset) for offset in range(5)]


def test_sql(spark: SparkSession, topics: Topics) -> None:
    """A topic is a table."""
    spark.sql(
        f"CREATE OR REPLACE TEMPORARY VIEW orders USING penstock "
        f"OPTIONS (bootstrap '{topics.address}', subscribe 'orders')"
    )
    (row,) = spark.sql("SELECT count(*) AS n FROM orders WHERE partition = 2").collect()
    assert row.n == len([m for m in produced(topics, "orders") if m.partition == 2])


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"subscribe": "nope"}, "Topic nope does not exist: create it first"),
        ({"subscribePattern": "nope.*"}, "No topic matches subscribePattern 'nope.*'"),
        ({"subscrib": "orders"}, "did you mean subscribe?"),
        ({"assign": '{"orders":[7]}'}, "assign names orders[7]"),
        ({"subscribe": "orders", "startingOffsets": "{"}, "which is not JSON"),
        ({"subscribe": "orders", "startingOffsets": '{"orders":{"0":1}}'}, "leaves out orders[1]"),
        (
            {"assign": '{"orders":[0]}', "endingOffsets": '{"orders":{"0":9999}}'},
            "endingOffsets is 9999 for orders[0], which ends at",
        ),
        ({"subscribe": "orders", "startingTimestamp": "9999999999999"}, "has no message from"),
        ({"subscribe": "orders", "kafka.ssl.truststore.location": "x"}, "secured connection"),
        ({"subscribe": "orders", "bootstrap": "127.0.0.1:1"}, "No broker can be reached"),
        (
            {"subscribe": "orders", "valueFormat": "xml", "valueSchema": "a INT"},
            "json, csv or avro",
        ),
    ],
)
def test_ordinary_mistakes_are_one_sentence(
    spark: SparkSession, topics: Topics, options: dict[str, str], told: str
) -> None:
    with pytest.raises(PySparkException) as raised:
        load(spark, topics, **options).count()
    found = sentence(raised.value)
    assert found is not None
    assert told in found
    assert "\n" not in found
    assert found in str(raised.value)


def test_the_columns_are_fixed(spark: SparkSession, topics: Topics) -> None:
    reader = spark.read.format("penstock").schema("a INT").option("bootstrap", topics.address)
    with pytest.raises(PySparkException) as raised:
        reader.option("subscribe", "orders").load().count()
    assert "columns of the data source penstock are fixed" in str(sentence(raised.value))


def test_offsets_that_are_gone(spark: SparkSession, topics: Topics) -> None:
    """R-SPK-3: a batch read that asks for them by number is told where they went."""
    topics.admin.create_topic("short", 1)
    topics.fill("short", 100)
    topics.delete_before("short", 60)
    asked = {"subscribe": "short", "startingOffsets": '{"short":{"0":10}}'}
    with pytest.raises(PySparkException) as raised:
        load(spark, topics, **asked).count()
    told = sentence(raised.value)
    assert told is not None
    assert told.startswith(
        "Offsets 10 to 59 of short[0] (50 messages) are gone: deleted on request"
    )
    assert load(spark, topics, **asked, failOnDataLoss="false").count() == 40
    assert load(spark, topics, subscribe="short").count() == 40


def test_offsets_that_go_between_the_plan_and_the_task(spark: SparkSession, topics: Topics) -> None:
    topics.admin.create_topic("hurried", 1)
    topics.fill("hurried", 100)
    planned = load(spark, topics, subscribe="hurried").rdd
    assert planned.getNumPartitions() == 1
    topics.delete_before("hurried", 20)
    with pytest.raises(PySparkException) as raised:
        planned.count()
    told = sentence(raised.value)
    assert told is not None
    assert told.startswith("Offsets 0 to 19 of hurried[0] (20 messages) are gone")
