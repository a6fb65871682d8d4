"""R-SPK-4: what a replay planned is what it writes, whatever happens to its source meanwhile."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from penstock.client.blocking.client import BlockingClient
from penstock.model.errors import InvalidConfig
from penstock.spark.pipeline.replay import (
    ReplayOptions,
    find_source_id,
    plan_replay,
    write_planned,
)
from penstock.spark.pipeline.replay_plan import Plan
from tests.system.spark.source_support import Topics, broker_topics

START_MS = int(time.time() * 1000) - 100_000
Message = tuple[bytes | None, bytes | None, int]


@pytest.fixture
def topics() -> Iterator[Topics]:
    with broker_topics() as started:
        yield started


def publish(client: BlockingClient, topic: str, numbers: range) -> list[Message]:
    """Messages of many times, not in their order, several of each."""
    sent: list[Message] = []
    with client.producer() as producer:
        for number in numbers:
            message = (b"%d" % (number % 7), b"%d" % number, START_MS + number * 37 % 101)
            producer.send(topic, message[1], message[0], timestamp_ms=message[2])
            sent.append(message)
    return sent


def read(client: BlockingClient, topic: str) -> list[Message]:
    described = client.admin.describe_topic(topic)
    total = sum(each.high_watermark - each.log_start_offset for each in described.partitions)
    found: list[Message] = []
    with client.consumer(topic, start="earliest") as consumer:
        while len(found) < total:
            found += [
                (message.key, message.value, message.timestamp_ms)
                for message in consumer.fetch(timeout_s=10)
            ]
    return found


class Run:
    """A replay in this process's Spark, which may be told to end after some rows."""

    def __init__(self, spark: SparkSession, plan: Plan, folder: Path) -> None:
        self.spark, self.plan, self.folder = spark, plan, folder
        self.told: list[int] = []

    def write(self, given: ReplayOptions, *, rows_max: int | None = None) -> tuple[bool, int]:
        def is_stopping() -> bool:
            return rows_max is not None and self.told[-1] >= rows_max

        def told(done: int, rows: int) -> None:
            assert rows == self.plan.rows
            self.told.append(done)

        return write_planned(self.spark, given, self.plan, str(self.folder), told, is_stopping)


def options(topics: Topics, source: str, **given: Any) -> ReplayOptions:
    return ReplayOptions(
        source=source,
        is_folder="/" in source,
        bootstrap=topics.address,
        topic="again",
        request={},
        **given,
    )


def test_a_topic_that_lives_on_is_replayed_as_it_was(
    spark: SparkSession, tmp_path: Path, topics: Topics
) -> None:
    """What is appended after planning is not part of it; each message once and in the order of
    time, over stretches, stops, notes that are lost, and other rates."""
    topics.admin.create_topic("orders", 2)
    topics.admin.create_topic("again", 1)
    sent = publish(topics.mq, "orders", range(60))
    with pytest.raises(InvalidConfig, match="--where: Syntax error"):
        plan_replay(spark, options(topics, "orders", where="value <> '5' AND"), None)
    given = options(topics, "orders", from_ms=START_MS + 3, where="value <> '5' -- or so")
    plan = plan_replay(spark, given, find_source_id(given), stretch_rows=20)
    publish(topics.mq, "orders", range(60, 80))
    expected = [each for each in sent if each[1] != b"5" and each[2] >= START_MS + 3]
    full, rest = divmod(len(expected), 20)
    assert [stretch.rows for stretch in plan.stretches] == [20] * full + [rest]

    run = Run(spark, plan, tmp_path)
    assert run.write(replace(given, rows_per_s=6.0), rows_max=12) == (False, 12)
    assert run.told == [0, 12]
    # As if killed before it was noted, and gone on with at another rate: the broker knows.
    (tmp_path / "written.json").unlink()
    assert run.write(given) == (True, len(expected))
    assert run.told[2:5] == [12, 20, 40]
    again = read(topics.mq, "again")
    assert sorted(again) == sorted(expected)
    assert [each[2] for each in again] == sorted(each[2] for each in expected)

    # What is gone meanwhile is told, and why; what is left of it is not written.
    lost = Run(spark, replace(plan, name="another"), tmp_path / "another")
    with pytest.raises(InvalidConfig, match=r"orders has \d+ of the 20 messages from 20"):
        lost.write(replace(given, where="offset < 10"))
    topics.delete_before("orders", 20)
    with pytest.raises(Exception, match=r"orders\[0\].*deleted"):
        lost.write(given)
    assert len(read(topics.mq, "again")) == len(expected)


def test_an_archive_that_grows_is_replayed_as_it_was(
    spark: SparkSession, tmp_path: Path, topics: Topics
) -> None:
    folder, sent = str(tmp_path / "archive"), {}

    def archive(numbers: range, starts: str) -> None:
        for topic in ("orders", "payments"):
            sent[topic, numbers] = publish(topics.mq, topic, numbers)
            reader = spark.read.format("penstock").option("bootstrap", topics.address)
            reader = reader.option("subscribe", topic).option("includeHeaders", "true")
            reader = reader.option("startingOffsets", f'{{"{topic}": {{"0": {starts}}}}}')
            reader.load().write.partitionBy("topic").mode("append").parquet(folder)

    for topic in ("again", "orders", "payments"):
        topics.admin.create_topic(topic, 1)
    archive(range(30), "0")
    with pytest.raises(InvalidConfig, match="has no partition 7; the last one that it has is 0"):
        plan_replay(spark, options(topics, folder, offsets={7: (0, 10)}), None)
    given = options(topics, folder, shift=-5_000)
    plan = plan_replay(spark, given, None, stretch_rows=25)
    archive(range(30, 40), "30")
    run = Run(spark, plan, tmp_path / "checkpoint")
    run.folder.mkdir()
    assert run.write(given) == (True, 60)
    assert run.told == [0, 25, 50, 60]
    expected = sorted(
        (time_ms - 5_000, key, value)
        for topic in ("orders", "payments")
        for key, value, time_ms in sent[topic, range(30)]
    )
    again = [(time_ms, key, value) for key, value, time_ms in read(topics.mq, "again")]
    assert sorted(again) == expected
    assert [each[0] for each in again] == [each[0] for each in expected]
