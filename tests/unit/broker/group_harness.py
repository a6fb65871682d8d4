"""What tests of the groups' shell share: a coordinator on a simulated disk, without sockets."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace

import pytest

from penstock.broker.assignment import Assignment
from penstock.broker.config import BrokerConfig
from penstock.broker.group_coordinator import GroupCoordinator, coordinator_config
from penstock.broker.group_log import GroupLog
from penstock.broker.leaders import Leaders
from penstock.broker.partitions import Partitions
from penstock.broker.topics import Topics
from penstock.coordination.group.classic_messages import JoinRequest
from penstock.coordination.group.coordinator import CommitRequest
from penstock.coordination.group.offsets import CommittedOffset
from penstock.model.errors import PenstockError, TopicExists
from penstock.model.ids import BrokerId
from penstock.registry.embedded import EmbeddedRegistry
from penstock.replication.driver import Driver
from penstock.replication.flusher import ThreadFlusher
from penstock.testing.simulated_disk import SimulatedDisk, SimulatedFile
from tests.support import CONFIG, ManualClock, alone


@dataclass
class Life:
    """One life of the parts of a broker that groups need."""

    groups: GroupCoordinator
    log: GroupLog
    topics: Topics
    partitions: Partitions
    registry: EmbeddedRegistry
    clock: ManualClock

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


@contextlib.asynccontextmanager
async def living(
    disk: SimulatedDisk, clock: ManualClock | None = None, **settings: object
) -> AsyncIterator[Life]:
    """From start to an orderly stop."""
    config: BrokerConfig = replace(CONFIG, **settings)  # type: ignore[arg-type]
    clock = clock or ManualClock()
    flusher = ThreadFlusher(asyncio.get_running_loop(), 1)
    flusher.start()
    driver = Driver()
    registry = EmbeddedRegistry(disk.root, BrokerId(1), "cluster", directory=7)
    partitions = Partitions(disk.root, alone(driver, flusher, clock))
    me = BrokerId(config.broker_id)
    assignment = Assignment(config, me, registry, partitions)
    leaders = Leaders(me, registry, partitions, clock)
    topics = Topics(config, registry, partitions, assignment, leaders)
    partitions.begin()
    await topics.open_all()
    with contextlib.suppress(TopicExists):
        await topics.create("orders", 4, {})
    log = GroupLog(topics, partitions, driver=driver, flusher=flusher, clock=clock)
    groups = GroupCoordinator(coordinator_config(config), log, registry=registry, clock=clock)
    await groups.start()
    try:
        yield Life(groups, log, topics, partitions, registry, clock)
    finally:
        groups.begin_closing()
        await groups.stop()
        await partitions.close()
        flusher.stop()


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
