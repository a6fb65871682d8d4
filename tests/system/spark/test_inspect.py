"""Log inspection on a real broker and on data folders, with real Spark (R-SPK-3)."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

import penstock.testing
from penstock.cli.main import make_app
from penstock.client.blocking.client import BlockingClient, connect_blocking
from penstock.model.errors import UnknownTopic
from penstock.records import Codec
from penstock.spark.inspection import Inspection, InspectOptions, Kind, Severity, inspect
from penstock.spark.inspection.evidence.analysis import ask_spark
from penstock.spark.inspection.evidence.dead_letters import causes
from penstock.spark.inspection.evidence.tables import TopicRow
from penstock.spark.inspection.thresholds import DEFAULTS
from penstock.spark.pipeline.running.run import StartedSpark
from tests.kit.spark import inspection_topics as topics
from tests.kit.spark.inspection_topics import START_MS, Batch, Record, Shape, Topic
from tests.kit.spark.session import shared_session

NOW_MS = int(time.time() * 1000)
SOURCE_SCHEMA = (
    "key binary, value binary, topic string, partition int, offset long, timestamp timestamp, "
    "timestampType int, headers array<struct<key:string,value:binary>>, batchOffset long, "
    "batchRecords int, batchBytes int, codec string, producerId long, producerEpoch int, "
    "sequence int, appendTime timestamp, createTime timestamp"
)


def told(inspection: Inspection, topic: str) -> set[tuple[Severity, Kind]]:
    return {
        (finding.severity, finding.kind)
        for finding in inspection.findings
        if finding.topic == topic and finding.severity is not Severity.NOTE
    }


# --- through a broker --------------------------------------------------------------------------


def publish_clean(mq: BlockingClient, topic: str) -> None:
    mq.admin.create_topic(topic, 3)
    with mq.producer(compression="zstd") as one, mq.producer() as two:
        for number in range(300):
            producer = one if number % 3 else two
            producer.send(
                topic,
                b'{"order": %d}' % number,
                None if number % 10 == 0 else b"customer-%d" % (number % 40),
                headers=[("trace", b"%d" % number)],
                timestamp_ms=NOW_MS - 60_000 + number * 100,
            )
    mq.admin.commit_offsets("billing", {(topic, 0): 0, (topic, 1): 10})


def publish_faulty(mq: BlockingClient, topic: str) -> None:
    """What an honest broker takes: copies, a hot key, a slow producer, an old message."""
    mq.admin.create_topic(topic, 1)
    start_ms = NOW_MS - 600_000
    with mq.producer() as quick, mq.producer() as slow, mq.producer(idempotent=False) as plain:
        for number in range(400):
            at_ms = start_ms + number * 100
            key = b"<script>" if number % 2 else b"customer-%d" % number
            quick.send(topic, b"order %d" % number, key, timestamp_ms=at_ms)
            quick.flush()
            if number % 20 == 19:
                slow.send(topic, b"late %d" % number, timestamp_ms=at_ms - 40_000)
                slow.flush()
            if number in (200, 202):  # sent again after a lost answer
                plain.send(topic, b"payment 17", b"bob", timestamp_ms=start_ms + 20_000)
                plain.flush()
            if number in (300, 301):
                back_ms = 5_000 if number == 301 else 0
                value = b"state %d" % number
                plain.send(topic, value, b"carol", timestamp_ms=at_ms - back_ms)
                plain.flush()


def publish_dead_letters(mq: BlockingClient, topic: str) -> None:
    for header, cause in (
        ("penstock-dead-cause", b"BadAmount"),
        ("penstock-dead-cause", b"BadAmount"),
        ("kafka_dlt-exception-fqcn", b"java.io.IOException"),
        ("kafka_dlt-exception-message", b"order 17 is\nbroken"),
        ("kafka_dlt-exception-message", b"order 18 is\nbroken"),
        ("x-death-reason", b"\xff<b>"),
        ("trace", b"nobody says why"),
    ):
        mq.publish(topic, b"{}", headers=[(header, cause)])


def test_topics_of_a_broker(spark: SparkSession, tmp_path: Path) -> None:
    """R-SPK-3: faults are found with their offsets, a clean topic stays clean; lag by group, dead
    letters by cause; the report and the tables are written."""
    with penstock.testing.broker() as address, connect_blocking(address) as mq:
        publish_clean(mq, "clean")
        publish_faulty(mq, "faulty")
        mq.admin.create_topic("empty", 2)
        publish_dead_letters(mq, "faulty.DLQ")
        options = InspectOptions(topics=("clean", "faulty", "empty"), bootstrap=address)
        steps: list[tuple[int, int, str]] = []
        inspection = inspect(spark, options, lambda *step: steps.append(step))

    assert [done for done, _, _ in steps] == list(range(8))
    assert told(inspection, "clean") == set()
    assert told(inspection, "empty") == set()
    warnings = {Kind.DUPLICATES, Kind.ORDER, Kind.HOT_KEY, Kind.SLOW_PRODUCER}
    assert told(inspection, "faulty") == {(Severity.WARNING, kind) for kind in warnings}
    assert told(inspection, "faulty.DLQ") == {(Severity.WARNING, Kind.DEAD_LETTERS)}
    check_tables(inspection)
    report = Path(inspection.write_report(str(tmp_path / "out"))).read_text()
    assert "<script" not in report
    assert "The key “&lt;script&gt;” has 50 %" in report
    assert pq.read_table(tmp_path / "out" / "findings.parquet").num_rows == len(inspection.findings)


def check_tables(inspection: Inspection) -> None:
    tables = inspection.tables
    clean, faulty, empty = tables.topics
    assert (clean.messages, clean.unkeyed_messages, clean.keys) == (300, 30, 36)
    assert (clean.partitions, clean.producers, empty.messages) == (3, 2, 0)
    assert faulty.messages == 400 + 20 + 4
    assert faulty.delay_basis == "lower bound"
    billing = {(row.partition, row.committed_offset) for row in tables.lag}
    assert billing == {(0, 0), (1, 10)}
    ends = {row.partition: row.log_end_offset for row in tables.partitions if row.topic == "clean"}
    assert {row.partition: row.lag for row in tables.lag} == {0: ends[0], 1: (ends[1] or 0) - 10}
    assert {row.cause: row.messages for row in tables.dead_letters} == {
        "BadAmount": 2,
        "java.io.IOException": 1,
        "order # is": 2,
        "\ufffd<b>": 1,
        "not said": 1,
    }
    by_kind = {finding.kind: finding for finding in inspection.findings}
    assert by_kind[Kind.DUPLICATES].count == 1
    (copy,) = by_kind[Kind.DUPLICATES].examples
    assert copy.text.startswith("repeats offset ")
    assert by_kind[Kind.ORDER].count == 1
    assert {row.codec for row in tables.codecs if row.topic == "clean"} == {"none", "zstd"}


def test_a_topic_that_is_not_there_is_one_sentence(spark: SparkSession) -> None:
    with (
        penstock.testing.broker() as address,
        pytest.raises(UnknownTopic, match="no topic 'nothing' to inspect"),
    ):
        inspect(spark, InspectOptions(topics=("nothing",), bootstrap=address))


def test_only_messages_since_a_moment(spark: SparkSession, tmp_path: Path) -> None:
    """R-SPK-3: from a broker and from its folder; where the range begins is no hole."""
    data = str(tmp_path / "data")
    with penstock.testing.broker(data=data) as address:
        with connect_blocking(address) as mq:
            mq.admin.create_topic("orders", 1)
            for number in range(20):
                mq.publish("orders", b"%d" % number, timestamp_ms=NOW_MS - 20_000 + number * 1_000)
        since_ms = NOW_MS - 5_000
        online = InspectOptions(topics=("orders",), bootstrap=address, since_ms=since_ms)
        inspections = [inspect(spark, online)]
    offline = InspectOptions(topics=("orders",), path=data, since_ms=since_ms)
    inspections.append(inspect(spark, offline))
    for inspection in inspections:
        assert inspection.findings == ()
        (row,) = inspection.tables.partitions
        assert (row.first_offset, row.last_offset, row.messages) == (15, 19, 5)


def test_many_causes_of_one_topic_do_not_hide_those_of_another(spark: SparkSession) -> None:
    headers = [
        *((topic, cause) for topic in ("a.dead", "b.dead") for cause in ("x", "x", "x", "y", "y")),
        *(("a.dead", f"order {number}") for number in range(5)),
    ]
    rows = [
        (
            topic,
            0,
            offset,
            datetime.fromtimestamp(offset, UTC),
            [("x-death-reason", cause.encode())],
        )
        for offset, (topic, cause) in enumerate(headers)
    ]
    schema = (
        "topic string, partition int, offset long, timestamp timestamp, "
        "headers array<struct<key:string,value:binary>>"
    )
    found = causes(spark.createDataFrame(rows, schema), causes_max=2).collect()
    assert {(row["topic"], row["cause"]): row["messages"] for row in found} == {
        ("a.dead", "x"): 3,
        ("a.dead", "y"): 2,
        ("a.dead", "other causes"): 5,
        ("b.dead", "x"): 3,
        ("b.dead", "y"): 2,
    }
    (others,) = [row for row in found if row["cause"] == "other causes"]
    assert others["newest"]["offset"] == len(rows) - 1
    assert others["last_ms"] == (len(rows) - 1) * 1000


# --- from data folders -------------------------------------------------------------------------


def hand_made(batches: list[Batch], **shape: object) -> Topic:
    topic = topics.clean_topic(Shape(seed=0, batches=0, **shape))  # type: ignore[arg-type]
    topic.batches = batches
    return topic


def numbered(first: int, *, at_ms: int, count: int = 4) -> Batch:
    """A batch of producer 5 that begins with this sequence."""
    records = [
        Record(created_ms=at_ms, key=b"k%d" % number, value=b"%d %d" % (first, number))
        for number in range(count)
    ]
    return Batch(partition=0, records=records, producer=(5, 0, first), appended_ms=at_ms)


class Offline(NamedTuple):
    """Topics of a data folder, all inspected at once."""

    topics: dict[str, Topic]
    inspection: Inspection

    def row(self, topic: str) -> TopicRow:
        return next(row for row in self.inspection.tables.topics if row.topic == topic)


@pytest.fixture(scope="module")
def offline(tmp_path_factory: pytest.TempPathFactory) -> Offline:
    folder = tmp_path_factory.mktemp("data")
    made = {
        "wrapping": wrapping_topic([-6, -2, 2]),
        "repeating": wrapping_topic([-8, -4, 0, -4, 4]),
        "compacted": topics.clean_topic(Shape(seed=3)),
        "future": topics.clean_topic(Shape(seed=4, producers=(True, True))),
        "marked": topics.clean_topic(Shape(seed=5)),
        "untimed": hand_made([numbered(0, at_ms=-1), numbered(4, at_ms=-1)]),
        "stamped": topics.clean_topic(
            Shape(seed=9, batches=80, append_time=True, codecs=(Codec.LZ4, Codec.GZIP))
        ),
    }
    topics.plant_hole(made["compacted"])
    # Once, a producer gave microseconds instead of milliseconds.
    made["future"].batches[5].records[-1] = Record(created_ms=START_MS * 1000, key=None, value=b"x")
    marker = Batch(partition=0, records=[Record(created_ms=0, key=b"", value=b"")], is_control=True)
    made["marked"].batches[10:10] = [replace(marker), replace(marker)]
    for name, topic in made.items():
        topics.write_folder(topic, folder, name)
    (folder / "topics" / "compacted" / "0" / "compaction.journal").write_bytes(b"")
    options = InspectOptions(topics=tuple(made), path=str(folder))
    return Offline(made, inspect(shared_session(), options))


def wrapping_topic(firsts: list[int]) -> Topic:
    """Batches of one producer with these first sequences, where 0 comes after the largest."""
    circle = 2**31
    return hand_made(
        [numbered(first % circle, at_ms=START_MS + at) for at, first in enumerate(firsts)]
    )


def test_edges_that_are_no_faults(offline: Offline, tmp_path: Path) -> None:
    """R-SPK-3: sequences that start again at 0, compacted logs, control records side by side; a
    wrong clock is one finding and spoils nothing else."""
    inspection = offline.inspection
    for name in offline.topics.keys() - {"repeating"}:
        wrong = {(Severity.WARNING, Kind.WRONG_CLOCK)} if name == "future" else set()
        assert told(inspection, name) == wrong, name
    (control,) = [each for each in inspection.findings if each.kind is Kind.CONTROL_RECORDS]
    assert (control.topic, control.count) == ("marked", 2)
    marker = offline.topics["marked"].batches[10]
    assert [place.offset for place in control.examples] == [marker.offset]
    assert offline.row("compacted").is_compacted
    assert offline.row("future").delay_p99_ms < 1_000
    assert offline.row("untimed").first_ms is None
    assert inspection.is_offline
    assert inspection.tables.lag == ()
    assert inspection.write_report(str(tmp_path / "out"))


def test_a_repeat_after_the_sequences_began_again_is_found(offline: Offline) -> None:
    (finding,) = [
        each
        for each in offline.inspection.findings
        if each.topic == "repeating" and each.severity is not Severity.NOTE
    ]
    assert (finding.kind, finding.count) == (Kind.DUPLICATES, 4)
    assert [(place.offset, place.text) for place in finding.examples] == [
        (12, "producer 5: repeats offset 4")
    ]


def test_delays_are_exact_where_the_broker_stamped_the_append(offline: Offline) -> None:
    """R-SPK-3: produce-to-append delay percentiles."""
    delays = sorted(
        batch.appended_ms - record.created_ms
        for batch in offline.topics["stamped"].batches
        for record in batch.records
    )
    assert offline.row("stamped").delay_basis == "append time"
    shares = {
        each.share: each.value
        for each in offline.inspection.tables.percentiles
        if each.topic == "stamped" and each.measure == "delay"
    }
    for share, value in shares.items():
        exact = delays[max(0, -(-round(share * 1000) * len(delays) // 1000) - 1)]
        assert exact - exact / 32 <= value <= exact, share


def test_the_log_is_read_once(spark: SparkSession) -> None:
    topic = topics.clean_topic(Shape(seed=1, partitions=2))
    topics.plant_slow_producer(topic)  # which asks one question more
    rows = topics.as_rows(topic, "orders")
    seen = spark.sparkContext.accumulator(0)

    def counted(row: tuple[object, ...]) -> tuple[object, ...]:
        seen.add(1)
        return row

    read = spark.sparkContext.parallelize(rows, 2).map(counted)
    messages = spark.createDataFrame(read, SOURCE_SCHEMA, verifySchema=False)
    ask_spark(messages, None, doubtful=(), thresholds=DEFAULTS, now_ms=NOW_MS, step=lambda _: None)
    assert seen.value == len(rows)


# --- the command -------------------------------------------------------------------------------


def test_the_command(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """R-SPK-3: JSON for scripts, the report, and an exit code that says how bad it is. In this
    process's Spark: the demo runs the command in one of its own."""

    @contextmanager
    def running_spark(*_: object) -> Iterator[StartedSpark]:
        yield StartedSpark(spark=spark, work_folder=str(tmp_path), is_sent=False)

    monkeypatch.setattr("penstock.spark.pipeline.running.run.running_spark", running_spark)
    topic = topics.clean_topic(Shape(seed=11))
    topics.plant_hole(topic)
    topics.write_folder(topic, tmp_path / "data", "orders")
    command = [
        *("pipeline", "inspect", "orders"),
        *("--path", str(tmp_path / "data"), "--report", str(tmp_path / "out")),
        *("--json", "--fail-on", "critical"),
    ]
    done = CliRunner().invoke(make_app(), command)
    assert done.exit_code == 1, done.output
    summary = json.loads(done.stdout)
    assert summary["findings"][0]["kind"] == "hole"
    (lost,) = topic.of("hole")
    assert summary["findings"][0]["examples"][0]["offset"] == lost.offset
    assert Path(summary["report"]).read_text().startswith("<!doctype html>")
    assert "Traceback" not in done.stderr
