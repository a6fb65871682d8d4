"""What tests of staged writes' shell share: staging on a simulated disk, without sockets."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence

from penstock.broker.carrier.parts import Channels
from penstock.broker.staging.coordinator import StagingCoordinator
from penstock.broker.staging.log import StagingLog
from penstock.broker.staging.service import Staging
from penstock.coordination.staging.records import (
    STAGED_TOPIC,
    WRITES_TOPIC,
    NamedAttempt,
    StagedBatch,
)
from penstock.coordination.staging.table import StagedWrites
from penstock.model.errors import PenstockError
from penstock.protocol import penstock_pb2 as pb
from penstock.records.header import check_produced, read_header
from penstock.replication.replica.control import first_of_term
from tests.kit.broker.ground import Ground
from tests.kit.broker.openings import ANYBODY, openings_of
from tests.kit.broker.running import ManualClock, batch
from tests.kit.simulated_disk import SimulatedDisk


class Life(Ground):
    """One life of the parts of a broker that staged writes need."""

    def __init__(
        self, disk: SimulatedDisk, clock: ManualClock | None, channels: Channels | None
    ) -> None:
        super().__init__(disk, clock)
        self.parts = self.parts_with(channels)
        self.coordinator = StagingCoordinator(self.parts)

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
    life = Life(disk, clock, channels)
    async with life.open(between=life.coordinator.begin):
        await life.coordinator.start()
        try:
            yield life
        finally:
            life.coordinator.begin_closing()
            await life.coordinator.stop()
