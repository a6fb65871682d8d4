"""A batch that is to be opened: at once, or in its turn, by what it comes to."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from penstock.broker.partitions.unopened import TurnBudget, Unopened
from penstock.model.errors import InvalidBatch
from penstock.model.limits import (
    KIB,
    MIB,
    OPENED_AT_ONCE_BYTES_MAX,
    OPENED_AT_ONCE_RECORDS_MAX,
    OPENED_PER_TURN_BYTES_MAX,
)
from penstock.records import Codec, build_batch
from penstock.records.header import HEADER_BYTES, check_batch
from penstock.records.plain import PlainBatch


class Turns:
    """The loop's, by hand."""

    def __init__(self) -> None:
        self._later: list[Callable[[], None]] = []
        self.budget = TurnBudget(self._later.append)

    def next(self) -> None:
        later, self._later[:] = list(self._later), []
        for one in later:
            one()


def unopened(size_bytes: int, codec: int = Codec.ZSTD, records: int = 1) -> Unopened[int]:
    batch = memoryview(build_batch([(b"k", bytes(size_bytes))] * records, codec=codec))
    return Unopened(check_batch(batch), batch, lambda plain: len(plain.records), 8 * MIB)


def in_turn(one: Unopened[int]) -> tuple[int, int]:
    """What came of it, and how many jobs it took."""
    pieces, jobs, done = one.in_turn(), 0, None
    while True:
        try:
            job = pieces.send(done)
        except StopIteration as stop:
            return stop.value, jobs
        assert job is not None
        jobs, done = jobs + 1, job()


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
def test_little_is_opened_at_once_and_much_is_not(codec: int) -> None:
    turns = Turns()
    assert unopened(100 * KIB, codec).at_once(turns.budget) is not None
    assert in_turn(unopened(100 * KIB, codec))[1] == 0
    turns.next()
    much = unopened(OPENED_AT_ONCE_BYTES_MAX, codec)
    assert much.at_once(turns.budget) is None
    assert in_turn(much) == (much.opened(), 1)
    many = unopened(0, codec, OPENED_AT_ONCE_RECORDS_MAX + 1)
    assert many.at_once(turns.budget) is None
    assert in_turn(many)[1] == 1


def test_in_one_turn_many_are_not_opened() -> None:
    turns = Turns()
    for _ in range(2):
        opened = 0
        while unopened(100 * KIB).at_once(turns.budget) is not None:
            opened += 1
        assert opened == OPENED_PER_TURN_BYTES_MAX // (101 * KIB)
        turns.next()
    opened = 0
    while unopened(0).at_once(turns.budget) is not None:
        opened += 1
    assert opened < OPENED_PER_TURN_BYTES_MAX // KIB, "the smallest takes its time, too"


def test_what_is_wrong_is_told() -> None:
    def make(plain: PlainBatch) -> int:
        raise InvalidBatch("It makes no sense.")

    turns = Turns()
    batch = memoryview(build_batch([(b"k", b"v")]))
    with pytest.raises(InvalidBatch, match="no sense"):
        Unopened(check_batch(batch), batch, make).at_once(turns.budget)
    damaged = unopened(10_000)
    damaged.batch[HEADER_BYTES:] = bytes(len(damaged.batch) - HEADER_BYTES)
    assert damaged.at_once(turns.budget) is None
    for one in (damaged, unopened(9 * MIB)):
        with pytest.raises(InvalidBatch, match="cannot be decompressed"):
            in_turn(one)
