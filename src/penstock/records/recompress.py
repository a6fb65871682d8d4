"""A batch in another compression: the same records, offsets, times and producer.

It does not look at the records. The invariant: what comes out differs from what went in only in
codec, length and checksum.
"""

from __future__ import annotations

from penstock.records.compression import Codec, compress
from penstock.records.header import HEADER_BYTES, write_header
from penstock.records.plain import PlainBatch


def recompress(plain: PlainBatch, codec: Codec, *, level: int | None) -> bytearray:
    """The opened batch in this codec."""
    result = bytearray(HEADER_BYTES)
    result += compress(codec, plain.records, level)
    write_header(result, plain.header._replace(attributes=plain.header.attributes | codec))
    return result
