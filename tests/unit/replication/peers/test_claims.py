"""Claims between brokers: by changes, and as a whole where one was missed."""

from __future__ import annotations

import tracemalloc

from penstock.model.ids import PartitionId, TopicId
from penstock.raft.membership import Membership, Node
from penstock.replication.parcels.parcel import Claim
from penstock.replication.peers.claims import HeardClaims, OwnClaims
from tests.kit.broker.running import lines_run

ONE, TWO, THREE = (Node(broker, 1) for broker in (1, 2, 3))
P, Q = (PartitionId(TopicId("a" * 32), number) for number in (0, 1))


def claim(
    term: int,
    commit_offset: int = 0,
    *,
    is_settled: bool = True,
    in_sync: tuple[Node, ...] = (ONE,),
) -> Claim:
    membership = Membership(frozenset({ONE, TWO}))
    return Claim(term, commit_offset, 0, membership, is_settled, frozenset(in_sync))


class Pair:
    """Broker 1 tells broker 2 what it leads."""

    def __init__(self) -> None:
        self.own = OwnClaims(77)
        self.own.add_peer(TWO)
        self.heard = HeardClaims()
        self.now_ms = 0

    def beat(self, *, lost: bool = False) -> dict[PartitionId, Claim]:
        """What is news to broker 2."""
        self.now_ms += 100
        heartbeat = self.own.heartbeat(TWO, needs_whole=False)
        if lost:
            return {}
        news = self.heard.take(heartbeat, self.now_ms)
        if self.heard.needs_whole:
            self.own.repeat(TWO)
        return news


def test_only_changes_are_told() -> None:
    pair = Pair()
    pair.own.note(P, claim(3))
    pair.own.note(Q, claim(4))
    assert pair.beat() == {P: claim(3), Q: claim(4)}
    assert pair.beat() == {}
    pair.own.note(P, claim(3, 12))
    pair.own.note(Q, claim(4))
    assert pair.beat() == {P: claim(3, 12)}
    pair.own.note(P, None)
    assert pair.beat() == {}
    assert pair.heard.claims == {Q: claim(4)}
    assert pair.heard.heard_ms == 400


def test_a_commit_concerns_those_who_have_a_copy() -> None:
    own = OwnClaims(1)
    for node in (TWO, THREE):
        own.add_peer(node)
        own.heartbeat(node, needs_whole=False)
    own.note(P, claim(3))
    own.note(P, claim(3, 5))
    assert [own.heartbeat(node, needs_whole=False).claims for node in (TWO, THREE)] == [
        {P: claim(3, 5)},
        {P: claim(3, 5)},
    ], "who leads concerns everybody"
    own.note(P, claim(3, 9))
    assert own.heartbeat(TWO, needs_whole=False).claims == {P: claim(3, 9)}
    assert own.heartbeat(THREE, needs_whole=False).claims == {}


def test_who_follows_concerns_everybody() -> None:
    """R-REP-3: any broker can tell who is in sync, and whether a change is done."""
    own = OwnClaims(1)
    own.add_peer(THREE)
    own.note(P, claim(3))
    own.heartbeat(THREE, needs_whole=False)
    for changed in (claim(3, in_sync=(ONE, TWO)), claim(3, is_settled=False)):
        own.note(P, changed)
        assert own.heartbeat(THREE, needs_whole=False).claims == {P: changed}


def test_whoever_missed_one_believes_nothing_until_it_hears_the_whole() -> None:
    pair = Pair()
    pair.own.note(P, claim(3))
    pair.own.note(Q, claim(3))
    pair.beat()
    pair.own.note(P, None)
    pair.beat(lost=True)
    assert pair.beat() == {}
    assert (pair.heard.claims, pair.heard.heard_ms, pair.heard.alive_ms) == ({}, 100, 300)
    assert pair.beat() == {Q: claim(3)}
    assert pair.heard.heard_ms == 400


