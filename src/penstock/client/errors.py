"""The errors that only a client can have: messages it accepted and could not deliver, and batches
that it was sent and cannot read.

Everything else that a client raises is in `model.errors`, as the broker named it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.model.errors import CorruptBatch, PenstockError
from penstock.model.ids import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedDelivery:
    """How many messages of one partition were not delivered, and why the last of them was not."""

    topic: str
    partition: int
    message_count: int
    cause: PenstockError

    def __str__(self) -> str:
        noun = "message" if self.message_count == 1 else "messages"
        return f"{self.message_count} {noun} of {self.topic}-{self.partition}: {self.cause}"


class DeliveryFailed(PenstockError):
    """Some of the messages sent since the last flush were not acknowledged.

    `failures` has one entry for each partition concerned.
    """

    def __init__(self, failures: Sequence[FailedDelivery]) -> None:
        self.failures = tuple(failures)
        total = sum(failure.message_count for failure in failures)
        noun = "message was" if total == 1 else "messages were"
        details = "; ".join(str(failure) for failure in failures[:3])
        more = f"; and {len(failures) - 3} more partitions" if len(failures) > 3 else ""
        super().__init__(f"{total} {noun} not delivered ({details}{more}).")


class DamagedBatch(CorruptBatch):
    """A batch that was fetched cannot be read: everything before it has been handed out.

    The reader's position stays before it; who wants to go on without it seeks to `next_offset`.
    """

    # Of its own, though no broker sends it: trying again cannot help, as it may on the way there.
    code = 35
    retriable = False

    partition: TopicPartition | None = None
    offset: int = -1
    """The first of the batch."""
    next_offset: int = -1
    """The one after its last."""
