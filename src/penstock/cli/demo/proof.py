"""What the demonstration proves: every acknowledged message is there, once, in order, unaltered.

Pure. Messages are numbered in the order in which one producer sends them; a message's key, value
and so its partition follow from its number, so whatever is read back can be checked against it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

_KEYS: Final = 64
_VALUE_BYTES: Final = 100


class Place(NamedTuple):
    """Where a message stands."""

    partition: int
    offset: int


class Found(NamedTuple):
    """A message as it was read back."""

    place: Place
    key: bytes | None
    value: bytes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """How many messages were read back, and what is wrong with how many."""

    found: int
    lost: int
    """Acknowledged and not there."""
    misplaced: int
    """There, but not at the offset that the acknowledgement gave."""
    duplicated: int
    """There again."""
    out_of_order: int
    """Behind a message of the same partition that was sent later."""
    altered: int
    """Not one of the messages that were sent."""

    @property
    def holds(self) -> bool:
        wrong = (self.lost, self.misplaced, self.duplicated, self.out_of_order, self.altered)
        return not any(wrong)


def key_of(number: int) -> bytes:
    return b"customer-%02d" % (number % _KEYS)


def amount_of(number: int) -> int:
    """What the order is worth: some amount that is easily checked."""
    return 1 + number % 97


def value_of(number: int) -> bytes:
    order = b'{"order": %d, "amount": %d, "note": "' % (number, amount_of(number))
    return order.ljust(_VALUE_BYTES - 2, b".") + b'"}'


def prove(acknowledged: Mapping[int, Place], found: Iterable[Found]) -> Verdict:
    """Compare what was acknowledged, by number, with what was read back in the order of reading."""
    places: dict[int, Place] = {}
    newest: dict[int, int] = {}
    total = duplicated = out_of_order = altered = 0
    for message in found:
        total += 1
        number = _number(message)
        if number is None:
            altered += 1
        elif number in places:
            duplicated += 1
        else:
            partition = message.place.partition
            out_of_order += number < newest.get(partition, -1)
            newest[partition] = max(number, newest.get(partition, -1))
            places[number] = message.place
    lost = sum(number not in places for number in acknowledged)
    misplaced = sum(
        number in places and places[number] != place for number, place in acknowledged.items()
    )
    return Verdict(
        found=total,
        lost=lost,
        misplaced=misplaced,
        duplicated=duplicated,
        out_of_order=out_of_order,
        altered=altered,
    )


def _number(message: Found) -> int | None:
    """The message's number, if it is byte for byte the message that has this number."""
    digits = (message.value or b"")[len(b'{"order": ') :].partition(b",")[0]
    if not digits.isdigit() or len(digits) > len(str(2**63)):
        return None
    number = int(digits)
    intact = message.value == value_of(number) and message.key == key_of(number)
    return number if intact else None
