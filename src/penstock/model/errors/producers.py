"""What can go wrong with who writes: idempotent producers, and staged writes.

Not with what is written (`errors.batches`). The invariant: codes 40 to 44, 100, 101 and 127.
"""

from __future__ import annotations

from penstock.model.errors.base import PenstockError


class ProducerError(PenstockError):
    """Something is wrong with an idempotent producer."""

    code = 40


class OutOfOrderSequence(ProducerError):
    """A batch of this producer before this one is missing."""

    code = 41


class ProducerFenced(ProducerError):
    """A newer producer has taken over this producer's id."""

    code = 42


class UnknownProducer(ProducerError):
    """The broker does not remember this producer."""

    code = 43


class TransactionsRefused(ProducerError):
    """Transactions are not supported yet: leave transactional.id out."""

    code = 44


class ReservedProducerId(ProducerError):
    """Brokers draw producer ids of this size for what they copy, delayed messages among it."""

    code = 127


class StagedWriteError(PenstockError):
    """Something is wrong with a staged write."""

    code = 100


class StagedBatchesMissing(StagedWriteError):
    """Not everything that is named was staged, or it was dropped since: stage it again."""

    code = 101
