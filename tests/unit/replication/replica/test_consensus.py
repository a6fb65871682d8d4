"""The ready loop: nothing is said or written before it is saved, and what fails is taken back."""

from __future__ import annotations

import errno

import pytest

from penstock.model.errors import DiskFull, NotLeader, PenstockError
from penstock.raft.membership import Membership, Node
from penstock.raft.messages import (
    AppendAnswer,
    CampaignRequest,
    ResetRequest,
    VoteAnswer,
    VoteRequest,
)
from penstock.records.header import read_header
from penstock.replication.replica.saved_state import RAFT_JOURNAL
from tests.kit.replication.replica import ME, OTHER, THIRD, One, made

NOTHING = memoryview(b"")


def vote(term: int) -> VoteRequest:
    return VoteRequest(term=term, last_term=0, end_offset=0, is_trial=False)


def test_a_vote_is_given_when_it_is_saved() -> None:
    """R-REP-2: term and vote are durable before any answer."""
    one = One()
    one.clock.time_ms += 1_000
    one.receive(vote(5))
    assert one.said() == []
    one.flusher.run_one()
    assert one.said() == [VoteAnswer(term=5, is_trial=False, is_granted=True)]
    again = One(one.disk.after_crash("lost"))
    again.clock.time_ms += 1_000
    again.receive(vote(5), sender=THIRD)
    assert again.said() == [VoteAnswer(term=5, is_trial=False, is_granted=False)]


def test_what_comes_during_a_save_waits_for_it_in_order() -> None:
    one = One()
    one.append(1, (0, 0), made(0, 2))
    one.append(1, (1, 2), made(2, 1))
    assert (one.said(), one.log.written_offset) == ([], 0)
    one.flusher.run_one()
    assert one.log.written_offset == 3
    assert one.said() == [], "it is not durable yet"
    one.flusher.run_all()
    assert one.said()[-1] == AppendAnswer(term=1, is_matching=True, end_offset=3)
    assert one.log.read_stored(0, 1 << 20, 3)[0].read() == bytes(made(0, 2) + made(2, 1))
    assert one.heard == [("replicated", 0), ("replicated", 2)]


def test_no_more_waits_than_there_is_room_for() -> None:
    one = One()
    one.append(1, (0, 0), made(0, 1))
    for offset in range(1, 60):
        one.append(1, (1, offset), made(offset, 1))
    one.flusher.run_all()
    assert 10 < one.log.written_offset < 40


def test_a_follower_writes_in_the_same_turn_once_the_term_is_known() -> None:
    one = One()
    one.append(1, (0, 0), made(0, 2))
    one.flusher.run_all()
    one.append(1, (1, 2), made(2, 1), made(3, 1), commit=3)
    assert one.log.written_offset == 4
    assert one.replica.high_watermark == 3, "what a majority has is committed, durable here or not"
    assert len(one.flusher.jobs) == 1, "a flush, and nothing to save"


def test_another_leader_s_batches_replace_what_was_not_committed() -> None:
    one = One()
    one.append(1, (0, 0), made(0, 2), made(2, 2), commit=2)
    one.flusher.run_all()
    told: list[PenstockError | None] = []
    one.replica.when_committed(4, told.append)
    assert [type(error) for error in told] == [NotLeader], "who follows can promise nothing"
    one.append(2, (1, 2), made(2, 1, term=2, value=b"other"))
    assert ("truncated", 2) not in one.heard, "it is cut beside the loop"
    one.flusher.run_one()
    assert ("truncated", 2) in one.heard
    one.flusher.run_all()
    assert one.log.read_stored(2, 1 << 20, 3)[0].read() == bytes(made(2, 1, term=2, value=b"other"))
    found = One(one.disk.after_crash("lost"))
    assert found.log.next_offset == 3
    assert [place.term for place in found.replica.consensus.raft.state.saved.terms] == [1, 2]


