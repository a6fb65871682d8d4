"""Shared groups that are pushed to, with real processes: slow, stopped, killed; handlers.

R-DEL-3, R-DEL-6, R-DEL-7, R-DEL-8, R-DEL-9.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock import Client
from penstock.records import Message
from tests.kit.processes.brokers import BrokerProcess
from tests.kit.processes.cluster import Cluster
from tests.system.clients import PATIENCE_S, publish_numbers
from tests.system.delivery.test_push import (
    IMPATIENT,
    ROOT,
    ConsumerProcess,
    client_when,
    penstock_cli,
    until,
)

# Long enough for a busy machine to tell an outcome in time, and short enough to wait for its end.
LEASE_MS = 3_000
# What returns within a test's patience does not return because this is over.
LONG_LEASE_MS = 300_000


@contextlib.contextmanager
def member_process(
    broker: BrokerProcess,
    name: str,
    folder: Path,
    work_s: float = 0.0,
    lease_ms: int = LEASE_MS,
) -> Iterator[ConsumerProcess]:
    process = ConsumerProcess(
        broker.address,
        name,
        folder,
        module="shared_consumer",
        words=("jobs", "workers", name, str(lease_ms), str(work_s)),
    )
    try:
        yield process
    finally:
        process.end()


async def work_off(mq: Client, done: list[int], wanted: set[int], lease_ms: int = LEASE_MS) -> None:
    """Take and acknowledge, until these are done, and perhaps others."""
    async with mq.share("jobs", group="workers", lease_ms=lease_ms, push=True) as consumer:
        async for message in consumer:
            done.append(int(message.value or b""))
            await message.ack()
            wanted.discard(done[-1])
            if not wanted:
                return


async def test_a_slow_member_holds_its_window_and_others_do_the_rest(tmp_path: Path) -> None:
    """R-DEL-3, R-DEL-6: nobody waits for the slow one, and nothing is done twice."""
    with BrokerProcess(tmp_path / "data") as broker:
        async with (
            penstock.connect(broker.address, client_name="slow") as slow,
            penstock.connect(broker.address, client_name="quick") as mq,
        ):
            await mq.admin.create_topic("jobs", 1, {"durability": "os"})
            await publish_numbers(mq, "jobs", range(5_000))
            # What waits for the slow one is not given back before the test is over.
            settings: Any = {"group": "workers", "push": True, "lease_ms": LONG_LEASE_MS}
            async with slow.share("jobs", prefetch=50, **settings) as lazy:
                first = [(await lazy.fetch(1))[0] for _ in range(10)]
                done: list[int] = []
                async with mq.share("jobs", **settings) as quick:
                    async with asyncio.timeout(60):
                        while len(done) < 5_000 - 10 - 50:
                            for message in await quick.fetch():
                                done.append(int(message.value or b""))
                                await message.ack()
                        record = await client_when(mq, "slow", lambda one: bool(one.streams))
                        [stream] = record.streams
                        assert stream.shared
                        assert 50 <= stream.delivered + stream.in_flight <= 60
                        for message in first:
                            await message.ack()
                        late = [int(message.value or b"") for message in first]
                        while len(done) + len(late) < 5_000:
                            for message in await lazy.fetch(timeout_s=0.1):
                                late.append(int(message.value or b""))
                                await message.ack()
                            for message in await quick.fetch(timeout_s=0.1):
                                done.append(int(message.value or b""))
                                await message.ack()
                assert sorted(done + late) == list(range(5_000))


async def test_a_member_killed_in_the_middle_of_a_push_loses_nothing(tmp_path: Path) -> None:
    """R-DEL-7: its leases return with its connection, long before they are over."""
    with BrokerProcess(tmp_path / "data") as broker:
        async with penstock.connect(broker.address, client_name="test") as mq:
            await mq.admin.create_topic("jobs")
            with member_process(
                broker, "victim", tmp_path, work_s=0.01, lease_ms=LONG_LEASE_MS
            ) as victim:
                publishing = asyncio.create_task(publish_numbers(mq, "jobs", range(2_000)))
                await until(lambda: len(victim.numbers) > 20)
                victim.signal(signal.SIGKILL)
                lost = await client_when(mq, "victim", lambda client: client.state == "lost")
                assert lost.streams == ()
                await publishing
                done: list[int] = []
                async with asyncio.timeout(PATIENCE_S):
                    # What it wrote it may have acknowledged.
                    wanted = set(range(2_000)) - set(victim.numbers)
                    await work_off(mq, done, wanted, LONG_LEASE_MS)
                assert len(done) == len(set(done))


async def test_the_leases_of_a_stopped_member_go_to_others(tmp_path: Path) -> None:
    """R-DEL-3, R-DEL-8: by the park, or at the end of the lease; and it goes on when it lives."""
    with (
        BrokerProcess(tmp_path / "data", *IMPATIENT) as broker,
        member_process(broker, "stopped", tmp_path, work_s=0.02) as stopped,
    ):
        async with penstock.connect(broker.address, client_name="test") as mq:
            await publish_numbers(mq, "jobs", range(100))
            await until(lambda: len(stopped.numbers) >= 5)
            stopped.signal(signal.SIGSTOP)
            before = stopped.numbers
            await publish_numbers(mq, "jobs", range(100, 130))
            done: list[int] = []
            async with asyncio.timeout(PATIENCE_S):
                await work_off(mq, done, set(range(130)) - set(before))
            assert len(done) == len(set(done))
            stopped.signal(signal.SIGCONT)
            await client_when(mq, "stopped", lambda client: client.state == "alive")
            await publish_numbers(mq, "jobs", range(200, 210))
            await until(lambda: set(range(200, 210)) <= set(stopped.numbers))


async def test_a_member_that_was_stopped_begins_nothing_that_others_have(tmp_path: Path) -> None:
    """R-DEL-3, R-DEL-7: what was pushed to it meanwhile is read when its leases are long over."""
    with (
        BrokerProcess(tmp_path / "data") as broker,
        member_process(broker, "stopped", tmp_path) as stopped,
    ):
        async with penstock.connect(broker.address, client_name="test") as mq:
            await publish_numbers(mq, "jobs", range(5))
            await until(lambda: len(stopped.numbers) == 5)
            stopped.signal(signal.SIGSTOP)
            await publish_numbers(mq, "jobs", range(5, 15))
            await client_when(mq, "stopped", lambda one: one.streams[0].in_flight == 10)
            done: list[int] = []
            async with asyncio.timeout(PATIENCE_S):
                await work_off(mq, done, set(range(5, 15)))
            stopped.signal(signal.SIGCONT)
            await client_when(mq, "stopped", lambda one: one.streams[0].in_flight == 0)
            await publish_numbers(mq, "jobs", range(20, 30))
            await until(lambda: set(range(20, 30)) <= set(stopped.numbers))
            # The first ones may come again: perhaps it was stopped before it had told of them.
            assert not set(stopped.numbers) & set(range(5, 15))


async def test_a_parked_member_is_resumed(tmp_path: Path) -> None:
    """R-DEL-8: by an operator, who parked it."""
    with BrokerProcess(tmp_path / "data") as broker:
        async with (
            penstock.connect(broker.address, client_name="parked") as client,
            penstock.connect(broker.address, client_name="test") as mq,
        ):
            await mq.admin.create_topic("jobs")
            async with client.share("jobs", group="workers", push=True) as consumer:
                assert await mq.clients.park("parked") == 1
                await publish_numbers(mq, "jobs", range(10))
                assert await consumer.fetch(timeout_s=0.2) == []
                assert await mq.clients.resume("parked") == 1
                async with asyncio.timeout(PATIENCE_S):
                    found = [(await consumer.fetch(1))[0] for _ in range(10)]
                assert [int(message.value or b"") for message in found] == list(range(10))


async def test_handlers_that_raise_end_in_dead_letters(tmp_path: Path) -> None:
    """R-DEL-9: after the group's attempts, with the reason; the others are dealt with."""
    with BrokerProcess(tmp_path / "data") as broker:
        async with penstock.connect(broker.address) as mq:
            await publish_numbers(mq, "jobs", range(20))
            attempts: Counter[int] = Counter()

            async def handle(message: Message) -> None:
                number = int(message.value or b"")
                attempts[number] += 1
                if number % 5 == 0:
                    raise ValueError(f"cannot do {number}")

            task = asyncio.create_task(
                mq.serve(
                    handle, "jobs", group="workers", shared=True, attempts_max=3, backoff_ms=10
                )
            )
            letters: dict[bytes | None, Message] = {}
            async with asyncio.timeout(PATIENCE_S):
                await until(lambda: len(attempts) == 20)
                async for letter in mq.subscribe("dead-letters.workers"):
                    letters[letter.value] = letter
                    if len(letters) == 4:
                        break
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert set(letters) == {b"0", b"5", b"10", b"15"}
            for value, letter in letters.items():
                reason = f"ValueError: cannot do {(value or b'').decode()}".encode()
                assert reason in dict(letter.headers).values()
            again = {number: count for number, count in attempts.items() if count > 1}
            assert again == dict.fromkeys((0, 5, 10, 15), 3)


