"""The 61 bytes in front of every record batch (Kafka's format 2): read, checked, stamped.

All the broker reads of a batch. It is not the records, which `records.codec` opens, and it keeps
no state. The invariant: no length, count or position taken from the bytes is used before it was
checked against the bytes that are there, so damaged or hostile input ends in a `BatchError`.

    position  0 base offset      8 length after here   12 term (leader epoch)   16 magic = 2
             17 crc-32c of all that follows            21 attributes            23 last offset delta
             27 base timestamp  35 max timestamp       43 producer id           51 producer epoch
             53 base sequence   57 record count        61 records

Base offset, length, term and magic are outside the checksum, so the broker can stamp a batch in
place without reading it.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from crc32c import crc32c

from penstock.model.errors import CorruptBatch, InvalidBatch

Buffer = bytes | bytearray | memoryview

HEADER_BYTES: Final = 61
MAGIC: Final = 2
# The length field counts what follows it.
LENGTH_PREFIX_BYTES: Final = 12
CRC_POSITION: Final = 17
# The checksum covers everything from the attributes to the end.
CRC_START: Final = 21
# length, attributes, timestamp delta, offset delta, key, value, header count: a byte each.
RECORD_BYTES_MIN: Final = 7

CODEC_MASK: Final = 0x07
APPEND_TIME_FLAG: Final = 0x08
TRANSACTIONAL_FLAG: Final = 0x10
CONTROL_FLAG: Final = 0x20
CODEC_MAX: Final = 4

NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
NO_SEQUENCE: Final = -1
NO_TIMESTAMP_MS: Final = -1
# Far beyond any date, and far enough from the largest number that adding a delta is safe.
TIMESTAMP_MS_MAX: Final = 2**62 - 1
NO_TERM: Final = -1

_HEADER: Final = struct.Struct(">qiibIhiqqqhii")
_PLACE: Final = struct.Struct(">qii")
_CRC: Final = struct.Struct(">I")
_ATTRIBUTES: Final = struct.Struct(">h")
_MAX_TIMESTAMP: Final = struct.Struct(">q")
_ATTRIBUTES_POSITION: Final = 21
_MAX_TIMESTAMP_POSITION: Final = 35
_OFFSET_MAX: Final = 2**63 - 1
_SEQUENCE_MASK: Final = 2**31 - 1


class BatchHeader(NamedTuple):
    """What a batch says of itself. A tuple, because one is made for every produced batch."""

    base_offset: int
    length: int
    """Bytes of the whole batch, this header included."""
    term: int
    """Raft's term, in the field Kafka calls the partition leader epoch."""
    attributes: int
    last_offset_delta: int
    base_timestamp_ms: int
    max_timestamp_ms: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int
    crc: int

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def codec(self) -> int:
        """The number of the compression, as `records.compression.Codec` names it."""
        return self.attributes & CODEC_MASK

    @property
    def is_append_time(self) -> bool:
        return self.attributes & APPEND_TIME_FLAG != 0

    @property
    def is_transactional(self) -> bool:
        return self.attributes & TRANSACTIONAL_FLAG != 0

    @property
    def is_control(self) -> bool:
        return self.attributes & CONTROL_FLAG != 0

    @property
    def last_sequence(self) -> int:
        """The sequence of the last record; 0 comes after 2147483647, as in Kafka. -1 if none."""
        if self.base_sequence < 0:
            return NO_SEQUENCE
        return (self.base_sequence + self.last_offset_delta) & _SEQUENCE_MASK


def read_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """The header at the position, checked against itself; the records may not be there yet."""
    try:
        (
            base_offset,
            length,
            term,
            magic,
            crc,
            attributes,
            last_offset_delta,
            base_timestamp_ms,
            max_timestamp_ms,
            producer_id,
            producer_epoch,
            base_sequence,
            record_count,
        ) = _HEADER.unpack_from(buffer, position)
    except struct.error:
        raise InvalidBatch(
            f"A record batch is cut off in its header: {max(len(buffer) - position, 0)} bytes at "
            f"position {position}, {HEADER_BYTES} are needed; send it whole."
        ) from None
    length += LENGTH_PREFIX_BYTES
    if (
        magic != MAGIC
        or length < HEADER_BYTES
        or not 0 <= base_offset <= _OFFSET_MAX - last_offset_delta
        or last_offset_delta < 0
        or record_count < 0
        or attributes & CODEC_MASK > CODEC_MAX
    ):
        raise InvalidBatch(
            f"The record batch at position {position} is not a batch of format {MAGIC}: magic "
            f"{magic}, {length} bytes, base offset {base_offset}, last offset delta "
            f"{last_offset_delta}, {record_count} records, codec {attributes & CODEC_MASK}."
        )
    # Past the Python-level constructor of a NamedTuple: a fifth of this function's time.
    return tuple.__new__(
        BatchHeader,
        (
            base_offset,
            length,
            term,
            attributes,
            last_offset_delta,
            base_timestamp_ms,
            max_timestamp_ms,
            producer_id,
            producer_epoch,
            base_sequence,
            record_count,
            crc,
        ),
    )