def test_a_log_is_not_cut_while_it_is_flushed() -> None:
    one = One()
    one.append(1, (0, 0), made(0, 2))
    one.flusher.run_one()
    assert one.replica.flushing.is_running
    one.append(2, (0, 0), made(0, 1, term=2))
    one.flusher.jobs.reverse()
    one.flusher.run_one()
    assert one.log.written_offset == 2
    one.flusher.run_all()
    one.append(2, (0, 0), made(0, 1, term=2))
    one.flusher.run_all()
    assert one.log.written_offset == 1


def test_damage_is_refused_and_what_comes_again_taken() -> None:
    one = One()
    damaged = made(0, 2)
    damaged[-1] ^= 1
    one.append(1, (0, 0), damaged)
    one.flusher.run_all()
    assert one.log.next_offset == 0
    one.append(1, (0, 0), made(0, 2))
    one.flusher.run_all()
    assert one.log.next_offset == 2


def test_terms_that_a_leader_cannot_have_are_refused() -> None:
    one = One()
    one.append(1, (0, 0), made(0, 2, term=7))
    one.flusher.run_all()
    assert one.log.next_offset == 0


def test_a_follower_far_behind_begins_anew() -> None:
    one = One()
    one.append(1, (0, 0), made(0, 2))
    one.flusher.run_all()
    one.said()
    membership = Membership(frozenset({ME, OTHER, THIRD}))
    reset = ResetRequest(term=3, start_offset=50, start_term=2, membership=membership)
    one.receive(reset)
    assert one.log.next_offset == 2, "the state first"
    one.flusher.run_all()
    assert (one.log.first_offset, one.log.next_offset) == (50, 50)
    assert one.replica.high_watermark == 50
    assert one.said() == [AppendAnswer(term=3, is_matching=True, end_offset=50)]
    one.append(3, (2, 50), made(50, 2, term=3), commit=52)
    one.flusher.run_all()
    assert one.replica.high_watermark == 52
    found = One(one.disk.after_crash("lost"))
    assert (found.log.first_offset, found.log.next_offset) == (50, 52)


def test_a_reset_that_a_crash_cut_short_is_finished_at_the_start() -> None:
    one = One()
    one.append(1, (0, 0), made(0, 2))
    one.flusher.run_all()
    membership = Membership(frozenset({ME, OTHER, THIRD}))
    one.receive(ResetRequest(term=3, start_offset=50, start_term=2, membership=membership))
    job, _ = one.flusher.jobs[0]
    job.run()
    found = One(one.disk.after_crash("kept"))
    assert (found.log.first_offset, found.log.next_offset) == (50, 50)


def test_acks_of_all_wait_for_a_majority_and_of_one_for_this_disk() -> None:
    """R-REP-3."""
    one = One()
    one.lead()
    all_told, one_told = one.propose(), one.propose(acks=1)
    one.driver.end_turn()
    assert (all_told, one_told) == ([], [])
    one.flusher.run_all()
    assert (all_told, one_told) == ([], [None])
    one.answer(3)
    assert (all_told, one_told) == ([None], [None])
    assert one.replica.high_watermark == 3


def test_a_topic_may_ask_for_more_than_a_majority() -> None:
    """R-REP-3: min_insync_replicas."""
    one = One()
    one.lead()
    one.replica.min_insync_replicas = 3
    one.answer(1, sender=THIRD)
    told = one.propose()
    one.driver.end_turn()
    one.flusher.run_all()
    one.answer(3)
    assert (one.replica.high_watermark, told) == (3, [])
    one.answer(3, sender=THIRD)
    assert told == [None]


def test_whoever_waits_hears_that_another_leads() -> None:
    one = One()
    one.lead()
    told, told_too = one.propose(), one.propose(acks=1)
    one.driver.end_turn()
    one.append(2, (1, 1), made(1, 1, term=2), commit=2)
    one.flusher.run_all()
    assert [type(error) for error in told + told_too] == [NotLeader, NotLeader]
    assert ("leads", False) in one.heard
    assert one.claims[-1] is None
    try:
        one.propose()
    except NotLeader:
        return
    raise AssertionError("proposed to a follower")


