"""A driver that is made to be killed: topic → topic and topic → Parquet, with places to stop at.

Run as a program. Its data source, readers and writers are the real ones, except that they stop
(until somebody releases or kills them) or kill themselves at the places named in the arguments.
Each place does so once: a file in the folder tells that it was reached.
"""

# The names of methods are Spark's.
# ruff: noqa: N802

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from penstock.spark.sessions.session import session
from penstock.spark.sink.stream import StreamWriter
from penstock.spark.source.data_source import PenstockDataSource, register
from penstock.spark.source.stream_reader import StreamReader
from tests.kit.spark.archive import SHORT_LIVED


@dataclass(frozen=True)
class Halts:
    """Where to stop: by the place's name, how often it is passed before that."""

    folder: str
    stops: dict[str, int]
    deaths: dict[str, int]

    def passing(self, place: str) -> None:
        if self._is_due(place, self.deaths):
            os.kill(os.getpid(), signal.SIGKILL)
        if self._is_due(place, self.stops):
            while not Path(self.folder, f"{place}.released").exists():
                time.sleep(0.02)

    def _is_due(self, place: str, due: dict[str, int]) -> bool:
        if place not in due:
            return False
        passes = os.open(f"{self.folder}/{place}.passes", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.write(passes, b".")
        is_due = os.fstat(passes).st_size > due[place]
        os.close(passes)
        try:
            if is_due:
                os.close(os.open(f"{self.folder}/{place}.reached", os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return False
        return is_due


class HaltingReader(StreamReader):
    """The real reader, with places."""

    halts: Halts

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Any:
        planned = super().partitions(start, end)
        self.halts.passing("planned")
        return planned

    def read(self, partition: Any) -> Iterator[Any]:
        for batch in super().read(partition):
            yield batch
            self.halts.passing("reading")

    def commit(self, end: dict[str, Any]) -> None:
        super().commit(end)
        self.halts.passing("source-committed")


class HaltingWriter(StreamWriter):
    """The real writer, with places."""

    halts: Halts

    def write(self, iterator: Iterator[Any]) -> Any:
        message = super().write(iterator)
        self.halts.passing("task-staged")
        return message

    def commit(self, messages: Any, batch_id: int) -> None:
        self.halts.passing("staged")
        super().commit(messages, batch_id)
        self.halts.passing("committed")


class HaltingSource(PenstockDataSource):
    """The real data source under another name."""

    @classmethod
    def name(cls) -> str:
        return "halting"

    def streamReader(self, schema: Any) -> Any:
        reader = super().streamReader(schema)
        reader.__class__ = HaltingReader
        return reader

    def streamWriter(self, schema: Any, overwrite: bool) -> Any:
        writer = super().streamWriter(schema, overwrite)
        writer.__class__ = HaltingWriter
        return writer


def read_topic(spark: SparkSession, arguments: dict[str, Any]) -> DataFrame:
    return (
        spark.readStream.format("halting")
        .option("bootstrap", arguments["bootstrap"])
        .option("subscribe", "in")
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", arguments["rows_per_trigger"])
        .load()
    )


def main(arguments: dict[str, Any]) -> None:
    folder = arguments["folder"]
    # These classes are of the main module, so Spark sends them to its workers as they are now.
    halts = Halts(arguments["halts"], arguments["stops"], arguments["deaths"])
    HaltingReader.halts = HaltingWriter.halts = halts
    spark = session(
        arguments["master"],
        "copy",
        {
            "spark.log.level": "ERROR",
            "spark.sql.shuffle.partitions": "2",
            "spark.sql.warehouse.dir": f"{folder}/warehouse",
            "spark.local.dir": f"{folder}/local",
            "spark.executor.extraJavaOptions": SHORT_LIVED,
        },
    )
    register(spark, HaltingSource)
    # Every row comes in twice and goes out once. The shuffle makes the order of a retry another
    # one, and the uuid its bytes.
    copy = (
        read_topic(spark, arguments)
        .selectExpr("key", "CAST(value AS STRING) AS value")
        .dropDuplicates(["value"])
        .selectExpr("key", "concat(value, ' ', uuid()) AS value")
        .writeStream.format("halting")
        .option("bootstrap", arguments["bootstrap"])
        .option("topic", "out")
        .option("checkpointLocation", f"{folder}/copy-checkpoint")
        .trigger(availableNow=True)
        .start()
    )
    archive = (
        read_topic(spark, arguments)
        .writeStream.format("parquet")
        .option("path", f"{folder}/archive")
        .option("checkpointLocation", f"{folder}/archive-checkpoint")
        .trigger(availableNow=True)
        .start()
    )
    copy.awaitTermination()
    archive.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
