"""Who is told of messages that were not delivered and that nobody asked a receipt for.

With acks=0 no flush is told, since nobody waits: there the latest errors are kept, to be looked at.
Not which messages those are: `sender` says. The invariant: a failure is told to every flush that
is under way when it happens, or else to the next one, so that no flush ends well beside a message
that it waited for and that was lost, however many flush at the same time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from penstock.client.errors import DeliveryFailed, FailedDelivery
from penstock.model.errors import PenstockError
from penstock.model.ids import TopicPartition

# What a producer with acks=0 remembers of the errors it was told about.
UNACKNOWLEDGED_ERRORS_MAX: Final = 100

Report = dict[TopicPartition, FailedDelivery]


class Reports:
    """The failures of one producer, one entry per partition in each report."""

    def __init__(self) -> None:
        self._untold: Report = {}
        self._flushes: list[Report] = []
        self.unacknowledged: deque[PenstockError] = deque(maxlen=UNACKNOWLEDGED_ERRORS_MAX)
        """What came back although no answer was asked for."""

    def add(self, partition: TopicPartition, message_count: int, cause: PenstockError) -> None:
        """So many messages of the partition were not delivered."""
        failure = FailedDelivery(
            topic=partition.topic,
            partition=partition.partition,
            message_count=message_count,
            cause=cause,
        )
        for report in self._flushes or [self._untold]:
            _merge(report, partition, failure)

    @contextmanager
    def flush(self) -> Iterator[None]:
        """Raise DeliveryFailed at the end for what nobody was told of, and what failed within."""
        report, self._untold = self._untold, {}
        self._flushes.append(report)
        try:
            yield
        except BaseException:
            # Who gave up waiting has not been told.
            for partition, failure in report.items():
                _merge(self._untold, partition, failure)
            raise
        finally:
            # By identity: reports that say the same are not the same.
            self._flushes = [other for other in self._flushes if other is not report]
        if report:
            raise DeliveryFailed(list(report.values()))


def _merge(report: Report, partition: TopicPartition, failure: FailedDelivery) -> None:
    before = report.get(partition)
    count = failure.message_count + (before.message_count if before is not None else 0)
    report[partition] = FailedDelivery(
        topic=failure.topic,
        partition=failure.partition,
        message_count=count,
        cause=failure.cause,
    )
