"""A batch without its compression: opened once, for whatever is to be made of its records.

It does not look at the records. The invariant: what is held of it is never more than was allowed,
whatever a few bytes would open to.
"""

from __future__ import annotations

from typing import NamedTuple

from penstock.model.errors import CorruptBatch, InvalidBatch
from penstock.records.compression import decompress
from penstock.records.header import CODEC_MASK, HEADER_BYTES, BatchHeader


class PlainBatch(NamedTuple):
    """A tuple: one for each batch that is opened."""

    header: BatchHeader
    """As it came, but of no codec; its length and checksum are those of the batch that came."""
    batch: memoryview
    """The records, behind as many bytes as a header has."""

    @property
    def records(self) -> memoryview:
        return self.batch[HEADER_BYTES:]


def plain_batch(header: BatchHeader, batch: memoryview, bytes_max: int) -> PlainBatch:
    """The checked batch, opened. InvalidBatch if it is compressed, and larger than this without."""
    if not header.codec:
        return PlainBatch(header, batch)
    try:
        opened = decompress(header.codec, batch[HEADER_BYTES:], bytes_max, HEADER_BYTES)
    except CorruptBatch as error:
        # Damage since it was sent would have shown in the checksum: trying again cannot help.
        raise InvalidBatch(f"The record batch cannot be decompressed: {error}") from None
    plain_header = header._replace(attributes=header.attributes & ~CODEC_MASK)
    return PlainBatch(plain_header, memoryview(opened))
