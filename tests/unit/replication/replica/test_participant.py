"""A replica as its peers see it: who learns, who may go, and what must not be forgotten."""

from __future__ import annotations

import errno

import pytest

from penstock.model.errors import NotLeader, PenstockError, UnknownTopic
from penstock.raft.membership import Membership, MembershipAt, Node
from penstock.raft.messages import VoteRequest
from penstock.replication.parcels.parcel import Claim
from penstock.replication.replica.saved_state import decode, encode
from tests.kit.replication.replica import ME, OTHER, THIRD, One, made

FOURTH = Node(4, 1)
WITHOUT_ME = Membership(frozenset({OTHER, THIRD}))
WITH_ME = Membership(frozenset({ME, OTHER, THIRD}))


def claim(membership: Membership, *, term: int = 1, commit: int = 5, settled: bool = True) -> Claim:
    return Claim(term, commit, 0, membership, settled, frozenset({OTHER}))


def follower() -> One:
    """It follows the second in term 1, and has two batches."""
    one = One()
    one.append(1, (0, 0), made(0, 2), made(2, 2), commit=4)
    one.flusher.run_all()
    return one


def test_a_copy_may_go_when_its_leader_says_that_it_is_none() -> None:
    """R-REP-7: by a membership that is committed, and that is no older than what it knows."""
    one = follower()
    assert one.participant.memory(claim(WITHOUT_ME)) is not None
    assert one.participant.memory(claim(WITHOUT_ME, settled=False)) is None
    assert one.participant.memory(claim(WITH_ME)) is None
    learns = Membership(WITHOUT_ME.voters, frozenset({ME}))
    assert one.participant.memory(claim(learns)) is None
    one.receive(VoteRequest(term=2, last_term=1, end_offset=9, is_trial=False, is_transfer=True))
    one.flusher.run_all()
    assert one.participant.memory(claim(WITHOUT_ME, term=1)) is None, "another may lead by now"


def test_a_claim_from_before_the_last_membership_says_nothing() -> None:
    """It was let go, and let in again: what was said between the two may come late."""
    one = One()
    one.lead()
    assert one.participant.change_membership(
        Membership(frozenset({ME, OTHER, THIRD}), frozenset({FOURTH}))
    )
    one.flusher.run_all()
    offset = one.replica.consensus.raft.state.members.latest.offset
    assert one.participant.memory(claim(WITHOUT_ME, commit=offset)) is None
    assert one.participant.memory(claim(WITHOUT_ME, commit=offset + 1)) is not None


def test_what_a_copy_must_not_forget_when_it_goes() -> None:
    """R-REP-2: it must not vote twice in a term, nor campaign by memberships of its past."""
    one = follower()
    one.receive(VoteRequest(term=3, last_term=1, end_offset=9, is_trial=False, is_transfer=True))
    one.flusher.run_all()
    kept = one.participant.memory(claim(WITHOUT_ME, term=3, commit=7))
    assert kept is not None
    assert (kept.term, kept.vote, kept.rejoin_offset) == (3, OTHER, 7)
    assert kept.memberships == (MembershipAt(-1, 3, WITHOUT_ME),)
    assert decode(encode(kept)) == kept
    later = one.participant.memory(claim(WITHOUT_ME, term=4))
    assert later is not None
    assert (later.term, later.vote) == (4, None)


def test_learners_are_ready_when_they_have_everything() -> None:
    one = One()
    one.lead()
    one.participant.change_membership(Membership(WITH_ME.voters, frozenset({FOURTH})))
    one.flusher.run_all()
    end = one.log.next_offset
    assert one.participant.learned(one.clock.time_ms) == set()
    assert one.participant.matches[FOURTH] == 0
    one.answer(end, sender=FOURTH)
    assert one.participant.learned(one.clock.time_ms) == {FOURTH}
    assert one.participant.matches[FOURTH] == end
    assert one.participant.learned(one.clock.time_ms + 10_000) == set(), "it is silent"


