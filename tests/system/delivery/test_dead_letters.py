"""Retries, dead letters, time to live and priorities with real broker processes (R-DEL-9)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock.client.client import Client
from penstock.client.connection.routes import GROUPS
from penstock.model.dead_letter import dead_letter_topic
from penstock.model.errors import PenstockError
from penstock.protocol import penstock_pb2 as pb
from penstock.protocol.calls import DESCRIBE_GROUP
from penstock.records import Message
from tests.kit.processes.brokers import BrokerProcess
from tests.kit.processes.cluster import Cluster
from tests.system.delivery import dying_broker
from tests.system.test_cli import Commands

GROUP = "workers"
PATIENCE_S = 60


class DyingBroker(BrokerProcess):
    module = dying_broker.__name__


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while True:
            try:
                if await condition():
                    return
            except PenstockError as error:
                if not error.retriable:
                    raise
            await asyncio.sleep(0.05)


async def ids(mq: Client) -> list[str]:
    return [letter.id async for letter in mq.dead_letters.list(GROUP)]


async def fail_all(mq: Client, reason: str, seen: list[tuple[float, int, int]]) -> None:
    """A worker that cannot deal with anything; notes when it got what, and for which time."""
    settings: dict[str, Any] = {"attempts_max": 3, "backoff_ms": 200}
    async with mq.share("jobs", group=GROUP, **settings) as consumer:
        async for message in consumer:
            seen.append((time.monotonic(), message.offset, message.attempt))
            await message.fail(reason)


async def place(mq: Client, topic: str = "jobs") -> pb.DescribeGroupResponse.Place:
    """Where the group stands in partition 0, as operators see it."""
    routes = mq.admin._routes
    answer = await routes.call_coordinator(
        GROUPS, DESCRIBE_GROUP, pb.DescribeGroupRequest(group=GROUP)
    )
    [found] = [one for one in answer.places if (one.topic, one.partition) == (topic, 0)]
    return found


async def bury_one(address: str, *, headers: list[tuple[str, bytes]] | None = None) -> None:
    """A message that its worker rejects."""
    async with penstock.connect(address) as mq, mq.share("jobs", group=GROUP) as consumer:
        await mq.publish("jobs", b"bad", key=b"alice", headers=headers)
        [message] = await consumer.fetch(1)
        await message.reject("ValueError: bad job")
        await consumer.commit()


async def test_attempts_with_backoff_and_then_a_letter_with_all_that_is_known(
    tmp_path: Path,
) -> None:
    """R-DEL-9: exponential backoff, the reason, the origin and the headers kept."""
    with BrokerProcess(tmp_path) as broker:
        async with penstock.connect(broker.address) as mq:
            await mq.admin.create_topic("jobs", 1)
            sent = await mq.publish("jobs", b"bad", key=b"alice", headers=[("trace", b"7")])
            seen: list[tuple[float, int, int]] = []
            worker = asyncio.create_task(fail_all(mq, "TimeoutError: too slow", seen))
            await until(lambda: _is(ids(mq), ["jobs/0/0"]))
            worker.cancel()
            assert [attempt for _, _, attempt in seen] == [1, 2, 3]
            first_s, second_s = seen[1][0] - seen[0][0], seen[2][0] - seen[1][0]
            assert first_s >= 0.1, "200 ms, with jitter"
            assert second_s >= 0.2, "400 ms, with jitter"
            letter = await mq.dead_letters.show(GROUP, "jobs/0/0")
            assert (letter.reason, letter.attempts) == ("TimeoutError: too slow", 3)
            assert (letter.topic, letter.partition, letter.offset) == ("jobs", 0, 0)
            assert (letter.key, letter.value) == (b"alice", b"bad")
            assert letter.headers == (("trace", b"7"),)
            assert letter.timestamp_ms == sent.timestamp_ms
            await until(lambda: _is_dead(mq, 1))


async def _is(found: Awaitable[object], expected: object) -> bool:
    return await found == expected


async def _is_dead(mq: Client, count: int) -> bool:
    return (await place(mq)).dead == count


async def test_list_show_redrive_and_drop_by_the_command(tmp_path: Path) -> None:
    """R-DEL-9: filters, dry run, loop guard, rate limit; `penstock dead-letters`."""
    with BrokerProcess(tmp_path) as broker:
        commands = Commands(broker.address)
        async with penstock.connect(broker.address) as mq:
            await mq.admin.create_topic("jobs", 1)
            await bury_one(broker.address)
            await bury_one(broker.address, headers=[("penstock-redrives", b"2")])
            await until(lambda: _is(ids(mq), ["jobs/0/0", "jobs/0/1"]))

            def run(*words: str, code: int = 0) -> tuple[str, str]:
                output, error = commands.run("dead-letters", *words, code=code)
                return output.decode(), error

            assert "workers" in run("groups")[0]
            table, _ = run("list", GROUP)
            assert "jobs/0/0" in table
            assert "ValueError: bad job" in table
            rows = commands.rows("dead-letters", "list", GROUP, "--reason", "VALUEERROR")
            assert [row["redrives"] for row in rows] == [0, 2]
            assert commands.rows("dead-letters", "list", GROUP, "--topic", "mails") == []
            assert len(commands.rows("dead-letters", "list", GROUP, "--since", "1h")) == 2
            assert commands.rows("dead-letters", "list", GROUP, "--until", "1h-ago") == []
            shown = run("show", GROUP, "jobs/0/0")[0]
            assert "alice" in shown
            assert "no dead letter" in run("show", GROUP, "jobs/0/9", code=1)[1]

            _, error = run("redrive", GROUP, "--dry-run", code=1)
            assert "1 would be redriven, 1 left alone" in error
            assert len(await ids(mq)) == 2
            assert await mq.admin.find_offset("jobs", 0, "latest") == 2, "nothing was published"
            output, error = run("redrive", GROUP, "--rate", "100", code=1)
            assert "1 redriven, 1 left alone" in error
            assert "redriven 2 times" in output
            assert await ids(mq) == ["jobs/0/1"]
            run("redrive", GROUP, "jobs/0/1", "--force")
            async with (
                penstock.connect(broker.address) as other,
                other.share("jobs", group=GROUP) as consumer,
            ):
                messages: list[Message] = []
                while len(messages) < 2:
                    messages += await consumer.fetch()
                redrives = [dict(one.headers)["penstock-redrives"] for one in messages]
                assert redrives == [b"1", b"3"]
                for message in messages:
                    await message.reject("again")
                await consumer.commit()
            await until(lambda: _is(ids(mq), ["jobs/0/2", "jobs/0/3"]))
            assert "name them" in run("drop", GROUP, code=1)[1]
            assert "1 dropped" in run("drop", GROUP, "jobs/0/2")[1]
            assert "1 would be dropped" in run("drop", GROUP, "--all", "--dry-run")[1]
            assert "1 dropped" in run("drop", GROUP, "--all")[1]
            assert await ids(mq) == []
            for _ in range(3):
                await bury_one(broker.address)
            await until(lambda: _count_is(mq, 3))
            began_s = time.monotonic()
            assert (await mq.dead_letters.redrive(GROUP, rate_per_s=5)).redriven == 3
            assert time.monotonic() - began_s >= 2 / 5


async def test_what_dies_after_two_redrives_stays_unless_somebody_insists(tmp_path: Path) -> None:
    """R-DEL-9: the loop guard, by a message that goes round in earnest; everything it had stays
    with it."""
    with BrokerProcess(tmp_path) as broker:
        commands = Commands(broker.address)
        async with penstock.connect(broker.address) as mq:
            await mq.admin.create_topic("jobs", 1)
            await mq.publish("jobs", b"bad", key=b"alice", headers=[("trace", b"7")])
            worker = asyncio.create_task(_reject_all(mq))
            for redrives in range(3):
                await until(partial(_has_only, mq, f"jobs/0/{redrives}"))
                letter = await mq.dead_letters.show(GROUP, f"jobs/0/{redrives}")
                assert (letter.redrives, letter.key, letter.value) == (redrives, b"alice", b"bad")
                assert dict(letter.headers)["trace"] == b"7"
                _, error = commands.run(
                    "dead-letters",
                    "redrive",
                    GROUP,
                    "--key",
                    "alice",
                    "--limit",
                    "1",
                    code=redrives // 2,
                )
                assert ("left alone" if redrives == 2 else "1 redriven") in error
            commands.run(
                "dead-letters", "redrive", GROUP, "--force", "--to-topic", "elsewhere", code=1
            )
            await mq.admin.create_topic("elsewhere", 1)
            commands.run("dead-letters", "redrive", GROUP, "--force", "--to-topic", "elsewhere")
            worker.cancel()
            [message] = await mq.subscribe("elsewhere").fetch()
            assert (message.key, message.value) == (b"alice", b"bad")
            assert dict(message.headers) == {"trace": b"7", "penstock-redrives": b"3"}
            assert await ids(mq) == []


async def test_what_a_handler_cannot_do_is_tried_again_and_becomes_a_letter(tmp_path: Path) -> None:
    """R-DEL-9: `mq.serve` in a group with its own partitions, where this process counts."""
    with BrokerProcess(tmp_path) as broker:
        async with penstock.connect(broker.address) as mq:
            await mq.admin.create_topic("jobs", 1)
            for value in (b"good", b"bad", b"good"):
                await mq.publish("jobs", value)
            tried: list[float] = []

            async def handle(message: Message) -> None:
                if message.value == b"bad":
                    tried.append(time.monotonic())
                    raise ValueError("bad job")

            settings: dict[str, Any] = {"group": GROUP, "attempts": 3, "retry_backoff_ms": 100}
            serving = asyncio.create_task(mq.serve(handle, "jobs", **settings))
            await until(lambda: _is(ids(mq), ["jobs/0/1"]))
            serving.cancel()
            await asyncio.gather(serving, return_exceptions=True)
            letter = await mq.dead_letters.show(GROUP, "jobs/0/1")
            assert (letter.reason, letter.attempts) == ("ValueError: bad job", 3)
            assert len(tried) == 3
            assert tried[1] - tried[0] >= 0.05, "100 ms, with jitter"
            assert tried[2] - tried[1] >= 0.1, "200 ms, with jitter"
            assert (await mq.groups.describe(GROUP)).lag == 0


async def _has_only(mq: Client, letter_id: str) -> bool:
    return await ids(mq) == [letter_id]


async def _count_is(mq: Client, count: int) -> bool:
    return len(await ids(mq)) == count


async def test_a_broker_killed_after_burying_leaves_one_letter(tmp_path: Path) -> None:
    """R-DEL-9: SIGKILL between the letter's writing and the message's end: buried twice, there
    once."""
    broker: BrokerProcess
    with DyingBroker(tmp_path) as broker:
        async with penstock.connect(broker.address) as mq:
            await mq.admin.create_topic("jobs", 1)
            await mq.publish("jobs", b"bad")
            async with mq.share("jobs", group=GROUP, lease_ms=1_000) as consumer:
                [message] = await consumer.fetch(1)
                await message.reject("never")
                assert await asyncio.to_thread(broker.process.wait, PATIENCE_S) == -9
        address = broker.address
        assert broker.process.stdout is not None
        broker.process.stdout.close()
    broker = BrokerProcess(tmp_path)
    broker.address = address
    with broker:
        async with penstock.connect(broker.address) as mq:
            worker = asyncio.create_task(_reject_all(mq))
            topic = dead_letter_topic(GROUP)
            await until(lambda: _is(mq.admin.find_offset(topic, 0, "latest"), 2))
            worker.cancel()
            assert await ids(mq) == ["jobs/0/0"]
            [group] = await mq.dead_letters.groups()
            assert group.count == 1
            assert (await mq.dead_letters.redrive(GROUP)).redriven == 1


async def _reject_all(mq: Client) -> None:
    async with mq.share("jobs", group=GROUP, lease_ms=1_000) as consumer:
        async for message in consumer:
            await message.reject("never")


@pytest.mark.parametrize(("is_shared", "copies"), [(True, 3), (False, 3), (False, 1)])
async def test_letters_are_written_wherever_their_topic_is_led(
    tmp_path: Path, is_shared: bool, copies: int
) -> None:
    """R-DEL-9: three brokers; jobs are led by all of them, the letters' topic by one, which may
    have the only copy."""
    with Cluster(tmp_path, replication_factor_default=copies) as cluster:
        async with penstock.connect(cluster.bootstrap) as mq:
            await mq.admin.create_topic("jobs", 6, replicas=3)
            await until(lambda: _leaders_are(mq, 3))
            for partition in range(6):
                await mq.publish("jobs", b"%d" % partition, partition=partition)
            consumer: Any = (
                mq.share("jobs", group=GROUP) if is_shared else mq.subscribe("jobs", group=GROUP)
            )
            async with consumer:
                messages: list[Message] = []
                while len(messages) < 6:
                    messages += await consumer.fetch()
                await asyncio.gather(*(message.reject("never") for message in messages))
            await until(lambda: _count_is(mq, 6))
            assert (await mq.dead_letters.redrive(GROUP)).redriven == 6
            async with mq.subscribe("jobs") as reader:
                back: list[tuple[int, bytes | None]] = []
                while len(back) < 12:
                    back += [(message.partition, message.value) for message in await reader.fetch()]
            assert sorted(back) == [(at, b"%d" % at) for at in range(6) for _ in range(2)]
            assert await ids(mq) == []


async def _leaders_are(mq: Client, count: int) -> bool:
    described = await mq.admin.describe_topic("jobs")
    return len({one.leader for one in described.partitions}) == count


async def test_expired_messages_are_not_delivered_and_counted(tmp_path: Path) -> None:
    """Per-message TTL, in a shared group and in one with its own partitions."""
    with BrokerProcess(tmp_path) as broker:
        commands = Commands(broker.address)
        async with penstock.connect(broker.address) as mq:
            await mq.admin.create_topic("jobs", 1)
            commands.produce("jobs", ["old", "older"], "--ttl", "1ms")
            commands.produce("jobs", ["new"], "--ttl", "1h")
            await asyncio.sleep(0.05)
            async with mq.share("jobs", group=GROUP) as shared:
                assert [message.value for message in await shared.fetch()] == [b"new"]
            await until(lambda: _has_expired(mq, 2))
            described = commands.value("groups", "describe", GROUP)
            assert isinstance(described, dict)
            assert [one["expired"] for one in described["places"]] == [2]
            for push in (False, True):
                async with mq.subscribe("jobs", group=f"own-{push}", push=push) as own:
                    [message] = await own.fetch()
                    assert (message.value, own.expired_count) == (b"new", 2)
                    await message.ack()
                    await own.commit()
                    assert await own.committed(("jobs", 0)) == 3


async def _has_expired(mq: Client, count: int) -> bool:
    return (await place(mq)).expired == count


async def test_higher_priorities_first_in_a_shared_group(tmp_path: Path) -> None:
    """Priorities: in a shared group; one with its own partitions keeps their order."""
    with BrokerProcess(tmp_path) as broker:
        commands = Commands(broker.address)
        async with penstock.connect(broker.address) as mq:
            await mq.admin.create_topic("jobs", 1)
            await mq.publish("jobs", b"plain")
            commands.produce("jobs", ["low"], "--priority", "0")
            await mq.publish("jobs", b"high", priority=9)
            async with mq.share("jobs", group=GROUP, prefetch=1) as shared:
                order = [(await shared.fetch(1))[0].value for _ in range(3)]
            assert order == [b"high", b"plain", b"low"]
            own = [message.value for message in await mq.subscribe("jobs").fetch()]
            assert own == [b"plain", b"low", b"high"][: len(own)]
            _, error = commands.run("produce", "jobs", "--priority", "10", code=2)
            assert "priority" in error
            _, error = commands.run("produce", "jobs", "--ttl", "0s", given=b"x\n", code=1)
            assert "ttl_s" in error
