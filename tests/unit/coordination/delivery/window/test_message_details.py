"""Which messages are not plain, by their headers and keys."""

from __future__ import annotations

import pytest

from penstock.coordination.delivery.window.message_details import MessageDetails, details_of
from penstock.model.message_headers import EXPIRES_MS, PRIORITY


def test_a_plain_message_has_none() -> None:
    headers = (("mine", b"1"), (PRIORITY, b"4"))
    assert details_of(7, b"k", headers, is_ordered_by_key=False) is None
    assert details_of(7, None, (), is_ordered_by_key=True) is None


def test_headers_and_the_key_are_read() -> None:
    headers = ((PRIORITY, b"9"), (EXPIRES_MS, b"1234"))
    assert details_of(7, b"k", headers, is_ordered_by_key=False) == MessageDetails(7, None, 9, 1234)
    ordered = details_of(7, b"k", (), is_ordered_by_key=True)
    same = details_of(8, b"k", (), is_ordered_by_key=True)
    other = details_of(9, b"l", (), is_ordered_by_key=True)
    assert ordered is not None
    assert same is not None
    assert other is not None
    assert ordered.key == same.key != other.key


@pytest.mark.parametrize(
    "value", [None, b"", b"10", b"-1", b"x", b"9" * 5_000, "٣".encode(), b" 1", b"1.0"]
)
def test_what_cannot_be_read_does_not_count(value: bytes | None) -> None:
    assert details_of(7, None, ((PRIORITY, value),), is_ordered_by_key=True) is None
    if value != b"10":
        assert details_of(7, None, ((EXPIRES_MS, value),), is_ordered_by_key=True) is None
