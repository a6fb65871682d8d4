"""The ceiling of Spark's Python Data Source API: a source that makes up its rows, and a sink that
lets them go.

Not a source of ours. Invariant: its rows have the columns and sizes of the topic that the others
read, and cost nothing to make: one Arrow batch, handed out again and again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

_BATCH_ROWS: Final = 20_000
_SCHEMA: Final = (
    "key binary, value binary, topic string, partition int, offset long, "
    "timestamp timestamp, timestampType int"
)


class _Slice(InputPartition):
    def __init__(self, rows: int) -> None:
        self.rows = rows


class _Made:
    def __init__(self, options: Any) -> None:
        self.rows = int(options["rows"])
        self.slices = int(options["slices"])
        self.value_bytes = int(options["valueBytes"])
        self.per_trigger = int(options.get("perTrigger", self.rows))

    def plan(self, rows: int) -> list[_Slice]:
        return [_Slice(rows // self.slices) for _ in range(self.slices)]

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        batch = _batch(self.value_bytes)
        for start in range(0, partition.rows, _BATCH_ROWS):
            yield batch.slice(0, min(_BATCH_ROWS, partition.rows - start))


def _batch(value_bytes: int) -> pa.RecordBatch:
    now = datetime.now(UTC)
    columns = {
        "key": pa.array([None] * _BATCH_ROWS, pa.binary()),
        "value": pa.array([bytes(value_bytes)] * _BATCH_ROWS, pa.binary()),
        "topic": pa.array(["made-up"] * _BATCH_ROWS, pa.string()),
        "partition": pa.array([0] * _BATCH_ROWS, pa.int32()),
        "offset": pa.array(range(_BATCH_ROWS), pa.int64()),
        "timestamp": pa.array([now] * _BATCH_ROWS, pa.timestamp("us", tz="UTC")),
        "timestampType": pa.array([0] * _BATCH_ROWS, pa.int32()),
    }
    return pa.RecordBatch.from_pydict(columns)


class _BatchReader(_Made, DataSourceReader):
    def partitions(self) -> Sequence[InputPartition]:
        return self.plan(self.rows)


class _StreamReader(_Made, DataSourceStreamReader, SupportsTriggerAvailableNow):
    def initialOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's name
        return {"row": 0}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadMaxRows(self.per_trigger)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        pass

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802
        if isinstance(limit, ReadAllAvailable):
            return {"row": self.rows}
        return {"row": min(self.rows, start["row"] + self.per_trigger)}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        return self.plan(end["row"] - start["row"])


class _Dropped(WriterCommitMessage):
    pass


class _Writer(DataSourceArrowWriter):
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        for _ in iterator:
            pass
        return _Dropped()


class MadeUp(DataSource):
    """`format("made-up")`, with the options rows, slices, valueBytes and perTrigger."""

    @classmethod
    def name(cls) -> str:
        return "made-up"

    def schema(self) -> str:
        return _SCHEMA

    def reader(self, schema: Any) -> DataSourceReader:  # noqa: ARG002
        return _BatchReader(self.options)

    def streamReader(self, schema: Any) -> DataSourceStreamReader:  # noqa: ARG002, N802
        return _StreamReader(self.options)

    def writer(self, schema: Any, overwrite: bool) -> DataSourceArrowWriter:  # noqa: ARG002
        return _Writer()
