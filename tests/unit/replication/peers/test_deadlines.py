"""When partitions must be called: never later than they asked, and no more often than needed."""

from __future__ import annotations

from penstock.model.ids import PartitionId, TopicId
from penstock.replication.peers.deadlines import Deadlines

P, Q = (PartitionId(TopicId("a" * 32), number) for number in (0, 1))


def test_they_are_called_in_order_and_once() -> None:
    deadlines = Deadlines()
    assert deadlines.schedule(P, 20)
    assert deadlines.schedule(Q, 10)
    assert deadlines.next_ms == 10
    assert deadlines.take_due(9) is None
    assert deadlines.take_due(25) == Q
    assert Q not in deadlines
    assert deadlines.take_due(25) == P
    assert deadlines.take_due(25) is None


def test_a_later_deadline_costs_nothing_and_an_earlier_one_counts() -> None:
    deadlines = Deadlines()
    deadlines.schedule(P, 20)
    assert not deadlines.schedule(P, 30)
    assert len(deadlines._heap) == 1
    assert deadlines.schedule(P, 10)
    assert deadlines.take_due(30) == P
    assert deadlines.take_due(30) is None, "the entry of before is void"


def test_what_was_dropped_is_not_called() -> None:
    deadlines = Deadlines()
    deadlines.schedule(P, 20)
    deadlines.schedule(Q, 30)
    deadlines.drop(P)
    deadlines.drop(P)
    assert deadlines.next_ms == 30
    assert deadlines.take_due(30) == Q