def test_who_remains_alone_says_that_this_is_settled() -> None:
    """Whoever left is told so, and may go: though nobody is there to commit it but this one."""
    one = One(voters=(ME, OTHER))
    one.lead()
    one.participant.change_membership(Membership(frozenset({ME})))
    one.flusher.run_all()
    told = one.claims[-1]
    assert told is not None
    assert told.membership.voters == {ME}
    assert told.is_settled
    assert one.replica.is_alone


def test_who_remains_alone_while_another_was_to_lead_takes_messages_again() -> None:
    """It was to lead, did not come, and votes no more: nobody would ever tell that it failed."""
    one = One(voters=(ME, OTHER))
    one.lead()
    one.flusher.run_all()
    one.answer(one.log.next_offset)
    assert one.participant.transfer(OTHER)
    assert one.participant.change_membership(Membership(frozenset({ME})))
    one.flusher.run_all()
    # Raft alone knows when the other has had its time.
    before = one.replica.accepts, one.replica.is_alone
    one.clock.time_ms += 1_000
    one.participant.on_time(one.clock.time_ms)
    one.driver.end_turn()
    after = one.replica.accepts, one.replica.is_alone
    assert (before, after) == ((False, False), (True, True))


def test_what_others_committed_and_a_failed_flush_lost_is_not_kept() -> None:
    """R-STO-6: the kernel may say of it that it is on the disk, and after a restart this copy would
    vote with it, count for it, and lose it with the next power."""
    one = One()
    one.append(1, (0, 0), made(0, 2))
    one.flusher.run_all()
    one.disk.fail_next("flush", errno.EIO)
    one.append(1, (1, 2), made(2, 2), commit=4)
    assert one.replica.high_watermark == 4
    one.flusher.run_all()
    assert one.log.next_offset == one.replica.high_watermark == 2


def test_a_leader_with_nothing_to_do_goes_on_without_a_turn_and_notices_who_is_gone() -> None:
    """R-REP-2: a thousand idle partitions are not to be seen in what a broker does."""
    one = One()
    one.lead()
    one.answer(1, sender=THIRD)
    claims = len(one.claims)
    for _ in range(3):
        one.clock.time_ms += 100
        for node in (OTHER, THIRD):
            one.alive_ms[node] = one.clock.time_ms
            one.participant.hear(node, one.clock.time_ms)
        one.participant.on_time(one.clock.time_ms)
        one.driver.end_turn()
    assert (len(one.claims), one.said()) == (claims, [])
    one.clock.time_ms += 300
    one.alive_ms[OTHER] = one.clock.time_ms
    one.participant.hear(OTHER, one.clock.time_ms)
    one.participant.on_time(one.clock.time_ms)
    one.driver.end_turn()
    assert one.replica.in_sync == {ME, OTHER}


def test_whoever_waits_hears_at_once_that_the_partition_is_deleted() -> None:
    """R-PRO-1: no call is left without an answer, and nothing that the disk or the others say later
    gives another one."""
    one = One()
    one.lead()
    to_all, to_one = one.propose(), one.propose(acks=1)
    repeated: list[PenstockError | None] = []
    one.replica.when_committed(one.log.next_offset, repeated.append)
    one.driver.end_turn()
    assert one.flusher.jobs, "a flush is under way"
    gone = UnknownTopic("It was deleted.")
    one.replica.leave(gone)
    assert to_all == to_one == repeated == [gone]
    assert one.heard[-1] == ("leads", False)
    with pytest.raises(NotLeader):
        one.propose()
    one.flusher.run_all()
    one.driver.end_turn()
    assert to_all == to_one == repeated == [gone]
    assert not one.replica.is_leader, "the end of the flush does not make it lead again"
    assert one.replica.close() is None


def test_what_is_proposed_in_the_turn_of_the_deletion_is_answered_and_not_written() -> None:
    one = One()
    one.lead()
    written = one.log.written_offset
    told = one.propose()
    one.replica.leave(UnknownTopic())
    assert one.replica.close() is None
    one.driver.end_turn()
    assert [type(error) for error in told] == [UnknownTopic]
    assert one.log.written_offset == written
    assert not one.flusher.jobs
