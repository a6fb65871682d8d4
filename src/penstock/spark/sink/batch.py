"""The sink of `df.write`: all rows appear at once, or none.

Not a stream's (`stream`). The invariant: a write is one epoch of one name. The name is made up for
each save, or the user's `txnAppId` with `txnVersion` as the epoch, so that a save that is done
again under the same two adds nothing (the names are Delta Lake's). In a streaming query, which does
saves again, those two are needed, or a word that twice will do.
"""

from __future__ import annotations

from collections.abc import Iterator
from uuid import uuid4

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

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


class BatchWriter(DataSourceArrowWriter):
    """Made on the driver; the same one, pickled, writes in the tasks and commits on the driver."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options
        name = options.transaction_name
        if name is None:
            name = f"spark/batch/{uuid4()}"
        elif options.topic is not None:
            name = write_name(name, options.topic)
        self._target = WriteEpoch(name, options.transaction_version)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        if not self._options.is_exactly_once:
            return send_rows(iterator, self._options)
        if self._options.transaction_name is None and query_of_task() is not None:
            raise InvalidRequest(
                "A batch that Spark runs again would be written again: in foreachBatch set the "
                "options `txnAppId` (a name for what is written, as the query's id) and "
                "`txnVersion` (the batch's number), or `delivery` to at-least-once."
            )
        return stage_rows(iterator, self._options, self._target)

    def commit(self, messages: Messages) -> None:
        commit_rows(messages, self._options, last=self._options.transaction_name is None)

    def abort(self, messages: Messages) -> None:
        abort_rows(messages, self._options)


def write_name(transaction_name: str, topic: str) -> str:
    """Under which the broker knows what is written to a topic with this `txnAppId`: a name counts
    within a topic, as in Delta Lake, whose option it is, within a table."""
    return f"{transaction_name}/{topic}"
