"""One life of a simulated broker: its replicas, logs and partitions, as production has them.

What is not production's is what stands around them: the transport is the simulated network, the
disk's threads are jobs that take their time, and requests come as calls instead of frames. The
invariant: what was given in a receive buffer is overwritten when the turn is over.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Protocol, cast

from penstock.broker.partitions import producer_snapshot
from penstock.broker.partitions.housekeeping import Housekeeping
from penstock.broker.partitions.partition import Append, Partition
from penstock.broker.partitions.partitions import Partitions
from penstock.broker.partitions.readers import Wakings
from penstock.coordination.producers.state import ProducerState
from penstock.model.errors import CorruptLog, NotLeader, PenstockError, StorageError
from penstock.model.ids import PartitionId
from penstock.net.clock import Clock
from penstock.raft.membership import Membership, Node
from penstock.replication.disk.driver import Driver
from penstock.replication.disk.flusher import Flusher
from penstock.replication.parcels import wire
from penstock.replication.parcels.parcel import Parcel
from penstock.replication.peers.replicas import Leader, Replicas
from penstock.replication.replica.participant import Participant
from penstock.replication.replica.replica import Listener, Replica
from penstock.replication.replica.saved_state import RAFT_JOURNAL, encode
from penstock.replication.replica.transport import TIMING, Surroundings
from penstock.storage.files.files import Directory
from penstock.storage.files.journal import write_journal
from penstock.storage.log.log import CleanEnd, Log, LogConfig
from tests.kit.simulated_disk import SimulatedDisk
from tests.kit.simulation import checkers
from tests.kit.simulation.checkers import Violation
from tests.kit.simulation.clusters.compacting import compact
from tests.kit.simulation.clusters.copies import Copy
from tests.kit.simulation.clusters.plan import PartitionPlan
from tests.kit.simulation.clusters.served import Served
from tests.kit.simulation.clusters.world import World

Clean = dict[PartitionId, tuple[CleanEnd, bytes]]
Incarnation = tuple[Node, int]


class Reply(Protocol):
    """How a client is answered: a result, or an error and who leads instead."""

    def __call__(self, result: object, leader: int | None = None) -> None: ...


class Host(Protocol):
    """The machine that a process runs on."""

    @property
    def world(self) -> World: ...
    @property
    def broker(self) -> int: ...
    @property
    def node(self) -> Node: ...
    @property
    def name(self) -> str: ...
    @property
    def disk(self) -> SimulatedDisk: ...
    @property
    def clock(self) -> Clock: ...
    @property
    def is_rotten(self) -> bool: ...
    @property
    def let_go(self) -> dict[PartitionId, bytes]:
        """Partitions whose copies were removed, because they are elsewhere; and what such a copy
        must not forget."""
        ...

    def do_after(self, delay_ms: int, action: Callable[[Process], None]) -> None:
        """Let the process do it later, if it lives."""
        ...

    def crash_now_and_then(self) -> None:
        """Something was said."""
        ...


class Process:
    """From a start to a crash or a stop."""

    def __init__(self, machine: Host, flusher: Flusher, clean: Clean) -> None:
        """SimulatedCrash, where the disk is told to."""
        self.machine = machine
        self.driver = Driver()
        self.partitions: dict[PartitionId, Served] = {}
        self.offline: dict[PartitionId, StorageError] = {}
        self.is_stopping = False
        # Whose copies are being removed.
        self._leaving: set[PartitionId] = set()
        # The peers that can be reached, as far as is known here: as which node, in which life.
        self.linked: dict[int, Incarnation] = {}
        self._flusher = flusher
        self._world = machine.world
        self._timeline = machine.world.timeline
        random = self._timeline.random
        self.replicas = Replicas(
            machine.node,
            self,
            self.driver,
            incarnation=random.getrandbits(60),
            now_ms=self._timeline.now_ms,
        )
        self._around = Surroundings(
            me=machine.node,
            driver=self.driver,
            flusher=flusher,
            clock=machine.clock,
            peers=self.replicas,
            timing=TIMING,
            draw_delay_ms=lambda: random.randrange(TIMING.election_ms),
            append_bytes_max=machine.world.plan.append_bytes_max,
        )
        self._wakings = Wakings(lambda turn: machine.do_after(0, lambda _: turn()))
        # It asks for nothing but all partitions, and for their producers to be saved.
        self._housekeeping = Housekeeping(cast("Partitions", self), flusher, machine.clock, 0.0)
        for plan in machine.world.partitions.values():
            if plan.id not in machine.let_go:
                self._open_or_not(plan, clean)
            elif machine.disk.root.exists(plan.folder):
                with suppress(OSError):  # whoever makes a copy there does it
                    machine.disk.root.remove_tree(plan.folder)

    def begin(self) -> None:
        """Take part."""
        for served in self.partitions.values():
            self.replicas.add(served.participant)
        self.driver.end_turn()

    def look(self) -> None:
        """After every event."""
        observer = self._world.observer
        for served in self.partitions.values():
            served.copy.refresh()
            observer.look(served)

    # --- opening and closing ---------------------------------------------------------------------

    def _open_or_not(self, plan: PartitionPlan, clean: Clean) -> None:
        """One that cannot be opened is offline, and the others are served all the same."""
        try:
            self.partitions[plan.id] = self._open(plan, *clean.get(plan.id, (None, b"")))
        except StorageError as error:
            if isinstance(error, CorruptLog) and not self.machine.is_rotten:
                raise Violation(f"{self.machine.node} refuses what did not rot: {error}") from error
            self._timeline.note(self.machine.name, f"{plan.name} is offline: {error}")
            self.offline[plan.id] = error

    def _open(
        self, plan: PartitionPlan, clean_end: CleanEnd | None, clean_producers: bytes
    ) -> Served:
        folder = self._folder(plan)
        config = LogConfig(
            segment_bytes=plan.config.segment_bytes,
            segment_ms=plan.config.segment_ms,
            index_interval_bytes=plan.config.index_interval_bytes,
        )
        log = Log.open(folder, config, clean_end=clean_end)
        log.explain_cut(self.machine.clock.now_ms())
        is_clean = clean_end is not None and clean_end.next_offset == log.next_offset
        initial = Membership(frozenset(plan.voters))
        replica = Replica(
            str(plan.name),
            plan.id,
            log,
            folder,
            initial=initial,
            first_term=plan.first_term,
            durability=plan.config.durability,
            around=self._around,
            may_lack=plan.config.durability == "os" and not is_clean,
            campaigns_at_once=self.machine.node == plan.voters[0],
        )

        def recover_producers() -> ProducerState:
            nonlocal is_clean
            if is_clean:
                is_clean = False
                return ProducerState.decode(clean_producers)
            now_ms = self.machine.clock.now_ms()
            return producer_snapshot.recover(folder, plan.id.topic_id, log, now_ms, frozenset())

        partition = Partition(
            plan.name,
            plan.id.topic_id,
            plan.config,
            replica,
            recover_producers,
            self.machine.clock,
            self._wakings,
        )
        replica.snapshot = lambda: producer_snapshot.take(partition)
        copy = Copy(
            self.machine.node,
            log,
            is_compacted=plan.is_compacted,
            is_rotten=self.machine.is_rotten,
        )
        replica.listener = cast("Listener", _Spy(partition, copy))
        copy.refresh()
        served = Served(
            plan=plan,
            node=self.machine.node,
            partition=partition,
            participant=Participant(replica),
            copy=copy,
        )
        self._world.observer.on_opened(served)
        return served

    def _folder(self, plan: PartitionPlan) -> Directory:
        root = self.machine.disk.root
        try:
            folder = root.subdirectory(plan.folder)
            root.flush()
        except OSError as error:
            raise StorageError(f"no folder for {plan.name}: {error}") from error
        return folder

    def let_go(self, partition: PartitionId) -> None:
        """The partition is to be elsewhere: remove this copy, if its leader says that it is."""
        served = self.partitions.get(partition)
        leader = self._leader(partition)
        if served is None or leader is None or served.is_compacting or self.is_stopping:
            return
        memory = None if served.replica.is_leader else served.participant.memory(leader.told)
        if memory is None:
            return
        self._world.counts["removed copy"] += 1
        self.machine.let_go[partition] = encode(memory)
        self.remove(served, NotLeader("its copies are elsewhere"))

    def remove(self, served: Served, reason: PenstockError) -> None:
        """Let the copy go; whoever waits there is told the reason."""
        partition = served.plan.id
        del self.partitions[partition]
        self.replicas.remove(partition)
        served.partition.is_open = False
        served.replica.leave(reason)
        self._world.observer.forget_copy(served)
        checkers.every_call_is_answered(self.machine.node, served.plan.name, served.calls)
        self._leaving.add(partition)

        def remove() -> None:
            served.replica.close()
            self._leaving.discard(partition)
            with suppress(OSError):  # the next start does it
                self.machine.disk.root.remove_tree(served.plan.folder)

        served.replica.idleness.when(remove)

    def begin_new(self, plan: PartitionPlan) -> None:
        """Make a copy, and let it take part."""
        self._open_or_not(plan, {})
        if plan.id in self.partitions:
            self.replicas.add(self.partitions[plan.id].participant)

    def take_up(self, plan: PartitionPlan) -> None:
        """The partition is to be here again: make a copy of it."""
        if plan.id in self._leaving or self.is_stopping:
            return
        if self.machine.disk.root.exists(plan.folder):
            with suppress(OSError):
                self.machine.disk.root.remove_tree(plan.folder)
            return
        try:
            write_journal(self._folder(plan), RAFT_JOURNAL, self.machine.let_go[plan.id])
        except StorageError:
            return
        self._timeline.note(self.machine.name, f"makes a copy of {plan.name} again")
        del self.machine.let_go[plan.id]
        self.begin_new(plan)

    def stop(self, stopped: Callable[[Clean], None]) -> None:
        """Close everything as soon as no job runs."""
        self.is_stopping = True
        waiting = list(self.partitions.values())
        clean: Clean = {}

        def close_next() -> None:
            if not waiting:
                stopped(clean)
                return
            served = waiting[-1]
            if served.is_compacting:
                self.machine.do_after(50, lambda _: close_next())
                return
            served.replica.idleness.when(lambda: close(waiting.pop()))

        def close(served: Served) -> None:
            served.partition.is_open = False
            self.replicas.remove(served.plan.id)
            try:
                end = served.replica.close()
            except StorageError:
                end = None
            if end is not None:
                clean[served.plan.id] = (end, served.partition.producers.encode())
            close_next()

        close_next()

    # --- the world around ------------------------------------------------------------------------

    def link(self, broker: int, there: Incarnation | None) -> None:
        """The peer can be reached, as that node in that life; or it cannot."""
        known = self.linked.get(broker)
        if known is not None and known != there:
            del self.linked[broker]
            self.replicas.remove_peer(known[0])
            self.replicas.suspect_peer(known[0], self._timeline.now_ms, TIMING.election_ms)
        if there is not None and known != there:
            self.linked[broker] = there
            self.replicas.add_peer(there[0])

    def send(self, parcel: Parcel) -> None:
        """`replication.peers.replicas.Transport`."""
        if self.machine.disk.crashed:
            return
        envelope, payloads = wire.encode(parcel)
        receiver = parcel.receiver.broker
        self._world.network.carry_parcel(
            self.machine.broker,
            receiver,
            envelope,
            b"".join(payloads),
            self._world.endpoints[receiver].deliver,
        )
        if parcel.letters:
            self.machine.crash_now_and_then()

    def receive(self, envelope: bytes, payload: bytes) -> None:
        buffer = bytearray(payload)
        parcel = wire.decode(envelope, memoryview(buffer))
        self.replicas.receive(parcel, self._timeline.now_ms)
        self.driver.end_turn()
        # As the next read into the same buffer does.
        buffer[:] = bytes(len(buffer))

    # --- what clients ask for --------------------------------------------------------------------

    def produce(self, partition: PartitionId, batch: bytearray, acks: int, reply: Reply) -> None:
        served = self.partitions.get(partition)
        if served is None or not served.leads or self.is_stopping:
            self._refuse(partition, reply)
            return
        append = _Answer(self, served, acks, reply)
        served.calls += 1
        try:
            served.partition.check_acks(acks)
            served.partition.append(memoryview(batch), append, acks)
        except PenstockError as error:
            served.calls -= 1
            self.reply(reply, error)
            return
        if self._timeline.random.random() < 0.7:
            # Or more comes with the same read.
            self.driver.end_turn()
            batch[:] = bytes(len(batch))

    def fetch(self, partition: PartitionId, offset: int, max_bytes: int, reply: Reply) -> None:
        """From any copy: what is committed is the same everywhere."""
        served = self.partitions.get(partition)
        if served is None:
            self._refuse(partition, reply)
            return
        start_offset = served.replica.log.start_offset
        if offset < start_offset:
            self.reply(reply, start_offset)
            return
        try:
            part = served.partition.read(offset, max_bytes)
        except PenstockError as error:
            self.reply(reply, error)
            return

        def send() -> None:
            try:
                self.reply(reply, part.read())
            except StorageError as error:
                self.reply(reply, error)

        # A socket may take it only later; what is committed must still be there then.
        self.machine.do_after(self._timeline.random.choice((0, 0, 40)), lambda _: send())

    def delete_before(self, partition: PartitionId, share: float) -> None:
        """A user deletes records."""
        served = self.partitions.get(partition)
        if served is None or not served.leads:
            return
        log, limit = served.replica.log, served.replica.high_watermark
        offset = log.start_offset + int(share * (limit - log.start_offset))
        self._world.observer.may_delete(served, offset)
        served.calls += 1
        served.replica.delete_before(offset, served.answered)

    def _refuse(self, partition: PartitionId, reply: Reply) -> None:
        """Say who leads, as far as is known here."""
        leader = self._leader(partition)
        error = NotLeader("it is not led here")
        self.reply(reply, error, None if leader is None else leader.node.broker)

    def _leader(self, partition: PartitionId) -> Leader | None:
        since_ms = self._timeline.now_ms - 2 * TIMING.election_ms
        return self.replicas.leader(partition, since_ms)

    def reply(self, reply: Reply, result: object, leader: int | None = None) -> None:
        if not self.machine.disk.crashed:
            reply(result, leader)

    # --- what the broker does by itself ----------------------------------------------------------

    def tidy(self) -> None:
        """Retention, snapshots of producers: a round of production's housekeeping."""
        for served in self.partitions.values():
            self._world.observer.may_tidy(served)
        round_ = self._housekeeping.one_round()
        try:
            while True:
                round_.send(None)
        except StopIteration:
            return

    def all(self) -> list[Partition]:
        """For the housekeeping."""
        return [served.partition for served in self.partitions.values()]

    def save_producers(self, partition: Partition) -> None:
        """For the housekeeping and the compaction."""
        served = next(each for each in self.partitions.values() if each.partition is partition)
        folder = self.machine.disk.root.subdirectory(served.plan.folder)
        producer_snapshot.save(partition, folder, self._flusher)

    def compact(self, partition: PartitionId) -> None:
        served = self.partitions.get(partition)
        if served is not None and not self.is_stopping:
            self._world.counts["compaction"] += compact(
                served,
                self.machine.disk.root.subdirectory(served.plan.folder),
                self._flusher,
                self.machine.clock.now_ms(),
                is_wanted=lambda: not self.is_stopping,
                save_producers=lambda: self.save_producers(served.partition),
            )


