"""Which earlier batch a producer must send again first."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from penstock.coordination.producers.refused import RefusedSequences
from penstock.model.limits import PRODUCERS_PER_PARTITION_MAX

NOW_MS = 1_000


class Batch(NamedTuple):
    base_sequence: int
    producer_id: int = 7
    producer_epoch: int = 0

    @property
    def last_sequence(self) -> int:
        return self.base_sequence


def test_the_earliest_that_was_refused_is_awaited_until_one_is_accepted() -> None:
    """R-PRO-2."""
    refused = RefusedSequences()
    assert not refused
    for sequence in (20, 10, 30):
        refused.refuse(7, 0, sequence, NOW_MS)
    assert refused
    assert refused.awaited_before(Batch(40), None, NOW_MS) == 10
    assert refused.awaited_before(Batch(11), None, NOW_MS) == 10
    assert refused.awaited_before(Batch(10), None, NOW_MS) is None, "it is that one"
    assert refused.awaited_before(Batch(5), None, NOW_MS) is None, "that one comes later"
    assert refused.awaited_before(Batch(40, producer_id=8), None, NOW_MS) is None
    refused.accept(7)
    refused.accept(8)
    assert refused.awaited_before(Batch(40), None, NOW_MS) is None
    assert not refused


def test_the_earliest_is_known_when_it_comes_again() -> None:
    refused = RefusedSequences()
    assert not refused.is_earliest(Batch(20))
    refused.refuse(7, 0, 20, NOW_MS)
    assert refused.is_earliest(Batch(20))
    assert not refused.is_earliest(Batch(20, producer_epoch=1))
    assert not refused.is_earliest(Batch(20, producer_id=8))
    refused.refuse(7, 0, 10, NOW_MS)
    assert not refused.is_earliest(Batch(20))
    assert refused.is_earliest(Batch(10))


def test_another_epoch_begins_anew() -> None:
    refused = RefusedSequences()
    refused.refuse(7, 0, 10, NOW_MS)
    assert refused.awaited_before(Batch(40, producer_epoch=1), None, NOW_MS) is None
    refused.refuse(7, 1, 25, NOW_MS)
    assert refused.awaited_before(Batch(40, producer_epoch=1), None, NOW_MS) == 25
    assert refused.awaited_before(Batch(40), None, NOW_MS) is None


def test_what_an_older_epoch_sent_before_does_not_count() -> None:
    refused = RefusedSequences()
    refused.refuse(7, 1, 0, NOW_MS)
    refused.refuse(7, 0, 90, NOW_MS)
    assert refused.awaited_before(Batch(5, producer_epoch=1), None, NOW_MS) == 0


def test_what_came_by_another_leader_is_not_awaited() -> None:
    refused = RefusedSequences()
    refused.refuse(7, 0, 10, NOW_MS)
    assert refused.awaited_before(Batch(40), (0, 9), NOW_MS) == 10
    assert refused.awaited_before(Batch(40), (0, 10), NOW_MS) is None
    assert not refused


def test_nobody_waits_for_what_its_producer_has_given_up() -> None:
    refused = RefusedSequences()
    refused.refuse(7, 0, 10, NOW_MS)
    refused.refuse(7, 0, 10, NOW_MS + 1_000)
    refused.refuse(7, 0, 20, NOW_MS + 2_000)
    assert refused.awaited_before(Batch(40), None, NOW_MS + 121_000) == 10
    assert refused.awaited_before(Batch(40), None, NOW_MS + 121_001) is None


def test_what_is_missing_is_awaited_for_a_shorter_while() -> None:
    """However often what follows it comes meanwhile."""
    refused = RefusedSequences()
    refused.miss(7, 0, 10, NOW_MS)
    assert refused.awaited_before(Batch(10), None, NOW_MS) is None, "it is that one"
    refused.miss(7, 0, 10, NOW_MS + 9_000)
    refused.refuse(7, 0, 20, NOW_MS + 9_000)
    assert refused.awaited_before(Batch(20), None, NOW_MS + 10_000) == 10
    assert refused.awaited_before(Batch(20), None, NOW_MS + 10_001) is None
    refused.refuse(7, 0, 10, NOW_MS)
    refused.miss(7, 0, 10, NOW_MS)
    assert refused.awaited_before(Batch(20), None, NOW_MS + 120_000) == 10, "that is known"


def test_sequences_begin_again_after_the_largest() -> None:
    refused = RefusedSequences()
    refused.refuse(7, 0, 3, NOW_MS)
    refused.refuse(7, 0, 2**31 - 1, NOW_MS)
    assert refused.awaited_before(Batch(5), None, NOW_MS) == 2**31 - 1


def test_all_producers_that_a_partition_may_know_are_told_apart() -> None:
    refused = RefusedSequences()
    for producer_id in range(PRODUCERS_PER_PARTITION_MAX):
        refused.refuse(producer_id, 0, 10, NOW_MS)
    assert refused.is_earliest(Batch(10, producer_id=0))


def test_of_too_many_producers_the_first_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.coordination.producers.refused.REFUSED_PRODUCERS_MAX", 2)
    refused = RefusedSequences()
    for producer_id in (1, 2, 3):
        refused.refuse(producer_id, 0, 0, NOW_MS)
    found = [
        refused.awaited_before(Batch(5, producer_id), None, NOW_MS) for producer_id in (1, 2, 3)
    ]
    assert found == [None, 0, 0]
