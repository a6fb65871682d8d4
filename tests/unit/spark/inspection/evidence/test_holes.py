"""Offsets without a message: lost, or control records."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.records import BatchBuilder, control_batch
from penstock.records.header import BatchHeader, read_header
from penstock.spark.inspection.evidence.holes import Lost, find_lost


def control(offset: int) -> BatchHeader:
    return read_header(control_batch(1, b"", timestamp_ms=0, base_offset=offset))


def data(offset: int) -> BatchHeader:
    builder = BatchBuilder(1 << 16)
    builder.append(0, None, b"x")
    return read_header(builder.build(base_offset=offset))


def lost(start: int, amount: int, *headers: BatchHeader) -> list[tuple[int, int]]:
    asked = []

    def headers_of(*question: object) -> Iterator[BatchHeader]:
        asked.append(question)
        return iter(headers)

    gap = {"topic": "orders", "partition": 3, "offset": start, "amount": amount}
    found = find_lost(headers_of, [gap])
    assert asked == [("orders", 3, start, start + amount)]
    assert all(isinstance(each, Lost) and each[:2] == ("orders", 3) for each in found)
    return [(each.offset, each.amount) for each in found]


def test_control_records_side_by_side_are_no_hole() -> None:
    assert lost(10, 3, control(10), control(11), control(12)) == []


def test_what_no_sound_batch_has_is_lost() -> None:
    assert lost(10, 5) == [(10, 5)]
    assert lost(10, 5, control(12)) == [(10, 2), (13, 2)]
    assert lost(10, 2, control(11)) == [(10, 1)]
    assert lost(10, 2, control(12)) == [(10, 2)], "what is behind the gap does not count"


def test_messages_that_cannot_be_decoded_are_lost() -> None:
    assert lost(10, 2, data(10), control(11)) == [(10, 1)]
