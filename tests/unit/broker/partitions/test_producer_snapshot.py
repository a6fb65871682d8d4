"""Who produced to a partition, on a copy that has only the end of the log: nothing comes twice."""

from __future__ import annotations

import errno
from typing import Literal

import pytest

from penstock.broker.partitions import producer_snapshot
from penstock.broker.partitions.partition import Append, Partition
from penstock.broker.partitions.readers import Wakings
from penstock.coordination.producers.state import ProducerState
from penstock.model.errors import Busy, PenstockError
from penstock.model.ids import TopicId, TopicPartition
from penstock.model.topic_config import TopicConfig
from penstock.raft.membership import Membership
from penstock.raft.messages import AppendRequest, ResetRequest, VoteAnswer
from penstock.replication.replica.copying import read_batches
from tests.kit.broker.running import batch
from tests.kit.replication.replica import ME, OTHER, THIRD, One, made
from tests.kit.simulated_disk import SimulatedDisk

TOPIC_ID = TopicId("b" * 32)
EARLY, STEADY = 71, 72


class Produced(Append):
    def __init__(self) -> None:
        super().__init__()
        self.outcomes: list[PenstockError | None] = []

    def finished(self, error: PenstockError | None) -> None:
        self.outcomes.append(error)


class Copy(One):
    """A replica with a partition in front of it."""

    def __init__(self, disk: SimulatedDisk | None = None) -> None:
        super().__init__(disk)
        self.partition = Partition(
            TopicPartition("orders", 0),
            TOPIC_ID,
            TopicConfig(),
            self.replica,
            self._recover,
            self.clock,
            Wakings(lambda _: None),
        )

    def _recover(self) -> ProducerState:
        return producer_snapshot.recover(
            self.disk.root, TOPIC_ID, self.log, self.clock.now_ms(), frozenset()
        )

    def produce(self, producer_id: int, sequence: int, *, answered: bool = True) -> Produced:
        produced = Produced()
        sent = batch([b"v"], timestamp_ms=self.clock.time_ms, producer=(producer_id, 0, sequence))
        self.partition.append(memoryview(sent), produced)
        self.driver.end_turn()
        self.flusher.run_all()
        if answered:
            self.answer(self.log.written_offset, term=self.participant.term)
        return produced

    def shorten(self) -> None:
        """Retention takes everything so far."""
        self.replica.roll()
        self.flusher.run_all()
        for job in self.log.cutter.delete_before(self.replica.high_watermark):
            job.run()
        self.driver.end_turn()

    def be_elected(self) -> None:
        term = self.participant.term + 1
        self.clock.time_ms += 1_000
        self.participant.on_time(self.clock.time_ms)
        self.driver.end_turn()
        for is_trial in (True, False):
            self.receive(VoteAnswer(term=term, is_trial=is_trial, is_granted=True))
            self.flusher.run_all()
        end_offset = self.log.written_offset
        self.answer(end_offset - 1, term=term)
        self.answer(end_offset, term=term)
        assert self.replica.is_leader


def led() -> Copy:
    """One producer wrote before the log's start; another before and after."""
    leader = Copy()
    leader.lead()
    for sequence in range(3):
        leader.produce(EARLY, sequence)
        leader.produce(STEADY, sequence)
    leader.shorten()
    for sequence in (3, 4):
        leader.produce(STEADY, sequence)
    assert leader.log.first_offset == 7
    return leader


def reset(leader: Copy, follower: Copy) -> None:
    """What the leader says to one that lacks what it no longer has."""
    membership = Membership(frozenset({ME, OTHER, THIRD}))
    snapshot = producer_snapshot.take(leader.partition)
    assert snapshot is not None
    request = ResetRequest(term=1, start_offset=7, start_term=1, membership=membership)
    follower.receive(request, snapshot)


def copy_rest(leader: Copy, follower: Copy) -> None:
    terms = leader.replica.consensus.raft.state.terms
    end_offset = leader.log.written_offset
    data, _ = read_batches(leader.log, terms, 7, end_offset, 1 << 20)
    request = AppendRequest(term=1, previous_term=1, previous_offset=7, commit_offset=end_offset)
    follower.receive(request, data)
    follower.flusher.run_all()


