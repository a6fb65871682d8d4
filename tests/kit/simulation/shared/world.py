"""Shared groups of production in a simulated world: brokers that lead one after another, one
coordinator of groups, members that misbehave.

Production's are `Shares` and all beneath it, and what the coordinator keeps (`ShareStates`). Not
the log's replication: what is published is committed, and a broker is told that it leads; how long
a former leader believes that it still does is drawn, up to what Raft allows. The invariant: nothing
depends on anything but the seed.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

from penstock.broker.delivery.dead_letters import DeadLetters
from penstock.broker.delivery.filters import Filters
from penstock.broker.delivery.shared.partitions import Shares
from penstock.broker.partitions.partition import Partition
from penstock.broker.partitions.partitions import Partitions
from penstock.broker.partitions.readers import Readers, Wakings
from penstock.broker.partitions.unopened import TurnBudget
from penstock.broker.turns.fair_turns import FairTurns
from penstock.coordination.delivery.shared_settings import DeadMessage
from penstock.coordination.group.shared.messages import SharePlace
from penstock.coordination.group.shared.states import ShareStates
from penstock.model.errors import (
    NotCoordinator,
    OffsetOutOfRange,
    PenstockError,
    TimedOut,
)
from penstock.protocol import penstock_pb2 as pb
from penstock.records import BatchBuilder
from penstock.records.header import read_header, write_header
from penstock.replication.replica.transport import TIMING
from tests.kit.histories.leases import DeliveryHistory
from tests.kit.simulation.ears import Ears
from tests.kit.simulation.faults import Fault, Faults
from tests.kit.simulation.loop import VirtualLoop
from tests.kit.simulation.network import Network
from tests.kit.simulation.network_faults import NetworkFaults
from tests.kit.simulation.shared.members import GROUP, LEASE_MS, NAME, Member
from tests.kit.simulation.timeline import Timeline, VirtualClock
from tests.kit.simulation.trace import Trace

T = TypeVar("T")

ATTEMPTS_MAX = 4
# Endpoints of the network: those below are brokers, those above members.
COORDINATOR = 0
FIRST_MEMBER = 100
CALL_TIMEOUT_S = 1.0
WILD_DELAY_MS_MAX = 20
# Some runs have none of these, some many; all else is in every run.
_CUTS = frozenset({"one-way cut", "flapping", "split network"})
# A leader that nobody hears steps down then, at the latest.
FORMER_LEADER_S = TIMING.election_ms / 1000 + 0.2


@dataclass
class SimulatedLog:
    """What is committed, the same for every broker."""

    batches: list[tuple[int, int, bytes]] = field(default_factory=list)
    start_offset: int = 0
    next_offset: int = 0

    def append(self, keys: Iterable[bytes | None]) -> range:
        builder = BatchBuilder(1 << 20)
        for key in keys:
            builder.append(1_000, key, b"value", ())
        batch = bytearray(builder.build())
        header = read_header(batch, 0)._replace(base_offset=self.next_offset)
        write_header(batch, header)
        first, self.next_offset = self.next_offset, header.next_offset
        self.batches.append((first, self.next_offset, bytes(batch)))
        return range(first, self.next_offset)

    def read(self, offset: int, bytes_max: int, end_seen: int) -> bytes:
        if not self.start_offset <= offset <= self.next_offset:
            raise OffsetOutOfRange
        found = b""
        for _, end, batch in self.batches:
            if offset < end <= end_seen and (not found or len(found) + len(batch) <= bytes_max):
                found += batch
        return found


class _Slice:
    def __init__(self, data: bytes) -> None:
        self._data = data

    def read(self) -> bytes:
        return self._data


class SimulatedPartition:
    """A broker's copy, as `Shares` sees it; also the replica."""

    name = NAME
    topic_id = "0a" * 16
    is_open = True
    is_alone = False

    def __init__(self, log: SimulatedLog, wakings: Wakings) -> None:
        self.log = log
        self.readers = Readers(wakings)
        self.is_leader = False
        self.term = 0
        # A former leader gets nothing of what the next one appends.
        self.end_seen: int | None = None

    @property
    def replica(self) -> SimulatedPartition:
        return self

    @property
    def high_watermark(self) -> int:
        return self.log.next_offset if self.end_seen is None else self.end_seen

    def read(self, offset: int, bytes_max: int) -> _Slice:
        return _Slice(self.log.read(offset, bytes_max, self.high_watermark))

    def wait_for_more(self, waiter: object, wake: Callable[[], None]) -> None:
        self.readers.wait(waiter, wake)

    def stop_waiting(self, waiter: object) -> None:
        self.readers.stop_waiting(waiter)


