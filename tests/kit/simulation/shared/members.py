"""Members of a shared group in a simulated world, who behave well or badly with what they get.

Not the world. The invariant: what comes to a member and what it says is in the history, with the
times that it knows itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from penstock.broker.clients.session import Session
from penstock.broker.delivery.shared.partition import Ask, Leased, Settled
from penstock.broker.partitions.partition import Partition
from penstock.coordination.delivery.shared_settings import Settlement
from penstock.model.errors import ConnectionLost, NotLeader, PenstockError
from penstock.model.ids import TopicPartition
from penstock.records import decode_messages
from tests.kit.histories.leases import Leased as LeasedEvent
from tests.kit.histories.leases import Lost as LostEvent
from tests.kit.histories.leases import Settled as SettledEvent

if TYPE_CHECKING:
    from tests.kit.simulation.shared.world import SimulatedBroker, World

LEASE_MS = 1_000
GROUP = "g"
NAME = TopicPartition("orders", 0)
# Of those that it settles though it may not hold them: so that somebody may.
_RECENT = 20
_WORDS = {kind: kind.name.lower() for kind in Settlement}


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

    def say(self, arrive: Callable[[], None]) -> None:
        """To the broker."""
        self.broker.world.network.carry(self.member.number, self.broker.number, arrive)

    def answer(self, arrive: Callable[[], None]) -> None:
        """What it says, to the member."""
        self.broker.world.network.carry(self.broker.number, self.member.number, arrive)

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
        self._is_told = False

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
        self._tell(lambda: self.answered.set_result((leased, waited_s)))

    def refuse(self, error: PenstockError) -> None:
        self._tell(lambda: self.answered.set_exception(error))

    def _tell(self, come: Callable[[], None]) -> None:
        assert not self._is_told, "a question is answered once"
        self._is_told = True
        self._end()

        def arrive() -> None:
            if self.connection.is_open and not self.answered.done():
                come()

        self.connection.answer(arrive)

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

    def __init__(self, world: World, number: int) -> None:
        """number: its endpoint of the network."""
        self.world = world
        self.number = number
        self.name = f"m{number}"
        self.connection: Connection | None = None
        self._question: Question | None = None

    async def run(self) -> None:
        world = self.world
        while True:
            await world.delay()
            if world.is_wild and world.happens(0.04):
                await self._go_away()
            connection = self._connected()
            asked_s = world.loop.time()
            question = self._question = Question(
                connection, world.random.choice([1, world.ask_max])
            )
            connection.say(question.start)
            try:
                async with asyncio.timeout(2.0):
                    leased, waited_s = await question.answered
            except (PenstockError, TimeoutError):
                self.cut()
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

    def cut(self) -> None:
        """It loses its connection, and with it the answer."""
        if self._question is not None and not self._question.answered.done():
            self._question.answered.set_exception(ConnectionLost())
        if self.connection is not None and self.connection.is_open:
            self.world.history.losses.append(LostEvent(self.name, self.world.loop.time()))
            self.world.timeline.note(self.name, "loses its connection")
            late_s = self.world.random.choice([0.0, 0.01, 0.5, 3.0])
            self.connection.cut(late_s)
            self.connection = None

    async def _go_away(self) -> None:
        self.cut()
        await asyncio.sleep(self.world.random.random() * 2)

    async def _take(self, leased: Leased, leased_s: float) -> None:
        self.note(leased, leased_s)
        for first, last, _ in leased.leases:
            await self._deal_with(first, last)

    def note(self, leased: Leased, leased_s: float) -> None:
        world = self.world
        payload = memoryview(b"".join(leased.payload))
        offsets = [message.offset for message in decode_messages(payload, *NAME, 0)]
        told = [offset for first, last, _ in leased.leases for offset in range(first, last + 1)]
        assert offsets == told, (offsets, told)
        until_s = leased_s + leased.lease_ms / 1000
        world.timeline.note(self.name, f"leases {leased.leases}")
        for first, last, attempt in leased.leases:
            for offset in range(first, last + 1):
                world.history.leases.append(
                    LeasedEvent(offset, self.name, leased_s, world.loop.time(), until_s, attempt)
                )
        world.seen.extend(offsets)

    async def _deal_with(self, first: int, last: int) -> None:  # noqa: C901 - a table of moods
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
                other = world.random.choice(world.seen[-_RECENT:])
                kind = world.random.choice((Settlement.ACKNOWLEDGE, Settlement.RELEASE))
                await self._settle(other, other, kind)
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
            is_done = outcomes[0] is None
            connection.answer(lambda: None if done.done() else done.set_result(is_done))

        def come() -> None:
            if connection.is_open and connection.broker.partition.is_leader:
                connection.broker.shares.settle(
                    GROUP,
                    cast("Partition", connection.broker.partition),
                    self.name,
                    [Settled(first, last, kind, delay_ms)],
                    told,
                )

        connection.say(come)
        is_done = False
        try:
            async with asyncio.timeout(1.0):
                is_done = await done
                await world.delay()
            is_done = is_done and connection.is_open
        except TimeoutError:
            self.cut()
        finally:
            outcome = "is told so" if is_done else "is not told"
            world.timeline.note(self.name, f"{_WORDS[kind]} {first} to {last}: {outcome}")
            told_s = world.loop.time() if is_done else None
            until_s = said_s + LEASE_MS / 1000
            world.history.settlements.extend(
                SettledEvent(offset, self.name, _WORDS[kind], said_s, told_s, until_s)
                for offset in range(first, last + 1)
            )
