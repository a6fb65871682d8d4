"""Shared groups of production in a simulated world: brokers that lead one after another, one
coordinator of groups, members that misbehave; one seed, one thread, virtual time.

Production's are `Shares` and all beneath it, and what the coordinator keeps (`ShareStates`). Not
the log's replication: what is published is committed, and a broker is told that it leads; how long
a former leader believes that it still does is drawn, up to what Raft allows. The invariant: nothing
depends on anything but the seed.
"""

from __future__ import annotations

import asyncio
import random
import selectors
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass, field
from typing import Any, cast

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
    ConnectionLost,
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
from tests.kit.simulation.shared.members import GROUP, LEASE_MS, NAME, Member

ATTEMPTS_MAX = 4
# A leader that nobody hears steps down then, at the latest.
FORMER_LEADER_S = TIMING.election_ms / 1000 + 0.2


class VirtualLoop(asyncio.SelectorEventLoop):
    """Whoever waits for time does not wait."""

    def __init__(self) -> None:
        self.now_s = 0.0
        super().__init__(_VirtualSelector(self))

    def time(self) -> float:
        return self.now_s


class _VirtualSelector(selectors.SelectSelector):
    def __init__(self, loop: VirtualLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[Any]:
        assert timeout is not None, "everybody waits, and nothing will happen"
        self._loop.now_s += max(timeout, 0.0)
        return []


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

    def read(self, offset: int, bytes_max: int) -> bytes:
        if not self.start_offset <= offset <= self.next_offset:
            raise OffsetOutOfRange
        found = b""
        for _, end, batch in self.batches:
            if end > offset and (not found or len(found) + len(batch) <= bytes_max):
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
        return _Slice(self.log.read(offset, bytes_max))

    def wait_for_more(self, waiter: object, wake: Callable[[], None]) -> None:
        self.readers.wait(waiter, wake)

    def stop_waiting(self, waiter: object) -> None:
        self.readers.stop_waiting(waiter)


class SimulatedBroker:
    """`Shares`, and what it needs; also the clock, and those who tell of leadership."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.partition = SimulatedPartition(world.log, Wakings(world.loop.call_soon))
        self._told: Callable[[Partition, bool], None]
        self.shares = Shares(
            cast("Partitions", self),
            world.coordinator,
            cast("DeadLetters", world),
            cast("Filters", None),
            cast("FairTurns", None),
            TurnBudget(world.loop.call_soon),
            self,
        )

    def watch_leadership(self, told: Callable[[Partition, bool], None]) -> None:
        self._told = told

    def now_ms(self) -> int:
        return 1_700_000_000_000 + int(self.world.loop.time() * 1000)

    def monotonic(self) -> float:
        return self.world.loop.time()

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
    """Keeps states as production does; its answers may be late, and lost."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._states = ShareStates()
        self.down_until_s = 0.0

    async def read_share(self, request: pb.ReadShareRequest) -> pb.ReadShareResponse:
        await self._reach()
        kept, _ = self._states.take_over(GROUP, _place(request))
        await self._world.delay()
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

    async def write_share(self, request: pb.WriteShareRequest) -> pb.WriteShareResponse:
        await self._reach()
        world = self._world
        if world.happens(0.03):
            # Its caller gives up on it, and it is still under way.
            world.start(self._write_later(request))
            raise TimedOut
        self._states.write(GROUP, _place(request), request.state)
        await world.delay()
        if world.happens(0.02):
            raise ConnectionLost
        return pb.WriteShareResponse()

    async def _write_later(self, request: pb.WriteShareRequest) -> None:
        await asyncio.sleep(self._world.random.expovariate(1.0))
        try:
            self._states.write(GROUP, _place(request), request.state)
        except PenstockError:
            """Nobody listens."""

    async def _reach(self) -> None:
        await self._world.delay()
        if self._world.loop.time() < self.down_until_s or self._world.happens(0.02):
            raise NotCoordinator


class World:
    """All of it; also where the dead letters go."""

    def __init__(self, loop: VirtualLoop, seed: int) -> None:
        self.loop = loop
        self.random = random.Random(seed)
        self.history = DeliveryHistory(ATTEMPTS_MAX, is_ordered=seed % 2 == 1)
        self.log = SimulatedLog()
        self.coordinator = Coordinator(self)
        self.brokers = [SimulatedBroker(self) for _ in range(3)]
        self.leader = self.brokers[0]
        self.term = 1
        self.leader.lead(1)
        self.is_wild = True
        self.ask_max = self.random.choice([1, 3, 20])
        self.seen: list[int] = []
        self.members = [Member(self, f"m{number}") for number in range(4)]
        self._tasks: set[asyncio.Task[None]] = set()

    # --- chance --------------------------------------------------------------------------------

    def happens(self, share: float) -> bool:
        return self.is_wild and self.random.random() < share

    def latency_s(self) -> float:
        return self.random.choice([0.001, 0.004, 0.02])

    async def delay(self, rarely: float = 0.005) -> None:
        """A moment; rarely, far longer than a lease."""
        long_s = self.random.random() * 3 * LEASE_MS / 1000
        await asyncio.sleep(long_s if self.happens(rarely) else self.latency_s())

    # --- what happens --------------------------------------------------------------------------

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        task = self.loop.create_task(work)
        self._tasks.add(task)

    async def run(self) -> None:
        """Some time of trouble, and then until everything is dealt with."""
        for member in self.members:
            self.start(member.run())
        for _ in range(self.random.randrange(10, 25)):
            await asyncio.sleep(self.random.random())
            match self.random.randrange(8):
                case 0:
                    self._change_leader()
                case 1:
                    # So that both have something to hand out.
                    self._publish(100)
                    self._change_leader()
                case 2:
                    self.coordinator.down_until_s = self.loop.time() + self.random.random() * 3
                case 3:
                    self._drop_oldest()
                case _:
                    self._publish()
        self._publish()
        self.is_wild = False
        await self._dealt_with()
        for task in self._tasks:
            task.cancel()
            if task.done() and not task.cancelled():
                task.result()
        for broker in self.brokers:
            broker.shares.begin_closing()
            broker.lead_no_more(broker.partition.term)
        await asyncio.sleep(10.0)

    def _publish(self, most: int = 12) -> None:
        keys = [b"a", b"b", None] if self.history.is_ordered else [None]
        batch = [self.random.choice(keys) for _ in range(self.random.randrange(1, most))]
        for offset, key in zip(self.log.append(batch), batch, strict=True):
            self.history.published[offset] = key
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


def run(
    seed: int, life: Callable[[World], Coroutine[Any, Any, None]] = World.run
) -> DeliveryHistory:
    """The history of one world."""
    loop = VirtualLoop()
    random.seed(seed)  # what brokers draw
    try:
        asyncio.set_event_loop(loop)

        async def live() -> DeliveryHistory:
            world = World(loop, seed)
            await life(world)
            return world.history

        return loop.run_until_complete(live())
    finally:
        asyncio.set_event_loop(None)
        loop.close()
