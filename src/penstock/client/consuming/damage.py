"""Damage in what was fetched: which batch it is, and what is sound before it.

Not the reading: `reader` and `range_reader` decode a whole answer at once, and come here when that
fails. The invariant: a damaged batch costs nobody the batches in front of it, and is named.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from penstock.client.errors import DamagedBatch
from penstock.model.errors import BatchError, CorruptLog, PenstockError
from penstock.model.ids import TopicPartition
from penstock.records.header import read_header


class SoundPart(NamedTuple):
    """The batches of an answer that are where they should be, up to the first that is not."""

    length: int
    """In bytes."""
    next_offset: int
    """The offset after them."""
    error: PenstockError | None
    """Why it is not all."""


class Piece(NamedTuple):
    """One batch of an answer."""

    payload: memoryview
    start_offset: int
    """The first that is wanted of it, if it has that."""
    next_offset: int


def sound_part(
    payload: memoryview, asked_offset: int, partition: str, *, compacted: bool = False
) -> SoundPart:
    """How far whole batches end to end follow the asked offset.

    A base offset is outside its batch's checksum, so only its neighbours can tell that it is
    wrong: each batch must begin where the one before it ends. In a log that the broker calls
    compacted it may begin later: there only steps backwards show.

    CorruptLog, which goes to the reader, and not CorruptBatch, which would be tried again in
    silence: the checksum of the network has passed these bytes, so they are wrong on the disk.
    """
    position = 0
    next_offset = asked_offset
    while position < len(payload):
        try:
            header = read_header(payload, position)
        except BatchError as error:
            return SoundPart(position, next_offset, error)
        if position == 0:  # a batch is indivisible: the asked offset may be in the middle of it
            is_right = header.base_offset <= asked_offset < header.next_offset
        else:
            is_right = header.base_offset == next_offset
        if not is_right and not (compacted and header.base_offset > next_offset):
            misplaced = CorruptLog(
                f"{partition} cannot be read on: at offset {next_offset} the broker has a batch "
                f"that says it is of offsets {header.base_offset} to {header.last_offset}. Run "
                f"`penstock inspect` on the broker's data folder."
            )
            return SoundPart(position, next_offset, misplaced)
        position += header.length
        next_offset = header.next_offset
    return SoundPart(position, next_offset, None)


def one_by_one(payload: memoryview, start_offset: int, next_offset: int) -> Iterator[Piece]:
    """The batches of a sound part. next_offset: where to go on after the last of them."""
    position = 0
    while position < len(payload):
        header = read_header(payload, position)
        end = position + header.length
        after = header.next_offset if end < len(payload) else next_offset
        yield Piece(payload[position:end], start_offset, after)
        position, start_offset = end, after


def damaged(partition: TopicPartition, batch: memoryview, error: BatchError) -> DamagedBatch:
    """What to raise for a batch that cannot be decoded."""
    header = read_header(batch, 0)
    found = DamagedBatch(
        f"{partition} cannot be read at offsets {header.base_offset} to {header.last_offset}: "
        f"{error} To go on without them, seek to offset {header.next_offset}; `penstock inspect` "
        "on the broker's data folder says what is damaged there."
    )
    found.partition = partition
    found.offset, found.next_offset = header.base_offset, header.next_offset
    return found
