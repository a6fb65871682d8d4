"""The sink of `df.writeStream`: each micro-batch once, also when Spark runs it again.

Not a batch write's (`batch`). The invariant: the name of the write is the query's id, which Spark
keeps in the checkpoint, and its epoch the number of the micro-batch. So a query that is started
again from its checkpoint goes on with the same write, and a new checkpoint is a new write.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage

from penstock.model.errors import InvalidRequest
from penstock.spark.sink.delivery import (
    Messages,
    WriteEpoch,
    abort_rows,
    commit_rows,
    query_of_task,
    send_rows,
    stage_rows,
)
from penstock.spark.sink.options import SinkOptions

# Spark sets it for the tasks of a micro-batch (MicroBatchExecution).
_BATCH_ID_PROPERTY: Final = "streaming.sql.batchId"


class StreamWriter(DataSourceStreamArrowWriter):
    """Made anew for every micro-batch and for its commit: what they share is in the messages."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        if self._options.is_exactly_once:
            return stage_rows(iterator, self._options, _target())
        return send_rows(iterator, self._options)

    def commit(self, messages: Messages, batch_id: int) -> None:
        del batch_id  # it is in the messages, as the tasks knew it
        commit_rows(messages, self._options)

    def abort(self, messages: Messages, batch_id: int) -> None:
        del batch_id
        abort_rows(messages, self._options)


def _target() -> WriteEpoch:
    """The micro-batch this task belongs to."""
    context = TaskContext.get()
    assert context is not None, "rows are written in a task"
    query_id = query_of_task()
    batch_id = context.getLocalProperty(_BATCH_ID_PROPERTY)
    if query_id is None or batch_id is None:
        raise InvalidRequest(
            "Spark does not say which micro-batch this is, so that it cannot be written exactly "
            "once: set the option `delivery` to at-least-once, or use another trigger."
        )
    return WriteEpoch(f"spark/{query_id}", int(batch_id))
