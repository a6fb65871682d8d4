"""R-SPK-4: a pipeline's sinks in a running Spark: batches that are run again, and what is there.

The sources are files: whole pipelines are run elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

import penstock
import penstock.spark
import penstock.testing
from penstock.model.errors import InvalidConfig
from penstock.spark.pipeline.declared.spec import (
    ConsoleSink,
    ParquetSink,
    Pipeline,
    Sink,
    TopicSink,
    TopicSource,
    Trigger,
)
from penstock.spark.pipeline.running.sinks import Opened, opened, start_query, write_batch
from penstock.spark.pipeline.tables.table import ParquetTable
from tests.system.spark.pipeline_support import parquet_rows
from tests.system.spark.test_sink_stream import Lines, forget_last_commit, values

Shown = list[Sequence[Sequence[object]]]


class Running:
    """One sink of a stream of lines, run to its end again and again."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.lines = Lines(folder / "lines")
        self.checkpoint = str(folder / "checkpoint")
        self.shown: Shown = []
        self._stream = self.lines.stream(spark)

    def run(self, sink: Sink) -> None:
        pipeline = Pipeline(
            name="p",
            folder=".",
            trigger=Trigger(kind="available-now"),
            checkpoint=self.checkpoint,
            spark={},
            sources=(TopicSource(name="s", options={}, is_bounded=False, watermark=None),),
            steps=(),
            sinks=(sink,),
        )
        with opened(pipeline) as tables:
            query = start_query(pipeline, sink, {"s": self._frame(sink)}, tables, self._show)
            query.awaitTermination()

    def _frame(self, sink: Sink) -> DataFrame:
        """All keep state: of every value."""
        if not isinstance(sink, ParquetSink):
            return self._stream.groupBy("value").count()
        return self._stream.dropDuplicates(["value"])

    def _show(self, sink: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
        assert (sink, columns) == ("x", ["value", "count"])
        self.shown.append(rows)


@pytest.fixture
def running(spark: SparkSession, tmp_path: Path) -> Running:
    penstock.spark.register(spark)
    return Running(spark, tmp_path)


def parquet(path: object, if_exists: str = "error") -> ParquetSink:
    return ParquetSink(
        name="x",
        input="s",
        path=str(path),
        partition_by=(),
        if_exists=if_exists,  # type: ignore[arg-type]
        options={},
    )


def test_the_console_shows_some_rows_of_an_aggregation_and_keeps_the_state_of_all(
    running: Running,
) -> None:
    sink = ConsoleSink(name="x", input="s", rows_max=3, output_mode="complete")
    for _ in range(2):
        running.lines.add(*map(str, range(200)))
    running.run(sink)
    assert [[count for _, count in rows] for rows in running.shown] == [[1] * 3, [2] * 3]


def test_a_batch_that_was_decided_and_is_run_again_adds_nothing_but_its_state(
    running: Running, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    running.lines.add("a", "b")
    running.run(parquet(f"file:{out}"))
    forget_last_commit(tmp_path / "checkpoint" / "x")
    running.lines.add("b", "c")
    running.run(parquet(out))
    assert parquet_rows(out, ["value"]) == [("a",), ("b",), ("c",)]


@pytest.mark.parametrize(("delivery", "copies"), [("exactly-once", 1), ("at-least-once", 2)])
def test_a_topic_in_update_mode(
    running: Running, tmp_path: Path, delivery: str, copies: int
) -> None:
    """R-SPK-2: a batch that is run again is there again only for who asked for it."""
    with penstock.testing.broker() as address:
        sink = TopicSink(
            name="x",
            input="s",
            options={"bootstrap": address, "topic": "totals", "delivery": delivery},
            key="value -- whatever it is",
            is_json=True,
            output_mode="update",
        )
        running.lines.add("a", "a", "b")
        running.run(sink)
        forget_last_commit(tmp_path / "checkpoint" / "x")
        running.lines.add("b")
        running.run(sink)
        with penstock.connect_blocking(address) as mq:
            found = values(mq, "totals")
    first = ['{"value":"a","count":2}', '{"value":"b","count":1}']
    assert found == sorted([*first * copies, '{"value":"b","count":2}'])


def test_a_key_that_is_no_whole_expression_is_refused(
    running: Running, spark: SparkSession
) -> None:
    """Of which Spark, asked for a column, would take the last word for its name."""
    frames = {"s": spark.sql("SELECT true AS value")}
    for key in ("value AND", "value, value"):
        sink = TopicSink(
            name="x", input="s", options={}, key=key, is_json=True, output_mode="append"
        )
        with pytest.raises(InvalidConfig, match=r"sinks\.x: Syntax error"):
            write_batch(sink, frames, Opened(), lambda *_: None)


def test_a_batch_without_rows_can_be_read(
    running: Running, spark: SparkSession, tmp_path: Path
) -> None:
    frames = {"s": spark.sql("SELECT 1 AS a WHERE false")}
    with ParquetTable(str(tmp_path / "out")) as table:
        write_batch(parquet(tmp_path / "out"), frames, Opened({"x": table}), lambda *_: None)
    assert spark.read.parquet(str(tmp_path / "out")).columns == ["a"]


def test_what_is_there_is_seen_behind_a_url(
    running: Running, spark: SparkSession, tmp_path: Path
) -> None:
    """A mount table of Hadoop's, as whoever has HDFS or an object store has one."""
    settings = spark.sparkContext._jsc.hadoopConfiguration()
    settings.set("fs.viewfs.mounttable.there.link./there", f"file://{tmp_path}/there")
    (tmp_path / "there").mkdir()
    url, out = "viewfs://there/there", tmp_path / "out"
    running.checkpoint = f"{url}/checkpoint"
    running.lines.add("a", "b")
    running.run(parquet(out))
    running.run(parquet(out))
    assert parquet_rows(out, ["value"]) == [("a",), ("b",)]
    running.checkpoint = f"{url}/second"
    with pytest.raises(InvalidConfig, match="the checkpoint is new"):
        running.run(parquet(out))
    running.run(parquet(f"{url}/out"))
    running.run(parquet(f"{url}/out"))
    assert spark.read.parquet(f"{url}/out").count() == 2
    running.checkpoint = str(tmp_path / "third")
    with pytest.raises(InvalidConfig, match="Spark would leave rows out"):
        running.run(parquet(f"{url}/out", "append"))
    (tmp_path / "there" / "files").mkdir()
    (tmp_path / "there" / "files" / "x.parquet").touch()
    with pytest.raises(InvalidConfig, match="has files already"):
        running.run(parquet(f"{url}/files"))
