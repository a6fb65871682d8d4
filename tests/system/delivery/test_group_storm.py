"""A rebalance storm: members join and leave every second while messages come. Everything they do is
recorded, and checked: one owner at a time, no lost commit, progress all along (R-DEL-4, R-DEL-5).

STORM_SECONDS says how long it lasts; a minute is a real one.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

import penstock
from penstock.client.consuming.consumer import Consumer
from penstock.model.errors import PartitionLost
from penstock.model.ids import TopicPartition
from tests.kit.processes.brokers import BrokerProcess
from tests.kit.processes.cluster import Cluster
from tests.kit.runs.tiers import IS_SOAK
from tests.system.delivery.ownership import GroupHistory

STORM_S = float(os.environ.get("STORM_SECONDS", "60" if IS_SOAK else "12"))
TOPIC = "orders"
PARTITIONS = 8
MEMBERS = 4
# Every second something moves, which takes about a second, and those who vanish are missed for
# three; there is something to read all along. The rest is for machines that are busy otherwise.
PAUSE_S_MAX = 10.0
# A coordinator that is killed is replaced within some seconds.
FAILOVER_PAUSE_S_MAX = 20.0


class StormMember:
    """Reads, commits and records until it is told to go, one way or another."""

    def __init__(self, address: str, history: GroupHistory, name: str, assignor: str) -> None:
        self._address = address
        self._history = history
        self._name = name
        self._assignor = assignor
        self._ending = asyncio.Event()
        self._task = asyncio.ensure_future(self._run())

    async def leave(self) -> None:
        """In an orderly way."""
        self._ending.set()
        await self._task

    async def vanish(self) -> None:
        """Without a word: its connections end, as those of a killed process do."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        mq = penstock.connect(self._address, client_name=self._name)
        await mq.__aenter__()
        consumer = mq.subscribe(
            TOPIC,
            group="storm",
            assignor=self._assignor,
            on_assigned=lambda partitions: self._assigned(consumer, partitions),
            on_revoked=lambda partitions: self._revoked(partitions),
        )
        try:
            while not self._ending.is_set():
                for message in await consumer.fetch(timeout_s=0.05):
                    place = TopicPartition(message.topic, message.partition)
                    self._history.note_read(place, message.offset)
                await self._commit(consumer)
        except asyncio.CancelledError:
            self._history.note_gone(self._name)
            _cut_off(mq, consumer)
            raise
        self._history.note_gone(self._name)
        await mq.__aexit__(None, None, None)

    def _assigned(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        assert consumer._membership is not None
        for each in partitions:
            self._history.note_assigned(
                self._name, consumer._membership.epoch, each, consumer.position(each)
            )

    def _revoked(self, partitions: list[TopicPartition]) -> None:
        for each in partitions:
            self._history.note_revoked(self._name, each)

    async def _commit(self, consumer: Consumer) -> None:
        """What was read so far of what it still has; noted when the broker has it."""
        places = {each: consumer.position(each) for each in consumer.partitions}
        try:
            await consumer.commit()
        except PartitionLost:
            return  # so nobody may rely on it
        for each, offset in places.items():
            self._history.note_committed(each, offset)


def _cut_off(mq: penstock.Client, consumer: Consumer) -> None:
    """Nothing more leaves this client, not even goodbyes."""
    assert consumer._membership is not None
    connected = mq._connection()
    for task in (*consumer._membership._scope._tasks, *consumer._scope._tasks):
        task.cancel()
    for task in (*connected.scope._tasks, *consumer._fetcher.source.scope._tasks):
        task.cancel()
    connected.links._closed = True
    for channel in list(connected.links._open_channels):
        channel.connection.abort()


@asynccontextmanager
async def traffic(address: str) -> AsyncIterator[list[int]]:
    """Messages come all along; how many in all is known at the end."""
    sent = [0]
    ending = asyncio.Event()

    async def publish(mq: penstock.Client) -> None:
        async with mq.producer() as producer:
            while not ending.is_set():
                for partition in range(PARTITIONS):
                    await producer.send(TOPIC, b"%d" % sent[0], partition=partition)
                    sent[0] += 1
                await asyncio.sleep(0.02)

    async with penstock.connect(address) as mq:
        await mq.admin.create_topic(TOPIC, PARTITIONS)
        publishing = asyncio.ensure_future(publish(mq))
        try:
            yield sent
        finally:
            ending.set()
            await publishing


async def storm(address: str, history: GroupHistory, assignor: str, seconds: float) -> int:
    """How many messages there are when it is over, and all are read and committed."""
    async with penstock.connect(address) as mq:
        async with traffic(address) as sent:
            members = [
                StormMember(address, history, f"m{number}", assignor) for number in range(MEMBERS)
            ]
            made = MEMBERS
            loop = asyncio.get_running_loop()
            ends_at_s = loop.time() + seconds
            while loop.time() < ends_at_s:
                await asyncio.sleep(0.5)
                oldest = members.pop(0)
                await (oldest.vanish() if made % 4 == 0 else oldest.leave())
                await asyncio.sleep(0.5)
                members.append(StormMember(address, history, f"m{made}", assignor))
                made += 1
        async with asyncio.timeout(60):
            while len(history.distinct()) < sent[0]:
                await asyncio.sleep(0.05)
        for member in members:
            await member.leave()
        assert (await mq.groups.describe("storm")).lag == 0
        return sent[0]


def check(history: GroupHistory, pause_s_max: float) -> None:
    history.check_one_owner_at_a_time()
    history.check_one_owner_in_an_epoch()
    history.check_no_lost_commit()
    history.check_progress(pause_s_max)


@pytest.mark.parametrize("assignor", [pytest.param("uniform", marks=pytest.mark.soak), "ring"])
async def test_a_rebalance_storm(tmp_path: Path, assignor: str) -> None:
    """R-DEL-4, R-DEL-5, R-DEL-10: one in four leaves without a word."""
    history = GroupHistory()
    with BrokerProcess(tmp_path) as broker:
        await storm(broker.address, history, assignor, STORM_S)
    check(history, PAUSE_S_MAX)


@pytest.mark.soak
async def test_a_rebalance_storm_while_the_coordinator_dies(tmp_path: Path) -> None:
    """R-DEL-4, R-REP-2: brokers of three are killed and come back, one after another; whichever of
    them looks after the group is among them."""
    history = GroupHistory()
    # Who vanishes together with the coordinator is missed by the next one after a whole session.
    with Cluster(tmp_path, group_consumer_session_timeout_ms=6_000) as cluster:
        storming = asyncio.ensure_future(
            storm(cluster.bootstrap, history, "sticky", max(STORM_S, 20.0))
        )
        for broker in cluster.ids:
            await asyncio.sleep(3)
            await asyncio.to_thread(cluster.kill, broker)
            await asyncio.sleep(2)
            await asyncio.to_thread(cluster.start, broker)
        await storming
    check(history, FAILOVER_PAUSE_S_MAX)
