"""A log's batches on their way to another copy of it: read by the leader, checked by the follower.

Not the sending. The invariants: what is read is batches end to end without a gap of offsets, though
compaction may have taken some out of the log: an empty batch stands for those; what was received is
used only when its checksums, offsets and lengths are right.
"""

from __future__ import annotations

from typing import NamedTuple

from penstock.model.errors import InvalidBatch
from penstock.model.limits import BATCH_BYTES_MAX
from penstock.raft.messages import BatchPlace
from penstock.raft.terms import TermHistory
from penstock.records.header import (
    CONTROL_FLAG,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP_MS,
    BatchHeader,
    check_batch,
    read_header,
)
from penstock.records.rewrite import empty_batch
from penstock.replication.replica.control import read_membership
from penstock.storage.log.log import Log


class ReceivedBatch(NamedTuple):
    """A batch as it came. A tuple: one for each."""

    header: BatchHeader
    batch: memoryview


def split(
    payload: memoryview, first_offset: int
) -> tuple[list[ReceivedBatch], tuple[BatchPlace, ...]]:
    """The batches of a payload, checked, and their places. BatchError."""
    received = []
    places = []
    position = 0
    offset = first_offset
    while position < len(payload):
        header = check_batch(payload, position)
        if header.length > BATCH_BYTES_MAX:
            raise InvalidBatch(f"A batch of {header.length} bytes is larger than any may be.")
        if header.base_offset != offset:
            raise InvalidBatch(f"A batch has offset {header.base_offset} where {offset} follows.")
        end = position + header.length
        batch = payload[position:end]
        is_control = header.attributes & CONTROL_FLAG
        membership = read_membership(header, batch) if is_control else None
        position, offset = end, header.next_offset
        received.append(ReceivedBatch(header, batch))
        places.append(BatchPlace(header.base_offset, offset, header.term, membership))
    return received, tuple(places)


def read_batches(
    log: Log, terms: TermHistory, offset: int, end_offset: int, max_bytes: int
) -> tuple[bytes, int]:
    """Batches from the offset on, at least one and else no more than so many bytes, and where they
    end. StorageError."""
    part, part_end_offset = log.read_stored(offset, max_bytes, end_offset)
    data = part.read()
    return _without_gaps(data, terms, offset) if log.is_compacted else (data, part_end_offset)


def _without_gaps(data: bytes, terms: TermHistory, offset: int) -> tuple[bytes, int]:
    pieces: list[bytes | bytearray] = []
    position = 0
    while position < len(data):
        header = read_header(data, position)
        if header.base_offset > offset:
            pieces += _gap(terms, offset, header.base_offset)
        pieces.append(data[position : position + header.length])
        position += header.length
        offset = header.next_offset
    return b"".join(pieces), offset


def _gap(terms: TermHistory, offset: int, end_offset: int) -> list[bytearray]:
    """Empty batches for these offsets, one for each term that they were written in."""
    pieces = []
    while offset < end_offset:
        term = terms.term_before(offset + 1)
        next_offset = min(terms.last_place_of(term).offset, end_offset)
        header = BatchHeader(
            base_offset=offset,
            length=0,
            term=term,
            attributes=0,
            last_offset_delta=next_offset - offset - 1,
            base_timestamp_ms=NO_TIMESTAMP_MS,
            max_timestamp_ms=NO_TIMESTAMP_MS,
            producer_id=NO_PRODUCER_ID,
            producer_epoch=NO_PRODUCER_EPOCH,
            base_sequence=NO_SEQUENCE,
            record_count=0,
            crc=0,
        )
        pieces.append(empty_batch(header))
        offset = next_offset
    return pieces
