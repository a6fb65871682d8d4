"""One task of a read: a range of one partition, as Arrow record batches.

Runs in Spark's Python workers, for batches and for streams. The invariant: the rows are those of
the range, once and in order, of the topic that was planned; what has gone since is an explained
error, or a warning where the options allow it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from penstock.model.errors import OffsetOutOfRange, PenstockError, UnknownTopic
from penstock.model.ids import TopicPartition
from penstock.spark.drift import find_loss
from penstock.spark.extent import Extent
from penstock.spark.logs import Logs, open_logs
from penstock.spark.loss import Loss
from penstock.spark.loss_policy import settle
from penstock.spark.options import SourceOptions
from penstock.spark.ranges import OffsetRange
from penstock.spark.schema import make_parser


@dataclass(frozen=True)
class RangePartition(InputPartition):
    """What one task reads."""

    offsets: OffsetRange
    topic_id: str | None
    """Which topic of this name was meant."""


class TaskReader:
    """Reads what a task is given. It is pickled to the workers."""

    def __init__(self, options: SourceOptions, schema: StructType, otherwise: str) -> None:
        """otherwise: what a user can do about a loss, besides going on without what is gone."""
        self._options = options
        self._schema = schema
        self._otherwise = otherwise

    def read(self, planned: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of the range, some ten thousand at a time."""
        if not isinstance(planned, RangePartition):
            return  # Spark's own, where there is nothing to read
        # Here, because Spark's planning processes need none of it, and it is the most of their
        # start.
        from penstock.spark.arrow_columns import ArrowRows

        partition, position, end = planned.offsets
        logs = open_logs(self._options)
        rows = ArrowRows(self._schema, partition, make_parser(self._options))
        fails = self._options.fail_on_data_loss
        while position < end:
            try:
                if not fails and self._is_another_topic(logs, planned):
                    raise UnknownTopic
                for columns in logs.read_range(
                    *partition,
                    position,
                    end,
                    include_headers=self._options.include_headers,
                    producer_times=rows.needs_producer_times,
                ):
                    yield from rows.record_batches(columns)
                    position = columns.offsets[-1] + 1
                # Where it fails the job, at the end is surest: a task that fails has no rows.
                if fails and self._is_another_topic(logs, planned):
                    position = planned.offsets.start
                    raise UnknownTopic
                return
            except (OffsetOutOfRange, UnknownTopic) as error:
                position, end = self._after_loss(logs, planned, position, error)

    def _is_another_topic(self, logs: Logs, planned: RangePartition) -> bool:
        """Whether the topic was made anew: then what is read is not what was planned."""
        if self._options.path is not None:
            return False  # in a folder that is at rest nobody makes a topic anew
        extent = _extent(logs, planned.offsets.partition)
        if extent is None or planned.topic_id is None:
            return False
        return extent.topic_id != planned.topic_id

    def _after_loss(
        self, logs: Logs, planned: RangePartition, position: int, error: PenstockError
    ) -> tuple[int, int]:
        """What is left to read after some of it turned out to be gone."""
        end = planned.offsets.end
        loss = _find_loss(logs, planned, position)
        if loss is None:
            raise error
        settle([loss], logs, fail=self._options.fail_on_data_loss, otherwise=self._otherwise)
        if loss.kind == "removed":
            assert loss.end is not None
            return loss.end, end
        if loss.kind == "cut":
            return position, loss.first
        return end, end


def _find_loss(logs: Logs, planned: RangePartition, position: int) -> Loss | None:
    partition, _, end = planned.offsets
    extent = _extent(logs, partition)
    if extent is None:
        return Loss(
            kind="deleted",
            partition=partition,
            first=position,
            end=None,
            topic_id=planned.topic_id,
        )
    return find_loss(partition, position, planned.topic_id, extent) or find_loss(
        partition, end, planned.topic_id, extent
    )


def _extent(logs: Logs, partition: TopicPartition) -> Extent | None:
    try:
        return logs.partitions(partition.topic).get(partition.partition)
    except UnknownTopic:
        return None
