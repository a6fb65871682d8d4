"""Runs a pipeline: a Spark session, its frames, its sinks, to the end or until told to end.

Not the file (load.py), nor how progress looks (the command). The invariant: however it ends, Spark
is stopped and folders are unlocked; what a restart needs is in the checkpoint.
"""

from __future__ import annotations

import signal
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from penstock.spark.option_values import bootstrap_of
from penstock.spark.pipeline.declared.spec import Pipeline
from penstock.spark.pipeline.running.checkpoint import claim_here, claim_there
from penstock.spark.pipeline.running.frames import build_frames
from penstock.spark.pipeline.running.lag import latest_at
from penstock.spark.pipeline.running.shipping import reach_executors
from penstock.spark.pipeline.running.sinks import Show, opened, start_query, write_batch
from penstock.spark.pipeline.running.watch import Report, watch
from penstock.spark.sessions.session import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Times in SQL mean the same wherever the driver runs, and files hold them as every reader expects.
SPARK_SETTINGS: Final = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
}


class Observer(Protocol):
    """What wants to know how a pipeline gets on."""

    def started(self, sinks: int, *, is_sent: bool) -> None:
        """Spark runs, and sinks begin. Sent: executors had to be given the package."""

    @property
    def report(self) -> Report: ...

    @property
    def show(self) -> Show: ...

    def is_stopping(self) -> bool:
        """Whether a person wants it to end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkPlace:
    """Where Spark runs, and whether its own log is shown."""

    master: str = "local[*]"
    is_debug: bool = False


def run_pipeline(pipeline: Pipeline, place: SparkPlace, observer: Observer) -> bool:
    """Whether it came to its end, and was not told to end before."""
    claim_here(pipeline)
    with (
        opened(pipeline) as tables,
        running_spark(place, f"penstock {pipeline.name}", pipeline.spark) as started,
    ):
        frames = build_frames(started.spark, pipeline, started.work_folder)
        claim_there(pipeline, started.spark, frames)
        observer.started(len(pipeline.sinks), is_sent=started.is_sent)
        if pipeline.is_batch:
            for sink in pipeline.sinks:
                write_batch(sink, frames, tables, observer.show)
            return True
        # If one does not start, Spark ends, and with it the others.
        queries = {
            sink.name: start_query(pipeline, sink, frames, tables, observer.show)
            for sink in pipeline.sinks
        }
        streams = [each for sink in pipeline.sinks for each in pipeline.streams_of(sink)]
        latest = latest_at(filter(None, (bootstrap_of(each.options) for each in streams)))
        return watch(queries, latest, observer.report, observer.is_stopping)


@dataclass(frozen=True, slots=True, kw_only=True)
class StartedSpark:
    """A session, a folder that goes with it, and whether executors were sent the package."""

    spark: SparkSession
    work_folder: str
    is_sent: bool


@contextmanager
def running_spark(
    place: SparkPlace, app_name: str, settings: Mapping[str, str]
) -> Iterator[StartedSpark]:
    """Spark for one command."""
    config = {**SPARK_SETTINGS, **settings}
    on_interrupt = signal.getsignal(signal.SIGINT)
    with tempfile.TemporaryDirectory(prefix="penstock-pipeline-") as work_folder:
        spark = session(place.master, app_name, config, quiet=not place.is_debug)
        # Spark takes Ctrl-C for itself, to cancel jobs; the command decides what it means.
        signal.signal(signal.SIGINT, on_interrupt)
        try:
            is_sent = reach_executors(spark, place.master, work_folder)
            yield StartedSpark(spark=spark, work_folder=work_folder, is_sent=is_sent)
        finally:
            spark.stop()
