"""What tests of delayed messages' shell share: a coordinator on a simulated disk, time by hand."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence

from penstock.broker.carrier.parts import Channels
from penstock.broker.delay.coordinator import DelayCoordinator
from penstock.broker.delay.service import DelayService
from penstock.broker.delay.store import DelayedStore
from penstock.coordination.delay.records import DELAYED_TOPIC, Due
from penstock.model.errors import PenstockError
from penstock.protocol import penstock_pb2 as pb
from penstock.records import BatchBuilder
from penstock.records.header import check_produced, read_header
from penstock.replication.replica.control import first_of_term
from tests.kit.broker.ground import Ground
from tests.kit.broker.openings import ANYBODY, openings_of
from tests.kit.broker.running import ManualClock
from tests.kit.simulated_disk import SimulatedDisk

START_MS = ManualClock().now_ms()


def waiting_batch(messages: Sequence[tuple[bytes | None, bytes]], codec: int = 0) -> bytearray:
    builder = BatchBuilder(1 << 22, codec)
    for key, value in messages:
        builder.append(START_MS, key, value, [("h", value)])
    return builder.build()


class Life(Ground):
    """One life of the parts of a broker that delayed messages need."""

    def __init__(
        self, disk: SimulatedDisk, clock: ManualClock | None, channels: Channels | None
    ) -> None:
        super().__init__(disk, clock)
        self.coordinator = DelayCoordinator(self.parts_with(channels))

    @property
    def service(self) -> DelayService:
        assert self.coordinator._service is not None
        return self.coordinator._service

    @property
    def store(self) -> DelayedStore:
        return self.service._store

    def start_delay(
        self,
        messages: Sequence[tuple[bytes | None, bytes]],
        due_ms: Sequence[int],
        *,
        topic: str = "orders",
        partition: int = 0,
        ordered: bool = False,
        token: bytes = b"",
        relative: bool = True,
        payload: bytearray | None = None,
    ) -> asyncio.Future[list[Due]]:
        """Without the end of the turn."""
        told: asyncio.Future[list[Due]] = asyncio.get_running_loop().create_future()

        def accepted(error: PenstockError | None, dues: Sequence[Due]) -> None:
            if error is not None:
                told.set_exception(error)
            else:
                told.set_result(list(dues))

        request = pb.DelayRequest(
            topic=topic,
            partition=partition,
            due_ms=due_ms,
            is_relative=relative,
            ordered_by_key=ordered,
            token=token,
        )
        sent = waiting_batch(messages) if payload is None else payload
        openings_of(self.topics, self.leaders, self.driver, self.clock).open_for_later(
            ANYBODY,
            topic,
            partition,
            check_produced(memoryview(sent)),
            memoryview(sent),
            lambda opened: self.coordinator.accept(request, opened, accepted),
            lambda error: accepted(error, ()),
            takes_messages=True,
        )
        return told

    async def delay(
        self,
        *values: bytes,
        after_ms: int | Sequence[int] = 0,
        key: bytes | None = None,
        topic: str = "orders",
        partition: int = 0,
        ordered: bool = False,
        token: bytes = b"",
        relative: bool = True,
    ) -> list[Due]:
        """Let values wait, each as long as is said."""
        due_ms = [after_ms] if isinstance(after_ms, int) else after_ms
        told = self.start_delay(
            [(key, value) for value in values],
            due_ms,
            topic=topic,
            partition=partition,
            ordered=ordered,
            token=token,
            relative=relative,
        )
        self.driver.end_turn()
        return await told

    # --- time ----------------------------------------------------------------------------------

    async def advance(self, by_ms: int) -> None:
        """Let time pass, and what is due then be delivered."""
        self.clock.time_ms += by_ms
        await self.settle()

    async def settle(self) -> None:
        """Until nothing that is due is on its way."""
        self.service.deliverer.wake()
        self.service.schedules._news.set()
        for _ in range(20):
            await asyncio.sleep(0)
        await self.until(self._is_settled)

    def _is_settled(self) -> bool:
        service = self.service
        deliverer = service.deliverer
        next_ms = deliverer._reader.next_due_ms()
        if next_ms is not None and next_ms <= self.clock.now_ms():
            deliverer.wake()
            return False
        table = service._store.table
        due = sum(lane.due for lane in table.lanes.values())
        arrived = sum(run._messages for run in deliverer._runs.values())
        return due == arrived and service.writer.passed == table.frontier

    async def settle_turns(self) -> None:
        for _ in range(5):
            await asyncio.sleep(0)

    async def until(self, is_so: Callable[[], bool]) -> None:
        """Turn by turn; what takes longer waits for a clock, and needs no processor."""
        turns = 0
        async with asyncio.timeout(60):
            while not is_so():
                turns += 1
                await asyncio.sleep(0 if turns < 1_000 else 0.001)

    # --- as if there were other brokers ----------------------------------------------------------

    def lose(self) -> None:
        """Another broker leads from now on."""
        self.partitions.find(DELAYED_TOPIC, 0).replica._lose_leadership()

    async def gain(self) -> None:
        """This broker leads again, in a new term, once a record of it is committed."""
        replica = self.partitions.find(DELAYED_TOPIC, 0).replica
        replica.term += 1
        replica.accepts = True
        batch = memoryview(first_of_term(self.clock.now_ms()))
        replica.propose(read_header(batch), batch, None)
        self.driver.end_turn()
        await self.until(lambda: replica.high_watermark == replica.log.next_offset)
        replica.is_leader = True
        assert replica.listener is not None
        replica.listener.on_leadership(True)
        await self.until_serving()

    async def until_serving(self) -> None:
        await self.until(self._is_served)

    def _is_served(self) -> bool:
        service = self.coordinator._service
        return service is not None and service.writer.is_current


@contextlib.asynccontextmanager
async def living(
    disk: SimulatedDisk, clock: ManualClock | None = None, channels: Channels | None = None
) -> AsyncIterator[Life]:
    """From start to an orderly stop."""
    life = Life(disk, clock, channels)
    async with life.open():
        life.coordinator.start()
        try:
            yield life
        finally:
            await life.coordinator.stop()
