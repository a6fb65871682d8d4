"""`spark.readStream`: where a stream stands, how far its next batch goes, and what that reads.

Spark keeps one of these in a Python process of its own for as long as a query runs, and calls it
from one thread. All places are in the offsets that Spark keeps in the checkpoint (`offsets`); what
this object remembers between calls only saves work or waits. The invariant: the same start and end
always plan the same ranges, so a batch that is run again after a restart has the same rows.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import replace
from time import monotonic, sleep
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from penstock.model.errors import InvalidConfig, PenstockError, UnknownTopic
from penstock.model.ids import TopicPartition
from penstock.spark.planning.admission import admit, available_rows
from penstock.spark.planning.drift import (
    find_drift,
    is_behind,
    last_cuts_ms,
    split_lost,
    without_new,
)
from penstock.spark.planning.extent import Extent
from penstock.spark.planning.loss import Loss
from penstock.spark.planning.loss_policy import OTHER_CHECKPOINT, settle
from penstock.spark.planning.offsets import BEGINNING, StreamOffset, add_counts
from penstock.spark.planning.positions import AtEdge, resolve_start
from penstock.spark.planning.ranges import OffsetRange, split_ranges
from penstock.spark.source.logs import (
    LEADER_PATIENCE_S,
    BrokerLogs,
    Extents,
    find_cuts,
    is_selected,
    raise_missing,
    select_extents,
)
from penstock.spark.source.options import SourceOptions
from penstock.spark.source.task_reader import RangePartition, TaskReader

logger = logging.getLogger(__name__)

_LOOK_S: Final = 0.1

# The names of methods are Spark's.
# ruff: noqa: N802


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The driver's side of a stream."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        assert options.bootstrap is not None
        self._options = options
        self._bootstrap = options.bootstrap
        self._tasks = TaskReader(options, schema, OTHER_CHECKPOINT)
        # What there was when a query with Trigger.AvailableNow began: it goes no further.
        self._target: Extents | None = None
        self._latest: Extents = {}
        # Found when the last batch was planned: not in its end, which was written before that.
        self._lost_in_plan: dict[TopicPartition, int] = {}
        self._reported: Mapping[TopicPartition, int] = {}
        self._last_batch_s: float | None = None

    def initialOffset(self) -> dict[str, Any]:
        """Where a new query begins: as the options say, which the first `latestOffset` looks up.

        Spark asks for this again after a restart before its first batch is done. That batch says
        itself where it began, and must not fail because topics have changed since.
        """
        return BEGINNING

    def prepareForTriggerAvailableNow(self) -> None:
        self._target, _ = select_extents(self._logs, self._options.selection)

    def getDefaultReadLimit(self) -> ReadLimit:
        if self._options.trigger_rows_max is not None:
            return ReadMaxRows(self._options.trigger_rows_max)
        if self._options.trigger_rows_min is not None:
            return ReadMinRows(self._options.trigger_rows_min)
        return ReadAllAvailable()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """How far the next batch goes; the start, as it is, if there is nothing to read."""
        logs, selection = self._logs, self._options.selection
        extents, missing = self._look(start)
        cuts = find_cuts(logs, extents)
        if start == BEGINNING:
            raise_missing(selection, missing)
            place = replace(self._first_place(extents), cuts_ms=last_cuts_ms(cuts))
            start = place.to_json()
        else:
            place = StreamOffset.from_json(start)
            self._check_own(place)
        self._report(place, extents)
        self._latest = extents
        extents = self._within_target(extents, place)
        drift = find_drift(place, extents, cuts, self._is_selected)
        lost = self._settle(drift.losses)
        if self._options.fail_on_data_loss:
            raise_missing(selection, missing)
        ends = {
            partition: max(begin, self._end_within_target(partition, extents[partition]))
            for partition, begin in drift.begins.items()
        }
        rows_max = None
        if not isinstance(limit, ReadAllAvailable):
            if self._waits_for_more(available_rows(drift.begins, ends)):
                return start
            rows_max = self._options.trigger_rows_max
        is_first = place.begins == place.positions
        end = StreamOffset(
            positions=admit(drift.begins, ends, rows_max),
            topic_ids=_ids(extents),
            lost=add_counts(add_counts(place.lost, lost), self._lost_in_plan),
            begins=drift.begins if is_first else drift.moved,
            cuts_ms=last_cuts_ms(cuts),
        )
        is_same = (end.positions, end.topic_ids, end.lost) == (
            place.positions,
            place.topic_ids,
            place.lost,
        )
        # A log that was cut may have new messages up to the very place where the query stands.
        if is_same and not drift.moved:
            return start
        self._lost_in_plan = {}
        return end.to_json()

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """What is there altogether, for the query's progress."""
        if not self._latest:
            return None
        positions = {partition: extent.end_offset for partition, extent in self._latest.items()}
        return StreamOffset(positions=positions, topic_ids=_ids(self._latest)).to_json()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """The tasks of a batch."""
        if start == end:
            return []
        before, after = StreamOffset.from_json(start), StreamOffset.from_json(end)
        self._check_own(after)
        ranges = [
            OffsetRange(partition, _begin(partition, before, after), position)
            for partition, position in sorted(after.positions.items())
        ]
        there = self._without_lost([each for each in ranges if each.size > 0], after)
        parts = split_ranges(there, self._options.partitions_min, self._options.partition_rows_max)
        return [RangePartition(part, after.topic_ids.get(part.partition.topic)) for part in parts]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self._tasks.read(partition)

    def commit(self, end: dict[str, Any]) -> None:
        """Spark says that a batch is done, when it begins the next one."""
        self._report(StreamOffset.from_json(end), self._latest)

    @property
    def _logs(self) -> BrokerLogs:
        # Made where it is used: this object is pickled to the tasks, too.
        return BrokerLogs(self._bootstrap)

    def _look(self, start: dict[str, Any]) -> tuple[Extents, list[str]]:
        """What there is now. A broker that is behind is asked again: it soon knows more."""
        place = StreamOffset(positions={}) if start == BEGINNING else StreamOffset.from_json(start)
        give_up_at_s = monotonic() + LEADER_PATIENCE_S
        while True:
            extents, missing = select_extents(self._logs, self._options.selection)
            if not is_behind(place, extents, self._is_selected) or monotonic() >= give_up_at_s:
                return extents, missing
            sleep(_LOOK_S)

    def _is_selected(self, partition: TopicPartition) -> bool:
        return is_selected(self._options.selection, partition)

    def _first_place(self, extents: Extents) -> StreamOffset:
        """Where the options say that a new query begins."""
        start = self._options.start or AtEdge(edge="latest")
        positions = resolve_start(start, extents, self._find_time)
        # No batch ends where another did not begin: so the first one says where that was.
        return StreamOffset(positions=positions, topic_ids=_ids(extents), begins=positions)

    def _find_time(self, partition: TopicPartition, time_ms: int) -> int:
        return self._logs.find_timestamp(*partition, time_ms)

    def _within_target(self, extents: Extents, place: StreamOffset) -> Extents:
        """Without what was made since the query began, unless it has a place there already: Spark
        asks for that after it has asked for the target."""
        if self._target is None:
            return extents
        return {
            partition: extent
            for partition, extent in extents.items()
            if partition in place.positions or self._is_in_target(partition, extent)
        }

    def _end_within_target(self, partition: TopicPartition, extent: Extent) -> int:
        if self._target is None:
            return extent.end_offset
        if not self._is_in_target(partition, extent):
            return extent.start_offset
        return min(extent.end_offset, self._target[partition].end_offset)

    def _is_in_target(self, partition: TopicPartition, extent: Extent) -> bool:
        """Whether it was there when the query began, and not another topic of its name."""
        target = (self._target or {}).get(partition)
        return target is not None and target.topic_id == extent.topic_id

    def _waits_for_more(self, rows: int) -> bool:
        """Whether there is less than a batch should have, and it may still wait for more. As in
        Spark's Kafka source, the first batch after a start does not wait."""
        least = self._options.trigger_rows_min
        if least is None or self._target is not None:
            return False
        now_s, last_s = monotonic(), self._last_batch_s
        if rows < least and last_s is not None:
            waited_ms = (now_s - last_s) * 1000
            if waited_ms < self._options.trigger_delay_ms_max:
                return True
        self._last_batch_s = now_s
        return False

    def _without_lost(self, ranges: list[OffsetRange], after: StreamOffset) -> list[OffsetRange]:
        """The ranges as far as they are still there, if it may go on without the rest."""
        there: list[OffsetRange] = []
        losses: list[Loss] = []
        extents: dict[str, Mapping[int, Extent]] = {}
        for each in ranges:
            topic, number = each.partition
            if topic not in extents:
                extents[topic] = self._partitions(topic)
            extent = extents[topic].get(number)
            if extent is not None and extent.may_be_cut:
                # A batch that is run again must not take what came instead of what was cut off.
                cuts = find_cuts(self._logs, {each.partition: extent})[each.partition]
                extent = without_new(extent, cuts, after.cuts_ms.get(each.partition))
            rest, gone = split_lost(each, after.topic_ids.get(topic), extent)
            there.append(rest)
            losses += gone
        self._lost_in_plan = self._settle(losses)
        return there

    def _partitions(self, topic: str) -> Mapping[int, Extent]:
        try:
            return self._logs.partitions(topic)
        except UnknownTopic:
            return {}

    def _settle(self, losses: tuple[Loss, ...] | list[Loss]) -> dict[TopicPartition, int]:
        if not losses:
            return {}
        return settle(
            losses,
            self._logs,
            fail=self._options.fail_on_data_loss,
            otherwise=OTHER_CHECKPOINT,
        )

    def _check_own(self, place: StreamOffset) -> None:
        """Refuse a place in other topics, where that would mean to forget it. Spark gives places to
        the sources of a query by their order, and knows no names."""
        selection = self._options.selection
        if not self._options.fail_on_data_loss or not place.positions:
            return
        if not any(is_selected(selection, partition) for partition in place.positions):
            topics = ", ".join(sorted({partition.topic for partition in place.positions}))
            raise InvalidConfig(
                f"The checkpoint has a place in {topics}, which this source does not read: another "
                "query made it, or its sources were in another order; put that right, use a new "
                "checkpoint, or start the query with failOnDataLoss=false to forget that place."
            )

    def _report(self, place: StreamOffset, extents: Extents) -> None:
        """Let the group on the broker stand where the query does, for those who look for its lag.

        Spark asks for the next batch only when the last is done; so the place that it asks from is
        reached, also after the last batch of a query with Trigger.AvailableNow, of which Spark
        never calls `commit`.
        """
        group = self._options.group
        # A topic that was deleted would be an error for all of them.
        positions = {
            partition: place.positions[partition] for partition in place.positions.keys() & extents
        }
        if group is None or positions == self._reported:
            return
        try:
            self._logs.commit(group, positions)
        except PenstockError as error:
            logger.warning("The query's place was not committed to group %s: %s", group, error)
            return
        self._reported = positions


def _begin(partition: TopicPartition, before: StreamOffset, after: StreamOffset) -> int:
    """Where a batch begins in a partition."""
    begin = after.begins.get(partition)
    return begin if begin is not None else before.positions.get(partition, 0)


def _ids(extents: Extents) -> dict[str, str]:
    return {
        partition.topic: extent.topic_id
        for partition, extent in extents.items()
        if extent.topic_id is not None
    }
