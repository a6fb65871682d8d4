"""Kafka's five codecs on whole blocks of bytes, each bounded against what it may expand to.

Not a stream: a batch is compressed and decompressed in one go. The invariant: no call allocates
more than its limit for the output, whatever the input says of itself.

What is written is what every client reads. Snappy goes out in xerial's framing with blocks of
32 KiB, as the Java client writes it, so nobody can be without a reader for it; librdkafka writes
raw snappy, so both are read. LZ4 is the frame format with independent blocks (KIP-57): the Java
client refuses linked ones.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from enum import IntEnum
from typing import Final

import cramjam

from penstock.model.errors import CorruptBatch
from penstock.model.limits import DECOMPRESSED_BYTES_MAX, KIB
from penstock.records.header import Buffer


class Codec(IntEnum):
    """The compression of a batch, by its number in the batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


_GZIP_LEVEL: Final = 6
_GZIP_WINDOW_BITS: Final = 31  # 15 bits of window, plus 16 for gzip's own header and trailer
_LZ4_LEVEL: Final = 1  # an eighth of level 3's time for a fiftieth more bytes
_ZSTD_LEVEL: Final = 3  # Kafka's default (KIP-390)

# Raw snappy cannot begin like this: it would copy bytes before there are any.
_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER: Final = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)  # version, oldest that reads it
_XERIAL_BLOCK_BYTES: Final = 32 * KIB
_XERIAL_LENGTH: Final = struct.Struct(">I")

# The most that a format can make of one byte, so that little damaged input costs little: deflate
# has matches of 258 bytes in two bits, snappy 64 bytes in 3, LZ4 255 more per byte, Zstandard
# blocks of 128 KiB in 4 bytes.
_GZIP_EXPANSION_MAX: Final = 1032
_SNAPPY_EXPANSION_MAX: Final = 22
_LZ4_EXPANSION_MAX: Final = 255
_ZSTD_EXPANSION_MAX: Final = 32 * KIB

# Where the size is not known: the first guess per input byte, its least, and how it grows.
_GUESS_EXPANSION: Final = 8
_GUESS_BYTES_MIN: Final = 64 * KIB
_GUESS_GROWTH: Final = 4


def compress(codec: int, data: Buffer, level: int | None = None) -> Buffer:
    """The data in the codec's format, as every Kafka client reads it. The level is for the codecs
    that have one worth choosing: gzip and zstd."""
    match Codec(codec):
        case Codec.NONE:
            return data
        case Codec.GZIP:
            return zlib.compress(data, level or _GZIP_LEVEL, wbits=_GZIP_WINDOW_BITS)
        case Codec.SNAPPY:
            return _compress_xerial(memoryview(data))
        case Codec.LZ4:
            compressor = cramjam.lz4.Compressor(
                level=_LZ4_LEVEL, content_checksum=False, block_linked=False
            )
            compressor.compress(bytes(data))
            return bytes(compressor.finish())
        case Codec.ZSTD:
            return bytes(cramjam.zstd.compress(data, level=_ZSTD_LEVEL if level is None else level))


def decompress(
    codec: int, data: Buffer, limit: int = DECOMPRESSED_BYTES_MAX, head_bytes: int = 0
) -> Buffer:
    """The data that was compressed, or CorruptBatch if it is damaged or larger than the limit;
    behind as many bytes as are asked for, unless it was not compressed at all."""
    match Codec(codec):
        case Codec.NONE:
            return data
        case Codec.GZIP:
            expansion_max = _GZIP_EXPANSION_MAX
            decompress_into = cramjam.gzip.decompress_into
        case Codec.SNAPPY:
            return _decompress_snappy(memoryview(data), limit, head_bytes)
        case Codec.LZ4:
            expansion_max = _LZ4_EXPANSION_MAX
            decompress_into = cramjam.lz4.decompress_into
        case Codec.ZSTD:
            expansion_max = _ZSTD_EXPANSION_MAX
            decompress_into = cramjam.zstd.decompress_into
    size_max = min(limit, len(data) * expansion_max)
    size = min(size_max, max(_GUESS_BYTES_MIN, len(data) * _GUESS_EXPANSION))
    while True:
        output = _attempt(decompress_into, data, size, head_bytes)
        if output is not None:
            return output
        if size >= size_max:
            raise CorruptBatch(
                f"{len(data)} bytes of {Codec(codec).name.lower()} are damaged or decompress to "
                f"more than {limit} bytes."
            )
        size = min(size_max, size * _GUESS_GROWTH)


def _attempt(
    decompress_into: Callable[[Buffer, memoryview], int],
    data: Buffer,
    size: int,
    head_bytes: int,
) -> bytearray | None:
    """The decompressed data, or None if it is damaged or does not fit in `size`. A function of
    its own so that the buffer of one attempt is gone before the next is made."""
    output = bytearray(head_bytes + size)
    try:
        with memoryview(output) as view, view[head_bytes:] as target:
            length = decompress_into(data, target)
    except cramjam.DecompressionError:
        return None
    del output[head_bytes + length :]
    return output


def _compress_xerial(data: memoryview) -> bytes:
    pieces = [_XERIAL_HEADER]
    for start in range(0, len(data), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(data[start : start + _XERIAL_BLOCK_BYTES]))
        pieces += (_XERIAL_LENGTH.pack(len(block)), block)
    return b"".join(pieces)


def _decompress_snappy(data: memoryview, limit: int, head_bytes: int) -> bytearray:
    if bytes(data[: len(_XERIAL_MAGIC)]) == _XERIAL_MAGIC:
        blocks = _xerial_blocks(data)
    else:
        blocks = [data]
    try:
        sizes = [cramjam.snappy.decompress_raw_len(block) for block in blocks]
        size = sum(sizes)
        if size > min(limit, len(data) * _SNAPPY_EXPANSION_MAX):
            raise CorruptBatch(
                f"{len(data)} bytes of snappy say they decompress to {size} bytes: they are "
                f"damaged or larger than {limit} bytes."
            )
        output = bytearray(head_bytes + size)
        view = memoryview(output)
        position = head_bytes
        for block, block_size in zip(blocks, sizes, strict=True):
            cramjam.snappy.decompress_raw_into(block, view[position : position + block_size])
            position += block_size
    except cramjam.DecompressionError as error:
        raise CorruptBatch(f"{len(data)} bytes of snappy are damaged: {error}.") from None
    return output


def _xerial_blocks(data: memoryview) -> list[memoryview]:
    blocks: list[memoryview] = []
    position = len(_XERIAL_HEADER)
    if position > len(data):
        raise CorruptBatch(f"{len(data)} bytes of snappy end within their header.")
    while position < len(data):
        start = position + _XERIAL_LENGTH.size
        if start > len(data):
            raise CorruptBatch(f"{len(data)} bytes of snappy end within a block's length.")
        (length,) = _XERIAL_LENGTH.unpack_from(data, position)
        position = start + length
        if position > len(data):
            raise CorruptBatch(
                f"A snappy block of {length} bytes at {start} goes beyond the {len(data)} there."
            )
        blocks.append(data[start:position])
    return blocks
