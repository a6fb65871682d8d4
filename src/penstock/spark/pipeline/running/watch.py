"""Watches running queries: tells of each batch, of failure, and ends them in order.

The invariant: a query that is asked to end is stopped between two batches where it comes to one in
time. Stopped in the middle of one, nothing is lost either, but that batch's work is done again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any, Final

from penstock.model.errors import UnavailableError
from penstock.spark.pipeline.running.errors import sentence
from penstock.spark.pipeline.running.lag import Latest
from penstock.spark.pipeline.running.progress import BatchProgress, batch_progress

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

Report = Callable[[BatchProgress], None]

_LOOK_SECONDS: Final = 0.2
_START_SECONDS_MAX: Final = 20.0
# How long a batch may take to end after the pipeline was told to.
_END_SECONDS_MAX: Final = 60.0


def watch(
    queries: Mapping[str, StreamingQuery],
    latest: Latest,
    report: Report,
    is_stopping: Callable[[], bool],
) -> bool:
    """Until all queries, by name, have ended by themselves (True), or were told to (False). A
    failure of one is raised, as one sentence, when the others have been stopped."""
    watched = [_Watched(name, query, latest) for name, query in queries.items()]
    try:
        while True:
            for each in watched:
                each.tell(report)
                each.raise_failure()
            if not any(each.query.isActive for each in watched):
                return True
            if is_stopping():
                _await_ends(watched)
                return False
            sleep(_LOOK_SECONDS)
    finally:
        for each in watched:
            each.query.stop()
        for each in watched:
            each.tell(report)


def await_sources(query: StreamingQuery) -> StreamingQuery:
    """Wait until it has started the Python processes of its sources. Spark gives each of them ten
    seconds to report, which many that start at once on a busy machine do not keep."""
    deadline = monotonic() + _START_SECONDS_MAX
    while query.isActive and query.status["message"].startswith("Init") and monotonic() < deadline:
        sleep(_LOOK_SECONDS / 4)
    return query


class _Watched:
    """A query and what was told of it."""

    def __init__(self, name: str, query: StreamingQuery, latest: Latest) -> None:
        self.query = query
        self._name = name
        self._latest = latest
        self._told = -1

    def tell(self, report: Report) -> None:
        """Report the batches that have ended since the last time."""
        for progress in self._batches():
            self._told = progress.batch
            report(progress)

    def raise_failure(self) -> None:
        """UnavailableError if the query has failed."""
        if self.query.isActive:
            return
        error = self.query.exception()
        if error is not None:
            raise UnavailableError(f"{self._name} failed: {sentence(error)}") from error

    def _batches(self) -> Iterator[BatchProgress]:
        last = self.query.lastProgress
        if last is None or last.batchId <= self._told:
            return
        reports = [last] if last.batchId == self._told + 1 else self.query.recentProgress
        parsed: list[dict[str, Any]] = [json.loads(each.json) for each in reports]
        # A report without a batch says that there was nothing to do.
        batches = [
            each
            for each in parsed
            if each["batchId"] > self._told and "addBatch" in each.get("durationMs", {})
        ]
        for each in batches[:-1]:
            yield batch_progress(self._name, each)
        for each in batches[-1:]:
            yield batch_progress(self._name, each, self._latest)


def _await_ends(watched: Sequence[_Watched]) -> None:
    """Wait until each query has ended the batch it is at."""
    deadline = monotonic() + _END_SECONDS_MAX
    for each in watched:
        at = _batch_of(each.query)
        while (
            each.query.isActive
            and each.query.status["isTriggerActive"]
            and _batch_of(each.query) == at
            and monotonic() < deadline
        ):
            sleep(_LOOK_SECONDS / 4)


def _batch_of(query: StreamingQuery) -> int:
    last = query.lastProgress
    return -1 if last is None else int(last.batchId)
