"""Recompression: the same records in another codec, and nothing hostile opened too far."""

from __future__ import annotations

import itertools

import pytest

from penstock.model.errors import InvalidBatch
from penstock.model.limits import OPENED_BATCH_BYTES_MAX
from penstock.records import BatchBuilder, decode_batch
from penstock.records.compression import Codec
from penstock.records.header import check_batch, check_produced
from penstock.records.plain import plain_batch
from penstock.records.recompress import recompress


def made(codec: Codec, values: int = 50) -> memoryview:
    builder = BatchBuilder(1 << 22, codec=codec)
    for number in range(values):
        headers = [("n", b"%d" % number), ("none", None)]
        builder.append(1_000 + number, b"key %d" % (number % 7), b"value " * number, headers)
    built = builder.build(producer_id=9, producer_epoch=2, base_sequence=70)
    return memoryview(bytearray(built))


@pytest.mark.parametrize(("before", "after"), list(itertools.permutations(Codec, 2)))
def test_only_codec_length_and_checksum_change(before: Codec, after: Codec) -> None:
    batch = made(before)
    header = check_produced(batch)
    result = memoryview(
        recompress(plain_batch(header, batch, OPENED_BATCH_BYTES_MAX), after, level=None)
    )
    changed = check_produced(result)
    assert changed.codec == after
    assert changed == header._replace(
        attributes=changed.attributes, length=changed.length, crc=changed.crc
    )
    assert changed.attributes & ~7 == header.attributes & ~7
    assert [
        (message.offset, message.timestamp_ms, message.key, message.value, message.headers)
        for message in decode_batch(changed, result, OPENED_BATCH_BYTES_MAX)
    ] == [
        (message.offset, message.timestamp_ms, message.key, message.value, message.headers)
        for message in decode_batch(header, batch, OPENED_BATCH_BYTES_MAX)
    ]


@pytest.mark.parametrize(("codec", "low", "high"), [(Codec.GZIP, 1, 9), (Codec.ZSTD, -50, 19)])
def test_the_level_is_followed(codec: Codec, low: int, high: int) -> None:
    batch = made(Codec.NONE, values=500)
    header = check_produced(batch)
    sizes = [
        len(recompress(plain_batch(header, batch, OPENED_BATCH_BYTES_MAX), codec, level=level))
        for level in (low, high)
    ]
    assert sizes[0] > sizes[1]


def test_what_expands_beyond_the_limit_is_refused() -> None:
    builder = BatchBuilder(1 << 22, codec=Codec.ZSTD)
    builder.append(1_000, b"key", bytes(1_000_000))
    batch = memoryview(bytearray(builder.build()))
    with pytest.raises(InvalidBatch, match="more than 100000 bytes"):
        plain_batch(check_batch(batch), batch, 100_000)
