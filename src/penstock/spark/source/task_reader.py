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
from penstock.spark.errors import DataLoss
from penstock.spark.planning.drift import split_lost
from penstock.spark.planning.extent import Extent
from penstock.spark.planning.loss_policy import settle
from penstock.spark.planning.ranges import OffsetRange
from penstock.spark.source.logs import Logs, open_logs
from penstock.spark.source.memory import keep_freed_memory
from penstock.spark.source.options import SourceOptions
from penstock.spark.source.schema import make_parser


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
        from penstock.spark.source.arrow_columns import ArrowRows

        keep_freed_memory()
        logs = open_logs(self._options)
        rows = ArrowRows(self._schema, planned.offsets.partition, make_parser(self._options))
        left = planned.offsets
        has_rows = False
        while left.size > 0:
            try:
                # Where a loss fails the job, at the end is enough: a task that fails has no rows.
                if not self._options.fail_on_data_loss:
                    self._check_topic(logs, planned)
                for columns in logs.read_range(
                    *left.partition,
                    left.start,
                    left.end,
                    include_headers=self._options.include_headers,
                    producer_times=rows.needs_producer_times,
                ):
                    yield from rows.record_batches(columns)
                    has_rows = True
                    left = left._replace(start=columns.offsets[-1] + 1)
                self._check_topic(logs, planned)
                return
            except (OffsetOutOfRange, UnknownTopic) as error:
                left = self._after_loss(logs, planned, left, error, has_rows=has_rows)

    def _check_topic(self, logs: Logs, planned: RangePartition) -> None:
        """Raise UnknownTopic if the topic was made anew: then what is read is not what was
        planned."""
        if self._options.path is not None or planned.topic_id is None:
            return  # in a folder that is at rest nobody makes a topic anew
        extent = _extent(logs, planned.offsets.partition)
        if extent is not None and extent.topic_id != planned.topic_id:
            raise UnknownTopic

    def _after_loss(
        self,
        logs: Logs,
        planned: RangePartition,
        left: OffsetRange,
        error: PenstockError,
        *,
        has_rows: bool,
    ) -> OffsetRange:
        """What is left to read after some of it turned out to be gone."""
        fails = self._options.fail_on_data_loss
        extent = _extent(logs, left.partition)
        there, losses = split_lost(left, planned.topic_id, extent)
        if not losses:
            raise error
        if has_rows and losses[0].kind == "made anew":
            # Nobody knows by now of which of the two topics the rows are that Spark has.
            if not fails:
                topic = left.partition.topic
                raise DataLoss(
                    f"Topic {topic} was deleted and made anew while it was read: run the job "
                    f"again, which then goes on with what is there."
                )
            _, losses = split_lost(planned.offsets, planned.topic_id, extent)
        settle(losses, logs, fail=fails, otherwise=self._otherwise)
        return there


def _extent(logs: Logs, partition: TopicPartition) -> Extent | None:
    try:
        return logs.partitions(partition.topic).get(partition.partition)
    except UnknownTopic:
        return None
