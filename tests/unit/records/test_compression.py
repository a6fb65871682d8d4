"""records.compression: both ways for each codec, both snappy framings, bombs and damage."""

from __future__ import annotations

import gzip
import struct
import tracemalloc

import cramjam
import pytest
from aiokafka import codec as aiokafka_codec

from penstock.model.errors import CorruptBatch
from penstock.records.compression import Codec, compress, decompress

COMPRESSING = [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD]
TEXT = b"".join(b'{"order": %d, "name": "alice"}\n' % number for number in range(4000))
SAMPLES = [b"", b"x", bytes(range(256)), TEXT, bytes(300_000)]


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("data", SAMPLES, ids=lambda data: f"{len(data)} bytes")
def test_round_trip(codec: Codec, data: bytes) -> None:
    for given in (data, bytearray(data), memoryview(data)):
        assert decompress(codec, compress(codec, given)) == data


@pytest.mark.parametrize("data", SAMPLES[1:], ids=lambda data: f"{len(data)} bytes")
def test_aiokafka_reads_ours_and_we_read_theirs(data: bytes) -> None:
    theirs = {
        Codec.GZIP: (aiokafka_codec.gzip_encode, aiokafka_codec.gzip_decode),
        Codec.SNAPPY: (aiokafka_codec.snappy_encode, aiokafka_codec.snappy_decode),
        Codec.LZ4: (aiokafka_codec.lz4_encode, aiokafka_codec.lz4_decode),
        Codec.ZSTD: (aiokafka_codec.zstd_encode, aiokafka_codec.zstd_decode),
    }
    for codec, (encode, decode) in theirs.items():
        assert decode(bytes(compress(codec, data))) == data
        assert decompress(codec, encode(data)) == data


def test_snappy_is_written_as_java_writes_it_and_read_raw_too() -> None:
    """Java and Python clients write xerial's framing, librdkafka raw snappy."""
    framed = bytes(compress(Codec.SNAPPY, TEXT))
    assert framed.startswith(b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01")
    assert decompress(Codec.SNAPPY, bytes(cramjam.snappy.compress_raw(TEXT))) == TEXT


def test_lz4_has_a_frame_with_independent_blocks() -> None:
    """KIP-57: the Java client refuses linked blocks."""
    frame = bytes(compress(Codec.LZ4, TEXT))
    assert frame[:4] == b"\x04\x22\x4d\x18"
    version, is_independent = frame[4] >> 6, frame[4] >> 5 & 1
    assert (version, is_independent) == (1, 1)


@pytest.mark.parametrize("codec", COMPRESSING)
def test_a_limit_is_kept(codec: Codec) -> None:
    compressed = compress(codec, TEXT)
    assert decompress(codec, compressed, len(TEXT)) == TEXT
    with pytest.raises(CorruptBatch, match=f"{len(TEXT) - 1} bytes"):
        decompress(codec, compressed, len(TEXT) - 1)


@pytest.mark.parametrize("codec", COMPRESSING)
def test_a_bomb_allocates_no_more_than_the_limit(codec: Codec) -> None:
    limit = 1 << 20
    bomb = bytes(compress(codec, bytes(16 << 20)))
    tracemalloc.start()
    try:
        with pytest.raises(CorruptBatch):
            decompress(codec, bomb, limit)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # Snappy lists its blocks, of which there are 512, before it looks at their sizes.
    assert peak < limit + 300_000


def test_a_snappy_size_that_cannot_be_is_not_allocated() -> None:
    """A few bytes that say they decompress to 1 GiB."""
    with pytest.raises(CorruptBatch, match="say they decompress to 1073741823 bytes"):
        decompress(Codec.SNAPPY, b"\xff\xff\xff\xff\x03" + b"\x00a" * 10)


@pytest.mark.parametrize("codec", COMPRESSING)
def test_damage_is_found(codec: Codec) -> None:
    """Every cut, and every byte turned round: an error, or data within the limit that only the
    batch's checksum can tell from the right one."""
    limit = 1 << 16
    data = bytes(range(200))
    compressed = bytes(compress(codec, data))
    for position in range(len(compressed)):
        # A xerial stream cut between its blocks is a shorter xerial stream.
        if not (codec is Codec.SNAPPY and position == 16):
            with pytest.raises(CorruptBatch):
                decompress(codec, compressed[:position], limit)
        damaged = bytearray(compressed)
        damaged[position] ^= 0xFF
        try:
            output = decompress(codec, damaged, limit)
        except CorruptBatch:
            continue
        assert len(output) <= limit


@pytest.mark.parametrize("codec", COMPRESSING)
def test_bytes_after_the_end_are_refused(codec: Codec) -> None:
    with pytest.raises(CorruptBatch):
        decompress(codec, bytes(compress(codec, TEXT)) + b"abc", 1 << 20)


@pytest.mark.parametrize("length", [0xFFFFFFFF, 0x7FFFFFFF, 1000])
def test_a_snappy_block_that_goes_too_far_is_refused(length: int) -> None:
    framed = bytes(compress(Codec.SNAPPY, b"abc"))
    with pytest.raises(CorruptBatch, match=f"block of {length} bytes"):
        decompress(Codec.SNAPPY, framed[:16] + struct.pack(">I", length) + framed[20:])


def test_gzip_of_another_writer() -> None:
    assert decompress(Codec.GZIP, gzip.compress(TEXT, mtime=0)) == TEXT