def check_knows_all(leader: Copy, follower: Copy) -> None:
    """It answers as the leader would, to what lies before its log's start, too."""
    for producer_id, sequences in ((EARLY, range(3)), (STEADY, range(5))):
        for sequence in sequences:
            ours = follower.produce(producer_id, sequence)
            theirs = leader.produce(producer_id, sequence, answered=False)
            assert (ours.duplicate, ours.base_offset) == (True, theirs.base_offset)
            assert ours.outcomes == [None]
        with pytest.raises(Busy, match=f"its sequence {sequences.stop} "):
            follower.produce(producer_id, sequences.stop + 1)
    assert not follower.produce(EARLY, 3).duplicate


def test_a_copy_that_began_anew_and_leads_takes_nothing_twice() -> None:
    """R-PRO-2, R-REP-2."""
    leader, follower = led(), Copy()
    reset(leader, follower)
    follower.flusher.run_all()
    copy_rest(leader, follower)
    follower.be_elected()
    check_knows_all(leader, follower)


@pytest.mark.parametrize("crashes", [("reset",), ("copied",), ("reset", "copied")])
def test_nor_after_a_crash(crashes: tuple[str, ...]) -> None:
    leader, follower = led(), Copy()
    reset(leader, follower)
    follower.flusher.run_all()
    if "reset" in crashes:
        follower = Copy(follower.disk.after_crash("lost"))
    copy_rest(leader, follower)
    if "copied" in crashes:
        follower = Copy(follower.disk.after_crash("lost"))
    follower.be_elected()
    check_knows_all(leader, follower)


@pytest.mark.parametrize("disk_keeps", ["lost", "kept"])
def test_nor_if_the_crash_comes_at_any_step_of_the_beginning_anew(
    disk_keeps: Literal["lost", "kept"],
) -> None:
    leader = led()
    for operation in range(1, 40):
        follower = Copy()
        follower.disk.crash_at(len(follower.disk.operations) + operation)
        try:
            reset(leader, follower)
            follower.flusher.run_all()
        except Exception:
            assert follower.disk.crashed
        is_over = not follower.disk.crashed
        follower = Copy(follower.disk.after_crash(disk_keeps))
        if follower.log.first_offset < 7:
            # Raft asks again.
            reset(leader, follower)
            follower.flusher.run_all()
        copy_rest(leader, follower)
        follower.be_elected()
        check_knows_all(leader, follower)
        if is_over:
            return
    raise AssertionError("it is never over")


def test_what_is_not_committed_is_not_told() -> None:
    """Or a retry of what failed would pass for its repetition, and be lost."""
    leader = led()
    leader.produce(EARLY, 3, answered=False)
    follower = Copy()
    reset(leader, follower)
    follower.flusher.run_all()
    assert leader.replica.high_watermark < leader.log.written_offset
    assert follower.partition.producers.last_batch(EARLY) == (0, 2)


def test_a_snapshot_of_another_topic_or_of_nonsense_is_not_believed() -> None:
    leader, follower = led(), Copy()
    membership = Membership(frozenset({ME, OTHER, THIRD}))
    for term, snapshot in enumerate((b"nonsense", b"x" * 60, b"", bytes(40) + b"y" * 70), 1):
        follower = Copy()
        request = ResetRequest(term=term, start_offset=7, start_term=1, membership=membership)
        follower.receive(request, snapshot)
        follower.flusher.run_all()
        assert follower.log.first_offset == 7
        assert len(follower.partition.producers) == 0
    assert leader.replica.is_leader


def test_a_cut_takes_back_what_came_after_without_reading_the_log() -> None:
    """R-PRO-2: what only a deposed leader had is not taken for repeated."""
    copy = Copy()
    copy.lead()
    copy.produce(EARLY, 0)
    copy.produce(EARLY, 1, answered=False)
    before = copy.log.first_offset
    copy.receive(
        AppendRequest(term=2, previous_term=1, previous_offset=2, commit_offset=2),
        bytes(made(2, 1, term=2)),
    )
    copy.flusher.run_all()
    assert copy.log.first_offset == before
    assert copy.partition.producers.last_batch(EARLY) == (0, 0)


def test_a_snapshot_that_there_was_no_room_for_is_still_due() -> None:
    """R-PRO-2: retention goes on without it, to make room, and then it is written."""
    copy = Copy()
    copy.lead()
    copy.produce(EARLY, 0)
    copy.replica.roll()
    copy.flusher.run_all()
    copy.disk.fail_next("create", errno.ENOSPC)
    due = []
    for _ in range(2):
        producer_snapshot.save(copy.partition, copy.disk.root, copy.flusher)
        copy.flusher.run_all()
        assert copy.partition.saved_producers.offset == copy.log.next_offset
        due.append(copy.partition.saved_producers.rolls != copy.log.writer.rolls)
    assert due == [True, False]
