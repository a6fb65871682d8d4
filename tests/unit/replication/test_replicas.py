"""A few brokers with copies of a partition, in virtual time: elections, claims, time, parcels."""

from __future__ import annotations

import errno
from dataclasses import replace

from penstock.model.ids import PartitionId, TopicId
from penstock.model.limits import PARCEL_BYTES_MAX
from penstock.raft.membership import Membership, Node
from penstock.raft.messages import CampaignRequest
from penstock.replication.driver import Driver
from penstock.replication.parcel import Parcel
from penstock.replication.replicas import Replicas
from penstock.replication.wire import encode
from tests.raft_support import HEARTBEAT_MS, NOOP, TIMING
from tests.replica_chaos import ReplicaCheckers
from tests.replica_cluster import PARTITION, Machine, ReplicaCluster


class Company:
    """Machines without faults, until a test makes some."""

    def __init__(self, servers: int = 3, voters: int | None = None) -> None:
        self.checkers = ReplicaCheckers()
        nodes = [Node(broker, 1) for broker in range(1, servers + 1)]
        membership = Membership(frozenset(nodes[: voters or servers]))
        self.cluster = ReplicaCluster(7, servers, membership, self.checkers, "fsync")
        self.cluster.overtaking = 0.0
        for machine in self.cluster.machines.values():
            machine.start()
        self.machines = list(self.cluster.machines.values())

    def run(self, for_ms: int) -> None:
        self.cluster.run_until(self.cluster.now_ms + for_ms)

    def leader(self) -> Machine:
        """The one that leads and may be written to."""

        def is_missing() -> bool:
            return not any(self.leads(machine) for machine in self.machines)

        assert self.cluster.run_while(is_missing, 5_000)
        return next(machine for machine in self.machines if self.leads(machine))

    @staticmethod
    def leads(machine: Machine) -> bool:
        return machine.participant is not None and machine.participant.replica.is_leader

    def cut_off(self, machine: Machine) -> None:
        for other in self.machines:
            self.cluster.cut |= {(machine.node, other.node), (other.node, machine.node)}

    def high_watermarks(self) -> set[int]:
        return {
            machine.participant.replica.high_watermark
            for machine in self.machines
            if machine.participant is not None
        }


def test_what_the_leader_takes_everybody_has_and_knows_to_be_committed() -> None:
    """R-REP-1, R-REP-2."""
    company = Company()
    leader = company.leader()
    for payload in range(20):
        leader.propose(payload)
    company.run(1_000)
    assert len(company.high_watermarks()) == 1
    logs = [machine.bytes_from(0) for machine in company.machines]
    assert logs[0] == logs[1] == logs[2]
    assert [batch.payload for batch in leader.view.batches if batch.payload >= 0] == [*range(20)]


def test_a_follower_that_lacks_much_outlives_its_leader() -> None:
    """The leader said that all of it is committed, and died: that it once said so is no sign of
    life, or the two that are left would wait for it for ever."""
    company = Company()
    leader = company.leader()
    late = next(machine for machine in company.machines if machine is not leader)
    company.run(1_000)
    send = leader.send

    def send_heartbeats_alone(parcel: Parcel) -> None:
        send(replace(parcel, letters=()) if parcel.receiver == late.node else parcel)

    leader.send = send_heartbeats_alone  # type: ignore[method-assign]
    for payload in range(20):
        leader.propose(payload)
    company.run(1_000)
    assert [batch.payload for batch in late.view.batches] == [NOOP]
    leader.crash()
    company.leader()


def test_one_heartbeat_for_each_pair_and_tick_and_nothing_else_when_idle() -> None:
    """An idle partition costs nothing but its part of that."""
    company = Company()
    company.leader()
    company.run(2_000)
    terms = dict(company.checkers.leaders)
    before = [machine.replicas.heartbeats_sent for machine in company.machines]
    parcels_before = next(company.cluster.parcels)
    ticks = 100
    company.run(ticks * HEARTBEAT_MS)
    parcels = next(company.cluster.parcels) - parcels_before - 1
    sent = [
        machine.replicas.heartbeats_sent - count
        for machine, count in zip(company.machines, before, strict=True)
    ]
    assert sent == [ticks * 2] * 3
    assert parcels == sum(sent), "no message but the heartbeats"
    assert company.checkers.leaders == terms, "and that is enough to keep the leader"