@pytest.mark.parametrize("extends", [True, False])
async def test_a_slow_handler_keeps_its_message(tmp_path: Path, extends: bool) -> None:
    """R-DEL-3: its lease is extended while it works, unless that is not wanted."""
    with BrokerProcess(tmp_path / "data") as broker:
        async with penstock.connect(broker.address) as mq:
            await publish_numbers(mq, "jobs", range(1))
            begun, finished = 0, asyncio.Event()

            async def handle(message: Message) -> None:
                nonlocal begun
                begun += 1
                if begun == 1:
                    await asyncio.sleep(LEASE_MS / 1000 * 1.7)
                    finished.set()

            task = asyncio.create_task(
                mq.serve(
                    handle,
                    "jobs",
                    group="workers",
                    shared=True,
                    lease_ms=LEASE_MS,
                    auto_extend=extends,
                )
            )
            async with asyncio.timeout(PATIENCE_S):
                await finished.wait()
                assert begun == (1 if extends else 2)
                while (await mq.groups.describe("workers")).lag:
                    await asyncio.sleep(0.01)
            task.cancel()
            await asyncio.wait([task])
            async with mq.share("jobs", group="workers", lease_ms=LEASE_MS) as consumer:
                assert await consumer.fetch(timeout_s=0.3) == []


