"""Batches of the broker's own into a partition that it leads: a staged one as it is, once.

What a topic lets in was asked when the batch was staged: settings that changed since do not hold up
what is committed. The invariant: of one decision a partition has each batch once and in order, and
whoever brings one again is told of the end of the first.
"""

from __future__ import annotations

from collections.abc import Callable

from penstock.broker.partitions.partition import Append, Partition
from penstock.model.errors import PenstockError, StorageFailed
from penstock.net.clock import Clock
from penstock.records.header import BatchHeader, read_header, stamp_append_time


class Carried(Append):
    """A batch on its way, of which a function is told how it ends."""

    __slots__ = ("_told",)

    def __init__(self, told: Callable[[PenstockError | None], None]) -> None:
        # What the base has, without the call.
        self.base_offset = self.append_time_ms = -1
        self.duplicate = False
        self._told = told

    def finished(self, error: PenstockError | None) -> None:
        self._told(error)


def append_staged(
    partition: Partition, header: BatchHeader, batch: memoryview, append: Append, clock: Clock
) -> None:
    """Propose the batch, which has the number and the place of its decision's producer, unless it
    is here. Its bytes are needed until the turn ends."""
    replica = partition.replica
    last = partition.producers.last_batch(header.producer_id)
    if last is not None and (header.producer_epoch, header.last_sequence) <= last:
        if replica.failure is not None:
            # It has cut off what it could not flush: where its log ends says nothing any more.
            raise StorageFailed(replica.failure.message)
        # It may be that it is not committed yet.
        append.duplicate = True
        replica.when_committed(replica.log.next_offset, append.finished)
        return
    if partition.config.timestamp_type == "append":
        stamp_append_time(batch, clock.now_ms())
        header = read_header(batch)
    partition.sequences.append(header, batch, append)
