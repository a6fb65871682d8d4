"""A shared group under everything that can happen to it, with real processes: what every member
saw and said is recorded, and checked at the end (R-DEL-3, R-DEL-7, R-DEL-11).

Members crash, are stopped for longer than a lease, answer late, twice, for what they do not hold,
disconnect and come back, half of them in the middle of a push; brokers are killed, and leadership
is moved. HISTORY_SECONDS makes the troubles last longer.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock import Client
from penstock.model.errors import PenstockError
from tests.kit.histories.leases import (
    ACKNOWLEDGE,
    DeliveryHistory,
    Leased,
    Lost,
    Settled,
    shown,
)
from tests.kit.processes.brokers import BrokerProcess
from tests.kit.processes.cluster import Cluster
from tests.kit.runs.tiers import IS_SOAK
from tests.system.cluster.views import views

ROOT = Path(__file__).parents[3]
TOPIC, GROUP = "orders", "workers"
MEMBERS = 6
LEASE_MS = 2_000
ATTEMPTS_MAX = 8
TROUBLE_S = float(os.environ.get("HISTORY_SECONDS", "60" if IS_SOAK else "12"))
# Six members on one partition; of one of these keys one message is out at a time.
KEYS = [b"key-%d" % number for number in range(12)]
# After trouble: longer than leases, doubts and backoffs.
CALM_S = 6.0
# And at most so long: an election may take its time on a busy machine.
DRAIN_S_MAX = 180.0
Trouble = Callable[[], Awaitable[None]]


class MemberProcess:
    """`shared_member`, again and again; each life has a file of its own."""

    def __init__(self, bootstrap: str, folder: Path, number: int, *, is_ordered: bool) -> None:
        self._command = [sys.executable, "-m", "tests.system.delivery.shared_member", bootstrap]
        self._command += [TOPIC, GROUP, f"m{number}", str(number), str(LEASE_MS)]
        self._command += ["push" if number % 2 else "pull"]
        self._command += ["ordered"] * is_ordered
        self._folder = folder
        self._number = number
        # Each life's file, and when it was killed.
        self._lives: list[tuple[Path, float]] = []
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self._path = self._folder / f"{self._number}-{len(self._lives)}.jsonl"
        with self._path.open("wb") as output:
            self._process = subprocess.Popen(self._command, stdout=output, cwd=ROOT)

    @property
    def has_told(self) -> bool:
        """Whether it was given anything."""
        return self._path.stat().st_size > 0

    def signal(self, number: int) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def kill(self) -> None:
        assert self._process is not None
        # The broker may see it die before this process comes to look at its clock again.
        self._lives.append((self._path, time.monotonic()))
        self._process.kill()
        self._process.wait()

    def record(self, history: DeliveryHistory) -> None:
        for path, killed_s in self._lives:
            whole, _, _ = path.read_text().rpartition("\n")
            events = [json.loads(line) for line in whole.splitlines()]
            # It may have done something yet after that moment.
            last_s = max((_when_s(event) for event in events), default=0.0)
            for event in events:
                match event.pop("event"):
                    case "leased":
                        history.leases.append(Leased(**event))
                    case "settled":
                        history.settlements.append(Settled(**event))
                    case "lost":
                        history.losses.append(Lost(**event))
            for member in {event["member"] for event in events if "member" in event}:
                history.losses.append(Lost(member, max(killed_s, last_s)))


def _when_s(event: dict[str, Any]) -> float:
    return max(float(event.get(name, 0.0)) for name in ("came_s", "said_s", "told_s", "at_s"))


async def publish_steadily(mq: Client, history: DeliveryHistory, over: asyncio.Event) -> None:
    async def publish(key: bytes | None) -> None:
        try:
            receipt = await mq.publish(TOPIC, b"x" * 100, key=key)
        except PenstockError:
            return
        history.published[receipt.offset] = key

    chance = random.Random(2)
    async with asyncio.TaskGroup() as group:
        while not over.is_set():
            for _ in range(10):
                group.create_task(publish(chance.choice(KEYS) if history.is_ordered else None))
            await asyncio.sleep(0.05)


async def drain(mq: Client, history: DeliveryHistory) -> None:
    """One well-behaved member, until the group is done with everything, and there has been nothing
    for a while."""
    async with mq.share(
        TOPIC,
        group=GROUP,
        lease_ms=LEASE_MS,
        attempts_max=ATTEMPTS_MAX,
        backoff_ms=50,
        ordered=history.is_ordered,
    ) as consumer:
        last_s = time.monotonic()
        ends_s = last_s + DRAIN_S_MAX
        while time.monotonic() < last_s + CALM_S or (await mq.groups.describe(GROUP)).lag:
            assert time.monotonic() < ends_s, "the group is not done with everything"
            messages = await consumer.fetch(timeout_s=1.0)
            came_s = time.monotonic()
            for message in messages:
                hold = consumer.ledger.held[message.topic, message.partition, message.offset]
                until_s = hold.leased_at_s + hold.lease_s
                history.leases.append(
                    Leased(
                        message.offset,
                        consumer.member_id,
                        hold.leased_at_s,
                        came_s,
                        until_s,
                        message.attempt,
                    )
                )
                await message.ack()
            if messages:
                last_s = came_s
                lost = consumer.lost_count
                await consumer.commit()
                told_s = time.monotonic() if consumer.lost_count == lost else None
                history.settlements.extend(
                    Settled(each.offset, consumer.member_id, ACKNOWLEDGE, came_s, told_s)
                    for each in messages
                )


async def dead_letters(mq: Client) -> set[int]:
    found: set[int] = set()
    with contextlib.suppress(PenstockError):
        async with mq.subscribe(f"dead-letters.{GROUP}", start="earliest") as consumer:
            while messages := await consumer.fetch(timeout_s=2.0):
                found.update(int((each.key or b"").rpartition(b"/")[2]) for each in messages)
    return found


@contextlib.asynccontextmanager
async def members(
    bootstrap: str, folder: Path, *, is_ordered: bool
) -> AsyncIterator[list[MemberProcess]]:
    processes = [
        MemberProcess(bootstrap, folder, number, is_ordered=is_ordered) for number in range(MEMBERS)
    ]
    for process in processes:
        process.start()
    try:
        yield processes
    finally:
        for process in processes:
            process.kill()


async def live(
    bootstrap: str, folder: Path, replicas: int, troubles: list[Trouble], *, is_ordered: bool
) -> None:
    """Trouble of all sorts for a while, then quiet; and what was promised is looked at."""
    chance = random.Random(1)
    history = DeliveryHistory(ATTEMPTS_MAX, is_ordered)
    async with penstock.connect(bootstrap) as mq:
        await mq.admin.create_topic(TOPIC, partitions=1, replicas=replicas)
        over = asyncio.Event()
        async with (
            members(bootstrap, folder, is_ordered=is_ordered) as processes,
            asyncio.TaskGroup() as group,
        ):
            group.create_task(publish_steadily(mq, history, over))
            async with asyncio.timeout(DRAIN_S_MAX):
                while not all(process.has_told for process in processes):
                    await asyncio.sleep(0.1)
            ends_s = time.monotonic() + TROUBLE_S
            while time.monotonic() < ends_s:
                await asyncio.sleep(1.0)
                one = chance.choice(processes)
                if chance.random() < 0.3:
                    await chance.choice(troubles)()
                elif chance.random() < 0.6:
                    one.kill()
                    one.start()
                else:
                    one.signal(signal.SIGSTOP)
                    await asyncio.sleep(LEASE_MS / 1000 * 1.3)
                    one.signal(signal.SIGCONT)
            over.set()
        await drain(mq, history)
        history.dead = await dead_letters(mq)
    for process in processes:
        process.record(history)
    assert len(history.published) > 100
    assert len({lease.member for lease in history.leases}) >= MEMBERS
    violations = history.violations()
    assert not violations, shown(violations)


@pytest.mark.soak
@pytest.mark.parametrize("is_ordered", [False, True], ids=["any-order", "by-key"])
async def test_a_broker_that_is_killed_again_and_again(tmp_path: Path, is_ordered: bool) -> None:
    """R-DEL-3; R-DEL-11: with six members on one partition."""
    with BrokerProcess(tmp_path / "data") as broker:

        async def kill() -> None:
            broker.kill()
            await asyncio.sleep(0.2)
            broker.start()

        await live(broker.address, tmp_path, 1, [kill], is_ordered=is_ordered)


@pytest.mark.parametrize(
    "is_ordered",
    [
        pytest.param(False, marks=pytest.mark.soak, id="any-order"),
        pytest.param(True, id="by-key"),
    ],
)
async def test_leaders_that_are_killed_stopped_and_moved(tmp_path: Path, is_ordered: bool) -> None:
    """R-DEL-3; R-DEL-11: with six members on one partition."""
    with Cluster(tmp_path) as cluster:

        async def leader() -> int:
            """In the highest term that any broker knows of; -1: nobody."""
            seen = await asyncio.to_thread(views, cluster, TOPIC)
            led = [view.partitions[0] for view in seen.values() if 0 in view.partitions]
            return max(led, key=lambda one: one.term).broker if led else -1

        async def kill() -> None:
            led_by = await leader()
            if led_by in cluster.ids:
                cluster.kill(led_by)
                await asyncio.sleep(1.5)
                cluster.start(led_by)

        async def stop() -> None:
            led_by = await leader()
            if led_by in cluster.ids:
                os.kill(cluster.process_id(led_by), signal.SIGSTOP)
                await asyncio.sleep(3.0)
                os.kill(cluster.process_id(led_by), signal.SIGCONT)

        async def move() -> None:
            with contextlib.suppress(PenstockError):
                async with penstock.connect(cluster.bootstrap) as mq:
                    await mq.cluster.elect_leaders([(TOPIC, 0)])

        await live(cluster.bootstrap, tmp_path, 3, [kill, stop, move], is_ordered=is_ordered)
