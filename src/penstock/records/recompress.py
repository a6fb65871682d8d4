"""A batch in another compression: the same records, offsets, times and producer.

It does not look at the records. The invariant: what comes out differs from what went in only in
codec, length and checksum, and nothing larger than the limit is held on the way.
"""

from __future__ import annotations

from penstock.model.errors import CorruptBatch, InvalidBatch
from penstock.records.compression import Codec, compress, decompress
from penstock.records.header import CODEC_MASK, HEADER_BYTES, BatchHeader, write_header


def recompress(
    header: BatchHeader, batch: memoryview, codec: Codec, *, level: int | None, bytes_max: int
) -> bytearray:
    """The checked batch in this codec, or InvalidBatch if it cannot be opened within the limit."""
    try:
        records = decompress(header.codec, batch[HEADER_BYTES:], bytes_max)
    except CorruptBatch as error:
        # Damage on the way would have shown in the checksum: trying again cannot help.
        raise InvalidBatch(f"The record batch cannot be decompressed: {error}") from None
    result = bytearray(HEADER_BYTES)
    result += compress(codec, records, level)
    attributes = header.attributes & ~CODEC_MASK | codec
    write_header(result, header._replace(attributes=attributes))
    return result