def test_everybody_knows_who_leads_also_without_a_copy() -> None:
    company = Company(servers=4, voters=3)
    leader = company.leader()
    company.run(500)
    assert leader.raft is not None
    known = (leader.node, leader.raft.state.term)
    since_ms = company.cluster.now_ms - TIMING.election_ms
    for machine in company.machines:
        claimed = machine.replicas.leader(PARTITION, since_ms)
        assert claimed is not None
        assert claimed[:2] == known
        assert claimed.told.in_sync == claimed.told.membership.voters
        assert claimed.told.is_settled
    company.cut_off(leader)
    company.run(3_000)
    successor = next(m for m in company.machines if m is not leader and company.leads(m))
    assert successor.raft is not None
    since_ms = company.cluster.now_ms - TIMING.election_ms
    claimed = company.machines[3].replicas.leader(PARTITION, since_ms)
    assert claimed is not None
    assert claimed[:2] == (successor.node, successor.raft.state.term)
    assert leader.node not in claimed.told.in_sync


def test_a_leader_that_is_cut_off_gives_up_and_follows_when_it_is_back() -> None:
    company = Company()
    leader = company.leader()
    company.cut_off(leader)
    leader.propose(1)
    company.run(3_000)
    assert not company.leads(leader)
    company.cluster.cut.clear()
    company.leader().propose(2)
    company.run(2_000)
    assert len(company.high_watermarks()) == 1
    payloads = [batch.payload for batch in leader.view.batches if batch.payload >= 0]
    assert payloads == [2], "what only the old leader had was cut"


def test_a_leader_whose_connections_ended_is_replaced_at_once() -> None:
    """A process that died is not waited for like one that is silent."""
    company = Company()
    leader = company.leader()
    company.run(500)
    company.cut_off(leader)
    for machine in company.machines:
        if machine is not leader:
            machine.replicas.suspect_peer(leader.node, company.cluster.now_ms, TIMING.election_ms)
    company.run(TIMING.election_ms - 100)
    assert any(company.leads(machine) for machine in company.machines if machine is not leader)


def test_a_leader_that_is_still_heard_is_not_replaced_for_a_connection_that_ended() -> None:
    company = Company()
    leader = company.leader()
    company.run(500)
    terms = dict(company.checkers.leaders)
    suspicious = next(machine for machine in company.machines if machine is not leader)
    suspicious.replicas.suspect_peer(leader.node, company.cluster.now_ms, TIMING.election_ms)
    company.run(3_000)
    assert company.checkers.leaders == terms


def test_an_old_claim_is_disputed_until_it_is_given_up() -> None:
    """A leader that hears nobody but whom it cannot tell from followers of its own."""
    company = Company()
    leader = company.leader()
    company.run(500)
    others = [machine for machine in company.machines if machine is not leader]
    # It still hears that one of them is alive, but no answers: those are lost.
    company.cut_off(leader)
    company.run(2_000)
    successor = company.leader()
    mute = next(machine for machine in others if machine is not successor)
    company.cluster.cut = {
        (leader.node, successor.node),
        (successor.node, leader.node),
        (leader.node, mute.node),
    }
    company.run(2_000)
    assert leader.raft is not None
    assert successor.raft is not None
    assert leader.raft.state.term == successor.raft.state.term
    assert company.leads(successor)
    assert not company.leads(leader)


def test_a_heartbeat_that_was_lost_costs_nothing() -> None:
    company = Company()
    leader = company.leader()
    company.run(1_000)
    company.cluster.loss = 0.2
    for payload in range(10):
        leader.propose(payload)
        company.run(300)
    company.cluster.loss = 0.0
    company.run(2_000)
    assert len(company.high_watermarks()) == 1
    assert len(company.checkers.leaders) <= 3, "some loss does not depose leaders all the time"


def test_what_is_meant_for_a_folder_that_was_lost_is_not_taken() -> None:
    company = Company()
    leader = company.leader()
    company.run(500)
    stranger = next(machine for machine in company.machines if machine is not leader)
    heard = stranger.replicas._heard[leader.node].heard_ms
    old = Node(stranger.node.broker, 99)
    heartbeat = leader.replicas._own.heartbeat(stranger.node, needs_whole=False)
    envelope, _ = encode(Parcel(sender=leader.node, receiver=old, heartbeat=heartbeat))
    stranger.deliver(envelope, b"")
    assert stranger.replicas._heard[leader.node].heard_ms == heard


