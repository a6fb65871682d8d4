"""Clients of the simulated cluster: producers that send again or do not, and readers.

They find out who leads by asking, wait for an answer for so long and then ask somebody else, as
real ones do. What they sent, were told and saw goes into the history. The invariant: an idempotent
producer sends a message again until it is acknowledged, and has no more batches on the way than a
broker promises to recognise.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from penstock.model.errors import BatchError, PenstockError, UnknownProducer
from penstock.model.limits import PRODUCER_WINDOW_BATCHES
from penstock.replication.replica.replica import ACKS_ALL
from tests.kit.simulation import checkers
from tests.kit.simulation.clusters.copies import held_batches
from tests.kit.simulation.clusters.machine import Machine
from tests.kit.simulation.clusters.plan import PartitionPlan
from tests.kit.simulation.clusters.process import Process, Reply
from tests.kit.simulation.clusters.world import World
from tests.kit.simulation.messages import Identity, batch_of, message

_TIMEOUT_MS: Final = 1_500
_PAUSE_MS: Final = (20, 300)
# Producers have numbers below it: who is not known any more takes one that nobody has.
_IDENTITIES: Final = 10_000
_FETCH_BYTES: Final = 600


Machines = Mapping[int, Machine]


class Client:
    """One connection at a time, to whoever leads its partition as far as it knows."""

    def __init__(self, world: World, machines: Machines, number: int, plan: PartitionPlan) -> None:
        """number: its endpoint of the network."""
        self.number = number
        self.plan = plan
        self.is_busy = True
        self._world = world
        self._machines = machines
        self._random = world.timeline.random
        self._leader = self._random.choice(world.plan.brokers)

    def stop(self) -> None:
        """Begin nothing new."""
        self.is_busy = False

    def _call(
        self,
        broker: int,
        ask: Callable[[Process, Reply], None],
        on_reply: Callable[[object], None],
    ) -> None:
        """on_reply gets the result, or None if there is none in time."""
        network, timeline = self._world.network, self._world.timeline
        is_over = False

        def over(result: object, leader: int | None = None) -> None:
            nonlocal is_over
            if is_over:
                return
            is_over = True
            if leader is not None:
                self._leader = leader
            elif result is None or isinstance(result, PenstockError):
                self._leader = self._random.choice(self._world.plan.brokers)
            on_reply(result)

        def reply(result: object, leader: int | None = None) -> None:
            network.carry(broker, self.number, lambda: over(result, leader))

        def arrive() -> None:
            self._machines[broker].do(lambda process: ask(process, reply))

        network.carry(self.number, broker, arrive)
        timeline.after(_TIMEOUT_MS, lambda: over(None))


class Producer(Client):
    """Sends batches; acks as Kafka has it."""

    def __init__(
        self,
        world: World,
        machines: Machines,
        number: int,
        plan: PartitionPlan,
        *,
        is_idempotent: bool,
    ) -> None:
        super().__init__(world, machines, number, plan)
        self._identity = Identity(number, 0) if is_idempotent else None
        self._next = 0

    def _begin_batch(self) -> tuple[int, int]:
        """(number of its first message, how many)."""
        first, count = self._next, self._random.randint(1, 3)
        self._next += count
        for number in range(first, first + count):
            self._world.history.sent.add(message(self.number, number)[1])
        return first, count

    def _send(self, first: int, count: int, acks: int, on_reply: Callable[[object], None]) -> None:
        timestamp_ms = self._world.clock.now_ms()
        batch = batch_of(self.number, first, count, timestamp_ms, self._identity)
        self._call(
            self._leader,
            lambda process, reply: process.produce(self.plan.id, batch, acks, reply),
            on_reply,
        )

    def _acknowledged(self, first: int, count: int, base_offset: int) -> None:
        acknowledged = self._world.history.acknowledged[self.plan.id]
        for number in range(first, first + count):
            value = message(self.number, number)[1]
            checkers.offsets_are_functional(acknowledged, base_offset + number - first, value)


class PlainProducer(Producer):
    """Sends each batch once, and waits for more or less."""

    def __init__(self, world: World, machines: Machines, number: int, plan: PartitionPlan) -> None:
        super().__init__(world, machines, number, plan, is_idempotent=False)
        world.timeline.every(self._random.choice((70, 300, 900)), self._produce)

    def _produce(self) -> None:
        if not self.is_busy:
            return
        acks = self._random.choice((ACKS_ALL, 1, 0))
        first, count = self._begin_batch()

        def on_reply(result: object) -> None:
            if isinstance(result, int) and acks == ACKS_ALL:
                self._acknowledged(first, count, result)
            elif isinstance(result, int):
                self._world.history.acknowledged_with_less += count

        self._send(first, count, acks, on_reply)


class IdempotentProducer(Producer):
    """Sends each batch until it is acknowledged, in order, several at a time."""

    def __init__(self, world: World, machines: Machines, number: int, plan: PartitionPlan) -> None:
        super().__init__(world, machines, number, plan, is_idempotent=True)
        world.history.idempotent[plan.id].add(number)
        self._window = self._random.randint(1, PRODUCER_WINDOW_BATCHES)
        # The first message of each batch that is not acknowledged, and how many it has.
        self._pending: dict[int, int] = {}
        # How many batches were sent up to each of those.
        self._places: dict[int, int] = {}
        self._batches = 0
        self._is_repeating = False
        self.last_error: object = None
        world.timeline.every(self._random.choice((40, 150, 600)), self._produce)

    @property
    def is_done(self) -> bool:
        return not self._pending

    def retire(self) -> None:
        """The topic is deleted: nothing of it is waited for any more."""
        self.stop()
        self._pending.clear()
        self._places.clear()

    def _produce(self) -> None:
        oldest = next(iter(self._pending), None)
        on_the_way = 0 if oldest is None else self._batches - self._places[oldest]
        if self.is_busy and on_the_way < self._window and not self._is_repeating:
            first, count = self._begin_batch()
            self._pending[first] = count
            self._places[first] = self._batches
            self._batches += 1
            self._attempt(first, count)

    def _attempt(self, first: int, count: int) -> None:
        broker = self._leader

        def on_reply(result: object) -> None:
            if isinstance(result, int):
                if self._pending.pop(first, None) is not None:
                    del self._places[first]
                    self._acknowledged(first, count, result)
            elif first not in self._pending:
                return
            elif (
                isinstance(result, UnknownProducer)
                and broker in self._world.filled
                and first == next(iter(self._pending))
            ):
                self._begin_again()
            else:
                self.last_error = result or self.last_error
                self._repeat_later()

        self._send(first, count, ACKS_ALL, on_reply)

    def _begin_again(self) -> None:
        """Whoever is told that it is not known goes on as somebody else, and never learns what
        became of the rest."""
        assert self._identity is not None
        self._world.history.idempotent[self.plan.id].discard(self.number)
        self._identity = Identity(self._identity.producer_id + _IDENTITIES, self._next)
        self._pending.clear()
        self._places.clear()

    def _repeat_later(self) -> None:
        """All that is not acknowledged, once, from the oldest on."""
        if not self._is_repeating:
            self._is_repeating = True
            self._world.timeline.after(self._random.randint(*_PAUSE_MS), self._repeat)

    def _repeat(self) -> None:
        self._is_repeating = False
        for first, count in self._pending.items():
            self._attempt(first, count)


class Reader(Client):
    """Reads on from where it is, from whoever has a copy, and now and then all over again."""

    def __init__(self, world: World, machines: Machines, number: int, plan: PartitionPlan) -> None:
        super().__init__(world, machines, number, plan)
        self._position = 0
        self._is_waiting = False
        world.timeline.every(self._random.choice((60, 200)), self._read)

    def _read(self) -> None:
        if self._is_waiting or not self.is_busy:
            return
        if self._random.random() < 0.01:
            self._position = 0
        broker = self._leader
        if self._random.random() < 0.3:
            broker = self._random.choice(self._world.plan.brokers)
        offset, self._is_waiting = self._position, True
        self._call(
            broker,
            lambda process, reply: process.fetch(self.plan.id, offset, _FETCH_BYTES, reply),
            lambda result: self._on_read(broker, result),
        )

    def _on_read(self, broker: int, result: object) -> None:
        self._is_waiting = False
        if isinstance(result, int):
            # What comes before it was deleted.
            self._position = max(self._position, result)
        elif isinstance(result, bytes):
            has_rotted = broker in self._world.rotted
            try:
                self._take(result, is_known=not has_rotted)
            except BatchError:
                # The checksum tells; somebody else has it.
                if not has_rotted:
                    raise

    def _take(self, data: bytes, *, is_known: bool) -> None:
        for batch in held_batches(data):
            checkers.reading_skips_nothing(
                self._position, batch, is_compacted=self.plan.is_compacted
            )
            for offset, fact in batch.facts:
                if offset >= self._position and fact.value is not None:
                    self._world.observer.on_read(
                        self.plan.id, offset, fact.value, is_known=is_known
                    )
            self._position = batch.end_offset
