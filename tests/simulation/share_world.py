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
from penstock.broker.delivery.share import Ask, Leased, Settled
from penstock.broker.delivery.shares import Shares, States
from penstock.broker.partition import Partition
from penstock.broker.partitions import Partitions
from penstock.broker.session import Session
from penstock.coordination.delivery.share_settings import DeadMessage, Settlement
from penstock.coordination.group.share_messages import SharePlace
from penstock.coordination.group.share_states import ShareStates
from penstock.model.errors import (
    ConnectionLost,
    NotCoordinator,
    NotLeader,
    OffsetOutOfRange,
    PenstockError,
    TimedOut,
)
from penstock.model.ids import TopicPartition
from penstock.protocol import penstock_pb2 as pb
from penstock.records import BatchBuilder, decode_messages
from penstock.records.header import read_header, write_header
from penstock.replication.transport import TIMING
from tests.delivery_history import DeliveryHistory
from tests.delivery_history import Leased as LeasedEvent
from tests.delivery_history import Lost as LostEvent
from tests.delivery_history import Settled as SettledEvent

LEASE_MS = 1_000
ATTEMPTS_MAX = 4
GROUP = "g"
NAME = TopicPartition("orders", 0)
# A leader that nobody hears steps down then, at the latest.
FORMER_LEADER_S = TIMING.election_ms / 1000 + 0.2
_WORDS = {kind: kind.name.lower() for kind in Settlement}


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

    def __init__(self, log: SimulatedLog) -> None:
        self.log = log
        self.is_leader = False
        self.term = 0
        # A former leader gets nothing of what the next one appends.
        self.end_seen: int | None = None
        self._waiting: dict[object, Callable[[], None]] = {}

    @property
    def replica(self) -> SimulatedPartition:
        return self

    @property
    def high_watermark(self) -> int:
        return self.log.next_offset if self.end_seen is None else self.end_seen

    def read(self, offset: int, bytes_max: int) -> _Slice:
        return _Slice(self.log.read(offset, bytes_max))

    def wait_for_more(self, waiter: object, wake: Callable[[], None]) -> None:
        self._waiting[waiter] = wake

    def stop_waiting(self, waiter: object) -> None:
        self._waiting.pop(waiter, None)

    def wake_all(self) -> None:
        waiting, self._waiting = self._waiting, {}
        for wake in waiting.values():
            wake()


class SimulatedBroker:
    """`Shares`, and what it needs; also the clock, and those who tell of leadership."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.partition = SimulatedPartition(world.log)
        self._told: Callable[[Partition, bool], None]
        self.shares = Shares(
            cast("Partitions", self),
            States(world.coordinator.read, world.coordinator.write),
            cast("DeadLetters", world),
            cast("Filters", None),
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
            self.partition.wake_all()


class Coordinator:
    """Keeps states as production does; its answers may be late, and lost."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._states = ShareStates()
        self.down_until_s = 0.0

    async def read(self, request: pb.ReadShareRequest) -> pb.ReadShareResponse:
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

    async def write(self, request: pb.WriteShareRequest) -> pb.WriteShareResponse:
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


class Connection:
    """Of a member to a broker; the session that the broker sees. It ends there a little later."""

    def __init__(self, member: Member, broker: SimulatedBroker) -> None:
        self.member = member
        self.broker = broker
        self.is_open = True
        self._on_close: dict[object, Callable[[], None]] = {}

    def on_close(self, waiter: object, then: Callable[[], None]) -> None:
        self._on_close[waiter] = then

    def forget(self, waiter: object) -> None:
        self._on_close.pop(waiter, None)

    def cut(self, seen_after_s: float) -> None:
        self.is_open = False
        self.broker.world.loop.call_later(seen_after_s, self._end)

    def _end(self) -> None:
        waiting, self._on_close = self._on_close, {}
        for then in waiting.values():
            then()


class Question(Ask):
    """A long poll, as the handler has it."""

    def __init__(self, connection: Connection, messages_max: int) -> None:
        member = connection.member
        super().__init__(member.name, messages_max, member.world.random.choice([1, 1 << 20]))
        self.connection = connection
        self.answered: asyncio.Future[tuple[Leased, float]] = member.world.loop.create_future()
        self._came_s = 0.0

    def start(self) -> None:
        """It has come to the broker."""
        connection, loop = self.connection, self.connection.broker.world.loop
        broker = connection.broker
        if not connection.is_open:
            return
        self._came_s = loop.time()
        if not broker.partition.is_leader:
            self.refuse(NotLeader())
            return
        partition = cast("Partition", broker.partition)
        self._timer = loop.call_later(0.5, self._give_up)
        connection.on_close(self, self._give_up)
        broker.shares.ask(GROUP, partition, self, cast("Session", connection))

    def answer(self, leased: Leased) -> None:
        waited_s = self.connection.broker.world.loop.time() - self._came_s
        self._end()
        assert not self.answered.done(), "a question is answered once"
        self.answered.set_result((leased, waited_s))

    def refuse(self, error: PenstockError) -> None:
        self._end()
        if not self.answered.cancelled():
            assert not self.answered.done(), "a question is answered once"
            self.answered.set_exception(error)

    def _give_up(self) -> None:
        broker = self.connection.broker
        broker.shares.give_up(GROUP, cast("Partition", broker.partition), self)
        self.answer(Leased((), (), 0))

    def _end(self) -> None:
        if hasattr(self, "_timer"):
            self._timer.cancel()
        self.connection.forget(self)