def check_batch(view: memoryview, position: int = 0) -> BatchHeader:
    """The header of a batch that is all there and has the checksum it says."""
    header = read_header(view, position)
    end = position + header.length
    if end > len(view):
        raise InvalidBatch(
            f"The record batch at position {position} says it has {header.length} bytes, but only "
            f"{len(view) - position} are there; send it whole."
        )
    crc = crc32c(view[position + CRC_START : end])
    if crc != header.crc:
        raise CorruptBatch(
            f"The record batch at position {position} (base offset {header.base_offset}, "
            f"{header.length} bytes) has checksum {crc:08x} and says {header.crc:08x}: it was "
            f"damaged on the way."
        )
    return header


def check_produced(payload: memoryview) -> BatchHeader:
    """The header of the one batch that a producer sent, fit to be appended.

    Stricter than `check_batch`: compaction may leave a batch with fewer records than offsets, a
    producer may not send one. One batch and no more, as Kafka has it since format 2: so a call
    succeeds or fails as a whole.
    """
    header = check_batch(payload)
    if header.length != len(payload):
        raise InvalidBatch(
            f"{len(payload) - header.length} bytes follow the record batch: send one batch a call."
        )
    _check_data(header)
    return header


def stamp(view: memoryview, base_offset: int, term: int) -> None:
    """Give the batch its place in the log, in place. Both fields are outside the checksum."""
    # The length stands between them: one call writes all three, the length as it is.
    _PLACE.pack_into(view, 0, base_offset, len(view) - LENGTH_PREFIX_BYTES, term)


def stamp_append_time(view: memoryview, now_ms: int) -> None:
    """Replace the producer's times by the broker's, in place.

    As Kafka does: the records keep their deltas, a flag says that the max timestamp stands for
    all of them, and the checksum is made anew.
    """
    (attributes,) = _ATTRIBUTES.unpack_from(view, _ATTRIBUTES_POSITION)
    _ATTRIBUTES.pack_into(view, _ATTRIBUTES_POSITION, attributes | APPEND_TIME_FLAG)
    _MAX_TIMESTAMP.pack_into(view, _MAX_TIMESTAMP_POSITION, now_ms)
    _write_crc(view)


def write_header(batch: bytearray, header: BatchHeader) -> None:
    """Write the header in front of the records that are there, with its length and checksum as
    they are, whatever the header given says of these two."""
    _HEADER.pack_into(
        batch,
        0,
        header.base_offset,
        len(batch) - LENGTH_PREFIX_BYTES,
        header.term,
        MAGIC,
        0,
        header.attributes,
        header.last_offset_delta,
        header.base_timestamp_ms,
        header.max_timestamp_ms,
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
        header.record_count,
    )
    _write_crc(memoryview(batch))


def _write_crc(view: memoryview) -> None:
    _CRC.pack_into(view, CRC_POSITION, crc32c(view[CRC_START:]))


def _check_data(header: BatchHeader) -> None:
    """Raise InvalidBatch unless the header is one that a producer may write."""
    attributes = header.attributes
    record_count = header.record_count
    if record_count < 1 or record_count != header.last_offset_delta + 1:
        raise InvalidBatch(
            f"The record batch has {record_count} records and last offset delta "
            f"{header.last_offset_delta}: number the records of a batch from 0 without a gap."
        )
    if attributes & (CONTROL_FLAG | APPEND_TIME_FLAG):
        raise InvalidBatch(
            f"The record batch has attributes {attributes:#06x}: control batches and append "
            f"times are the broker's to write."
        )
    if not attributes & CODEC_MASK and record_count * RECORD_BYTES_MIN > (
        header.length - HEADER_BYTES
    ):
        raise InvalidBatch(
            f"The record batch says {record_count} records, which cannot fit in "
            f"{header.length} bytes."
        )
    if not (
        NO_TIMESTAMP_MS <= header.base_timestamp_ms <= TIMESTAMP_MS_MAX
        and NO_TIMESTAMP_MS <= header.max_timestamp_ms <= TIMESTAMP_MS_MAX
    ):
        raise InvalidBatch(
            f"The record batch has base timestamp {header.base_timestamp_ms} and max timestamp "
            f"{header.max_timestamp_ms}: milliseconds since 1970 are from -1 to {TIMESTAMP_MS_MAX}."
        )
    if header.producer_id == NO_PRODUCER_ID:
        if attributes & TRANSACTIONAL_FLAG:
            raise InvalidBatch("The record batch is transactional but has no producer id.")
    elif header.producer_id < 0 or header.producer_epoch < 0 or header.base_sequence < 0:
        raise InvalidBatch(
            f"The record batch has producer id {header.producer_id}, epoch "
            f"{header.producer_epoch} and sequence {header.base_sequence}: all three or none."
        )
