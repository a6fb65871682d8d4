"""What tests of staged writes' shell share: staging on a simulated disk, without sockets."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

from penstock.broker.carrier.parts import Channels, NoChannels, Parts
from penstock.broker.partitions.leaders import Leaders
from penstock.broker.partitions.partitions import Partitions
from penstock.broker.staging.coordinator import StagingCoordinator
from penstock.broker.staging.log import StagingLog
from penstock.broker.staging.service import Staging
from penstock.broker.topics.assignment import Assignment
from penstock.broker.topics.topics import Topics
from penstock.coordination.staging.records import (
    STAGED_TOPIC,
    WRITES_TOPIC,
    NamedAttempt,
    StagedBatch,
)
from penstock.coordination.staging.table import StagedWrites
from penstock.model.errors import PenstockError, TopicExists
from penstock.model.ids import BrokerId
from penstock.protocol import penstock_pb2 as pb
from penstock.records import Message, decode_messages
from penstock.records.header import check_produced, read_header
from penstock.records.view import BatchView, batches
from penstock.registry.embedded import EmbeddedRegistry
from penstock.replication.disk.driver import Driver
from penstock.replication.disk.flusher import ThreadFlusher
from penstock.replication.replica.control import first_of_term
from tests.kit.broker.openings import ANYBODY, openings_of
from tests.kit.broker.running import CONFIG, ManualClock, alone, batch
from tests.kit.simulated_disk import SimulatedDisk


@dataclass
class Life:
    """One life of the parts of a broker that staged writes need."""

    coordinator: StagingCoordinator
    parts: Parts
    topics: Topics
    partitions: Partitions
    clock: ManualClock
    flusher: ThreadFlusher
    leaders: Leaders
    driver: Driver

    @property
    def staging(self) -> Staging:
        assert self.coordinator._serving is not None
        return self.coordinator._serving

    @property
    def table(self) -> StagedWrites:
        return self.staging._table

    @property
    def log(self) -> StagingLog:
        return self.staging.log

    def start_stage(
        self,
        attempt: str,
        sequence: int,
        values: Sequence[bytes],
        *,
        epoch: int = 0,
        write: str = "w",
        topic: str = "orders",
        partition: int = 0,
        payload: bytearray | None = None,
    ) -> asyncio.Future[bool]:
        """Whether the epoch was decided before; without the end of the turn."""
        told: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        staged = StagedBatch(write, epoch, attempt, sequence, topic, "", partition, 0)

        def answer(error: PenstockError | None, already: bool) -> None:
            if error is not None:
                told.set_exception(error)
            else:
                told.set_result(already)

        sent = batch(values) if payload is None else payload
        openings_of(self.topics, self.leaders, self.driver, self.clock).open_for_later(
            ANYBODY,
            topic,
            partition,
            check_produced(memoryview(sent)),
            memoryview(sent),
            lambda opened: self.coordinator.current.stage(staged, opened, answer),
            lambda error: answer(error, False),
        )
        return told

    async def stage(
        self,
        attempt: str,
        *parts: Sequence[bytes],
        epoch: int = 0,
        write: str = "w",
        topic: str = "orders",
        partition: int = 0,
    ) -> NamedAttempt:
        """Each part a batch of the attempt, from its first on."""
        told = [
            self.start_stage(
                attempt,
                sequence,
                values,
                epoch=epoch,
                write=write,
                topic=topic,
                partition=partition,
            )
            for sequence, values in enumerate(parts)
        ]
        self.driver.end_turn()
        await asyncio.gather(*told)
        return NamedAttempt(attempt, len(parts))

    async def commit(
        self,
        *attempts: NamedAttempt,
        epoch: int = 0,
        write: str = "w",
        max_wait_s: float = 5.0,
        is_last: bool = False,
    ) -> pb.CommitStagedResponse:
        told: asyncio.Future[pb.CommitStagedResponse] = asyncio.get_running_loop().create_future()

        def answer(outcome: PenstockError | pb.CommitStagedResponse) -> None:
            if told.done():
                return  # whoever asked is gone
            if isinstance(outcome, PenstockError):
                told.set_exception(outcome)
            else:
                told.set_result(outcome)

        self.coordinator.current.decisions.commit(
            write, epoch, attempts, answer, is_last=is_last, max_wait_s=max_wait_s
        )
        self.driver.end_turn()
        return await told

    def hold_copies(self) -> None:
        """No copy goes on, as if another's chunk took for ever."""
        copies = self.staging._copies
        assert copies._next_turn is None, "a copy has its turn"
        copies._next_turn = asyncio.get_running_loop().call_later(3600, lambda: None)

    def release_copies(self) -> None:
        copies = self.staging._copies
        assert copies._next_turn is not None, "not held"
        copies._next_turn.cancel()
        copies._next_turn = None
        for copy in list(copies._line):
            copies._stand_in_line(copy)

    def batches(self, topic: str = "orders", partition: int = 0) -> list[BatchView]:
        return list(batches(self._read(topic, partition)))

    def messages(self, topic: str = "orders", partition: int = 0) -> list[Message]:
        return decode_messages(self._read(topic, partition), topic, partition, 0)

    def _read(self, topic: str, partition: int) -> bytes:
        """All that a reader may see, of all segments."""
        replica = self.partitions.find(topic, partition).replica
        data, offset = b"", replica.log.start_offset
        while offset < replica.high_watermark:
            part = replica.read(offset, 1 << 24).read()
            *_, last = batches(part)
            data, offset = data + part, last.header.next_offset
        return data

    def values(self, topic: str = "orders", partition: int = 0) -> list[bytes | None]:
        return [message.value for message in self.messages(topic, partition)]

    # --- as if there were other brokers ----------------------------------------------------------

    def lose(self, *topics: str) -> None:
        """Another broker leads these from now on; none named: both of staged writes."""
        for topic in topics or (WRITES_TOPIC, STAGED_TOPIC):
            self.partitions.find(topic, 0).replica._lose_leadership()

    def gain(self, *topics: str) -> None:
        """This broker leads them again, in a new term."""
        for topic in topics or (WRITES_TOPIC, STAGED_TOPIC):
            replica = self.partitions.find(topic, 0).replica
            replica.term += 1
            replica.is_leader = replica.accepts = True
            batch = memoryview(first_of_term(self.clock.now_ms()))
            replica.propose(read_header(batch), batch, None)
            assert replica.listener is not None
            replica.listener.on_leadership(True)
        self.driver.end_turn()

    async def until_serving(self) -> None:
        async with asyncio.timeout(5):
            while self.coordinator._serving is None:
                await asyncio.sleep(0)

    async def until_noted(self) -> None:
        """All that is decided is done, durably."""
        async with asyncio.timeout(5):
            while self.table.unfinished():
                self.staging.one_round(is_expiry_due=False)
                await asyncio.sleep(0)