class Post:
    """A transport that keeps what it was given."""

    def __init__(self) -> None:
        self.parcels: list[Parcel] = []

    def send(self, parcel: Parcel) -> None:
        self.parcels.append(parcel)


def test_all_that_is_said_in_a_turn_goes_to_each_peer_at_once() -> None:
    post, driver = Post(), Driver()
    me, other, third = (Node(broker, 1) for broker in (1, 2, 3))
    replicas = Replicas(me, post, driver, incarnation=1, now_ms=0)
    replicas.add_peer(other)
    for number in range(3):
        partition = PartitionId(TopicId("c" * 32), number)
        replicas.send(other, partition, CampaignRequest(term=number), b"")
        replicas.send(third, partition, CampaignRequest(term=number), b"")
    assert post.parcels == []
    replicas.run_due(0)
    to_other, to_third = post.parcels
    assert [letter.message.term for letter in to_other.letters] == [0, 1, 2]
    assert [letter.partition.partition for letter in to_third.letters] == [0, 1, 2]
    assert to_other.heartbeat is not None, "in the same parcel"
    assert to_third.heartbeat is None
    driver.end_turn()
    assert len(post.parcels) == 2


def test_much_at_once_is_several_parcels() -> None:
    post, driver = Post(), Driver()
    replicas = Replicas(Node(1, 1), post, driver, incarnation=1, now_ms=0)
    large = bytes(PARCEL_BYTES_MAX // 2)
    for number in range(5):
        replicas.send(Node(2, 1), PARTITION, CampaignRequest(term=number), large)
    driver.end_turn()
    assert [len(parcel.letters) for parcel in post.parcels] == [2, 2, 1]


def test_a_learner_gets_the_log_and_has_no_vote() -> None:
    company = Company(servers=2, voters=1)
    leader = company.leader()
    for payload in range(5):
        leader.propose(payload)
    company.run(200)
    learner = company.machines[1]
    assert leader.participant is not None
    replica = leader.participant.replica
    alone = [replica.is_alone]
    leader.change(Membership(frozenset({leader.node}), frozenset({learner.node})))
    company.run(2_000)
    alone.append(replica.is_alone)
    assert alone == [True, False]
    assert len(company.high_watermarks()) == 1
    assert learner.bytes_from(0) == leader.bytes_from(0)
    leader.crash()
    company.run(3_000)
    assert not company.leads(learner)


def test_leadership_is_handed_over() -> None:
    company = Company()
    leader = company.leader()
    company.run(500)
    successor = next(machine for machine in company.machines if machine is not leader)
    leader.transfer(successor.node)
    company.run(500)
    assert company.leads(successor)
    assert not company.leads(leader)


def test_another_leads_at_once_when_the_leaders_disk_fails() -> None:
    """R-REP-2: it is asked to, and nobody waits for the election time."""
    company = Company()
    leader = company.leader()
    leader.propose(1)
    company.run(500)
    readable = leader.bytes_from(0)
    leader.platter.fail_next("flush", errno.EIO)
    leader.propose(2)
    company.run(TIMING.election_ms // 2)
    assert not company.leads(leader)
    assert any(company.leads(machine) for machine in company.machines)
    assert leader.bytes_from(0) == readable


def test_in_sync_is_who_has_everything_or_had_it_lately() -> None:
    """R-REP-3."""
    company = Company()
    leader = company.leader()
    company.run(1_000)
    assert leader.participant is not None
    nodes = {machine.node for machine in company.machines}
    assert leader.participant.in_sync == nodes
    dead = next(machine for machine in company.machines if machine is not leader)
    dead.crash()
    company.run(2 * TIMING.election_ms)
    assert leader.participant.in_sync == nodes - {dead.node}, "though nothing was written"
    dead.start()
    company.run(2 * TIMING.election_ms)
    assert leader.participant.in_sync == nodes


def test_a_replica_that_is_removed_is_not_reached() -> None:
    company = Company()
    leader = company.leader()
    gone = next(machine for machine in company.machines if machine is not leader)
    gone.replicas.remove(PARTITION)
    assert gone.replicas.find(PARTITION) is None
    leader.propose(1)
    company.run(1_000)
    assert gone.view.batches[-1].payload == -1
    assert leader.view.batches[-1].payload == 1
