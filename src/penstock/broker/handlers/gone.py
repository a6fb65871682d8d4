"""Why an offset that was asked for is not there any more."""

from __future__ import annotations

from penstock.broker.partitions.partition import Partition
from penstock.model.errors import OffsetOutOfRange
from penstock.storage.log.removals import sentence


def explained(error: OffsetOutOfRange, partition: Partition, offset: int) -> OffsetOutOfRange:
    """The error with the reason why the offset is gone, if that is remembered."""
    log = partition.replica.log
    removal = log.removals.explain(offset, log.start_offset)
    if removal is None:
        return error
    return OffsetOutOfRange(
        f"Offset {offset} of {partition.name} is gone, {sentence(removal)}: the partition has "
        f"{log.start_offset} to {partition.replica.high_watermark}; seek to one of them."
    )
