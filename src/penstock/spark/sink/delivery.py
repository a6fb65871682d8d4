"""How the rows of a task reach the broker, and what its driver is told: staged, or sent at once.

Not what the rows look like as bytes (`task`), and not the naming of a write (`batch`, `stream`).
The invariant of staged rows: nobody reads them before the driver has committed the attempts that
count, and no epoch of a write is committed twice, whatever is run again.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple
from uuid import uuid4
from zlib import crc32

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import WriterCommitMessage

from penstock.client.blocking.client import BlockingClient
from penstock.client.producing.staged_write import StagedAttempt
from penstock.model.errors import PenstockError
from penstock.spark.cluster import shared_client
from penstock.spark.sink.options import SinkOptions
from penstock.spark.sink.task import TaskRows

logger = logging.getLogger(__name__)

# Spark sets it for the tasks of a streaming query, also in foreachBatch (StreamExecution).
_QUERY_ID_PROPERTY: Final = "sql.streaming.queryId"


class WriteEpoch(NamedTuple):
    """What is written exactly once: one epoch of a named write."""

    write: str
    epoch: int


@dataclass(frozen=True, slots=True)
class StagedRows(WriterCommitMessage):
    """What a task staged; no attempt where it found its epoch committed already."""

    target: WriteEpoch
    attempt: StagedAttempt | None


@dataclass(frozen=True, slots=True)
class SentRows(WriterCommitMessage):
    """A task's rows are in their topics: there is nothing left to commit."""


Messages = Sequence[WriterCommitMessage | None]


def stage_rows(
    batches: Iterable[pa.RecordBatch], options: SinkOptions, target: WriteEpoch
) -> StagedRows:
    """Put a task's rows where the driver's commit finds them."""
    client = shared_client(options.bootstrap)
    committed = client.committed_epoch(target.write)
    if committed is not None and committed >= target.epoch:
        # The driver died between this commit and Spark's own note of it, so that Spark runs the
        # epoch again. The rows are asked for all the same: the state that an aggregation keeps is
        # written while they are, and the next epoch needs it.
        for _ in batches:
            pass
        return StagedRows(target, None)
    # Other epochs and other writes begin at other partitions.
    turn = crc32(target.write.encode()) + target.epoch
    with client.staged_write(target.write, target.epoch) as staged:
        for topic, encoded in _task_rows(options, client, turn).encode(batches):
            for batch in encoded:
                staged.stage(topic, batch.partition, batch.data)
        return StagedRows(target, staged.flush())


def commit_rows(messages: Messages, options: SinkOptions, *, last: bool = False) -> None:
    """Make what these tasks staged readable, all at once; nothing, if that was done before.

    last: no other epoch of this write will follow.
    """
    staged = _staged(messages)
    if not staged:
        return
    target = staged[0].target
    assert all(message.target == target for message in staged), staged
    shared_client(options.bootstrap).commit_staged(
        target.write,
        target.epoch,
        [message.attempt for message in staged if message.attempt],
        last=last,
    )
    if any(message.attempt is None for message in staged):
        logger.warning(
            "Epoch %d of %s was written before: its rows are not written again.",
            target.epoch,
            target.write,
        )


def abort_rows(messages: Messages, options: SinkOptions) -> None:
    """Drop what these tasks staged. Of what is committed nothing is taken back."""
    staged = _staged(messages)
    attempts = [message.attempt for message in staged if message.attempt]
    if not attempts:
        return
    target = staged[0].target
    try:
        shared_client(options.bootstrap).abort_staged(target.write, target.epoch, attempts)
    except PenstockError as error:
        # Why the job failed is what its user must see, and the broker drops it by itself.
        logger.warning("Staged rows could not be dropped now, and will be later: %s", error)


def send_rows(batches: Iterable[pa.RecordBatch], options: SinkOptions) -> SentRows:
    """Append a task's rows to their topics now. A task that is run again appends them again."""
    client = shared_client(options.bootstrap)
    with client.producer() as producer:
        for topic, encoded in _task_rows(options, client, uuid4().int).encode(batches):
            producer.send_batches(topic, encoded)
    return SentRows()


def query_of_task() -> str | None:
    """The id of the streaming query that this task is of, if it is of one."""
    context = TaskContext.get()
    assert context is not None, "rows are written in a task"
    return context.getLocalProperty(_QUERY_ID_PROPERTY)


def _staged(messages: Messages) -> list[StagedRows]:
    """In the order of Spark's partitions; a task that failed has no message."""
    return [message for message in messages if isinstance(message, StagedRows)]


def _task_rows(options: SinkOptions, client: BlockingClient, turn: int) -> TaskRows:
    context = TaskContext.get()
    assert context is not None, "rows are written in a task"
    return TaskRows(
        options,
        turn + context.partitionId(),
        lambda topic: client.partition_count(topic, create=True),
    )
