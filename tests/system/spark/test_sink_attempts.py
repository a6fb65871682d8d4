"""The sink as Spark may drive it, without a JVM: attempts that run twice, at once, or late.

The writers are pickled as Spark does it, between the driver and its tasks; the broker is real.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.sql.types import BinaryType, StringType, StructField, StructType

import penstock
import penstock.testing
from penstock.client.blocking.client import BlockingClient
from penstock.spark.cluster import close_clients
from penstock.spark.sink import batch_writer, stream_writer
from penstock.spark.sink.task import GATHER_BYTES
from tests.kit.processes.brokers import BrokerProcess

SCHEMA = StructType([StructField("key", StringType()), StructField("value", BinaryType())])
ThingT = TypeVar("ThingT")


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with penstock.testing.broker() as address:
        yield address


@pytest.fixture
def mq(address: str) -> Iterator[BlockingClient]:
    with penstock.connect_blocking(address) as mq:
        yield mq


def travelled(thing: ThingT) -> ThingT:
    copy: ThingT = pickle.loads(pickle.dumps(thing))
    return copy


def rows(*values: bytes) -> Iterator[pa.RecordBatch]:
    yield pa.record_batch({"key": pa.array(["k"] * len(values)), "value": pa.array(values)})


@pytest.fixture
def task() -> Iterator[TaskContext]:
    context = TaskContext._getOrCreate()
    context._partitionId = 0
    context._localProperties = {}
    yield context
    TaskContext._taskContext = None
    close_clients()


def options(address: str, topic: str, **more: str) -> dict[str, str]:
    return {"bootstrap": address, "topic": topic, **more}


def values(mq: BlockingClient, topic: str) -> list[bytes | None]:
    mq.partition_count(topic, create=True)
    end = mq.admin.find_offset(topic, 0, "latest")
    found: list[bytes | None] = []
    with mq.consumer() as consumer:
        consumer.assign([(topic, 0)])
        consumer.seek((topic, 0), "earliest")
        while len(found) < end:
            found += [message.value for message in consumer.fetch()]
    return found


def test_of_two_attempts_the_one_that_spark_names_counts(
    mq: BlockingClient, address: str, task: TaskContext
) -> None:
    """R-SPK-2: a speculative task, or one that was taken for dead, stages the same part again."""
    mq.admin.create_topic("speculative", 1)
    writer = batch_writer(options(address, "speculative"), SCHEMA, False)
    lost = travelled(writer).write(rows(b"a", b"b"))
    counts = travelled(writer).write(rows(b"b", b"a"))
    assert values(mq, "speculative") == []
    travelled(writer).commit([travelled(counts)])
    assert values(mq, "speculative") == [b"b", b"a"]
    late = travelled(writer).write(rows(b"late"))
    travelled(writer).commit([travelled(lost), travelled(late)])
    assert values(mq, "speculative") == [b"b", b"a"]


def test_parts_follow_one_another_in_the_order_of_spark_s_partitions(
    mq: BlockingClient, address: str, task: TaskContext
) -> None:
    mq.admin.create_topic("parts", 1)
    writer = batch_writer(options(address, "parts"), SCHEMA, False)
    second = writer.write(rows(b"2", b"3"))
    first = writer.write(rows(b"0", b"1"))
    writer.commit([first, second])
    assert values(mq, "parts") == [b"0", b"1", b"2", b"3"]


def test_an_abort_takes_back_what_was_staged_and_nothing_that_was_committed(
    mq: BlockingClient, address: str, task: TaskContext
) -> None:
    """R-SPK-2: Spark also aborts when the answer to a commit was lost."""
    mq.admin.create_topic("aborted", 1)
    writer = batch_writer(options(address, "aborted"), SCHEMA, False)
    staged = writer.write(rows(b"a"))
    writer.abort([staged, None])
    with pytest.raises(penstock.PenstockError):
        writer.commit([staged])
    assert values(mq, "aborted") == []
    writer = batch_writer(options(address, "aborted"), SCHEMA, False)
    staged = writer.write(rows(b"b"))
    writer.commit([staged])
    writer.abort([staged])
    assert values(mq, "aborted") == [b"b"]


def test_a_task_that_fails_leaves_nothing_staged(
    mq: BlockingClient, address: str, task: TaskContext
) -> None:
    def failing() -> Iterator[pa.RecordBatch]:
        yield from rows(b"a")
        raise RuntimeError("the upstream is broken")

    mq.admin.create_topic("failed", 1)
    writer = batch_writer(options(address, "failed"), SCHEMA, False)
    with pytest.raises(RuntimeError, match="upstream"):
        writer.write(failing())
    writer.commit([writer.write(rows(b"b"))])
    assert values(mq, "failed") == [b"b"]


def test_an_epoch_that_is_committed_is_not_written_again(
    mq: BlockingClient, address: str, task: TaskContext
) -> None:
    """R-SPK-2: after a driver's death between its commit and Spark's note of it."""
    mq.admin.create_topic("epochs", 1)
    task._localProperties = {"sql.streaming.queryId": "q", "streaming.sql.batchId": "5"}
    writer = stream_writer(options(address, "epochs"), SCHEMA, False)
    writer.commit([writer.write(rows(b"5"))], 5)
    asked_for = rows(b"5 again")
    again = travelled(travelled(writer).write(asked_for))
    assert next(asked_for, None) is None, "Spark writes the state of an aggregation with its rows"
    writer.commit([again], 5)
    task._localProperties["streaming.sql.batchId"] = "6"
    writer.commit([writer.write(rows(b"6"))], 6)
    assert values(mq, "epochs") == [b"5", b"6"]


def test_a_driver_that_was_replaced_adds_nothing(
    mq: BlockingClient, address: str, task: TaskContext
) -> None:
    """R-SPK-2: two drivers of one query at once; the second to commit finds it done."""
    mq.admin.create_topic("replaced", 1)
    task._localProperties = {"sql.streaming.queryId": "r", "streaming.sql.batchId": "0"}
    writer = stream_writer(options(address, "replaced"), SCHEMA, False)
    old, new = writer.write(rows(b"old")), writer.write(rows(b"new"))
    writer.commit([new], 0)
    writer.commit([old], 0)
    assert values(mq, "replaced") == [b"new"]


def test_without_the_number_of_the_micro_batch_nothing_is_promised(
    mq: BlockingClient, address: str, task: TaskContext
) -> None:
    """R-SPK-2: at least once is never silent."""
    writer = stream_writer(options(address, "unknown"), SCHEMA, False)
    with pytest.raises(penstock.PenstockError, match="at-least-once"):
        writer.write(rows(b"a"))
    loose = stream_writer(options(address, "unknown", delivery="at-least-once"), SCHEMA, False)
    loose.commit([loose.write(rows(b"a"))], 0)
    assert values(mq, "unknown") == [b"a"]


def test_a_save_in_foreach_batch_has_a_name_or_is_loose_on_purpose(
    mq: BlockingClient, address: str, task: TaskContext
) -> None:
    """R-SPK-2: Spark may run the batch again, and a save without a name would not know it."""
    task._localProperties = {"sql.streaming.queryId": "f", "streaming.sql.batchId": "0"}
    mq.admin.create_topic("each", 1)
    for delivery in ({}, {"delivery": "exactly-once"}):
        writer = batch_writer(options(address, "each", **delivery), SCHEMA, False)
        with pytest.raises(
            penstock.PenstockError, match=r"`txnAppId`.*`txnVersion`.*at-least-once"
        ):
            writer.write(rows(b"a"))
    named = batch_writer(options(address, "each", txnAppId="f", txnVersion="0"), SCHEMA, False)
    named.commit([named.write(rows(b"a"))])
    loose = batch_writer(options(address, "each", delivery="at-least-once"), SCHEMA, False)
    loose.commit([loose.write(rows(b"b"))])
    assert values(mq, "each") == [b"a", b"b"]


def test_a_broker_that_dies_between_all_steps(tmp_path: Path, task: TaskContext) -> None:
    """R-SPK-2: SIGKILL while rows are staged, before the commit, and after it."""
    task._localProperties = {"sql.streaming.queryId": "b", "streaming.sql.batchId": "0"}
    copies, size = 30, GATHER_BYTES // 40

    with BrokerProcess(tmp_path) as broker:

        def restart() -> None:
            broker.kill()
            broker.start()

        def batches() -> Iterator[pa.RecordBatch]:
            for number in range(6):
                yield from rows(*[b"%d" % number + bytes(size)] * copies)
                if number == 3:
                    restart()

        writer = stream_writer(options(broker.address, "survives"), SCHEMA, False)
        staged = writer.write(batches())
        restart()
        writer.commit([staged], 0)
        restart()
        writer.commit([staged], 0)
        with penstock.connect_blocking(broker.address) as mq:
            found = values(mq, "survives")
    expected = [b"%d" % number for number in range(6) for _ in range(copies)]
    assert [(value or b"")[:1] for value in found] == expected


def test_rows_without_a_key_reach_every_partition_in_time(
    mq: BlockingClient, address: str, task: TaskContext
) -> None:
    """Also where each micro-batch is small and has one task."""
    mq.admin.create_topic("spread", 4)
    keyless = StructType([StructField("value", BinaryType())])
    writer = stream_writer(options(address, "spread"), keyless, False)
    for epoch in range(4):
        task._localProperties = {
            "sql.streaming.queryId": "s",
            "streaming.sql.batchId": str(epoch),
        }
        batch = pa.record_batch({"value": pa.array([b"v"])})
        writer.commit([writer.write(iter([batch]))], epoch)
    partitions = mq.admin.describe_topic("spread").partitions
    assert [partition.high_watermark for partition in partitions] == [1, 1, 1, 1]
