"""Lengths: what they are in bytes, and which there cannot be."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from penstock.model.errors import MalformedFrame
from penstock.protocol.kafka.lengths import (
    read_compact_length,
    read_length16,
    read_length32,
    read_unsigned,
    write_compact_length,
    write_length16,
    write_length32,
    write_unsigned,
)

Write = Callable[[bytearray, int], None]
Read = Callable[[memoryview, int], tuple[int, int]]
PAIRS: list[tuple[Write, Read]] = [
    (write_length16, read_length16),
    (write_length32, read_length32),
    (write_compact_length, read_compact_length),
]


@pytest.mark.parametrize(("write", "read"), PAIRS)
@pytest.mark.parametrize("length", [-1, 0, 1, 126, 127, 128, 16_382, 16_383, 32_767])
def test_a_length_reads_as_it_was_written(write: Write, read: Read, length: int) -> None:
    buffer = bytearray(b"before")
    write(buffer, length)
    assert read(memoryview(buffer), 6) == (length, len(buffer))


@pytest.mark.parametrize(
    ("length", "expected"), [(-1, "00"), (0, "01"), (126, "7f"), (127, "80 01"), (300, "ad 02")]
)
def test_a_compact_length_is_one_more_on_the_wire(length: int, expected: str) -> None:
    """KIP-482."""
    buffer = bytearray()
    write_compact_length(buffer, length)
    assert buffer.hex(" ") == expected


@pytest.mark.parametrize("value", [0, 127, 128, 16_383, 16_384, 2**31 - 1, 2**32 - 1])
def test_a_number_reads_as_it_was_written(value: int) -> None:
    buffer = bytearray()
    write_unsigned(buffer, value)
    assert read_unsigned(memoryview(buffer), 0) == (value, len(buffer))


@pytest.mark.parametrize(
    ("read", "data", "reason"),
    [
        (read_length16, "fffe", "length is -2"),
        (read_length32, "80000000", "length is -2147483648"),
        (read_compact_length, "ffffffff10", "32 bits"),
        (read_unsigned, "808080808000", "32 bits"),
    ],
)
def test_lengths_that_cannot_be_are_malformed(read: Read, data: str, reason: str) -> None:
    with pytest.raises(MalformedFrame, match=reason):
        read(memoryview(bytes.fromhex(data)), 0)
