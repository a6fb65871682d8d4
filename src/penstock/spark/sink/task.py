"""The rows of one task as record batches: Arrow batches in, finished bytes for partitions out.

Not how these reach the broker (`delivery`). The invariant: no more than GATHER_BYTES and one Arrow
batch are held, however many rows the task has; the rows of a partition keep their order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from time import time_ns
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from penstock.model.errors import InvalidRequest
from penstock.model.limits import MIB
from penstock.records import EncodedBatch, encode_columns, hash_partitions
from penstock.spark.sink.columns import TopicRows, number_view, rows_by_topic
from penstock.spark.sink.options import SinkOptions

# Spark hands over 10,000 rows at a time. Over many partitions that would be small batches, which
# every reader pays for; beyond a few megabytes nothing gets better.
GATHER_BYTES: Final = 4 * MIB


class TaskRows:
    """Encodes the rows of one task."""

    def __init__(
        self, options: SinkOptions, turn: int, partition_count: Callable[[str], int]
    ) -> None:
        """turn: which partition has the first rows without a key; tasks should have different ones.
        partition_count: how many partitions a topic has, which is made if it is not there."""
        self._options = options
        self._ask_partition_count = partition_count
        self._partition_counts: dict[str, int] = {}
        # Rows without a key stay together for a batch and then go on to the next partition.
        self._turn = turn

    def encode(
        self, batches: Iterable[pa.RecordBatch]
    ) -> Iterator[tuple[str, Sequence[EncodedBatch]]]:
        """Finished record batches, with the topic they go to."""
        for batch in _gathered(batches):
            now_ms = time_ns() // 1_000_000
            for rows in rows_by_topic(batch, self._options.topic, now_ms):
                yield (
                    rows.topic,
                    encode_columns(
                        rows.columns,
                        self._partitions(rows),
                        codec=self._options.codec,
                        batch_bytes=self._options.batch_bytes,
                        now_ms=now_ms,
                    ),
                )
            self._turn += 1

    def _partitions(self, rows: TopicRows) -> memoryview:
        """int32, each row's partition."""
        count = self._partition_count(rows.topic)
        row_count = rows.columns.row_count
        chosen = hash_partitions(rows.columns.keys, row_count, count, self._turn % count)
        if rows.partitions is None:
            return memoryview(chosen)
        bounds = pc.min_max(rows.partitions).as_py()
        for partition in (bounds["min"], bounds["max"]):
            if not 0 <= partition < count:
                raise InvalidRequest(
                    f"A row is for partition {partition} of {rows.topic}, which has {count}, "
                    f"numbered from 0: correct the column `partition`, or leave it null."
                )
        by_key = pa.Array.from_buffers(pa.int32(), row_count, [None, pa.py_buffer(chosen)])
        return number_view(pc.coalesce(rows.partitions, by_key), "i")

    def _partition_count(self, topic: str) -> int:
        count = self._partition_counts.get(topic)
        if count is None:
            count = self._partition_counts[topic] = self._ask_partition_count(topic)
        return count


def _gathered(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows, small batches joined to GATHER_BYTES at most."""
    waiting: list[pa.RecordBatch] = []
    waiting_bytes = 0
    for batch in batches:
        if waiting and waiting_bytes + batch.nbytes > GATHER_BYTES:
            yield from _joined(waiting)
            waiting, waiting_bytes = [], 0
        waiting.append(batch)
        waiting_bytes += batch.nbytes
    if waiting:
        yield from _joined(waiting)


def _joined(batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    joined: list[pa.RecordBatch] = pa.Table.from_batches(batches).combine_chunks().to_batches()
    return joined
