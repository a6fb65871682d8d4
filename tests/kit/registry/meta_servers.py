"""Meta servers in virtual time: production's code but for the sockets and the clock.

Each has a `MetaService` on a `Replica` on a `SimulatedDisk`; parcels take a millisecond and are
lost where a test cuts the way; jobs of the disk take one too. Brokers are calls by hand.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from google.protobuf.message import Message

from penstock.model.errors import NotLeader, PenstockError
from penstock.model.ids import PartitionId, TopicId
from penstock.net.call import Call
from penstock.net.outbox import Buffer
from penstock.protocol import calls
from penstock.protocol import penstock_pb2 as pb
from penstock.protocol.calls import CallType
from penstock.raft.membership import Membership, Node
from penstock.registry.image import BrokerImage
from penstock.registry.metaserver.entries import Action, MakeCluster, new_entry
from penstock.registry.metaserver.machine import MetaMachine
from penstock.registry.metaserver.service import MetaService
from penstock.replication.disk.driver import Driver
from penstock.replication.disk.flusher import Job
from penstock.replication.parcels.parcel import Parcel
from penstock.replication.peers.replicas import Replicas
from penstock.replication.replica.replica import Replica
from penstock.replication.replica.transport import TIMING, Surroundings
from penstock.storage.log.log import Log, LogConfig
from tests.kit.simulated_disk import SimulatedDisk
from tests.kit.simulation.timeline import Timeline, VirtualClock
from tests.kit.simulation.trace import Trace

META = PartitionId(TopicId("0" * 32), 0)
LOG_CONFIG = LogConfig(segment_bytes=1 << 24, segment_ms=1 << 40, index_interval_bytes=4096)
SESSION_MS = 6_000
CLUSTER = "cluster"


class Answer(Call[Any]):
    """A call as its caller sees it; no channel brought it."""

    def __init__(self, kind: CallType[Any, Any], request: Any) -> None:
        self.kind = kind
        self.request = request
        self.response: Any = None
        self.given: bytes = b""
        self.error: PenstockError | None = None

    @property
    def is_there(self) -> bool:
        return self.response is not None or self.error is not None

    def answer(self, response: Message, payload: Buffer = b"") -> None:
        assert not self.is_there, "answered twice"
        assert isinstance(response, self.kind.response)
        self.response = response
        self.given = bytes(payload)

    def refuse(self, error: PenstockError) -> None:
        assert not self.is_there, "answered twice"
        self.error = error


class Host:
    """One meta server. Its disk survives a crash."""

    def __init__(self, quorum: Quorum, number: int) -> None:
        self.node = Node(number, 0)
        self.disk = SimulatedDisk()
        self.life = 0
        self._quorum = quorum
        self.service: MetaService | None = None
        # A process that stands still: nothing happens in it, and what comes waits.
        self.is_stopped = False
        self._held: list[Callable[[], None]] = []
        self._armed_ms: int | None = None

    @property
    def machine(self) -> MetaMachine:
        assert self.service is not None
        return self.service.machine

    @property
    def leads(self) -> bool:
        return self.service is not None and self.machine.replica.is_leader

    def start(self) -> None:
        quorum = self._quorum
        self.life += 1
        self.driver = Driver()
        self.replicas = Replicas(
            self.node,
            self,
            self.driver,
            incarnation=quorum.random.getrandbits(60),
            now_ms=quorum.time_ms,
        )
        around = Surroundings(
            me=self.node,
            driver=self.driver,
            flusher=self,
            clock=quorum.clock,
            peers=self.replicas,
            timing=TIMING,
            draw_delay_ms=lambda: quorum.random.randrange(TIMING.election_ms),
        )
        folder = self.disk.root.subdirectory("meta-log")
        self.disk.root.flush()
        replica = Replica(
            "meta-log",
            META,
            Log.open(folder, LOG_CONFIG),
            folder,
            initial=Membership(frozenset(quorum.hosts)),
            durability="fsync",
            around=around,
        )
        machine = MetaMachine(
            folder, replica, self, quorum.clock, snapshot_changes=quorum.snapshot_changes
        )
        addresses = {node.broker: f"127.0.0.1:{7000 + node.broker}" for node in quorum.hosts}
        self.service = MetaService(
            machine, addresses, self.driver, self._monotonic_ms, session_timeout_ms=SESSION_MS
        )
        for node in quorum.hosts:
            if node != self.node:
                self.replicas.add_peer(node)
        self.replicas.add(self.service.participant)
        self.driver.end_turn()
        self._arm()
        self._tick()

    def crash(self) -> None:
        self.life += 1
        self.service = None
        self.is_stopped = False
        self._held = []
        self._armed_ms = None
        self.disk = self.disk.after_crash("lost")

    def stop(self) -> None:
        """SIGSTOP."""
        self.is_stopped = True

    def go_on(self) -> None:
        """SIGCONT. What came is read first, as it may be."""
        self.is_stopped = False
        held, self._held = self._held, []
        for action in held:
            action()

    def event(self, life: int, action: Callable[[], None]) -> None:
        if life != self.life:
            return
        if self.is_stopped:
            self._held.append(lambda: self.event(life, action))
            return
        action()
        self.driver.end_turn()
        self._arm()

    def call(self, call: CallType[Any, Any], request: Any) -> Answer:
        """As if it came on a connection."""
        answer = Answer(call, request)
        life = self.life

        def serve() -> None:
            assert self.service is not None
            try:
                self.service.serve(answer)
            except PenstockError as error:
                answer.refuse(error)

        self.event(life, serve)
        return answer

    def _monotonic_ms(self) -> int:
        return self._quorum.time_ms

    def _arm(self) -> None:
        due_ms = max(self.replicas.next_due_ms, self._quorum.time_ms)
        if self._armed_ms is None or due_ms < self._armed_ms:
            self._armed_ms = due_ms
            life = self.life
            self._quorum.after(due_ms - self._quorum.time_ms, lambda: self._on_timer(life))

    def _on_timer(self, life: int) -> None:
        def run() -> None:
            self._armed_ms = None
            self.replicas.run_due(self._quorum.time_ms)

        self.event(life, run)

    def _tick(self) -> None:
        assert self.service is not None
        life, service = self.life, self.service

        def tick() -> None:
            service.tick()
            self._quorum.after(service.tick_ms, lambda: self.event(life, tick))

        self._quorum.after(service.tick_ms, lambda: self.event(life, tick))

    # --- replication.flusher.Flusher -------------------------------------------------------------

    def submit(self, job: Job, finished: Callable[[], None]) -> None:
        life = self.life

        def run() -> None:
            if life == self.life:
                job.run()
                self._quorum.after(1, lambda: self.event(life, finished))

        self._quorum.after(1, run)

    # --- replication.replicas.Transport ----------------------------------------------------------

    def send(self, parcel: Parcel) -> None:
        self._quorum.carry(parcel)

    def deliver(self, parcel: Parcel) -> None:
        if self.service is not None:
            self.event(self.life, lambda: self.replicas.receive(parcel, self._monotonic_ms()))


class Quorum:
    """The servers, the time and the ways between them."""

    def __init__(self, servers: int = 3, *, snapshot_changes: int = 10_000, seed: int = 1) -> None:
        self.timeline = Timeline(random.Random(seed), Trace())
        self.timeline.run_until(1_000_000)
        self.random = self.timeline.random
        self.clock = VirtualClock(self.timeline, 0)
        self.after = self.timeline.after
        self.run = self.timeline.run_for
        self.snapshot_changes = snapshot_changes
        self.cut: set[tuple[int, int]] = set()
        self.hosts: dict[Node, Host] = {}
        for number in range(1, servers + 1):
            self.hosts[Node(number, 0)] = Host(self, number)
        for host in self.hosts.values():
            host.start()

    # --- time ------------------------------------------------------------------------------------

    @property
    def time_ms(self) -> int:
        return self.timeline.now_ms

    def run_until(self, holds: Callable[[], object], ms_max: int = 20_000) -> None:
        end_ms = self.time_ms + ms_max
        while not holds():
            assert self.timeline.next_ms is not None, "nothing is left to happen"
            assert self.timeline.next_ms <= end_ms, "it never came to be"
            self.timeline.step()

    def carry(self, parcel: Parcel) -> None:
        way = (parcel.sender.broker, parcel.receiver.broker)

        def arrive() -> None:
            if way not in self.cut:
                self.hosts[parcel.receiver].deliver(parcel)

        self.after(1, arrive)

    def cut_off(self, host: Host) -> None:
        for other in self.hosts:
            self.cut |= {(host.node.broker, other.broker), (other.broker, host.node.broker)}

    # --- what brokers ask for --------------------------------------------------------------------

    def leader(self, beside: Host | None = None) -> Host:
        """Who leads, once somebody does."""
        leading: list[Host] = []

        def leads() -> bool:
            leading[:] = [each for each in self.hosts.values() if each.leads and each is not beside]
            return bool(leading)

        self.run_until(leads)
        return leading[0]

    def ask(self, call: CallType[Any, Any], request: Any, host: Host | None = None) -> Answer:
        """The leader's answer, when it is there."""
        answer = (host or self.leader()).call(call, request)
        self.run_until(lambda: answer.is_there)
        if not isinstance(answer.error, NotLeader):
            return answer
        self.run(100)
        return self.ask(call, request, host)

    def change(self, action: Action, host: Host | None = None) -> Any:
        """The response, or the refusal as an error."""
        return self.send_entry(new_entry(action), host)

    def send_entry(self, entry: bytes, host: Host | None = None) -> Any:
        request = pb.MetaChangeRequest(entry=entry)
        answer = self.ask(calls.META_CHANGE, request, host)
        if answer.error is not None:
            raise answer.error
        return answer.response

    def make_cluster(self) -> None:
        self.change(MakeCluster(cluster_id=CLUSTER))

    def beat(self, broker: BrokerImage, host: Host | None = None) -> Any:
        request = pb.MetaHeartbeatRequest(
            cluster_id=CLUSTER,
            broker=broker.id,
            directory=broker.directory,
            place=broker.place,
        )
        return self.ask(calls.META_HEARTBEAT, request, host).response

    def states(self) -> list[Any]:
        """What each server that runs has applied, as it would be kept."""
        return [(host.machine.state.snapshot(0)) for host in self.hosts.values() if host.service]
