"""Which batches of idempotent producers a partition has turned away for a while.

A producer has several batches on their way. When the first is refused because the leader is only
being elected, and the next comes when it leads, that next one is not out of order for good: the
first will come again. Kafka's producers take "out of order" for the end of their identity, begin
another, and send all that is unanswered once more under it; what of that was written by an earlier
leader is then there twice. Whoever led before may have turned the first away as well, and what it
knew nobody knows: what follows a gap then is awaited too, for a shorter while.

Not what was accepted: `coordination.producers.state`. The invariant: for each producer the earliest
sequence that was refused lately, or is missing, and has not been accepted here since.
"""

from __future__ import annotations

from typing import Final

from penstock.coordination.producers.state import SequencedBatch
from penstock.model.limits import GAP_MS_MAX, REFUSAL_MS_MAX, REFUSED_PRODUCERS_MAX

_SEQUENCES: Final = 2**31


class RefusedSequences:
    """Of one partition."""

    def __init__(self) -> None:
        # Producer id to epoch, sequence, and until when it is awaited; in the order in which they
        # were refused first.
        self._earliest: dict[int, tuple[int, int, int]] = {}

    def __bool__(self) -> bool:
        return bool(self._earliest)

    def refuse(self, producer_id: int, epoch: int, sequence: int, now_ms: int) -> None:
        """It is turned away now, and may come again."""
        known = self._earliest.get(producer_id)
        if known is not None and known[0] == epoch and _comes_before(known[1], sequence):
            return  # for as long as that one is awaited, and no longer
        if known is None or epoch >= known[0]:
            self._earliest[producer_id] = epoch, sequence, now_ms + REFUSAL_MS_MAX
            self._limit()

    def miss(self, producer_id: int, epoch: int, sequence: int, now_ms: int) -> None:
        """A later one has come. Whoever led before may have turned this one away, and nobody knows:
        unless more is known of the producer, it is awaited for a while from now on."""
        known = self._earliest.get(producer_id)
        if known is None or epoch > known[0]:
            self._earliest[producer_id] = epoch, sequence, now_ms + GAP_MS_MAX
            self._limit()

    def is_earliest(self, batch: SequencedBatch) -> bool:
        """Whether it is the earliest of its producer that was refused, and comes again."""
        known = self._earliest.get(batch.producer_id)
        return known is not None and known[:2] == (batch.producer_epoch, batch.base_sequence)

    def accept(self, producer_id: int) -> None:
        """A batch of the producer was next, so there is none to wait for."""
        self._earliest.pop(producer_id, None)

    def awaited_before(
        self, batch: SequencedBatch, last: tuple[int, int] | None, now_ms: int
    ) -> int | None:
        """The sequence of an earlier batch that is missing and will come again, if there is. last:
        epoch and sequence up to which the producer's batches are here by now, perhaps by another
        leader."""
        known = self._earliest.get(batch.producer_id)
        if known is None or known[0] != batch.producer_epoch:
            return None
        epoch, sequence, until_ms = known
        is_here = last is not None and last[0] == epoch and not _comes_before(last[1], sequence)
        if is_here or now_ms > until_ms:
            del self._earliest[batch.producer_id]
            return None
        return sequence if _comes_before(sequence, batch.base_sequence) else None

    def _limit(self) -> None:
        if len(self._earliest) > REFUSED_PRODUCERS_MAX:
            del self._earliest[next(iter(self._earliest))]


def _comes_before(one: int, other: int) -> bool:
    """Sequences begin again after the largest."""
    return 0 < (other - one) % _SEQUENCES < _SEQUENCES // 2