def test_nothing_is_proposed_while_it_is_saved_that_another_may_lead() -> None:
    """R-REP-1. Found by a benchmark on a machine that was too busy to keep its leaders: what was
    proposed in that moment was written by a replica that did not lead any more."""
    one = One()
    one.lead()
    told = one.propose()
    one.receive(AppendAnswer(term=2, is_matching=False, end_offset=0))
    with pytest.raises(NotLeader):
        one.propose()
    one.flusher.run_all()
    assert one.log.written_offset == one.replica.consensus.raft.state.terms.end_offset == 3
    assert isinstance(told[0], NotLeader)


def test_what_is_proposed_while_a_membership_is_saved_is_kept() -> None:
    one = One()
    one.lead()
    membership = Membership(frozenset({ME, OTHER, THIRD}), frozenset({Node(4, 1)}))
    assert one.participant.change_membership(membership)
    buffer = made(0, 2, value=b"kept")
    view = memoryview(buffer)
    one.replica.propose(read_header(view), view, None)
    one.driver.end_turn()
    buffer[:] = bytes(len(buffer))
    assert one.log.written_offset == 1
    one.flusher.run_all()
    assert one.log.written_offset == 4
    headers = list(one.log.headers(1))
    assert [header.is_control for header in headers] == [True, False]
    assert b"kept" in one.log.read_stored(2, 1 << 20, 4)[0].read()


def test_a_membership_that_there_is_no_room_for_is_taken_back() -> None:
    one = One()
    one.lead()
    before = one.replica.consensus.raft.state.membership
    one.participant.change_membership(Membership(frozenset({ME, OTHER})))
    used_bytes = sum(map(len, one.disk.files().values()))
    one.disk.capacity_bytes = used_bytes + 400
    job, finished = one.flusher.jobs.pop()
    job.run()
    one.disk.capacity_bytes = sum(map(len, one.disk.files().values()))
    finished()
    assert one.replica.consensus.raft.state.membership == before
    one.disk.capacity_bytes = None
    one.flusher.run_all()
    one.clock.time_ms += 100
    one.participant.on_time(one.clock.time_ms)
    one.driver.end_turn()
    one.flusher.run_all()
    told = one.propose()
    one.driver.end_turn()
    one.flusher.run_all()
    one.answer(3, sender=THIRD)
    assert told == [None], "the third is a voter again"


def test_a_full_disk_does_not_cost_a_vote_for_ever() -> None:
    one = One()
    one.clock.time_ms += 1_000
    one.disk.capacity_bytes = sum(map(len, one.disk.files().values()))
    one.receive(vote(5))
    one.flusher.run_one()
    assert one.said() == []
    one.disk.capacity_bytes = None
    one.clock.time_ms += 30
    one.participant.on_time(one.clock.time_ms)
    one.driver.end_turn()
    one.flusher.run_one()
    assert one.said() == [VoteAnswer(term=5, is_trial=False, is_granted=True)]


def test_a_follower_without_room_takes_it_when_there_is(
    caplog: pytest.LogCaptureFixture,
) -> None:
    one = One()
    one.append(1, (0, 0), made(0, 1))
    one.flusher.run_all()
    one.said()
    one.disk.capacity_bytes = sum(map(len, one.disk.files().values())) + 10
    for _ in range(3):
        one.append(1, (1, 1), made(1, 1))
        assert one.log.next_offset == 1
    assert ["cannot be written" in line for line in caplog.messages] == [True], "told once"
    one.disk.capacity_bytes = None
    one.flusher.run_all()
    one.clock.time_ms += 30
    one.participant.on_time(one.clock.time_ms)
    one.driver.end_turn()
    one.flusher.run_all()
    one.append(1, (1, 1), made(1, 1))
    one.flusher.run_all()
    assert one.said()[-1] == AppendAnswer(term=1, is_matching=True, end_offset=2)
    # It might have been small; so it is said with the next one.
    one.clock.time_ms += 3_000
    one.append(1, (1, 2), made(2, 1))
    assert caplog.messages[1:] == ["The disk can be written again, after 3 s and 3 attempts"]


