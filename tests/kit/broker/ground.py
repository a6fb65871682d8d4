"""What the shells of coordinators stand on in tests: the topics and partitions of one broker, on a
simulated disk, without sockets, and a clock in the test's hands.

Not the coordinators. The invariant: what is closed in order is closed last to first, and on a disk
that has crashed nothing is.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

from penstock.broker.carrier.parts import Channels, NoChannels, Parts
from penstock.broker.config import BrokerConfig
from penstock.broker.partitions.leaders import Leaders
from penstock.broker.partitions.partitions import Partitions
from penstock.broker.topics.assignment import Assignment
from penstock.broker.topics.topics import Topics
from penstock.model.errors import TopicExists
from penstock.model.ids import BrokerId
from penstock.records import Message, decode_messages
from penstock.records.view import BatchView, batches
from penstock.registry.embedded import EmbeddedRegistry
from penstock.replication.disk.driver import Driver
from penstock.replication.disk.flusher import ThreadFlusher
from tests.kit.broker.running import CONFIG, ManualClock, alone
from tests.kit.simulated_disk import SimulatedDisk


class Ground:
    """Of one life of a broker."""

    def __init__(
        self,
        disk: SimulatedDisk,
        clock: ManualClock | None = None,
        config: BrokerConfig = CONFIG,
        *,
        flush_threads: int = 2,
    ) -> None:
        self.disk = disk
        self.clock = clock or ManualClock()
        self.config = config
        self.flusher = ThreadFlusher(asyncio.get_running_loop(), flush_threads)
        self.driver = Driver()
        self.registry = EmbeddedRegistry(disk.root, BrokerId(1), "cluster", directory=7)
        self.partitions = Partitions(disk.root, alone(self.driver, self.flusher, self.clock))
        self.me = BrokerId(config.broker_id)
        assignment = Assignment(config, self.me, self.registry, self.partitions)
        self.leaders = Leaders(self.me, self.registry, self.partitions, self.clock)
        self.topics = Topics(config, self.registry, self.partitions, assignment, self.leaders)

    def parts_with(self, channels: Channels | None) -> Parts:
        """Of a coordinator that asks other brokers by these."""
        return Parts(
            registry=self.registry,
            topics=self.topics,
            partitions=self.partitions,
            leaders=self.leaders,
            channels=channels or NoChannels(),
            driver=self.driver,
            flusher=self.flusher,
            clock=self.clock,
        )

    @contextlib.asynccontextmanager
    async def open(
        self, partitions: int = 2, between: Callable[[], None] = lambda: None
    ) -> AsyncIterator[None]:
        """Every topic is open, and "orders" is there. between: as `Topics.open_all` has it."""
        self.flusher.start()
        self.partitions.begin()
        await self.topics.open_all(between=between)
        with contextlib.suppress(TopicExists):
            await self.topics.create("orders", partitions, {})
        try:
            yield
        finally:
            if not self.disk.crashed:
                await self.partitions.close()
            self.flusher.stop()

    # --- what a reader may see, of all segments --------------------------------------------------

    def batches(self, topic: str = "orders", partition: int = 0) -> list[BatchView]:
        return list(batches(self._read(topic, partition)))

    def messages(self, topic: str = "orders", partition: int = 0) -> list[Message]:
        return decode_messages(self._read(topic, partition), topic, partition, 0)

    def values(self, topic: str = "orders", partition: int = 0) -> list[bytes | None]:
        return [message.value for message in self.messages(topic, partition)]

    def _read(self, topic: str, partition: int) -> bytes:
        replica = self.partitions.find(topic, partition).replica
        data, offset = b"", replica.log.start_offset
        while offset < replica.high_watermark:
            part = replica.read(offset, 1 << 24).read()
            *_, last = batches(part)
            data, offset = data + part, last.header.next_offset
        return data
