"""Damage in what was fetched: what is sound before it, and how it is named."""

from __future__ import annotations

import re

import pytest

from penstock.client.consuming.damage import damaged, one_by_one, sound_part
from penstock.model.errors import CorruptBatch, CorruptLog, InvalidBatch
from penstock.model.ids import TopicPartition
from tests.kit.client.damaged_batches import batches


@pytest.mark.parametrize("asked", [10, 11, 12])
def test_the_end_of_batches(asked: int) -> None:
    """The first holds the asked offset, perhaps not as its first; each follows on the last."""
    payload = batches((10, 13), (13, 14), (14, 20))
    assert sound_part(payload, asked, "orders-0") == (len(payload), 20, None)


@pytest.mark.parametrize(
    ("payload", "at"),
    [
        (batches((11, 14)), 10),
        (batches((8, 10)), 10),
        (batches((10, 12), (13, 14)), 12),
        (batches((10, 12), (11, 14)), 12),
        (batches((10, 12), (12, 13), (12 + 2**40, 14 + 2**40)), 13),
    ],
    ids=["after it", "before it", "a gap", "a step back", "a high bit"],
)
def test_a_wrong_base_offset_is_no_data(payload: memoryview, at: int) -> None:
    """R-STO-6: it is outside the checksum, so the offsets around it have to tell."""
    length, next_offset, error = sound_part(payload, 10, "orders-7")
    assert next_offset == at
    assert isinstance(error, CorruptLog)
    assert re.search(f"orders-7.* at offset {at} .*penstock inspect", str(error))
    assert sound_part(payload[:length], 10, "orders-7").error is None, "what is before it is data"


@pytest.mark.parametrize("asked", [3, 10, 11])
def test_gaps_of_a_compacted_log_are_no_damage(asked: int) -> None:
    payload = batches((10, 12), (13, 14), (2**40, 2**40 + 1))
    found = sound_part(payload, asked, "orders-0", compacted=True)
    assert found == (len(payload), 2**40 + 1, None)


@pytest.mark.parametrize(
    ("payload", "at"),
    [(batches((8, 10)), 10), (batches((10, 12), (11, 14)), 12)],
    ids=["before it", "a step back"],
)
def test_steps_back_are_damage_in_a_compacted_log_too(payload: memoryview, at: int) -> None:
    _, next_offset, error = sound_part(payload, 10, "orders-7", compacted=True)
    assert next_offset == at
    assert isinstance(error, CorruptLog)


def test_half_a_header_ends_what_is_sound() -> None:
    payload = batches((10, 12))
    length, next_offset, error = sound_part(memoryview(bytes(payload) + bytes(30)), 10, "orders-0")
    assert (length, next_offset) == (len(payload), 12)
    assert isinstance(error, InvalidBatch)


def test_batches_one_by_one() -> None:
    """The last leads as far as all of them did, as where a filter has looked further."""
    payload = batches((10, 13), (13, 14), (14, 20))
    pieces = list(one_by_one(payload, 11, 25))
    assert b"".join(piece.payload for piece in pieces) == payload
    assert [piece[1:] for piece in pieces] == [(11, 13), (13, 14), (14, 25)]


def test_damage_is_named() -> None:
    """R-STO-6: which batch, and how to go on without it."""
    error = damaged(TopicPartition("orders", 3), batches((14, 20)), CorruptBatch("It is bad."))
    assert str(error) == (
        "orders-3 cannot be read at offsets 14 to 19: It is bad. To go on without them, seek to "
        "offset 20; `penstock inspect` on the broker's data folder says what is damaged there."
    )
    assert (error.partition, error.offset, error.next_offset) == (("orders", 3), 14, 20)
    assert not error.retriable
