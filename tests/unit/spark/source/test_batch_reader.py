"""The plan of a batch read."""

from __future__ import annotations

import pytest
from pyspark.sql.datasource import DataSourceReader, EqualTo, GreaterThanOrEqual, LessThan

from penstock.model.errors import UnknownTopic
from penstock.model.ids import TopicPartition
from penstock.spark.errors import DataLoss
from penstock.spark.planning.extent import Extent
from penstock.spark.planning.pushdown import Bounds, push_filters
from penstock.spark.source.batch_reader import BatchReader, FilteringBatchReader, plan_batch
from penstock.spark.source.options import parse_options
from tests.kit.spark.memory_logs import MemoryLogs

BASE = {"bootstrap": "h:1", "subscribe": "orders"}
ZERO = TopicPartition("orders", 0)


def planned(logs: MemoryLogs, bounds: Bounds | None = None, **options: str) -> list[str]:
    plan = plan_batch(logs, parse_options({**BASE, **options}), bounds or Bounds())
    return [str(each) for each in plan.ranges]


def test_everything() -> None:
    assert planned(MemoryLogs(orders=[100, 0, 50])) == ["orders[0] 0 to 100", "orders[2] 0 to 50"]


def test_offsets_and_times() -> None:
    logs = MemoryLogs(orders=[100])
    ranges = planned(
        logs, startingOffsets='{"orders":{"0":20}}', endingOffsets='{"orders":{"0":30}}'
    )
    assert ranges == ["orders[0] 20 to 30"]
    assert planned(logs, startingTimestamp="40", endingTimestamp="60") == ["orders[0] 40 to 60"]
    assert planned(logs, startingTimestamp="60", endingTimestamp="40") == []


def test_filters_narrow_what_is_planned() -> None:
    """R-SPK-1: what a filter excludes is not read at all."""
    logs = MemoryLogs(orders=[100, 100])
    bounds, _ = push_filters([EqualTo(("partition",), 1), LessThan(("offset",), 7)])
    assert planned(logs, bounds) == ["orders[1] 0 to 7"]
    assert planned(logs, Bounds(time_ms_min=90)) == ["orders[0] 90 to 100", "orders[1] 90 to 100"]
    assert planned(logs, Bounds(time_ms_min=500)) == []


def test_no_topic() -> None:
    with pytest.raises(UnknownTopic):
        planned(MemoryLogs(bills=[1]))
    options = parse_options({"bootstrap": "h:1", "subscribePattern": "x.*"})
    with pytest.raises(UnknownTopic, match=r"No topic matches subscribePattern 'x\.\*'"):
        plan_batch(MemoryLogs(orders=[1]), options, Bounds())


def test_offsets_that_were_asked_for_and_are_gone() -> None:
    logs = MemoryLogs(orders=[100])
    logs.extents[ZERO] = Extent(40, 100, "id")
    asked = '{"orders":{"0":10}}'
    with pytest.raises(DataLoss, match=r"Offsets 10 to 39 .* or with other startingOffsets"):
        planned(logs, startingOffsets=asked)
    assert planned(logs, startingOffsets=asked, failOnDataLoss="false") == ["orders[0] 40 to 100"]
    with pytest.raises(DataLoss, match=r"Offsets 10 to 19 .*go on at offset 40"):
        planned(logs, startingOffsets=asked, endingOffsets='{"orders":{"0":20}}')
    # Nobody misses what a filter excludes.
    bounds, _ = push_filters([GreaterThanOrEqual(("offset",), 50)])
    assert planned(logs, bounds, startingOffsets=asked) == ["orders[0] 50 to 100"]


def test_only_the_registered_source_has_pushdown() -> None:
    """Spark refuses a reader that overrides it in a session that does not ask for it."""
    assert BatchReader.pushFilters is DataSourceReader.pushFilters
    assert FilteringBatchReader.pushFilters is not DataSourceReader.pushFilters
