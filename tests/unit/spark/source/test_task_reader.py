"""One task of a read, also where the log changes under it."""

from __future__ import annotations

import pickle

import pytest
from pyspark.sql.datasource import InputPartition

from penstock.model.errors import OffsetOutOfRange
from penstock.model.ids import TopicPartition
from penstock.spark.errors import DataLoss
from penstock.spark.planning.extent import Extent
from penstock.spark.planning.loss_policy import OTHER_START
from penstock.spark.planning.ranges import OffsetRange
from penstock.spark.source import task_reader
from penstock.spark.source.options import parse_options
from penstock.spark.source.schema import source_schema
from penstock.spark.source.task_reader import RangePartition, TaskReader
from tests.kit.spark.memory_logs import MemoryLogs

ZERO = TopicPartition("orders", 0)
PLANNED = RangePartition(OffsetRange(ZERO, 5, 45), "id of orders")


@pytest.fixture
def logs(monkeypatch: pytest.MonkeyPatch) -> MemoryLogs:
    logs = MemoryLogs(orders=[100])
    monkeypatch.setattr(task_reader, "open_logs", lambda options: logs)
    return logs


def offsets(planned: InputPartition = PLANNED, **options: str) -> list[int]:
    """The offsets that a task reads."""
    parsed = parse_options({"bootstrap": "h:1", "subscribe": "orders", **options})
    reader = pickle.loads(pickle.dumps(TaskReader(parsed, source_schema(parsed), OTHER_START)))
    rows = reader.read(pickle.loads(pickle.dumps(planned)))
    return [offset for batch in rows for offset in batch.column("offset").to_pylist()]


@pytest.mark.usefixtures("logs")
def test_a_range_is_read_as_it_was_planned() -> None:
    assert offsets() == list(range(5, 45))


@pytest.mark.usefixtures("logs")
def test_where_nothing_was_planned_spark_plans_a_task_of_its_own() -> None:
    assert offsets(InputPartition(None)) == []


def test_retention_strikes_between_the_plan_and_the_task(logs: MemoryLogs) -> None:
    logs.extents[ZERO] = Extent(20, 100, "id of orders")
    with pytest.raises(DataLoss, match="Offsets 5 to 19 "):
        offsets()
    assert offsets(failOnDataLoss="false") == list(range(20, 45))


def test_retention_strikes_while_it_is_read(
    logs: MemoryLogs, caplog: pytest.LogCaptureFixture
) -> None:
    def strike() -> None:
        logs.extents[ZERO] = Extent(30, 100, "id of orders")

    logs.after_chunk = strike
    assert offsets(failOnDataLoss="false") == [*range(5, 15), *range(30, 45)]
    assert "Offsets 15 to 29 of orders[0] (15 messages) are gone" in caplog.text


def test_everything_that_was_planned_is_gone(
    logs: MemoryLogs, caplog: pytest.LogCaptureFixture
) -> None:
    logs.extents[ZERO] = Extent(60, 100, "id of orders")
    assert offsets(failOnDataLoss="false") == []
    assert "Offsets 5 to 44 of orders[0] (40 messages)" in caplog.text
    with pytest.raises(DataLoss, match="to go on at offset 60,"):
        offsets()


def test_the_topic_is_deleted(logs: MemoryLogs) -> None:
    logs.after_chunk = logs.extents.clear
    with pytest.raises(DataLoss, match="Topic orders was deleted"):
        offsets()
    logs.extents[ZERO] = Extent(0, 100, "id of orders")
    assert offsets(failOnDataLoss="false") == list(range(5, 15))


def test_rows_of_another_topic_of_the_same_name_are_not_those_planned(logs: MemoryLogs) -> None:
    logs.extents[ZERO] = Extent(0, 100, "another")
    with pytest.raises(DataLoss, match="made anew"):
        offsets()
    assert offsets(failOnDataLoss="false") == []


def test_the_topic_is_made_anew_while_it_is_read(logs: MemoryLogs) -> None:
    """Nobody knows whose the rows are, so the task has none; run again it goes on without."""

    def make_anew() -> None:
        logs.extents[ZERO] = Extent(0, 100, "another")

    logs.after_chunk = make_anew
    with pytest.raises(DataLoss, match=r"made anew .*: Offsets 5 to 44 of orders\[0\]"):
        offsets()
    logs.extents[ZERO] = Extent(0, 100, "id of orders")
    with pytest.raises(DataLoss, match="made anew while it was read: run the job again"):
        offsets(failOnDataLoss="false")
    assert offsets(failOnDataLoss="false") == []


def test_the_log_is_shorter_than_it_was(logs: MemoryLogs) -> None:
    logs.extents[ZERO] = Extent(0, 30, "id of orders")
    with pytest.raises(DataLoss, match="Offsets 30 to 44 "):
        offsets()
    assert offsets(failOnDataLoss="false") == list(range(5, 30))


def test_an_error_that_nothing_explains_is_raised(
    logs: MemoryLogs, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OffsetOutOfRange("Out of range.")

    monkeypatch.setattr(logs, "read_range", fail)
    with pytest.raises(OffsetOutOfRange):
        offsets()
