"""Each checker is shown a history made by hand that keeps its promise, and one that breaks it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from penstock.raft.membership import Membership, Node
from penstock.raft.terms import TermHistory, TermStart
from penstock.storage.log.log import Log, LogConfig
from tests.kit.simulated_disk import SimulatedDisk
from tests.kit.simulation import checkers
from tests.kit.simulation.checkers import Fact, Truth, Violation
from tests.kit.simulation.clusters.copies import Copy, HeldBatch
from tests.kit.simulation.messages import message

A, B, C = (Node(broker, 1) for broker in (1, 2, 3))
CONFIG = LogConfig(segment_bytes=1 << 20, segment_ms=1 << 40, index_interval_bytes=4096)


def fact(number: int, term: int = 1, producer: int = 100) -> Fact:
    return Fact(term, *message(producer, number))


def value(number: int, producer: int = 100) -> bytes:
    return message(producer, number)[1]


def batch(base_offset: int, *facts: Fact) -> HeldBatch:
    at = tuple(enumerate(facts, base_offset))
    return HeldBatch(base_offset, base_offset + len(facts), facts[0].term, hash(facts), at)


def copy(node: Node, held: Sequence[HeldBatch], *, is_compacted: bool = False) -> Copy:
    log = Log.open(SimulatedDisk().root, CONFIG)
    found = Copy(node, log, is_compacted=is_compacted, is_rotten=False)
    found.held = list(held)
    return found


def truth(*facts: Fact) -> Truth:
    found = Truth()
    found.facts = dict(enumerate(facts))
    found.end_offset = len(facts)
    return found


def test_one_leader_per_term() -> None:
    leaders: dict[int, Node] = {}
    for term, node in ((1, A), (2, B), (1, A)):
        checkers.one_leader_per_term(leaders, term, node)
    with pytest.raises(Violation, match="two leaders in term 2: 2/1 and 1/1"):
        checkers.one_leader_per_term(leaders, 2, A)


def test_terms_of_a_name_never_go_back() -> None:
    led: dict[int, tuple[int, int]] = {}
    for topic, term in ((1, 0), (1, 3), (2, 3), (1, 2), (4, 7), (2, 7)):
        checkers.terms_of_a_name_never_go_back(led, topic, term)
    for topic, term in ((1, 4), (4, 6)):
        with pytest.raises(Violation, match="of its name is in term"):
            checkers.terms_of_a_name_never_go_back(dict(led), topic, term)


def test_leader_is_complete() -> None:
    known = truth(fact(0), fact(1))
    checkers.leader_is_complete(known, copy(A, [batch(0, fact(0), fact(1)), batch(2, fact(9))]))
    with pytest.raises(Violation, match="leads with None at offset 1"):
        checkers.leader_is_complete(known, copy(A, [batch(0, fact(0))]))
    with pytest.raises(Violation, match="at offset 1"):
        checkers.leader_is_complete(known, copy(A, [batch(0, fact(0), fact(7))]))


def test_a_compacted_leader_is_complete_with_the_latest_of_each_key() -> None:
    # Numbers 0 and 4 have one key.
    known = truth(fact(0), fact(1), fact(4))
    kept = copy(A, [batch(1, fact(1), fact(4))], is_compacted=True)
    checkers.leader_is_complete(known, kept)
    with pytest.raises(Violation, match="at offset 2"):
        checkers.leader_is_complete(known, copy(A, [batch(0, fact(0), fact(1))], is_compacted=True))


def test_terms_are_those_stamped() -> None:
    held = copy(A, [batch(0, fact(0)), batch(1, fact(1), fact(2)), batch(3, fact(3, term=4))])
    dropped = TermHistory(1, 2)
    for terms in (found((1, 0), (4, 3)), found((1, 0), (4, 3), (5, 4)), dropped):
        checkers.terms_are_those_stamped(held, terms)
    with pytest.raises(Violation, match="for one of another term"):
        checkers.terms_are_those_stamped(held, found((1, 0), (4, 1)))


def found(*begun: tuple[int, int]) -> TermHistory:
    """Of a log with four records."""
    return TermHistory.found(tuple(TermStart(*place) for place in begun), 0, 4)


def test_logs_match() -> None:
    shared = [batch(0, fact(0)), batch(1, fact(1))]
    ours, theirs = copy(A, [*shared, batch(2, fact(2))]), copy(B, shared)
    checkers.logs_match([ours, theirs])
    # The same position, and something else before it.
    with pytest.raises(Violation, match="1/1 has"):
        checkers.logs_match([ours, copy(B, [batch(0, fact(5)), shared[1]])])
    # Another term at the end is no position in common.
    checkers.logs_match([ours, copy(B, [*shared, batch(2, fact(3, term=2))])])


def test_compacted_logs_match_where_both_have_something() -> None:
    ours = copy(A, [batch(0, fact(0), fact(1))], is_compacted=True)
    thinned = HeldBatch(0, 2, 1, 0, ((1, fact(1)),))
    checkers.logs_match([ours, copy(B, [thinned], is_compacted=True)])
    other = HeldBatch(0, 2, 1, 0, ((1, fact(7)),))
    with pytest.raises(Violation, match="at offset 1"):
        checkers.logs_match([ours, copy(B, [other], is_compacted=True)])


def test_committed_never_changes() -> None:
    known = Truth()
    checkers.committed_never_changes(known, copy(A, [batch(0, fact(0), fact(1))]), 0, 2)
    assert known.end_offset == 2
    longer = [batch(0, fact(0), fact(1)), batch(2, fact(2))]
    checkers.committed_never_changes(known, copy(B, longer), 0, 3)
    assert known.facts[2] == fact(2)
    with pytest.raises(Violation, match="at offset 2, where"):
        checkers.committed_never_changes(known, copy(C, [*longer[:1], batch(2, fact(8))]), 0, 3)


def test_committed_is_there_and_without_a_gap() -> None:
    with pytest.raises(Violation, match="has 5 for committed, and a log to 1"):
        checkers.committed_never_changes(Truth(), copy(A, [batch(0, fact(0))]), 0, 5)
    gap = [batch(0, fact(0)), batch(2, fact(2))]
    with pytest.raises(Violation, match="has nothing at offset 1"):
        checkers.committed_never_changes(Truth(), copy(A, gap), 0, 3)
    checkers.committed_never_changes(Truth(), copy(A, gap, is_compacted=True), 0, 3)


def test_high_watermark_is_monotone() -> None:
    checkers.high_watermark_is_monotone(A, 5, 6)
    with pytest.raises(Violation, match="went back from 6 to 5"):
        checkers.high_watermark_is_monotone(A, 6, 5)


def test_acknowledged_is_on_enough_disks() -> None:
    """R-REP-3."""
    three = Membership(frozenset({A, B, C}))
    checkers.acknowledged_is_on_enough_disks(b"x", [A, B], [three], 2)
    for holders, minimum in (([A], 1), ([A, B], 3), ([], 1)):
        with pytest.raises(Violation, match="is acknowledged and on the disks of"):
            checkers.acknowledged_is_on_enough_disks(b"x", holders, [three], minimum)
    # It was committed by the one before.
    lone = Membership(frozenset({A}))
    checkers.acknowledged_is_on_enough_disks(b"x", [A], [lone, three], 1)


def test_acknowledged_is_committed() -> None:
    checkers.acknowledged_is_committed({0: value(0)}, truth(fact(0)))
    for acknowledged in ({0: value(1)}, {1: value(0)}):
        with pytest.raises(Violation, match="was acknowledged at offset"):
            checkers.acknowledged_is_committed(acknowledged, truth(fact(0)))


def test_acknowledged_is_readable() -> None:
    """R-REP-2."""
    known = truth(fact(0), fact(1))
    acknowledged = {0: value(0), 1: value(1)}
    held = copy(A, [batch(0, fact(0)), batch(1, fact(1))])
    checkers.acknowledged_is_readable(acknowledged, known, held, 2)
    with pytest.raises(Violation, match="can be read up to 1"):
        checkers.acknowledged_is_readable(acknowledged, known, held, 1)
    with pytest.raises(Violation, match="1/1 has None there"):
        checkers.acknowledged_is_readable(acknowledged, known, copy(A, [batch(0, fact(0))]), 2)


def test_idempotent_producers_are_exact() -> None:
    """R-PRO-2."""
    good = truth(fact(0), fact(0, producer=7), fact(1))
    checkers.idempotent_producers_are_exact(good, {100, 7}, is_compacted=False)
    for bad in (truth(fact(0), fact(0)), truth(fact(0), fact(2)), truth(fact(1), fact(0))):
        with pytest.raises(Violation, match="producer 100 has message"):
            checkers.idempotent_producers_are_exact(bad, {100}, is_compacted=False)
        checkers.idempotent_producers_are_exact(bad, {7}, is_compacted=False)
    # What is gone may be between, but nothing comes twice or too early.
    checkers.idempotent_producers_are_exact(truth(fact(0), fact(2)), {100}, is_compacted=True)
    with pytest.raises(Violation):
        checkers.idempotent_producers_are_exact(truth(fact(1), fact(0)), {100}, is_compacted=True)


def test_sent_once_stands_once() -> None:
    checkers.sent_once_stands_once(truth(fact(0), fact(1)))
    with pytest.raises(Violation, match="stands at offset 0 and at 2"):
        checkers.sent_once_stands_once(truth(fact(0), fact(1), fact(0)))


def test_offsets_are_functional() -> None:
    seen: dict[int, bytes] = {}
    checkers.offsets_are_functional(seen, 3, b"x")
    checkers.offsets_are_functional(seen, 3, b"x")
    with pytest.raises(Violation, match="was read as b'x', and now as b'y'"):
        checkers.offsets_are_functional(seen, 3, b"y")


def test_no_phantom() -> None:
    checkers.no_phantom({b"x"}, 0, b"x")
    with pytest.raises(Violation, match="nobody sent it"):
        checkers.no_phantom({b"x"}, 0, b"y")


def test_read_is_committed() -> None:
    checkers.read_is_committed(truth(fact(0)), 0, value(0))
    for offset, read in ((0, value(1)), (1, value(1))):
        with pytest.raises(Violation, match="is committed there"):
            checkers.read_is_committed(truth(fact(0)), offset, read)


def test_reading_skips_nothing() -> None:
    """R-STO-2."""
    held = batch(4, fact(0), fact(1))
    for position in (4, 5):
        checkers.reading_skips_nothing(position, held, is_compacted=False)
    for position in (3, 6):
        with pytest.raises(Violation, match="was asked for"):
            checkers.reading_skips_nothing(position, held, is_compacted=False)
    checkers.reading_skips_nothing(3, held, is_compacted=True)
    with pytest.raises(Violation):
        checkers.reading_skips_nothing(6, held, is_compacted=True)


def test_only_the_deleted_is_gone() -> None:
    checkers.only_the_deleted_is_gone(A, 5, 5)
    with pytest.raises(Violation, match="begins at offset 6"):
        checkers.only_the_deleted_is_gone(A, 6, 5)


class StoredCopy(Copy):
    """With bytes given by hand."""

    stored = b""

    def stored_bytes(self, end_offset: int) -> bytes:
        return self.stored


def stored(node: Node, data: bytes) -> StoredCopy:
    log = Log.open(SimulatedDisk().root, CONFIG)
    found = StoredCopy(node, log, is_compacted=False, is_rotten=False)
    found.stored = data
    return found


def test_copies_are_equal() -> None:
    checkers.copies_are_equal(stored(A, b"one two"), stored(B, b"two"), 9)
    with pytest.raises(Violation, match="the copies of 1/1 and 2/1 differ"):
        checkers.copies_are_equal(stored(A, b"one two"), stored(B, b"one twe"), 9)


def test_compacted_copies_are_equal_in_the_latest_of_every_key() -> None:
    ours = copy(A, [batch(0, fact(0), fact(1), fact(4))], is_compacted=True)
    theirs = copy(B, [HeldBatch(0, 3, 1, 0, ((1, fact(1)), (2, fact(4))))], is_compacted=True)
    checkers.copies_are_equal(ours, theirs, 3)
    with pytest.raises(Violation, match="1/1 has"):
        checkers.copies_are_equal(ours, copy(B, [batch(0, fact(0))], is_compacted=True), 3)


def test_available_within() -> None:
    checkers.available_within(100, "it is not", lambda limit_ms: limit_ms == 100)
    with pytest.raises(Violation, match="100 ms after everything was mended: it is not"):
        checkers.available_within(100, "it is not", lambda limit_ms: False)


def test_every_call_is_answered() -> None:
    checkers.every_call_is_answered(A, "orders-0", 0)
    with pytest.raises(Violation, match="lets orders-0 go, and 2 calls"):
        checkers.every_call_is_answered(A, "orders-0", 2)