def test_a_disk_that_fails_says_nothing_more_and_keeps_what_others_count_on() -> None:
    one = One()
    one.append(1, (0, 0), made(0, 2))
    one.flusher.run_all()
    assert one.said()[-1] == AppendAnswer(term=1, is_matching=True, end_offset=2)
    one.disk.fail_next("flush", errno.EIO)
    one.append(1, (1, 2), made(2, 2))
    one.flusher.run_all()
    assert one.replica.failure is not None
    assert one.said() == []
    one.clock.time_ms += 5_000
    one.receive(vote(9))
    one.append(1, (1, 4), made(4, 1))
    assert (one.said(), one.flusher.jobs) == ([], [])
    assert one.log.next_offset == 2, "reported as durable, though nobody said that it is committed"


def test_a_leader_whose_disk_fails_gives_up_its_claim() -> None:
    one = One()
    one.lead()
    told = one.propose()
    one.disk.fail_next("flush", errno.EIO)
    one.driver.end_turn()
    one.flusher.run_all()
    assert [type(error) for error in told] == [NotLeader], "others may have it, and lead"
    with pytest.raises(NotLeader, match="its disk failed: ask again who leads it"):
        one.propose()
    assert one.claims[-1] is None
    assert not one.replica.is_leader


def test_a_journal_that_cannot_be_written_is_a_failure() -> None:
    one = One()
    one.clock.time_ms += 1_000
    one.disk.fail_next("flush", errno.EIO)
    one.receive(vote(5))
    one.flusher.run_one()
    assert one.replica.failure is not None
    assert one.said() == []
    assert RAFT_JOURNAL not in one.disk.files()


def test_a_lone_voter_that_may_have_lost_something_takes_another_term() -> None:
    """A learner may have what was lost, and the same place in the same term would mean the same."""
    one = One(voters=[ME])
    assert one.replica.is_alone
    one.participant.change_membership(Membership(frozenset({ME}), frozenset({OTHER})))
    one.flusher.run_all()
    # The term of the change itself is not led in again.
    one = One(one.disk.after_crash("lost"), voters=[ME])
    one.flusher.run_all()
    kept = one.disk.after_crash("lost")
    terms = []
    for may_lack in (False, True):
        again = One(kept.after_crash("lost"), voters=[ME], may_lack=may_lack)
        again.flusher.run_all()
        assert again.replica.is_leader
        terms.append(again.replica.consensus.raft.state.term)
    assert terms == [1, 2]


def test_a_lone_voter_without_learners_stays_in_its_term() -> None:
    one = One(voters=[ME], may_lack=True)
    assert one.replica.is_alone
    assert not one.flusher.jobs
    assert one.replica.consensus.raft.state.term == 0


def test_whoever_is_to_lead_a_new_partition_campaigns_at_once_and_soon_again() -> None:
    """R-REP-1: a topic with replicas has its leaders in well under half a second."""
    one = One(campaigns_at_once=True)
    trial = VoteRequest(term=1, last_term=0, end_offset=0, is_trial=True)
    assert one.said() == [trial, trial]
    for _ in range(2):
        # The others have not heard of the partition yet.
        one.clock.time_ms += 60
        one.participant.on_time(one.clock.time_ms)
        one.driver.end_turn()
        assert one.said() == [trial, trial]
    one.receive(VoteAnswer(term=1, is_trial=True, is_granted=True))
    one.flusher.run_all()
    one.receive(VoteAnswer(term=1, is_trial=False, is_granted=True))
    assert one.participant.leader == ME
    again = One(one.disk, campaigns_at_once=True)
    assert again.said() == [], "the partition is not new any more"


def test_it_does_not_go_on_so_for_ever() -> None:
    one = One(campaigns_at_once=True)
    one.clock.time_ms += 1_000
    one.participant.on_time(one.clock.time_ms)
    one.driver.end_turn()
    one.said()
    one.clock.time_ms += 60
    one.participant.on_time(one.clock.time_ms)
    one.driver.end_turn()
    assert one.said() == []