@contextlib.asynccontextmanager
async def living(
    disk: SimulatedDisk, clock: ManualClock | None = None, channels: Channels | None = None
) -> AsyncIterator[Life]:
    """From start to an orderly stop."""
    clock = clock or ManualClock()
    flusher = ThreadFlusher(asyncio.get_running_loop(), 2)
    flusher.start()
    driver = Driver()
    registry = EmbeddedRegistry(disk.root, BrokerId(1), "cluster", directory=7)
    partitions = Partitions(disk.root, alone(driver, flusher, clock))
    me = BrokerId(CONFIG.broker_id)
    assignment = Assignment(CONFIG, me, registry, partitions)
    leaders = Leaders(me, registry, partitions, clock)
    topics = Topics(CONFIG, registry, partitions, assignment, leaders)
    parts = Parts(
        registry=registry,
        topics=topics,
        partitions=partitions,
        leaders=leaders,
        channels=channels or NoChannels(),
        driver=driver,
        flusher=flusher,
        clock=clock,
    )
    coordinator = StagingCoordinator(parts)
    partitions.begin()
    await topics.open_all(between=coordinator.begin)
    with contextlib.suppress(TopicExists):
        await topics.create("orders", 2, {})
    await coordinator.start()
    try:
        yield Life(coordinator, parts, topics, partitions, clock, flusher, leaders, driver)
    finally:
        coordinator.begin_closing()
        await coordinator.stop()
        if not disk.crashed:
            await partitions.close()
        flusher.stop()