async def test_pushed_members_of_a_group_hand_partitions_over(tmp_path: Path) -> None:
    """R-DEL-4, R-DEL-6: one joins later; no message is lost, and a partition has one owner."""
    with BrokerProcess(tmp_path / "data") as broker:
        async with (
            penstock.connect(broker.address, client_name="first") as one,
            penstock.connect(broker.address, client_name="second") as two,
            penstock.connect(broker.address, client_name="test") as mq,
        ):
            await mq.admin.create_topic("orders", 4)
            taken: dict[str, list[tuple[int, int]]] = {"first": [], "second": []}
            owners: list[tuple[str, set[int]]] = []

            async def consume(client: Client, name: str) -> None:
                async with client.subscribe("orders", group="billing", push=True) as consumer:
                    async for message in consumer:
                        taken[name].append((message.partition, message.offset))
                        await message.ack()

            async def watch() -> None:
                while True:
                    for client in (await mq.clients.list()).clients:
                        owned = {stream.partition for stream in client.streams}
                        assert all(stream.member_id for stream in client.streams)
                        owners.append((client.name, owned))
                    found = dict(owners[-3:])
                    assert not found.get("first", set()) & found.get("second", set())
                    await asyncio.sleep(0.005)

            async def publish() -> None:
                async with mq.producer(linger_ms=0) as producer:
                    for number in range(2_000):
                        await producer.send("orders", b"%d" % number, partition=number % 4)
                        if number % 20 == 0:
                            await asyncio.sleep(0.02)

            tasks = [asyncio.create_task(consume(one, "first")), asyncio.create_task(watch())]
            try:
                async with asyncio.timeout(60):
                    publishing = asyncio.create_task(publish())
                    await until(lambda: len(taken["first"]) > 200)
                    tasks.append(asyncio.create_task(consume(two, "second")))
                    await publishing
                    await until(lambda: len(set(taken["first"] + taken["second"])) == 2_000)
                assert not any(task.done() for task in tasks)
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
            assert taken["second"], "the second member was given nothing"
            everything = taken["first"] + taken["second"]
            assert len(everything) == len(set(everything))


