"""`df.write` to topics with a real Spark and a real broker: what arrives, what is refused."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

import penstock
import penstock.spark
import penstock.testing
from penstock.client.blocking.client import BlockingClient
from penstock.client.producing.partitioner import partition_of_key
from penstock.records import Codec, Message
from penstock.spark.errors import sentence


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with penstock.testing.broker(partitions_default=3) as address:
        yield address


@pytest.fixture
def mq(address: str, spark: SparkSession) -> Iterator[BlockingClient]:
    penstock.spark.register(spark)
    with penstock.connect_blocking(address) as mq:
        yield mq


def save(rows: DataFrame, address: str, mode: str = "append", **options: str) -> None:
    writer = rows.write.format("penstock").option("bootstrap", address).options(**options)
    writer.mode(mode).save()


def messages(mq: BlockingClient, topic: str) -> list[Message]:
    """Everything in the topic, by partition and offset."""
    ends = {
        (topic, partition.partition): partition.high_watermark
        for partition in mq.admin.describe_topic(topic).partitions
    }
    found: list[Message] = []
    with mq.consumer(topic, start="earliest") as consumer:
        while len(found) < sum(ends.values()):
            found += consumer.fetch()
    return sorted(found, key=lambda message: (message.partition, message.offset))


def values(mq: BlockingClient, topic: str) -> list[bytes | None]:
    return [message.value for message in messages(mq, topic)]


def headers(pairs: str) -> str:
    return f"CAST(array({pairs}) AS ARRAY<STRUCT<key: STRING, value: BINARY>>)"


def test_every_part_of_a_row_arrives(spark: SparkSession, mq: BlockingClient, address: str) -> None:
    """R-SPK-2: key, value, headers, topic, partition and timestamp, in topics made on the way."""
    moment = datetime(2026, 11, 16, 2, 3, 4, 567_000, tzinfo=UTC)
    at = f"TIMESTAMP '{moment.isoformat()}'"
    rows = spark.sql(f"""
        SELECT key, CAST(value AS BINARY) AS value, headers, topic, partition, timestamp
        FROM VALUES
            ('k', 'v', {headers("struct('h', X'31'), struct('h', CAST(NULL AS BINARY))")},
             'parts-a', 2, {at}),
            (NULL, NULL, NULL, 'parts-b', NULL, NULL),
            ('', '', {headers("")}, 'parts-a', 0, {at})
        AS rows(key, value, headers, topic, partition, timestamp)
    """)
    save(rows, address)
    [second, first] = messages(mq, "parts-a")
    assert (first.partition, first.key, first.value) == (2, b"k", b"v")
    assert first.headers == (("h", b"1"), ("h", None))
    assert first.timestamp_ms == int(moment.timestamp() * 1000)
    assert (second.partition, second.key, second.value, second.headers) == (0, b"", b"", ())
    [alone] = messages(mq, "parts-b")
    assert (alone.key, alone.value, alone.headers) == (None, None, ())
    assert abs(alone.timestamp_ms - datetime.now(UTC).timestamp() * 1000) < 60_000


@pytest.mark.parametrize("delivery", ["exactly-once", "at-least-once"])
@pytest.mark.parametrize("compression", [codec.name.lower() for codec in Codec])
def test_many_rows_keep_their_order(
    spark: SparkSession, mq: BlockingClient, address: str, delivery: str, compression: str
) -> None:
    """R-SPK-2: rows of a key go where every client puts them, in the order of the DataFrame."""
    topic = f"many-{delivery}-{compression}"
    rows = spark.range(0, 30_000, 1, 1).selectExpr(
        "CAST(id % 101 AS STRING) AS key", "CAST(id AS STRING) AS value"
    )
    save(
        rows,
        address,
        topic=topic,
        delivery=delivery,
        compression=compression,
        batchBytes="4096",
    )
    by_key: dict[bytes, list[int]] = defaultdict(list)
    for message in messages(mq, topic):
        assert message.key is not None
        assert message.value is not None
        assert message.partition == partition_of_key(message.key, 3)
        by_key[message.key].append(int(message.value))
    assert by_key == {b"%d" % key: list(range(key, 30_000, 101)) for key in range(101)}


def test_rows_without_a_key_reach_every_partition(
    spark: SparkSession, mq: BlockingClient, address: str
) -> None:
    mq.admin.create_topic("spread", 2)
    save(
        spark.range(0, 1000, 1, 2).selectExpr("CAST(id AS STRING) AS value"),
        address,
        topic="spread",
    )
    counts = [
        partition.high_watermark for partition in mq.admin.describe_topic("spread").partitions
    ]
    assert counts == [500, 500]


def test_the_option_wins_over_the_column(
    spark: SparkSession, mq: BlockingClient, address: str
) -> None:
    rows = spark.sql("SELECT 'v' AS value, 'elsewhere' AS topic")
    save(rows, address, topic="chosen")
    assert values(mq, "chosen") == [b"v"]


def test_nothing_at_all_can_be_written(
    spark: SparkSession, mq: BlockingClient, address: str
) -> None:
    mq.admin.create_topic("nothing", 1)
    save(spark.sql("SELECT 'v' AS value WHERE false"), address, topic="nothing")
    assert values(mq, "nothing") == []


def test_a_job_that_fails_leaves_nothing(
    spark: SparkSession, mq: BlockingClient, address: str
) -> None:
    """R-SPK-2: all rows appear at once, or none: also those of tasks that had ended well."""
    mq.admin.create_topic("whole", 1)
    rows = spark.range(0, 1000, 1, 4).selectExpr(
        "CAST(IF(id = 999, raise_error('the last row is bad'), id) AS STRING) AS value"
    )
    with pytest.raises(PySparkException, match="the last row is bad"):
        save(rows, address, topic="whole")
    assert values(mq, "whole") == []
    save(rows.limit(10), address, topic="whole")
    assert len(values(mq, "whole")) == 10


def test_a_named_version_is_written_once(
    spark: SparkSession, mq: BlockingClient, address: str
) -> None:
    """R-SPK-2: `txnAppId` and `txnVersion`, as foreachBatch needs them."""
    for version, value in ((0, "a"), (0, "again"), (2, "b"), (1, "late"), (2, "again")):
        rows = spark.sql(f"SELECT '{value}' AS value")
        save(rows, address, topic="versions", txnAppId="totals", txnVersion=str(version))
    assert sorted(filter(None, values(mq, "versions"))) == [b"a", b"b"]


@pytest.mark.parametrize(
    ("query", "mode", "options", "expected"),
    [
        ("SELECT 'v' AS value", "overwrite", {}, "only ever appended to"),
        ("SELECT 'v' AS value, 1 AS extra", "append", {}, "Column `extra` cannot be written"),
        ("SELECT 1 AS value", "append", {}, "Column `value` is int"),
        ("SELECT 'v' AS value", "append", {"topik": "x"}, "did you mean topic?"),
        (
            "SELECT 'v' AS value, 7 AS partition",
            "append",
            {},
            "A row is for partition 7 of refused, which has 3",
        ),
    ],
)
def test_what_is_wrong_is_one_sentence(
    spark: SparkSession,
    mq: BlockingClient,
    address: str,
    query: str,
    mode: str,
    options: dict[str, str],
    expected: str,
) -> None:
    with pytest.raises(PySparkException) as raised:
        save(spark.sql(query), address, mode, topic="refused", **options)
    said = sentence(raised.value)
    assert said is not None
    assert expected in said


def test_a_row_without_a_topic_is_an_error(
    spark: SparkSession, mq: BlockingClient, address: str
) -> None:
    rows = spark.sql("SELECT 'v' AS value, CAST(NULL AS STRING) AS topic")
    with pytest.raises(PySparkException) as raised:
        save(rows, address)
    assert "1 of 1 rows have no topic" in (sentence(raised.value) or "")


def test_no_broker_is_one_sentence(spark: SparkSession, mq: BlockingClient) -> None:
    with pytest.raises(PySparkException) as raised:
        save(spark.sql("SELECT 'v' AS value"), "127.0.0.1:1", topic="orders")
    assert "127.0.0.1:1" in (sentence(raised.value) or "")
