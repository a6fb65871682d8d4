"""The rows of a task as record batches: where each goes, how large batches are, what is held."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import pyarrow as pa
import pytest

from penstock.client.producing.partitioner import partition_of_key
from penstock.model.errors import InvalidRequest
from penstock.records import Codec, decode_messages
from penstock.spark.sink.options import SinkOptions
from penstock.spark.sink.task import GATHER_BYTES, TaskRows

PARTITIONS = 5


def task_rows(turn: int = 0, topic: str | None = "orders") -> TaskRows:
    options = SinkOptions(
        bootstrap="127.0.0.1:9092",
        topic=topic,
        codec=Codec.NONE,
        is_exactly_once=True,
        batch_bytes=512 * 1024,
        transaction_name=None,
        transaction_version=0,
    )
    return TaskRows(options, turn, lambda topic: PARTITIONS)


def written(rows: TaskRows, *batches: pa.RecordBatch) -> dict[int, list[bytes | None]]:
    """The values of each partition, in order."""
    found: dict[int, list[bytes | None]] = defaultdict(list)
    for topic, encoded in rows.encode(batches):
        for partition, count, data in encoded:
            decoded = decode_messages(bytes(data), topic, partition, 0)
            assert len(decoded) == count
            found[partition] += [message.value for message in decoded]
    return dict(found)


def test_a_key_goes_where_every_kafka_client_puts_it() -> None:
    """R-SPK-2: rows of a key meet those of other producers, in order."""
    keys = [b"key %d" % (row % 13) for row in range(100)]
    values = [b"%d" % row for row in range(100)]
    batch = pa.record_batch({"key": pa.array(keys), "value": pa.array(values)})
    expected: dict[int, list[bytes]] = defaultdict(list)
    for key, value in zip(keys, values, strict=True):
        expected[partition_of_key(key, PARTITIONS)].append(value)
    assert written(task_rows(), batch) == expected


def test_rows_without_a_key_take_turns_by_batch() -> None:
    value = bytes(GATHER_BYTES)
    batch = pa.record_batch({"value": pa.array([value])})
    for first in (0, 3):
        found = written(task_rows(first), *[batch] * 4)
        assert list(found) == [(first + turn) % PARTITIONS for turn in range(4)]


def test_a_partition_that_is_given_is_taken() -> None:
    batch = pa.record_batch(
        {
            "key": pa.array([b"a", b"a", b"a"]),
            "value": pa.array([b"0", b"1", b"2"]),
            "partition": pa.array([4, None, 0], pa.int32()),
        }
    )
    by_key = partition_of_key(b"a", PARTITIONS)
    expected: dict[int, list[bytes]] = defaultdict(list)
    for partition, value in ((4, b"0"), (by_key, b"1"), (0, b"2")):
        expected[partition].append(value)
    assert written(task_rows(), batch) == expected


@pytest.mark.parametrize("partition", [-1, PARTITIONS])
def test_a_partition_that_is_not_there_is_an_error(partition: int) -> None:
    batch = pa.record_batch(
        {
            "value": pa.array([b"0", b"1"]),
            "partition": pa.array([0, partition], pa.int32()),
        }
    )
    with pytest.raises(InvalidRequest, match=f"partition {partition} of orders, which has 5"):
        written(task_rows(), batch)


def test_small_batches_are_gathered_and_never_all_of_them() -> None:
    """What Spark hands over in small parts becomes few batches, long before the last part."""
    part = pa.record_batch({"value": pa.array([bytes(1000)] * 100)})
    given = 0

    def parts() -> Iterator[pa.RecordBatch]:
        nonlocal given
        for _ in range(1000):
            given += 1
            yield part

    encoding = task_rows().encode(parts())
    _, encoded = next(encoding)
    given_first = GATHER_BYTES // part.nbytes
    assert given == given_first + 1, "one more was looked at"
    assert sum(batch.record_count for batch in encoded) == 100 * given_first
    assert len(encoded) < given_first
    rest = sum(batch.record_count for _, encoded in encoding for batch in encoded)
    assert rest == 100 * (1000 - given_first)


def test_each_topic_is_asked_for_once() -> None:
    asked = []

    def partition_count(topic: str) -> int:
        asked.append(topic)
        return PARTITIONS

    rows = task_rows(topic=None)
    counting = TaskRows(rows._options, 0, partition_count)
    batch = pa.record_batch(
        {"value": pa.array([bytes(GATHER_BYTES)] * 2), "topic": pa.array(["a", "b"])}
    )
    assert [topic for topic, _ in counting.encode([batch] * 3)] == ["a", "b"] * 3
    assert asked == ["a", "b"]
