"""The demonstration's proof: each thing that can be wrong is seen."""

from __future__ import annotations

from dataclasses import asdict

import pytest

from penstock.cli.demo.proof import Found, Place, Verdict, key_of, prove, value_of

PARTITIONS = 3


def message(number: int, offset: int) -> Found:
    return Found(Place(number % PARTITIONS, offset), key_of(number), value_of(number))


SENT = [message(number, number // PARTITIONS) for number in range(30)]
ACKNOWLEDGED = {number: found.place for number, found in enumerate(SENT)}


def test_everything_there_once_and_in_order_holds() -> None:
    verdict = prove(ACKNOWLEDGED, SENT)
    assert verdict.holds
    assert verdict.found == 30


def test_what_was_written_but_not_acknowledged_may_be_there() -> None:
    acknowledged = {number: place for number, place in ACKNOWLEDGED.items() if number < 20}
    assert prove(acknowledged, SENT).holds


def changed(kind: str) -> list[Found]:
    found = list(SENT)
    match kind:
        case "lost":
            del found[4]
        case "misplaced":
            found[4] = found[4]._replace(place=Place(found[4].place.partition, 99))
        case "duplicated":
            found.append(found[4])
        case "out_of_order":
            found[4], found[7] = found[7], found[4]
        case "altered":
            found.append(Found(Place(0, 99), key_of(4), value_of(5)))
    return found


@pytest.mark.parametrize("kind", ["lost", "misplaced", "duplicated", "out_of_order", "altered"])
def test_what_is_wrong_is_counted_by_its_kind(kind: str) -> None:
    verdict = prove(ACKNOWLEDGED, changed(kind))
    assert not verdict.holds
    wrong = {name: count for name, count in asdict(verdict).items() if name != "found" and count}
    assert wrong == {kind: 1}


@pytest.mark.parametrize("value", [None, b"", b"garbage", b'{"order": ', b'{"order": x, "note"'])
def test_foreign_bytes_are_altered_messages_not_a_crash(value: bytes | None) -> None:
    foreign = Found(Place(0, 99), None, value)
    assert prove(ACKNOWLEDGED, [*SENT, foreign]) == Verdict(
        found=31, lost=0, misplaced=0, duplicated=0, out_of_order=0, altered=1
    )