def test_a_leader_whose_disk_fails_asks_the_one_that_has_most_to_lead() -> None:
    """R-REP-2: another takes over at once, and what was committed can still be read here."""
    one = One()
    one.lead()
    one.answer(1, sender=THIRD)
    told = one.propose()
    one.driver.end_turn()
    one.answer(3, sender=THIRD)
    one.disk.fail_next("flush", errno.EIO)
    one.sent.clear()
    one.flusher.run_all()
    assert one.sent == [(THIRD, CampaignRequest(term=1), b"")]
    assert [type(error) for error in told] == [NotLeader]
    assert ("leads", False) in one.heard
    assert one.claims[-1] is None
    assert one.replica.read(0, 1 << 20).length > 0


def test_a_leader_that_has_no_room_for_long_asks_another_to_lead() -> None:
    """R-REP-2: and goes on until another does."""
    one = One()
    one.lead()
    one.disk.capacity_bytes = 0
    one.sent.clear()
    for wait_ms in (500, 600, 500):
        one.clock.time_ms += wait_ms
        one.alive_ms[OTHER] = one.clock.time_ms
        assert [type(error) for error in refused(one)] == [DiskFull]
    assert (OTHER, CampaignRequest(term=1), b"") in one.sent
    assert one.replica.is_leader
    one.disk.capacity_bytes = None
    assert one.propose() == []


def refused(one: One) -> list[PenstockError | None]:
    told = one.propose()
    one.driver.end_turn()
    one.flusher.run_all()
    return told


def test_a_leader_without_room_to_save_takes_back_what_it_could_not_tell_of() -> None:
    one = One()
    one.lead()
    one.disk.capacity_bytes = 0
    assert one.participant.change_membership(Membership(frozenset({ME, OTHER})))
    told = one.propose()
    one.driver.end_turn()
    one.flusher.run_all()
    assert [type(error) for error in told] == [DiskFull]
    assert one.replica.is_leader
    assert not one.participant.is_busy, "it is not in the way of anything else"
    assert one.replica.consensus.raft.state.membership.voters == {ME, OTHER, THIRD}
    one.disk.capacity_bytes = None
    told = one.propose()
    one.driver.end_turn()
    one.flusher.run_all()
    one.answer(3)
    assert told == [None]


def test_a_leader_that_hears_of_a_newer_term_takes_nothing_more() -> None:
    """Not while that is being saved, and not in the turn in which it is heard: what was staged in
    the old term would be written as if the new leader had sent it."""
    one = One()
    one.lead()
    waiting = one.propose()
    one.participant.receive(OTHER, AppendAnswer(term=5, is_matching=False, end_offset=0), NOTHING)
    with pytest.raises(NotLeader):
        one.propose()
    one.driver.end_turn()
    assert one.flusher.jobs, "the term is being saved"
    with pytest.raises(NotLeader):
        one.propose()
    assert [type(error) for error in waiting] == [NotLeader]
    assert one.heard[-1] == ("leads", False)
    one.flusher.run_all()
    one.append(5, (1, 1), made(1, 1, term=5))
    one.flusher.run_all()
    assert one.replica.failure is None
    assert one.log.written_offset == 2, "the new leader's batch, in the place of the old one's"


def test_a_leader_that_hears_of_a_newer_term_in_a_save_takes_nothing_more() -> None:
    """What came while the disk was busy is heard when it is not."""
    one = One()
    one.lead()
    assert one.participant.change_membership(
        Membership(frozenset((ME, OTHER, THIRD)), frozenset([Node(4, 1)]))
    )
    assert one.flusher.jobs, "the membership is being saved"
    one.receive(AppendAnswer(term=5, is_matching=False, end_offset=0))
    one.flusher.run_one()
    with pytest.raises(NotLeader):
        one.propose()
    one.flusher.run_all()
    assert one.replica.failure is None
