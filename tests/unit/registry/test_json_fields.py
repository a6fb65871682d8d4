"""Documents say their format, and what they hold is checked field by field."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from penstock.model.errors import CorruptFacts
from penstock.registry import json_fields
from penstock.registry.json_fields import decoded, document


def test_a_document_says_its_format() -> None:
    assert document({"a": 1}) == b'{"format":1,"a":1}'
    assert decoded(b'{"format":1,"a":1}', "it", lambda fields: fields["a"]) == 1


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b'{"format":2}', "format 2 is of a later version"),
        (b'{"format":true}', "format is no number"),
        (b"{}", "KeyError"),
        (b"7", "TypeError"),
        (b"\xff", "UnicodeDecodeError"),
        (b"[" * 100_000, "nested too deeply"),
    ],
)
def test_what_is_none_is_refused(data: bytes, reason: str) -> None:
    with pytest.raises(CorruptFacts, match=f"it cannot be understood .*{reason}"):
        decoded(data, "it", lambda fields: fields)


@pytest.mark.parametrize(
    ("read", "wrong"),
    [
        (lambda fields: json_fields.number(fields, "a", 7), (8, -1, 1.0, "1", None, True)),
        (lambda fields: json_fields.text_of(fields, "a", 2), ("abc", "\n", 1, None)),
        (lambda fields: json_fields.flag(fields, "a"), (0, 1, "true", None)),
        (lambda fields: json_fields.list_of(fields, "a", 1), ([1, 2], {}, "a", None)),
        (lambda fields: json_fields.hexadecimal(fields["a"], 2), ("0", "0G", "AB", 12, None)),
        (lambda fields: json_fields.pair(fields["a"]), ([1], [1, 2, 3], "ab", None)),
    ],
)
def test_fields_are_checked(read: Callable[[Any], object], wrong: tuple[object, ...]) -> None:
    for value in wrong:
        with pytest.raises(CorruptFacts):
            decoded(document({"a": value}), "it", read)
