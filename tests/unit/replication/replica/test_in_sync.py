"""Who counts as in sync, and what becomes of those who wait for more of them than there are."""

from __future__ import annotations

from penstock.model.errors import NotEnoughReplicasAfterAppend
from penstock.model.limits import IN_SYNC_LAG_MS_MAX
from penstock.raft.messages import VoteRequest
from tests.kit.replication.replica import ME, OTHER, THIRD, One

ELECTION_MS = 100


class Three(One):
    """It leads the others, and time passes only when the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.lead()
        self.answer(1, sender=THIRD)

    def pass_time(self, ms: int, *alive: object) -> None:
        """Step by step, in which these say that they are alive."""
        for _ in range(0, ms, 50):
            self.clock.time_ms += 50
            for node in (OTHER, THIRD):
                if node in alive:
                    self.alive_ms[node] = self.clock.time_ms
                    self.participant.hear(node, self.clock.time_ms)
            self.participant.on_time(self.clock.time_ms)
            self.driver.end_turn()


def test_all_who_have_everything_are_in_sync_and_the_claim_tells() -> None:
    """R-REP-3."""
    three = Three()
    assert three.replica.in_sync == {ME, OTHER, THIRD}
    assert three.replica.in_sync_count == 3
    claim = three.claims[-1]
    assert claim is not None
    assert claim.in_sync == claim.membership.voters == {ME, OTHER, THIRD}


def test_whoever_is_not_heard_for_the_election_time_is_not_in_sync() -> None:
    three = Three()
    three.pass_time(2 * ELECTION_MS + 200, OTHER)
    assert three.replica.in_sync == {ME, OTHER}
    three.answer(1, sender=THIRD)
    assert three.replica.in_sync_count == 3, "it is noticed at once that it is back"


def test_whoever_is_alive_and_lags_is_out_when_its_time_is_up() -> None:
    three = Three()
    three.propose()
    three.driver.end_turn()
    three.flusher.run_all()
    three.answer(3)
    three.pass_time(IN_SYNC_LAG_MS_MAX - 500, OTHER, THIRD)
    assert three.replica.in_sync_count == 3
    three.pass_time(1_000, OTHER, THIRD)
    assert three.replica.in_sync == {ME, OTHER}


def test_what_is_committed_does_not_wait_for_ever_for_more_replicas() -> None:
    """R-REP-3: as Kafka's NOT_ENOUGH_REPLICAS_AFTER_APPEND."""
    three = Three()
    three.replica.min_insync_replicas = 3
    told = three.propose()
    three.driver.end_turn()
    three.flusher.run_all()
    three.answer(3)
    assert not told, "the third is in sync, and gets its time"
    three.pass_time(2 * ELECTION_MS + 200, OTHER)
    (error,) = told
    assert isinstance(error, NotEnoughReplicasAfterAppend)
    assert error.retriable
    assert three.replica.in_sync_count == 2
    assert three.replica.high_watermark == 3, "it is committed all the same"


def test_what_is_not_committed_is_not_said_to_be() -> None:
    three = Three()
    three.replica.min_insync_replicas = 3
    told = three.propose()
    three.driver.end_turn()
    three.flusher.run_all()
    three.pass_time(2 * ELECTION_MS + 200, OTHER)
    assert not told
    three.answer(3)
    assert [type(error) for error in told] == [NotEnoughReplicasAfterAppend]


def test_nobody_is_in_sync_where_another_leads() -> None:
    three = Three()
    three.pass_time(300)
    three.receive(VoteRequest(term=9, last_term=9, end_offset=9, is_trial=False))
    three.flusher.run_all()
    assert three.replica.in_sync_count == 0
    assert three.claims[-1] is None


def test_a_lone_copy_is_in_sync_with_itself() -> None:
    one = One(voters=[ME])
    assert one.replica.is_alone
    assert one.replica.in_sync == {ME}
    assert one.replica.in_sync_count == 1
