"""What can go wrong with a batch of records, by itself.

Not its place in a producer's sequence (`errors.producers`), and not what a disk did to it
(`errors.storage`). The invariant: codes 30 to 34; 35 is a client's (`client.errors`).
"""

from __future__ import annotations

from penstock.model.errors.base import PenstockError


class BatchError(PenstockError):
    """Something is wrong with a record batch."""

    code = 30


class CorruptBatch(BatchError):
    """The batch does not have the checksum it says: it was damaged on the way."""

    code = 31
    retriable = True


class InvalidBatch(BatchError):
    """The batch's header contradicts itself."""

    code = 32


class BatchTooLarge(BatchError):
    """The batch is larger than the topic accepts."""

    code = 33


class InvalidTimestamp(BatchError):
    """A message's time is further from the broker's than the topic accepts."""

    code = 34
