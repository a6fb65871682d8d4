"""Lengths and counts on the wire: of 16 or 32 bits, or in as many bytes as they need (KIP-482).

Not what they are the length of. The invariant: a length that is read is -1, which stands for null,
or more; whether so much is there is for the reader of it to see.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from penstock.model.errors import MalformedFrame

_INT16: Final = Struct(">h")
_INT32: Final = Struct(">i")


def read_length16(view: memoryview, position: int) -> tuple[int, int]:
    (length,) = _INT16.unpack_from(view, position)
    if length < -1:
        raise MalformedFrame(f"A length is {length}.")
    return length, position + 2


def read_length32(view: memoryview, position: int) -> tuple[int, int]:
    (length,) = _INT32.unpack_from(view, position)
    if length < -1:
        raise MalformedFrame(f"A length is {length}.")
    return length, position + 4


def read_compact_length(view: memoryview, position: int) -> tuple[int, int]:
    """One less than the number that is there, so that zero stands for null."""
    number = view[position]
    if number < 0x80:
        return number - 1, position + 1
    number, position = read_unsigned(view, position)
    return number - 1, position


def read_unsigned(view: memoryview, position: int) -> tuple[int, int]:
    """A number of at most 32 bits, seven of them in a byte, the lowest first."""
    value = 0
    for shift in (0, 7, 14, 21, 28):
        byte = view[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value > 0xFFFFFFFF:
                break
            return value, position
    raise MalformedFrame("A variable-length number is longer than 32 bits.")


def write_length16(buffer: bytearray, length: int) -> None:
    buffer += _INT16.pack(length)


def write_length32(buffer: bytearray, length: int) -> None:
    buffer += _INT32.pack(length)


def write_compact_length(buffer: bytearray, length: int) -> None:
    if length < 0x7F:
        buffer.append(length + 1)
    else:
        write_unsigned(buffer, length + 1)


def write_unsigned(buffer: bytearray, value: int) -> None:
    while value >= 0x80:
        buffer.append(value & 0x7F | 0x80)
        value >>= 7
    buffer.append(value)
