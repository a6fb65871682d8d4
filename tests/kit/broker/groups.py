"""What tests of the groups' shell share: a coordinator on a simulated disk, without sockets."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import pytest

from penstock.broker.carrier.parts import NoChannels
from penstock.broker.config import BrokerConfig
from penstock.broker.context import Context
from penstock.broker.delivery.filters import Filters
from penstock.broker.groups.client import GroupsClient
from penstock.broker.groups.coordinator import GroupCoordinator, coordinator_config
from penstock.broker.groups.log import GroupLog
from penstock.broker.groups.questions import Questions
from penstock.broker.groups.snapshot import build_batches
from penstock.coordination.group.classic.messages import JoinRequest
from penstock.coordination.group.coordinator import CommitRequest
from penstock.coordination.group.offsets import CommittedOffset
from penstock.coordination.group.records import encode_offset
from penstock.model.errors import PenstockError
from penstock.records.header import read_header
from penstock.replication.replica.control import first_of_term
from penstock.replication.replica.replica import Replica
from tests.kit.broker.ground import Ground
from tests.kit.broker.running import CONFIG, ManualClock
from tests.kit.simulated_disk import SimulatedDisk, SimulatedFile


class Life(Ground):
    """One life of the parts of a broker that groups need."""

    log: GroupLog
    groups: GroupCoordinator
    groups_client: GroupsClient
    delivery: SimpleNamespace

    async def begin(self) -> None:
        """When the topics are open."""
        self.log = GroupLog(
            self.topics,
            self.partitions,
            driver=self.driver,
            flusher=self.flusher,
            clock=self.clock,
        )
        self.groups = GroupCoordinator(
            coordinator_config(self.config), self.log, registry=self.registry, clock=self.clock
        )
        self.delivery = SimpleNamespace(filters=Filters())
        await self.groups.start()
        questions = Questions(self.groups, self.registry, self.leaders)
        self.groups_client = GroupsClient(self.me, self.leaders, NoChannels(), questions)

    @property
    def context(self) -> Context:
        """Of handlers, as far as groups need it."""
        return cast(Context, self)

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()

    async def answered(self, ask: Callable[[Callable[[object], None]], None]) -> object:
        """What the groups answer, or raise."""
        future = asyncio.get_running_loop().create_future()
        ask(lambda what: None if future.done() else future.set_result(what))
        what = await asyncio.wait_for(future, 5)
        if isinstance(what, PenstockError):
            raise what
        return what

    def start_commit(
        self, answer: Callable[[object], None], group: str, offset: int, partition: int = 0
    ) -> None:
        committed = CommittedOffset(
            topic="orders",
            topic_id=self.registry.image.topic("orders").id,
            partition=partition,
            offset=offset,
            committed_ms=self.clock.now_ms(),
        )
        request = CommitRequest(group=group, offsets=[committed])
        self.groups.submit(answer, lambda groups, now_ms: groups.commit(answer, request, now_ms))

    async def commit(self, group: str, offset: int, partition: int = 0) -> None:
        await self.answered(lambda answer: self.start_commit(answer, group, offset, partition))

    def start_join(self, answer: Callable[[object], None], group: str = "g") -> None:
        request = JoinRequest(
            member_id="",
            new_member_id="member",
            client_id="client",
            client_host="/127.0.0.1",
            session_timeout_ms=10_000,
            rebalance_timeout_ms=10_000,
            protocol_type="consumer",
            protocols=(("range", b""),),
        )
        self.groups.submit(
            answer, lambda groups, now_ms: groups.join(answer, group, request, now_ms)
        )

    async def offset(self, group: str, partition: int = 0) -> int | None:
        found = await self.answered(
            lambda answer: self.groups.ask(
                answer, lambda groups: groups.fetch(group).get("orders", partition)
            )
        )
        assert found is None or isinstance(found, CommittedOffset)
        return None if found is None else found.offset

    # --- as if there were other brokers ----------------------------------------------------------

    def lose(self) -> None:
        """Another broker leads the topic from now on."""
        self._replica._lose_leadership()

    def gain(self) -> None:
        """This broker leads it again, in a new term."""
        replica = self._replica
        replica.term += 1
        replica.is_leader = replica.accepts = True
        assert replica.listener is not None
        replica.listener.on_leadership(True)

    async def commit_elsewhere(self, group: str, offset: int) -> None:
        """What the other broker writes while it leads, first of all that it does."""
        committed = CommittedOffset(
            topic="orders",
            topic_id=self.registry.image.topic("orders").id,
            partition=0,
            offset=offset,
        )
        record = encode_offset(group, committed)
        [built] = build_batches([(record.key, record.value)], self.clock.now_ms())
        replica = self._replica
        replica.term += 1
        replica.accepts = True
        for batch in (first_of_term(self.clock.now_ms()), built):
            view = memoryview(batch)
            replica.propose(read_header(view), view, None)
        replica.accepts = False
        self.log._driver.end_turn()
        async with asyncio.timeout(5):
            while replica.high_watermark < replica.log.next_offset:
                await asyncio.sleep(0)

    @property
    def _replica(self) -> Replica:
        return self.partitions.find("__offsets", 0).replica


@contextlib.asynccontextmanager
async def living(
    disk: SimulatedDisk, clock: ManualClock | None = None, **settings: object
) -> AsyncIterator[Life]:
    """From start to an orderly stop."""
    config: BrokerConfig = replace(CONFIG, **settings)  # type: ignore[arg-type]
    life = Life(disk, clock, config, flush_threads=1)
    async with life.open(partitions=4):
        await life.begin()
        try:
            yield life
        finally:
            life.groups.begin_closing()
            await life.groups.stop()


class Gate:
    """Holds up flushes of the internal topic until it is opened."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.open = threading.Event()
        real_flush = SimulatedFile.flush

        def flush(file: SimulatedFile) -> None:
            if "__offsets" in file.path:
                self.open.wait(5)
            real_flush(file)

        monkeypatch.setattr(SimulatedFile, "flush", flush)