def test_what_was_overtaken_is_ignored() -> None:
    pair = Pair()
    pair.own.note(P, claim(3))
    first = pair.own.heartbeat(TWO, needs_whole=False)
    pair.heard.take(first, 1)
    pair.own.note(P, None)
    pair.beat()
    assert pair.heard.take(first, 500) == {}
    assert pair.heard.claims == {}
    assert pair.heard.heard_ms == 100


def test_a_restart_is_noticed_and_its_claims_are_new() -> None:
    pair = Pair()
    pair.own.note(P, claim(3))
    pair.beat()
    again = OwnClaims(78)
    again.add_peer(TWO)
    heartbeat = again.heartbeat(TWO, needs_whole=False)
    assert pair.heard.is_restart(heartbeat)
    pair.heard.take(heartbeat, 200)
    assert pair.heard.claims == {}
    assert not pair.heard.is_restart(again.heartbeat(TWO, needs_whole=False))


def test_whoever_is_reached_again_is_told_everything_and_takes_it() -> None:
    pair = Pair()
    pair.own.note(P, claim(3))
    for _ in range(5):
        pair.beat()
    pair.own.remove_peer(TWO)
    assert pair.own.peers == []
    pair.own.note(Q, claim(3))
    pair.own.add_peer(TWO)
    assert pair.beat() == {P: claim(3), Q: claim(3)}
    assert pair.heard.heard_ms == pair.now_ms, "it is not taken for one that was overtaken"


def test_what_it_takes_to_note_a_change_does_not_depend_on_how_many_brokers_there_are() -> None:
    """A commit notes one for each partition, and a failover one for each that is led now."""

    def lines_of_changes(brokers: int) -> int:
        own = OwnClaims(77)
        for number in range(brokers):
            own.add_peer(Node(number + 1, 1))
        own.note(P, claim(3))

        def change() -> None:
            own.note(P, claim(3, 12))
            own.note(P, claim(4, 12))
            own.note(P, None)

        return lines_run(change)

    assert lines_of_changes(500) == lines_of_changes(5)


def test_a_commit_is_told_to_those_who_have_a_copy() -> None:
    own = OwnClaims(77)
    for node in (TWO, THREE):
        own.add_peer(node)
    own.note(P, claim(3))
    for node in (TWO, THREE):
        assert own.heartbeat(node, needs_whole=False).claims == {P: claim(3)}
    own.note(P, claim(3, 12))
    assert own.heartbeat(TWO, needs_whole=False).claims == {P: claim(3, 12)}
    assert own.heartbeat(THREE, needs_whole=False).claims == {}


def test_each_is_told_what_changed_since_it_was_told_last() -> None:
    """However many partitions come and go meanwhile, and in whatever order they are told."""
    own = OwnClaims(77)
    for node in (TWO, THREE):
        own.add_peer(node)
        own.heartbeat(node, needs_whole=False)
    partitions = [PartitionId(TopicId("b" * 32), number) for number in range(5_000)]
    own.note(P, claim(1))
    for partition in partitions:
        own.note(partition, claim(1))
        own.heartbeat(TWO, needs_whole=False)
        own.note(partition, None)
    assert own.heartbeat(TWO, needs_whole=False).released == (partitions[-1],)
    late = own.heartbeat(THREE, needs_whole=False)
    assert (late.claims, set(late.released)) == ({P: claim(1)}, set(partitions))
    for _ in range(2):
        for partition in partitions:
            own.note(partition, claim(2))
            own.note(partition, None)
        for node in (TWO, THREE):
            assert set(own.heartbeat(node, needs_whole=False).released) == set(partitions)


def test_what_everybody_was_told_is_forgotten() -> None:
    """Partitions come and go for years."""
    own = OwnClaims(77)
    own.add_peer(TWO)

    def live(partitions: range) -> None:
        for number in partitions:
            partition = PartitionId(TopicId("b" * 32), number)
            own.note(partition, claim(1))
            own.note(partition, None)
            own.heartbeat(TWO, needs_whole=False)

    live(range(2_000))
    tracemalloc.start()
    try:
        live(range(2_000, 6_000))
        assert tracemalloc.get_traced_memory()[0] < 400_000
    finally:
        tracemalloc.stop()
