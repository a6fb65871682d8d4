"""What a leader sends to followers that keep up, and to one that is far behind."""

from __future__ import annotations

import os

from penstock.model.limits import APPEND_BYTES_MAX
from penstock.raft.membership import Node
from penstock.raft.messages import AppendRequest
from penstock.records import build_batch
from penstock.records.header import read_header
from penstock.replication.replica.catch_up import CatchUpQuota
from tests.kit.replication.replica import OTHER, THIRD, One

SLICE_MS = 100


class Leader(One):
    """It leads; the second keeps up; the third has nothing."""

    def __init__(self, slices: int) -> None:
        super().__init__(catch_up=CatchUpQuota(APPEND_BYTES_MAX * 1000 // SLICE_MS))
        self.lead()
        for _ in range(slices):
            self.write(APPEND_BYTES_MAX - 1_000)
        self.turn(2_000)

    def write(self, size_bytes: int) -> None:
        """The second has it, too."""
        batch = memoryview(build_batch([(None, os.urandom(size_bytes))]))
        self.replica.propose(read_header(batch), batch, None)
        self.driver.end_turn()
        self.flusher.run_all()
        self.answer(self.log.written_offset)

    def turn(self, ms: int) -> None:
        self.clock.time_ms += ms
        self.answer(self.log.written_offset)
        self.participant.on_time(self.clock.time_ms)
        self.driver.end_turn()

    def sent_to(self, node: Node) -> list[int]:
        """How many bytes, request by request, since it was last asked."""
        sent = [
            len(payload)
            for receiver, message, payload in self.sent
            if receiver == node and isinstance(message, AppendRequest)
        ]
        self.sent = [letter for letter in self.sent if letter[0] != node]
        return sent


def test_one_that_is_far_behind_gets_slices_at_the_rate_of_the_quota() -> None:
    """R-REP-2: catch-up that does not starve what is written meanwhile."""
    leader = Leader(slices=12)
    leader.sent.clear()
    leader.answer(0, sender=THIRD)
    for _ in range(20):
        leader.turn(0)
    sent = leader.sent_to(THIRD)
    assert len(sent) <= 5, "a burst, however many turns there are"
    for _ in range(20):
        before = leader.log.written_offset
        leader.write(1_000)
        assert leader.sent_to(OTHER), "what is written goes out as it is written"
        leader.answer(before + 1)
        leader.turn(0)
    assert leader.sent_to(THIRD) == []
    due_ms = leader.participant.deadline_ms(leader.clock.time_ms)
    assert due_ms is not None
    assert due_ms - leader.clock.time_ms <= 2 * SLICE_MS + 1, "it asks to be called in time"
    total = 0
    for _ in range(5):
        leader.turn(SLICE_MS)
        total += len([size for size in leader.sent_to(THIRD) if size])
    assert 3 <= total <= 6


def test_what_is_little_is_sent_whatever_the_quota() -> None:
    leader = Leader(slices=0)
    while leader.replica.consensus._around.catch_up.is_open(leader.clock.time_ms):
        leader.replica.consensus._around.catch_up.spend(APPEND_BYTES_MAX)
    leader.write(10_000)
    leader.sent.clear()
    leader.answer(0, sender=THIRD)
    assert sum(leader.sent_to(THIRD)) > 10_000


def test_where_much_waits_on_the_way_nothing_more_is_read() -> None:
    leader = Leader(slices=4)
    leader.crowded.add(THIRD)
    leader.sent.clear()
    leader.answer(0, sender=THIRD)
    assert leader.sent_to(THIRD) == []
    leader.crowded.clear()
    leader.turn(20)
    assert sum(leader.sent_to(THIRD)) > 0
