"""Integers as records have them."""

from __future__ import annotations

import pytest

from penstock.records.varint import read_varint, varint

NUMBERS = [
    (0, b"\x00"),
    (-1, b"\x01"),
    (1, b"\x02"),
    (63, b"\x7e"),
    (64, b"\x80\x01"),
    (-64, b"\x7f"),
    (300, b"\xd8\x04"),
    (2**63 - 1, b"\xfe" + b"\xff" * 8 + b"\x01"),
    (-(2**63), b"\xff" * 9 + b"\x01"),
]


@pytest.mark.parametrize(("number", "encoded"), NUMBERS)
def test_there_and_back(number: int, encoded: bytes) -> None:
    assert varint(number) == encoded
    assert read_varint(b"x" + encoded + b"y", 1) == (number, 1 + len(encoded))
    assert read_varint(memoryview(encoded), 0) == (number, len(encoded))


@pytest.mark.parametrize("data", [b"", b"\x80", b"\xff" * 20])
def test_an_integer_that_is_cut_off(data: bytes) -> None:
    with pytest.raises(IndexError):
        read_varint(data, 0)
