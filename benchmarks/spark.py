"""How fast does Spark read a topic and write to one, beside the ceiling of its Python Data Source
API and beside its own Kafka connector on the same topic, through our Kafka port?

All in one session with two cores, in turns; the median of the turns. Reading ends in Spark's no-op
sink; what is written is made by Spark from a range of numbers.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

import penstock
from benchmarks import budgets, servers, spark_peer
from benchmarks.report import Row

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_TOPIC: Final = "rows"
_PARTITIONS: Final = 4
_VALUE_BYTES: Final = 100
_CEILING: Final = "ceiling (rows made up)"
_OURS: Final = "Penstock"
_JVM: Final = "JVM Kafka connector"
_OURS_ONCE: Final = "Penstock, exactly once"
_OURS_AT_LEAST: Final = "Penstock, at least once"

Work = Callable[[], None]


def run(*, quick: bool = False, peers: bool = False) -> list[Row]:
    from penstock.spark.sessions.session import session

    rows = 40_000 if quick else 3_000_000
    rounds = 1 if quick else 5
    config = {"spark.log.level": "ERROR"}
    if peers:
        config["spark.jars"] = spark_peer.fetch()
    with servers.scratch_folder() as folder, servers.start_penstock(folder) as server:
        _fill(server.bootstrap, rows)
        spark = session("local[2]", "penstock-benchmarks", config)
        try:
            bench = _Bench(spark, server.bootstrap, rows, peers)
            return bench.reading(rounds) + bench.writing(rounds)
        finally:
            _end(spark)


def _end(spark: SparkSession) -> None:
    """Let the JVM end too, and wait for it, so that its CPU time counts as this question's."""
    gateway = spark.sparkContext._gateway
    spark.stop()
    assert gateway is not None
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait()


def _fill(bootstrap: str, rows: int) -> None:
    with penstock.connect_blocking(bootstrap) as mq:
        for topic in (_TOPIC, *_written_topics()):
            mq.admin.create_topic(topic, _PARTITIONS, {"durability": "os"})
        with mq.producer() as producer:
            for number in range(rows):
                producer.send(_TOPIC, b"%0*d" % (_VALUE_BYTES, number), partition=number % 4)


def _written_topics() -> tuple[str, ...]:
    return ("written-once", "written-at-least", "written-jvm")


class _Bench:
    def __init__(self, spark: SparkSession, bootstrap: str, rows: int, peers: bool) -> None:
        from benchmarks.spark_ceiling import MadeUp

        spark.dataSource.register(MadeUp)
        self._spark = spark
        self._bootstrap = bootstrap
        self._rows = rows
        self._peers = peers
        self._per_trigger = max(rows // 6, 1)

    def reading(self, rounds: int) -> list[Row]:
        batch: dict[str, Work] = {
            _CEILING: lambda: _drain(self._made_up("read")),
            _OURS: lambda: _drain(self._ours("read")),
        }
        stream: dict[str, Work] = {
            _CEILING: lambda: _drain_stream(self._made_up("readStream")),
            _OURS: lambda: _drain_stream(self._ours("readStream")),
        }
        if self._peers:
            batch[_JVM] = lambda: _drain(self._jvm("read"))
            stream[_JVM] = lambda: _drain_stream(self._jvm("readStream"))
        aims = {(_OURS, _CEILING): ("≥", 0.8), (_OURS, _JVM): ("≥", 3.0)}
        rates = _in_turns(batch, rounds, self._rows)
        found = _rows("spark read, batch", rates, aims)
        # Of a micro-batch half the time is Spark's own, so three times is beyond the ceiling.
        aims[_OURS, _JVM] = ("≥", 1.0)
        rates = _in_turns(stream, rounds, self._rows)
        return found + _rows("spark read, stream", rates, aims)

    def writing(self, rounds: int) -> list[Row]:
        once, at_least, jvm = _written_topics()
        works: dict[str, Work] = {
            _CEILING: lambda: self._made("made-up", rows="0", slices="1", valueBytes="1"),
            _OURS_ONCE: lambda: self._made("penstock", bootstrap=self._bootstrap, topic=once),
            _OURS_AT_LEAST: lambda: self._made(
                "penstock", bootstrap=self._bootstrap, topic=at_least, delivery="at-least-once"
            ),
        }
        if self._peers:
            works[_JVM] = lambda: self._made(
                "kafka", **{"kafka.bootstrap.servers": self._bootstrap, "topic": jvm}
            )
        aims = {
            (_OURS_ONCE, _JVM): ("≥", 2.0),
            (_OURS_AT_LEAST, _JVM): ("≥", 2.0),
            (_OURS_ONCE, _CEILING): None,
            (_OURS_AT_LEAST, _CEILING): None,
        }
        return _rows("spark write, batch", _in_turns(works, rounds, self._rows), aims)

    def _made_up(self, how: str) -> DataFrame:
        reader = getattr(self._spark, how).format("made-up").option("rows", self._rows)
        reader = reader.option("slices", _PARTITIONS).option("valueBytes", _VALUE_BYTES)
        loaded: DataFrame = reader.option("perTrigger", self._per_trigger).load()
        return loaded

    def _ours(self, how: str) -> DataFrame:
        reader = getattr(self._spark, how).format("penstock").option("bootstrap", self._bootstrap)
        return self._subscribed(reader)

    def _jvm(self, how: str) -> DataFrame:
        reader = getattr(self._spark, how).format("kafka")
        return self._subscribed(reader.option("kafka.bootstrap.servers", self._bootstrap))

    def _subscribed(self, reader: object) -> DataFrame:
        options = {"subscribe": _TOPIC, "startingOffsets": "earliest"}
        limit = {"maxOffsetsPerTrigger": str(self._per_trigger)}
        loaded: DataFrame = reader.options(**options, **limit).load()  # type: ignore[attr-defined]
        return loaded

    def _made(self, target: str, **options: str) -> None:
        numbers = self._spark.range(0, self._rows, numPartitions=_PARTITIONS)
        rows = numbers.selectExpr(f"lpad(cast(id as string), {_VALUE_BYTES}, '0') as value")
        rows.write.format(target).options(**options).mode("append").save()


def _drain(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()


def _drain_stream(frame: DataFrame) -> None:
    with tempfile.TemporaryDirectory(prefix="penstock-checkpoint-") as checkpoint:
        writer = frame.writeStream.format("noop").option("checkpointLocation", checkpoint)
        writer.trigger(availableNow=True).start().awaitTermination()


def _in_turns(works: dict[str, Work], rounds: int, rows: int) -> dict[str, float]:
    """Rows per second of each, the median of so many turns after one that is not counted."""
    seconds: dict[str, list[float]] = {name: [] for name in works}
    for turn in range(rounds + 1):
        for name, work in works.items():
            begun_s = time.perf_counter()
            work()
            if turn:
                seconds[name].append(time.perf_counter() - begun_s)
    return {name: rows / statistics.median(times) for name, times in seconds.items()}


def _rows(
    question: str,
    rates: Mapping[str, float],
    aims: Mapping[tuple[str, str], tuple[str, float] | None],
) -> list[Row]:
    found = [Row(question, name, rate, "rows/s") for name, rate in rates.items()]
    return found + budgets.ratios(question, rates, aims)