class _Spy:
    """Listens where the partition does, so that a copy that is cut is known to be."""

    def __init__(self, partition: Partition, copy: Copy) -> None:
        self._partition = partition
        self._copy = copy

    def __getattr__(self, name: str) -> object:
        return getattr(self._partition, name)

    def on_truncated(self, offset: int) -> None:
        self._copy.cut_at(offset)
        self._partition.on_truncated(offset)


class _Answer(Append):
    """To a producer."""

    __slots__ = ("_acks", "_process", "_reply", "_served")

    def __init__(self, process: Process, served: Served, acks: int, reply: Reply) -> None:
        super().__init__()
        self._process = process
        self._served = served
        self._acks = acks
        self._reply = reply

    def finished(self, error: PenstockError | None) -> None:
        process = self._process
        self._served.calls -= 1
        if process.machine.disk.crashed:
            return
        world, served = process.machine.world, self._served
        # Of a topic that is deleted some brokers have let their copies go already.
        if error is None and self._acks < 0 and served.plan.id in world.partitions:
            is_flushed = served.plan.config.durability == "fsync"
            world.observer.on_acknowledging(
                served,
                self.base_offset,
                world.disks,
                # Where a flush fails and the process dies before it can say so, the cache has what
                # the platter lacks, and nobody can tell: only the machine's crash would show it.
                durably=is_flushed and world.plan.is_machine_crashing,
                rotted=world.rotted,
            )
        process.reply(self._reply, self.base_offset if error is None else error)
