"""Delayed and scheduled messages on real broker processes that are killed (R-DEL-13)."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import penstock
from penstock.client.admin.delayed import DelayedMessage
from penstock.client.client import Client
from penstock.model.errors import (
    InvalidDelay,
    InvalidRequest,
    InvalidSchedule,
    PenstockError,
    UnknownSchedule,
)
from tests.kit.processes.brokers import BrokerProcess
from tests.kit.processes.cluster import Cluster

# Milliseconds, mostly; a machine that does much else may take longer.
LATE_MS_MAX = 10_000


def now_ms() -> float:
    return time.time_ns() / 1_000_000


class Inbox:
    """Everything that a topic brings, and when."""

    def __init__(self) -> None:
        self.arrived: list[tuple[bytes, float]] = []
        self.due_ms: list[int] = []
        self.partitions: list[int] = []

    @property
    def values(self) -> list[bytes]:
        return [value for value, _ in self.arrived]

    async def collect(self, address: str, topic: str) -> None:
        """Until it is cancelled; goes on after failures where it was."""
        async with penstock.connect(address) as mq:
            async for message in mq.subscribe(topic):
                assert message.value is not None
                self.arrived.append((message.value, now_ms()))
                self.due_ms.append(message.timestamp_ms)
                self.partitions.append(message.partition)

    async def wait(self, count: int, seconds: float = 60) -> None:
        async with asyncio.timeout(seconds):
            while len(self.arrived) < count:
                await asyncio.sleep(0.01)


async def collecting(address: str, topic: str) -> tuple[Inbox, asyncio.Task[None]]:
    inbox = Inbox()
    task = asyncio.create_task(inbox.collect(address, topic))
    await asyncio.sleep(0.2)
    return inbox, task


async def test_delays_through_the_public_client(tmp_path: Path) -> None:
    """R-DEL-13: by delay, by date, in the past, cancelled, described, never early, soon after."""
    with BrokerProcess(tmp_path) as broker:
        async with penstock.connect(broker.address) as mq:
            await mq.admin.create_topic("orders", 1)
            inbox, task = await collecting(broker.address, "orders")
            # So that what follows is accepted long before the first of it is due.
            await mq.publish("orders", b"now", delay_s=0)
            await inbox.wait(1)
            began_ms = now_ms()
            await mq.publish("orders", b"later", delay_s=4)
            at = datetime.now(UTC) + timedelta(seconds=3)
            receipt = await mq.publish("orders", b"at", key=b"k", deliver_at=at)
            assert receipt.id
            assert receipt.offset == -1
            assert abs(receipt.timestamp_ms - at.timestamp() * 1000) <= 1
            past = datetime.now(UTC) - timedelta(days=1)
            await mq.publish("orders", b"past", deliver_at=past)
            never = await mq.publish("orders", b"never", delay_s=3.5)
            assert await mq.delayed.cancel(never.id, never.id) == [True, False]
            await inbox.wait(2)
            status = await mq.delayed.describe()
            assert [(each.topic, each.pending) for each in status.topics] == [("orders", 2)]
            await inbox.wait(4)
            await asyncio.sleep(0.3)
            assert inbox.values == [b"now", b"past", b"at", b"later"]
            assert inbox.arrived[3][1] - began_ms >= 4000
            for (_, arrived_ms), due_ms in zip(inbox.arrived, inbox.due_ms, strict=True):
                assert 0 <= arrived_ms - due_ms < LATE_MS_MAX
            assert await mq.delayed.cancel(receipt.id) == [False]
            async with asyncio.timeout(5):
                while (await mq.delayed.describe()).pending:
                    await asyncio.sleep(0.05)
            assert (await mq.delayed.describe()).delivered == 4
            task.cancel()


async def test_bad_delays_are_refused(tmp_path: Path) -> None:
    """R-DEL-13: one sentence each, and nothing is kept."""
    with BrokerProcess(tmp_path) as broker:
        async with penstock.connect(broker.address) as mq:
            await mq.admin.create_topic("orders", 1)
            for delay_s in (-1, float("nan"), float("inf"), 11 * 366 * 86400):
                with pytest.raises(InvalidDelay):
                    await mq.publish("orders", b"x", delay_s=delay_s)
            with pytest.raises(InvalidDelay, match="ten years"):
                await mq.publish(
                    "orders", b"x", deliver_at=datetime.now(UTC) + timedelta(days=5000)
                )
            with pytest.raises(InvalidDelay, match="by delay_s, or by deliver_at"):
                await mq.publish("orders", b"x", delay_s=1, deliver_at=datetime.now(UTC))
            with pytest.raises(InvalidDelay, match="give a datetime"):
                await mq.publish("orders", b"x", deliver_at=time.time())  # type: ignore[arg-type]
            with pytest.raises(InvalidRequest, match="give delay_s or deliver_at"):
                await mq.publish("orders", b"x", key=b"k", ordered=True)
            several = [DelayedMessage(b"x", delay_s=delay_s) for delay_s in [1] * 4000 + [-1]]
            with pytest.raises(InvalidDelay):
                await mq.delayed.publish_many("orders", several)
            with pytest.raises(InvalidDelay, match="no key"):
                await mq.publish("orders", b"x", delay_s=1, ordered=True)
            with pytest.raises(InvalidRequest, match="no id"):
                await mq.delayed.cancel("nonsense")
            with pytest.raises(PenstockError, match="broker's own"):
                await mq.publish("__offsets", b"x", delay_s=1)
            with pytest.raises(InvalidSchedule):
                await mq.schedules.put("s", "61 * * * *", "orders", b"x")
            with pytest.raises(InvalidSchedule, match="no time zone"):
                await mq.schedules.put("s", "* * * * *", "orders", b"x", time_zone="Mars/Olympus")
            with pytest.raises(UnknownSchedule):
                await mq.schedules.delete("s")
            assert (await mq.delayed.describe()).pending == 0


async def test_what_waits_for_long_survives_a_kill(tmp_path: Path) -> None:
    """R-DEL-13: and so does that it was cancelled; a receipt is good for the next broker too."""
    with BrokerProcess(tmp_path) as broker:
        async with penstock.connect(broker.address, request_timeout_ms=20_000) as mq:
            await mq.admin.create_topic("orders", 4)
            receipts = [await mq.publish("orders", b"x", delay_s=9 * 366 * 86_400)]
            receipts += [await mq.publish("orders", b"x", delay_s=86_400) for _ in range(40)]
            partitions = {receipt.partition for receipt in receipts}
            assert len(partitions) > 1, "also without a key, one by one, not all go to one"
            first, second, *others = (receipt.id for receipt in receipts)
            assert await mq.delayed.cancel(first) == [True]
            await asyncio.to_thread(broker.kill)
            await asyncio.to_thread(broker.start)
            assert (await mq.delayed.describe()).pending == 40
            assert await mq.delayed.cancel(first, second) == [False, True]
            await asyncio.to_thread(broker.kill)
            await asyncio.to_thread(broker.start)
            assert (await mq.delayed.describe()).pending == 39
            assert await mq.delayed.cancel(second, *others) == [False, *[True] * 39]
            assert (await mq.delayed.describe()).pending == 0


async def publish_steadily(mq: Client, numbers: list[int], stop: asyncio.Event) -> None:
    """Hundreds of messages that are due within a second or two, until it is told to stop."""
    chance = random.Random(7)
    while not stop.is_set():
        first = len(numbers)
        messages = [
            DelayedMessage(b"%d" % (first + at), delay_s=chance.random() * 1.5) for at in range(50)
        ]
        try:
            await mq.delayed.publish_many("orders", messages)
        except PenstockError:
            # Nobody knows whether these are kept: they are left out of the count.
            numbers += [-1] * 50
            await asyncio.sleep(0.05)
        else:
            numbers += range(first, first + 50)
        await asyncio.sleep(0.01)


def check_once(numbers: list[int], inbox: Inbox) -> None:
    counts = Counter(inbox.values)
    accepted = [b"%d" % number for number in numbers if number >= 0]
    assert [value for value in accepted if counts[value] == 0] == [], "lost"
    assert [value for value, count in counts.items() if count > 1] == [], "twice"
    for (value, arrived_ms), due_ms in zip(inbox.arrived, inbox.due_ms, strict=True):
        assert arrived_ms >= due_ms, f"{value!r} came early"
    by_partition: dict[int, list[int]] = {}
    for partition, due_ms in zip(inbox.partitions, inbox.due_ms, strict=True):
        by_partition.setdefault(partition, []).append(due_ms)
    for times in by_partition.values():
        assert times == sorted(times), "out of order"


async def test_sigkill_again_and_again(tmp_path: Path) -> None:
    """R-DEL-13: what was accepted comes once, in order and never early, whatever is killed when."""
    chance = random.Random(1)
    numbers: list[int] = []
    stop = asyncio.Event()
    with BrokerProcess(tmp_path) as broker:
        async with penstock.connect(broker.address, request_timeout_ms=20_000) as mq:
            await mq.admin.create_topic("orders", 3)
            publishing = asyncio.create_task(publish_steadily(mq, numbers, stop))
            for _ in range(5):
                await asyncio.sleep(0.3 + chance.random())
                await asyncio.to_thread(broker.kill)
                await asyncio.to_thread(broker.start)
            await asyncio.sleep(1)
            stop.set()
            await publishing
            async with asyncio.timeout(30):
                while (await mq.delayed.describe()).pending:
                    await asyncio.sleep(0.05)
            inbox, task = await collecting(broker.address, "orders")
            await inbox.wait(len([number for number in numbers if number >= 0]))
            await asyncio.sleep(0.3)
            task.cancel()
    assert len(numbers) > 500
    check_once(numbers, inbox)


async def test_failover_of_the_coordinator(tmp_path: Path) -> None:
    """R-DEL-13: whichever broker leads `__delayed` is killed; another goes on within seconds."""
    numbers: list[int] = []
    stop = asyncio.Event()
    with Cluster(tmp_path, 3) as cluster:
        async with penstock.connect(cluster.bootstrap, request_timeout_ms=30_000) as mq:
            await mq.admin.create_topic("orders", 3)
            await mq.publish("orders", b"0", delay_s=0.1)
            numbers.append(0)
            inbox, task = await collecting(cluster.bootstrap, "orders")
            publishing = asyncio.create_task(publish_steadily(mq, numbers, stop))
            for _ in range(3):
                await asyncio.sleep(1.5)
                leader = await leader_of_delayed(mq)
                await asyncio.to_thread(cluster.kill, leader)
                await asyncio.sleep(4)
                await asyncio.to_thread(cluster.start, leader)
            await asyncio.sleep(2)
            stop.set()
            await publishing
            await inbox.wait(len([number for number in numbers if number >= 0]), 60)
            await asyncio.sleep(0.5)
            task.cancel()
    assert len(numbers) > 1000
    check_once(numbers, inbox)


async def test_order_cancellations_and_schedules_over_a_failover(tmp_path: Path) -> None:
    """R-DEL-13: accepted and cancelled by one leader, kept to by the next."""
    chance = random.Random(3)
    with Cluster(tmp_path, 3) as cluster:
        async with penstock.connect(cluster.bootstrap, request_timeout_ms=30_000) as mq:
            await mq.admin.create_topic("orders", 2)
            await mq.admin.create_topic("ticks", 1)
            inbox, task = await collecting(cluster.bootstrap, "orders")
            ticks, ticking = await collecting(cluster.bootstrap, "ticks")
            await mq.schedules.put("s", "* * * * * *", "ticks", b"tick")
            messages = [
                DelayedMessage(
                    b"%d/%d" % (at % 5, at), key=b"%d" % (at % 5), delay_s=12 + chance.random()
                )
                for at in range(100)
            ]
            receipts = await mq.delayed.publish_many("orders", messages, ordered=True)
            cancelled = [receipt.id for receipt in receipts[::10]]
            assert await mq.delayed.cancel(*cancelled) == [True] * 10
            leader = await leader_of_delayed(mq)
            await asyncio.to_thread(cluster.kill, leader)
            await inbox.wait(90)
            assert await mq.delayed.cancel(*cancelled) == [False] * 10
            await ticks.wait(len(ticks.arrived) + 3)
            assert [each.name for each in await mq.schedules.list()] == ["s"]
            task.cancel()
            ticking.cancel()
    sent = [number for number in range(100) if number % 10]
    by_key = [
        [int(value[2:]) for value in inbox.values if value[0] == 48 + key] for key in range(5)
    ]
    assert by_key == [[number for number in sent if number % 5 == key] for key in range(5)]
    for (_, arrived_ms), due_ms in zip(inbox.arrived, inbox.due_ms, strict=True):
        assert arrived_ms >= due_ms
    assert ticks.due_ms == sorted(set(ticks.due_ms)), "each firing once"


async def leader_of_delayed(mq: Client) -> int:
    async with asyncio.timeout(20):
        while True:
            status = await mq.cluster.status()
            for partition in status.partitions:
                if partition.topic == "__delayed" and partition.leader is not None:
                    return partition.leader
            await asyncio.sleep(0.1)


async def test_a_schedule_every_second_over_a_kill(tmp_path: Path) -> None:
    """R-DEL-13: each firing once; those that were missed come as one."""
    with BrokerProcess(tmp_path) as broker:
        async with penstock.connect(broker.address) as mq:
            await mq.admin.create_topic("ticks", 1)
            inbox, task = await collecting(broker.address, "ticks")
            put = await mq.schedules.put("s", "* * * * * *", "ticks", b"tick", headers={"a": b"b"})
            assert put.next_due_ms % 1000 == 0
            await inbox.wait(2)
            await asyncio.to_thread(broker.kill)
            killed_ms = now_ms()
            await asyncio.sleep(2.5)
            await asyncio.to_thread(broker.start)
            started_ms = now_ms()
            before = len(inbox.arrived)
            await inbox.wait(before + 3)
            (schedule,) = await mq.schedules.list()
            assert schedule.published >= before + 3
            await mq.schedules.delete("s")
            await asyncio.sleep(1.5)
            count = len(inbox.arrived)
            await asyncio.sleep(1.2)
            assert len(inbox.arrived) == count
            assert await mq.schedules.list() == []
            task.cancel()
    assert len(set(inbox.due_ms)) == len(inbox.due_ms), "each once"
    assert inbox.due_ms == sorted(inbox.due_ms)
    missed = [due_ms for due_ms in inbox.due_ms if killed_ms < due_ms < started_ms]
    assert len(missed) <= 1, "of those that were missed there is one"


async def test_order_by_key_is_kept_when_asked_for(tmp_path: Path) -> None:
    """R-DEL-13: none comes before an earlier one of its key, whatever its delay; others do."""
    chance = random.Random(2)
    with BrokerProcess(tmp_path) as broker:
        async with penstock.connect(broker.address) as mq:
            await mq.admin.create_topic("orders", 2)
            inbox, task = await collecting(broker.address, "orders")
            messages = [
                DelayedMessage(
                    b"%d/%d" % (at % 5, at), key=b"%d" % (at % 5), delay_s=chance.random()
                )
                for at in range(200)
            ]
            await mq.delayed.publish_many("orders", messages[:100], ordered=True)
            await mq.delayed.publish_many("orders", messages[100:], ordered=True)
            await inbox.wait(200)
            task.cancel()
    by_key: dict[bytes, list[int]] = {}
    for value in inbox.values:
        key, number = value.split(b"/")
        by_key.setdefault(key, []).append(int(number))
    for sent in by_key.values():
        assert sent == sorted(sent)
        assert len(sent) == 40
