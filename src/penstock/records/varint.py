"""The integers inside records: zigzag and seven bits a byte, as in Protocol Buffers.

For one record now and then; the loops over many have their own, compiled. The invariant: what is
read back is what was written. Whether a number makes sense is the reader's to check.
"""

from __future__ import annotations

from penstock.records.header import Buffer


def read_varint(data: Buffer, position: int) -> tuple[int, int]:
    """The integer at the position, and the position behind it; IndexError if the data ends."""
    byte = data[position]
    position += 1
    number = byte & 0x7F
    shift = 7
    while byte >= 0x80:
        byte = data[position]
        position += 1
        number |= (byte & 0x7F) << shift
        shift += 7
    return (number >> 1) ^ -(number & 1), position


def varint(value: int) -> bytes:
    """An integer of up to 64 bits as it is written."""
    number = (value << 1) ^ (value >> 63)
    encoded = bytearray()
    while number >= 0x80:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)
