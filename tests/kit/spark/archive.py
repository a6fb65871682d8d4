"""Spark's classes, kept in the form in which a JVM starts with them: the tests start many.

A JVM that runs Spark spends most of its first seconds reading and checking classes. The first test
that wants Spark trains one JVM (a small topic, batch and streaming) and keeps what it loaded in a
file of the user's cache; every later one maps that file, and starts in half the time.
A JVM that cannot use the file (another Java, other jars) goes on without it.

Run as a program, it is the training.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pyspark
from pyspark import SparkContext

import penstock
from penstock.spark.sessions.java import java_home
from penstock.spark.sessions.session import session
from tests.kit.processes.brokers import BrokerProcess

# A test ends before the better compiler and collector of a JVM have paid for themselves.
SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
_ROWS = 200
# Of this user's environments, the ones used last: each is two hundred megabytes.
ARCHIVES_MAX = 4


def java_options() -> str:
    """For every JVM of the tests; makes the archive if there is none for this Java and Spark."""
    made_of = (java_home(), pyspark.__file__, pyspark.__version__, Path(__file__).read_text())
    name = hashlib.sha256("\n".join(made_of).encode()).hexdigest()[:12]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "penstock-tests")
    cache.mkdir(parents=True, exist_ok=True)
    archive = cache / f"spark-{name}.jsa"
    with (cache / "spark-archive.lock").open("w") as lock:
        # Another process may be at it.
        fcntl.flock(lock, fcntl.LOCK_EX)
        if archive.exists():
            os.utime(archive)
        else:
            _make(archive)
            used_last = sorted(cache.glob("spark-*.jsa"), key=os.path.getmtime)
            for old in used_last[:-ARCHIVES_MAX]:
                old.unlink()
    return f"{SHORT_LIVED} -Xlog:disable -XX:SharedArchiveFile={archive}"


def _make(archive: Path) -> None:
    unfinished = archive.with_suffix(".unfinished")
    options = f"{SHORT_LIVED} -Xlog:disable -XX:ArchiveClassesAtExit={unfinished}"
    subprocess.run(
        [sys.executable, "-m", "tests.kit.spark.archive"],
        cwd=Path(__file__).parents[3],
        env={**os.environ, "SPARK_SUBMIT_OPTS": options},
        check=True,
    )
    unfinished.rename(archive)


def _train(folder: Path) -> None:
    """What most tests do, in small: read, write, aggregate; topics and Parquet."""
    spark = session("local[2]", "training", {"spark.sql.shuffle.partitions": "2"})
    with BrokerProcess(folder / "data") as broker:
        with penstock.connect_blocking(broker.address) as mq:
            mq.admin.create_topic("in", 2)
            with mq.producer() as producer:
                for row in range(_ROWS):
                    producer.send("in", b"row %d" % row, b"key %d" % (row % 7))
        source = {
            "bootstrap": broker.address,
            "subscribe": "in",
            "startingOffsets": "earliest",
        }
        rows = spark.read.format("penstock").options(**source).load()
        assert rows.groupBy("key").count().orderBy("key").count() == 7
        stream = spark.readStream.format("penstock").options(**source).load()
        to_topic = stream.select("key", "value").dropDuplicates(["value"]).writeStream
        to_topic = to_topic.format("penstock").option("bootstrap", broker.address)
        to_parquet = stream.writeStream.format("parquet").option("path", str(folder / "rows"))
        for sink in (to_topic.option("topic", "out"), to_parquet):
            checkpoint = str(folder / f"checkpoint-{id(sink)}")
            sink = sink.option("checkpointLocation", checkpoint).trigger(availableNow=True)
            sink.start().awaitTermination()
        assert spark.read.parquet(str(folder / "rows")).count() == _ROWS
    gateway = SparkContext._gateway
    assert gateway is not None
    spark.stop()
    # The archive is written by the JVM's end.
    gateway.proc.stdin.close()
    gateway.proc.wait()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="penstock-training-") as name:
        _train(Path(name))