class Member:
    """Asks, and does well or badly with what it gets."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self.connection: Connection | None = None

    async def run(self) -> None:
        world = self.world
        while True:
            await world.delay()
            if world.is_wild and world.happens(0.04):
                await self._go_away()
            connection = self._connected()
            asked_s = world.loop.time()
            question = Question(connection, world.random.choice([1, world.ask_max]))
            world.loop.call_later(world.latency_s(), question.start)
            try:
                async with asyncio.timeout(2.0):
                    leased, waited_s = await question.answered
            except (PenstockError, TimeoutError):
                self._cut()
                continue
            await world.delay(0.02)
            if not connection.is_open:
                continue
            if leased.leases:
                await self._take(leased, asked_s + waited_s)

    def _connected(self) -> Connection:
        world = self.world
        if self.connection is None or not self.connection.is_open:
            wrong = world.happens(0.3)
            broker = world.random.choice(world.brokers) if wrong else world.leader
            self.connection = Connection(self, broker)
        return self.connection

    def _cut(self) -> None:
        if self.connection is not None and self.connection.is_open:
            self.world.history.losses.append(LostEvent(self.name, self.world.loop.time()))
            late_s = self.world.random.choice([0.0, 0.01, 0.5, 3.0])
            self.connection.cut(late_s)
            self.connection = None

    async def _go_away(self) -> None:
        self._cut()
        await asyncio.sleep(self.world.random.random() * 2)

    async def _take(self, leased: Leased, leased_s: float) -> None:
        world = self.world
        payload = memoryview(b"".join(leased.payload))
        offsets = [message.offset for message in decode_messages(payload, *NAME, 0)]
        told = [offset for first, last, _ in leased.leases for offset in range(first, last + 1)]
        assert offsets == told, (offsets, told)
        until_s = leased_s + leased.lease_ms / 1000
        for first, last, attempt in leased.leases:
            for offset in range(first, last + 1):
                world.history.leases.append(
                    LeasedEvent(offset, self.name, leased_s, world.loop.time(), until_s, attempt)
                )
        world.seen.extend(offsets)
        for first, last, _ in leased.leases:
            await self._deal_with(first, last)

    async def _deal_with(self, first: int, last: int) -> None:
        world = self.world
        await world.delay(0.05)
        if not world.is_wild:
            await self._settle(first, last, Settlement.ACKNOWLEDGE)
            return
        match world.random.randrange(14):
            case 0:
                await self._settle(first, last, Settlement.FAIL)
            case 1:
                delay_ms = world.random.choice([0, 700])
                await self._settle(first, last, Settlement.RELEASE, delay_ms)
            case 2:
                await self._settle(first, last, Settlement.REJECT)
            case 3:
                await self._settle(first, last, Settlement.EXTEND)
                await asyncio.sleep(world.random.random() * LEASE_MS / 1000)
                await self._settle(first, last, Settlement.ACKNOWLEDGE)
            case 4:
                await asyncio.sleep(world.random.random() * 3 * LEASE_MS / 1000)
                await self._settle(first, last, Settlement.ACKNOWLEDGE)
            case 5:
                await self._settle(first, last, Settlement.ACKNOWLEDGE)
                await self._settle(first, last, Settlement.ACKNOWLEDGE)
            case 6:
                other = world.random.choice(world.seen)
                await self._settle(other, other, Settlement.ACKNOWLEDGE)
            case 7:
                await self._go_away()
            case 8:
                """It forgets about them."""
            case _:
                middle = world.random.randrange(first, last + 1)
                await self._settle(first, middle, Settlement.ACKNOWLEDGE)
                if middle < last:
                    await self._settle(middle + 1, last, Settlement.ACKNOWLEDGE)

    async def _settle(self, first: int, last: int, kind: Settlement, delay_ms: int = 0) -> None:
        world, said_s = self.world, self.world.loop.time()
        connection = self._connected()
        done: asyncio.Future[bool] = world.loop.create_future()

        def told(outcomes: Any) -> None:
            if not done.done():
                done.set_result(outcomes[0] is None)

        def come() -> None:
            if connection.is_open and connection.broker.partition.is_leader:
                connection.broker.shares.settle(
                    GROUP,
                    cast("Partition", connection.broker.partition),
                    self.name,
                    [Settled(first, last, kind, delay_ms)],
                    told,
                )

        world.loop.call_later(world.latency_s(), come)
        is_done = False
        try:
            async with asyncio.timeout(1.0):
                is_done = await done
                await world.delay()
            is_done = is_done and connection.is_open
        except TimeoutError:
            self._cut()
        finally:
            told_s = world.loop.time() if is_done else None
            until_s = said_s + LEASE_MS / 1000
            world.history.settlements.extend(
                SettledEvent(offset, self.name, _WORDS[kind], said_s, told_s, until_s)
                for offset in range(first, last + 1)
            )


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
        for number in range(4):
            self.start(Member(self, f"m{number}").run())
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
            broker.partition.wake_all()

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


def run(seed: int) -> DeliveryHistory:
    """The history of one world."""
    loop = VirtualLoop()
    random.seed(seed)  # what brokers draw
    try:
        asyncio.set_event_loop(loop)

        async def live() -> DeliveryHistory:
            world = World(loop, seed)
            await world.run()
            return world.history

        return loop.run_until_complete(live())
    finally:
        asyncio.set_event_loop(None)
        loop.close()