async def test_filtered_pushes_move_their_group_on(tmp_path: Path) -> None:
    """R-DEL-12: only what passes, and the group's place is behind the rest."""
    with BrokerProcess(tmp_path / "data") as broker:
        async with penstock.connect(broker.address) as mq:
            async with mq.producer() as producer:
                for number in range(1_000):
                    tag = "vip" if number % 100 == 0 else "plain"
                    await producer.send("orders", b"%d" % number, tag=tag)
            async with mq.subscribe("orders", group="billing", push=True, tags="vip") as consumer:
                found = []
                async with asyncio.timeout(PATIENCE_S):
                    async for message in consumer:
                        found.append(int(message.value or b""))
                        await message.ack()
                        if len(found) == 10:
                            break
                    assert found == list(range(0, 1_000, 100))
                    while [lag.lag for lag in await mq.admin.group_lag("billing")] != [0]:
                        await consumer.fetch(timeout_s=0.1)


async def test_shared_pushes_go_on_while_leaders_die(tmp_path: Path) -> None:
    """R-DEL-3, R-REP-2: acknowledged messages never come again, the others do."""
    with Cluster(tmp_path) as cluster:
        async with asyncio.timeout(90), penstock.connect(cluster.bootstrap) as mq:
            await mq.admin.create_topic("jobs", 1, replicas=3)
            async with mq.producer() as producer:
                for number in range(600):
                    await producer.send("jobs", b"%d" % number)
            done: list[int] = []
            async with mq.share("jobs", group="workers", push=True, lease_ms=2_000) as consumer:
                async for message in consumer:
                    done.append(int(message.value or b""))
                    await message.ack()
                    if len(done) == 200:
                        await consumer.commit()
                        route = await mq._connection().routes.topic("jobs", refresh=True)
                        cluster.kill(route.leaders[0])
                    if len(set(done)) == 600:
                        break
            assert not set(done[:200]) & set(done[200:])


def test_the_command_line_shares(tmp_path: Path) -> None:
    """R-DEL-3: written out and acknowledged, given back, or buried."""
    with BrokerProcess(tmp_path / "data") as broker:
        at = ("--bootstrap", broker.address)
        penstock_cli("produce", "jobs", *at, text="a\nb\nc\nd\n")
        words = ("consume", "jobs", "--shared", "--group", "workers", *at)
        assert penstock_cli(*words, "--max", "1", "--push") == "a\n"
        assert penstock_cli(*words, "--max", "3", "--ack", "release") == "b\nc\nd\n"
        assert penstock_cli(*words, "--max", "1", "--ack", "reject") == "b\n"
        assert penstock_cli(*words, "--max", "2") == "c\nd\n"
        assert penstock_cli("consume", "dead-letters.workers", "--max", "1", *at) == "b\n"
        for wrong in (("--partition", "0"), ("--until-end",), ("--from", "7")):
            refused = subprocess.run(
                [sys.executable, "-m", "penstock.cli", *words, *wrong],
                capture_output=True,
                text=True,
                check=False,
                cwd=ROOT,
            )
            assert refused.returncode == 1
            assert "shared group" in refused.stderr