class SimulatedBroker:
    """`Shares`, and what it needs; also those who tell of leadership."""

    def __init__(self, world: World, number: int) -> None:
        self.world = world
        self.number = number
        self.partition = SimulatedPartition(world.log, Wakings(world.loop.call_soon))
        self._told: Callable[[Partition, bool], None]
        self.shares = Shares(
            cast("Partitions", self),
            Way(world, number),
            cast("DeadLetters", world),
            cast("Filters", None),
            cast("FairTurns", None),
            TurnBudget(world.loop.call_soon),
            world.clock,
        )

    def watch_leadership(self, told: Callable[[Partition, bool], None]) -> None:
        self._told = told

    def lead(self, term: int) -> None:
        self.partition.is_leader, self.partition.term = True, term
        self.partition.end_seen = None
        self._told(cast("Partition", self.partition), True)

    def lead_no_more(self, term: int) -> None:
        if self.partition.term == term and self.partition.is_leader:
            self.partition.is_leader = False
            self._told(cast("Partition", self.partition), False)
            self.partition.readers.wake_all()


class Coordinator:
    """Keeps states as production does, and is down now and then."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._states = ShareStates()
        self.down_until_s = 0.0

    def read(self, request: pb.ReadShareRequest) -> pb.ReadShareResponse:
        self._check_running()
        kept, _ = self._states.take_over(GROUP, _place(request))
        settings = pb.SharedSettings(
            lease_ms=LEASE_MS,
            attempts_max=ATTEMPTS_MAX,
            backoff_ms=100,
            backoff_ms_max=400,
            ordered_by_key=self._world.history.is_ordered,
        )
        return pb.ReadShareResponse(
            is_known=bool(kept.state),
            state=kept.state,
            settings=settings,
            incarnation="one",
            sequence=kept.sequence,
        )

    def write(self, request: pb.WriteShareRequest) -> pb.WriteShareResponse:
        self._check_running()
        if self._world.happens(0.03):
            # Its caller gives up on it, and it is still under way.
            late_ms = int(self._world.random.expovariate(1.0) * 1000)
            self._world.timeline.after(late_ms, lambda: self._write_late(request))
            raise TimedOut
        self._states.write(GROUP, _place(request), request.state)
        return pb.WriteShareResponse()

    def _write_late(self, request: pb.WriteShareRequest) -> None:
        with contextlib.suppress(PenstockError):  # nobody listens
            self._states.write(GROUP, _place(request), request.state)

    def _check_running(self) -> None:
        if self._world.loop.time() < self.down_until_s:
            raise NotCoordinator


class Way:
    """From a broker to the coordinator of groups, and back."""

    def __init__(self, world: World, broker: int) -> None:
        self._world = world
        self._broker = broker

    async def read_share(self, request: pb.ReadShareRequest) -> pb.ReadShareResponse:
        return await self._ask(lambda: self._world.coordinator.read(request))

    async def write_share(self, request: pb.WriteShareRequest) -> pb.WriteShareResponse:
        return await self._ask(lambda: self._world.coordinator.write(request))

    async def _ask(self, answer: Callable[[], T]) -> T:
        await self._world.delay()
        await self._world.trip(self._broker, COORDINATOR)
        told = answer()
        await self._world.trip(COORDINATOR, self._broker)
        return told


class World:
    """All of it; also where the dead letters go."""

    def __init__(self, loop: VirtualLoop, seed: int) -> None:
        self.loop = loop
        self.timeline = timeline = loop.timeline
        self.random = timeline.random
        self.clock = VirtualClock(timeline, 0)
        self.network = Network(timeline)
        # How often what happened.
        self.counts: Counter[str] = Counter()
        self.history = DeliveryHistory(ATTEMPTS_MAX, is_ordered=seed % 2 == 1)
        self.log = SimulatedLog()
        self.coordinator = Coordinator(self)
        self.brokers = [SimulatedBroker(self, number) for number in (1, 2, 3)]
        self.leader = self.brokers[0]
        self.term = 1
        self.leader.lead(1)
        self.is_wild = True
        self.ask_max = self.random.choice([1, 3, 20])
        self.seen: list[int] = []
        self.mended_ms = self.dealt_with_ms = 0
        self.members = [Member(self, FIRST_MEMBER + number) for number in range(4)]
        brokers = [broker.number for broker in self.brokers]
        endpoints = [COORDINATOR, *brokers, *(member.number for member in self.members)]
        self._networks = NetworkFaults(self.network, timeline, endpoints, self.random)
        table = self._table()
        self._faults = Faults(self.random, self.counts, table, table.keys() - _CUTS)
        self._tasks: set[asyncio.Task[None]] = set()

    # --- chance --------------------------------------------------------------------------------

    def happens(self, share: float) -> bool:
        return self.is_wild and self.random.random() < share

    async def delay(self, rarely: float = 0.005) -> None:
        """A moment; rarely, far longer than a lease."""
        long_s = self.random.random() * 3 * LEASE_MS / 1000
        moment_s = self.random.choice([0.001, 0.004, 0.02])
        await asyncio.sleep(long_s if self.happens(rarely) else moment_s)

    async def trip(self, sender: int, receiver: int) -> None:
        """Until something has come from one to the other; TimedOut if it never does."""
        come: asyncio.Future[None] = self.loop.create_future()
        self.network.carry(sender, receiver, lambda: None if come.done() else come.set_result(None))
        try:
            async with asyncio.timeout(CALL_TIMEOUT_S):
                await come
        except TimeoutError:
            raise TimedOut from None

    # --- what happens --------------------------------------------------------------------------

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        task = self.loop.create_task(work)
        self._tasks.add(task)

    async def run(self) -> None:
        """Some time of trouble, and then until everything is dealt with."""
        self._make_worse()
        for member in self.members:
            self.start(member.run())
        for _ in range(self.random.randrange(12, 28)):
            await asyncio.sleep(self.random.random())
            self._faults.strike(self.timeline)
        self.publish()
        self.is_wild = False
        self._networks.mend()
        self.mended_ms = self.timeline.now_ms
        await self._dealt_with()
        self.dealt_with_ms = self.timeline.now_ms
        for task in self._tasks:
            task.cancel()
            if task.done() and not task.cancelled():
                task.result()
        for broker in self.brokers:
            broker.shares.begin_closing()
            broker.lead_no_more(broker.partition.term)
        await asyncio.sleep(10.0)

    def _table(self) -> dict[str, tuple[int, Fault]]:
        return {
            "publication": (12, self.publish),
            "new leader": (4, self._change_leader),
            "new leader of much": (4, self._publish_and_change_leader),
            "coordinator down": (3, self._stop_coordinator),
            "retention": (3, self._drop_oldest),
            "one-way cut": (1, self._networks.cut_one_way),
            "flapping": (1, self._networks.flap),
            "split network": (1, self._networks.split),
            "mended": (2, self.network.cuts.clear),
        }

    def _make_worse(self) -> None:
        self.network.loss = 0.003
        self.network.delay_ms_max = WILD_DELAY_MS_MAX

    def _stop_coordinator(self) -> None:
        self.coordinator.down_until_s = self.loop.time() + self.random.random() * 3

    def _publish_and_change_leader(self) -> None:
        """So that both have something to hand out."""
        self.publish(100)
        self._change_leader()

    def publish(self, most: int = 12) -> None:
        keys = [b"a", b"b", None] if self.history.is_ordered else [None]
        batch = [self.random.choice(keys) for _ in range(self.random.randrange(1, most))]
        for offset, key in zip(self.log.append(batch), batch, strict=True):
            self.history.published[offset] = key
        self.timeline.note("world", f"{len(batch)} messages up to {self.log.next_offset}")
        for broker in self.brokers:
            broker.partition.readers.on_more()

    def _change_leader(self) -> None:
        former, term = self.leader, self.term
        self.leader = self.random.choice(self.brokers)
        self.term += 1
        if self.leader is former:
            former.lead_no_more(term)
        else:
            former.partition.end_seen = self.log.next_offset
            late_s = self.random.choice([0.0, self.random.random(), 1.0]) * FORMER_LEADER_S
            self.loop.call_later(late_s, former.lead_no_more, term)
        self.timeline.note("world", f"broker {self.leader.number} leads in term {self.term}")
        self.leader.lead(self.term)
        for member in self.members:
            if self.happens(0.4):
                member.cut()

    def _drop_oldest(self) -> None:
        """Retention."""
        if len(self.log.batches) > 2 and self.random.random() < 0.3:
            _, end, _ = self.log.batches.pop(0)
            for offset in range(self.log.start_offset, end):
                self.history.published.pop(offset, None)
            self.log.start_offset = end

    async def _dealt_with(self) -> None:
        async with asyncio.timeout(120):
            while not self._is_dealt_with():
                await asyncio.sleep(0.5)

    def _is_dealt_with(self) -> bool:
        for share in self.leader.shares:
            share.machine.check()
            return share.machine.start == self.log.next_offset
        return False

    # --- dead letters --------------------------------------------------------------------------

    async def bury(self, group: str, partition: Partition, dead: Iterable[DeadMessage]) -> None:
        del group, partition
        await self.delay()
        if self.happens(0.2):
            raise RuntimeError("a bug of the dead letters") if self.happens(0.5) else TimedOut()
        self.history.dead.update(one.offset for one in dead)
        await self.delay()
        if self.happens(0.1):
            raise TimedOut


def _place(request: pb.ReadShareRequest | pb.WriteShareRequest) -> SharePlace:
    return SharePlace(
        topic=NAME.topic,
        topic_id=request.topic_id,
        partition=0,
        leader_term=request.leader_term,
        sequence=request.sequence if isinstance(request, pb.WriteShareRequest) else 0,
    )


def live(
    seed: int,
    life: Callable[[World], Coroutine[Any, Any, None]] = World.run,
    trace: Trace | None = None,
) -> World:
    """A world, when it is over."""
    loop = VirtualLoop(Timeline(random.Random(seed), trace or Trace()))
    random.seed(seed)  # what brokers draw

    async def begin() -> World:
        world = World(loop, seed)
        await life(world)
        return world

    with Ears(loop.timeline), asyncio.Runner(loop_factory=lambda: loop) as runner:
        world = runner.run(begin())
    assert not loop.failures, loop.failures[0]
    return world
