"""Documents of a registry as JSON, and their fields, read as if an enemy had written them.

Each document says its format; a later one is refused rather than misread. Not what the documents
are about: `facts_json` and `changes_json` know. The invariant: whatever cannot be understood is
CorruptFacts that says what is wrong, and no other error.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from penstock.model.errors import CorruptFacts, PenstockError
from penstock.model.topic_config import INT64_MAX

FORMAT: Final = 1
_HEXADECIMAL: Final = frozenset("0123456789abcdef")

Fields = Mapping[str, Any]
Read = TypeVar("Read")


def document(fields: Fields) -> bytes:
    return json.dumps({"format": FORMAT, **fields}, separators=(",", ":")).encode()


def decoded(data: bytes, what: str, read: Callable[[Fields], Read]) -> Read:
    """What the document says. It is called `what` if it cannot be understood."""
    try:
        fields = json.loads(data)
        if number(fields, "format", INT64_MAX) > FORMAT:
            raise ValueError(f"format {fields['format']} is of a later version of Penstock")
        return read(fields)
    except PenstockError as error:
        reason = error.message.rstrip(".")
    except RecursionError:
        reason = "it is nested too deeply"
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        # Of hostile bytes no more than a glance goes into a log.
        reason = f"{type(error).__name__}: {error}"[:200]
    raise CorruptFacts(f"{what} cannot be understood ({reason}): restore it or remove it.")


def number(fields: Fields, name: str, most: int) -> int:
    return checked_number(fields[name], name, most)


def checked_number(value: object, name: str, most: int) -> int:
    # True is an int to Python.
    if type(value) is not int or not 0 <= value <= most:
        raise ValueError(f"{name} is no number from 0 to {most}")
    return value


def text_of(fields: Fields, name: str, length_max: int) -> str:
    value = fields[name]
    if not isinstance(value, str) or len(value) > length_max or not value.isprintable():
        raise ValueError(f"{name} is no text of up to {length_max} printable characters")
    return value


def flag(fields: Fields, name: str) -> bool:
    value = fields[name]
    if not isinstance(value, bool):
        raise ValueError(f"{name} is neither true nor false")
    return value


def list_of(fields: Fields, name: str, length_max: int) -> list[Any]:
    value = fields[name]
    if not isinstance(value, list) or len(value) > length_max:
        raise ValueError(f"{name} is no list of up to {length_max} entries")
    return value


def hexadecimal(text: object, digits: int) -> str:
    if not isinstance(text, str) or len(text) != digits or not set(text) <= _HEXADECIMAL:
        raise ValueError(f"an id is not {digits} hexadecimal digits")
    return text


def pair(entry: object) -> tuple[Any, Any]:
    if not isinstance(entry, list) or len(entry) != 2:
        raise TypeError("an entry is not a list of two")
    return entry[0], entry[1]
