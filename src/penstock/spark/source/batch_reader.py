"""`spark.read`: plans the ranges of a batch read, once, and reads them in tasks.

The invariant: what is read is fixed when it is planned. Messages that arrive later are not part
of it, and those that leave before they are read are an explained loss.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition
from pyspark.sql.types import StructType

from penstock.model.errors import UnknownTopic
from penstock.model.ids import TopicPartition
from penstock.spark.planning.drift import split_lost
from penstock.spark.planning.extent import Extent
from penstock.spark.planning.loss import Loss
from penstock.spark.planning.loss_policy import OTHER_START, settle
from penstock.spark.planning.positions import AtEdge, resolve_end, resolve_start
from penstock.spark.planning.pushdown import Bounds, push_filters
from penstock.spark.planning.ranges import OffsetRange, split_ranges
from penstock.spark.source.logs import Logs, open_logs, raise_missing, select_extents
from penstock.spark.source.options import SourceOptions
from penstock.spark.source.task_reader import RangePartition, TaskReader


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchPlan:
    """What a batch read reads."""

    ranges: tuple[OffsetRange, ...]
    topic_ids: Mapping[str, str | None]


class BatchReader(DataSourceReader):
    """A batch read where Spark does all filtering."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self._options = options
        self._tasks = TaskReader(options, schema, OTHER_START)
        self._bounds = Bounds()

    def partitions(self) -> list[InputPartition]:
        plan = plan_batch(open_logs(self._options), self._options, self._bounds)
        parts = split_ranges(
            plan.ranges, self._options.partitions_min, self._options.partition_rows_max
        )
        return [RangePartition(part, plan.topic_ids[part.partition.topic]) for part in parts]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self._tasks.read(partition)


class FilteringBatchReader(BatchReader):
    """A batch read that takes filters on topic, partition, offset and timestamp into its plan.

    Of a class of its own, because Spark refuses a reader that has `pushFilters` unless
    `spark.sql.python.filterPushdown.enabled` is set.
    """

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 (Spark's name)
        self._bounds, left = push_filters(filters)
        return left


def plan_batch(logs: Logs, options: SourceOptions, bounds: Bounds) -> BatchPlan:
    """The ranges to read, of the topics as they are now."""
    extents, missing = select_extents(logs, options.selection)
    raise_missing(options.selection, missing)
    if not extents:
        raise UnknownTopic(
            f"No topic matches subscribePattern {options.selection.pattern!r}: correct it, or "
            f"create the topic first."
        )

    def find_time(partition: TopicPartition, time_ms: int) -> int:
        return logs.find_timestamp(*partition, time_ms)

    starts = resolve_start(options.start or AtEdge(edge="earliest"), extents, find_time)
    ends = resolve_end(options.end, extents, find_time)
    ranges: list[OffsetRange] = []
    for partition in sorted(extents):
        each = bounds.narrowed(OffsetRange(partition, starts[partition], ends[partition]))
        if each.size > 0 and bounds.time_ms_min is not None:
            first = find_time(partition, bounds.time_ms_min)
            each = each._replace(start=max(each.start, first))
        if each.size > 0:
            ranges.append(each)
    return BatchPlan(
        ranges=tuple(_without_lost(ranges, extents, logs, options)),
        topic_ids={partition.topic: extent.topic_id for partition, extent in extents.items()},
    )


def _without_lost(
    ranges: Iterable[OffsetRange],
    extents: Mapping[TopicPartition, Extent],
    logs: Logs,
    options: SourceOptions,
) -> list[OffsetRange]:
    """The ranges without the offsets that are gone, if it may go on without them."""
    losses: list[Loss] = []
    there: list[OffsetRange] = []
    for each in ranges:
        extent = extents[each.partition]
        rest, gone = split_lost(each, extent.topic_id, extent)
        there.append(rest)
        losses += gone
    settle(losses, logs, fail=options.fail_on_data_loss, otherwise=OTHER_START)
    return [each for each in there if each.size > 0]
