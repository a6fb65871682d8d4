"""Leases as a user of the client meets them, with a broker in a process of its own: what members
say of messages, what becomes of those that are in nobody's hand, and that members add capacity.

R-DEL-3, R-DEL-9, R-DEL-11.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import resource
import signal
import time
from collections import defaultdict
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

import penstock
from penstock import Client, Message
from penstock.client.sharing.consumer import SharedConsumer
from penstock.model.errors import InvalidRequest, UnknownLease, UnknownTopic
from penstock.protocol import penstock_pb2 as pb
from penstock.protocol.calls import SETTLE
from tests.kit.processes.brokers import BrokerProcess
from tests.kit.processes.up import address_of, up
from tests.system.clients import PATIENCE_S, publish_numbers, until

TOPIC, GROUP = "jobs", "workers"
# Longer than a busy machine lets anybody wait, and shorter than anybody likes to wait for.
LEASE_MS = 3_000


@contextlib.asynccontextmanager
async def living(folder: Path, partitions: int = 1) -> AsyncIterator[tuple[BrokerProcess, Client]]:
    with BrokerProcess(folder / "data") as broker:
        async with asyncio.timeout(90), penstock.connect(broker.address) as mq:
            await mq.admin.create_topic(TOPIC, partitions)
            yield broker, mq


async def taken(consumer: SharedConsumer, count: int) -> list[Message]:
    """So many messages, in the order in which they came."""
    messages: list[Message] = []
    async with asyncio.timeout(PATIENCE_S):
        while len(messages) < count:
            messages += await consumer.fetch(count - len(messages))
    return messages


def numbers(messages: list[Message]) -> list[int]:
    return [int(message.value or b"") for message in messages]


async def dead_letters(mq: Client) -> dict[int, str]:
    """Their values, and why."""
    found: dict[int, str] = {}
    async with mq.subscribe(f"dead-letters.{GROUP}", start="earliest") as consumer:
        while messages := await consumer.fetch(timeout_s=1.0):
            for message in messages:
                reason = dict(message.headers)["penstock-dead-reason"] or b""
                found[int(message.value or b"")] = reason.decode()
    return found


async def test_members_say_what_became_of_each_message(tmp_path: Path) -> None:
    """R-DEL-3, R-DEL-9: singly and in ranges; each comes again as it was said, or never."""
    async with living(tmp_path) as (_, mq):
        await publish_numbers(mq, TOPIC, range(20))
        async with mq.share(TOPIC, group=GROUP, backoff_ms=200, attempts_max=3) as one:
            messages = await taken(one, 20)
            assert numbers(messages) == list(range(20))
            for message in messages[5:15]:  # neighbours, told as one range
                await message.ack()
            await messages[0].ack()
            await messages[1].reject("never")
            await messages[2].fail("not now")
            await messages[3].release()
            released_s = time.monotonic()
            await messages[4].release(delay_s=1.0)
            await one.commit()
            again = {int(each.value or b""): each for each in await taken(one, 3)}
            assert time.monotonic() >= released_s + 1.0, "nobody gets it before its time"
            assert set(again) == {2, 3, 4}
            assert {number: each.attempt for number, each in again.items()} == {2: 2, 3: 1, 4: 1}
            for message in [*again.values(), *messages[15:]]:
                await message.ack()
            await one.commit()
            assert one.lost_count == 0
            assert await dead_letters(mq) == {1: "never"}
            assert await one.fetch(timeout_s=0.3) == []
        assert (await mq.groups.describe(GROUP)).lag == 0


async def test_a_lease_that_runs_out_returns_and_one_that_is_extended_does_not(
    tmp_path: Path,
) -> None:
    """R-DEL-3: at its end, not before; who answers late is told, and changes nothing."""
    async with living(tmp_path) as (broker, mq):
        await publish_numbers(mq, TOPIC, range(2))
        async with (
            penstock.connect(broker.address) as other,
            mq.share(TOPIC, group=GROUP, lease_ms=LEASE_MS) as holder,
            other.share(TOPIC, group=GROUP, lease_ms=LEASE_MS) as waiting,
        ):
            leased_s = time.monotonic()
            kept, forgotten = await taken(holder, 2)
            while time.monotonic() < leased_s + LEASE_MS / 1000 * 0.5:
                assert await waiting.fetch(timeout_s=0.1) == []
            await kept.extend()
            [came] = await taken(waiting, 1)
            assert time.monotonic() >= leased_s + LEASE_MS / 1000 - 0.001
            assert (came.offset, came.attempt) == (forgotten.offset, 2)
            await forgotten.ack()
            await holder.commit()
            assert holder.lost_count == 1
            with pytest.raises(InvalidRequest):
                await forgotten.extend()
            await came.ack()
            await kept.ack()
            await waiting.commit()
            await holder.commit()
            assert (holder.lost_count, waiting.lost_count) == (1, 0)


async def test_settlements_of_what_a_member_does_not_hold_change_nothing(tmp_path: Path) -> None:
    """R-DEL-3: another's, twice, never handed out, in part: each is refused with who has it."""
    async with living(tmp_path) as (broker, mq):
        await publish_numbers(mq, TOPIC, range(10))
        async with (
            penstock.connect(broker.address) as other,
            mq.share(TOPIC, group=GROUP, prefetch=5) as holder,
            other.share(TOPIC, group=GROUP) as stranger,
        ):
            held = await taken(holder, 5)
            await taken(stranger, 5)
            channel = await stranger.ledger._routes.leader(TOPIC, 0, refresh=False)

            async def settle(member: str, first: int, last: int) -> pb.Error:
                acknowledge = pb.SettleRequest.KIND_ACKNOWLEDGE
                request = pb.SettleRequest(group=GROUP, member_id=member, topic=TOPIC)
                request.ranges.add(first=first, last=last, kind=acknowledge)
                answer, _ = await channel.call(SETTLE, request)
                return answer.outcomes[0]

            name = stranger.member_id
            for first, last in ((0, 0), (0, 4), (4, 5), (10, 10), (0, 2**62)):
                refused = await settle(name, first, last)
                assert refused.code == UnknownLease.code, (first, last)
                assert f"'{name[:80]}' does not hold" in refused.message
            assert (await settle("nobody", 0, 0)).code == UnknownLease.code
            assert not (await settle(name, 5, 9)).code
            assert (await settle(name, 5, 9)).code == UnknownLease.code, "it has been settled"
            for message in held:
                await message.ack()
                await message.ack()
            await holder.commit()
            assert holder.lost_count == 0
        assert (await mq.groups.describe(GROUP)).lag == 0


@pytest.mark.parametrize("push", [False, True])
async def test_members_of_one_partition_work_at_the_same_time(tmp_path: Path, push: bool) -> None:
    """R-DEL-3: adding consumers adds capacity. Nobody's message is done before everybody has one:
    a group that worked one after another would never get there."""
    members, rounds = 8, 5
    async with living(tmp_path) as (broker, mq), contextlib.AsyncExitStack() as stack:
        together = asyncio.Barrier(members)
        done: list[int] = []

        async def work(consumer: SharedConsumer) -> None:
            for _ in range(rounds):
                [message] = await taken(consumer, 1)
                await together.wait()
                done.append(int(message.value or b""))
                await message.ack()

        consumers = []
        for number in range(members):
            client = penstock.connect(broker.address, client_name=f"m{number}")
            one = await stack.enter_async_context(client)
            shared = one.share(TOPIC, group=GROUP, prefetch=1, push=push)
            consumers.append(await stack.enter_async_context(shared))
        await publish_numbers(mq, TOPIC, range(members * rounds * 2))
        async with asyncio.TaskGroup() as group:
            for consumer in consumers:
                group.create_task(work(consumer))
        assert len(done) == len(set(done)) == members * rounds


@pytest.mark.parametrize("push", [False, True])
async def test_each_key_in_order_with_more_members_than_partitions(
    tmp_path: Path, push: bool
) -> None:
    """R-DEL-11: of one key one message is out at a time, whoever has it; other keys go on."""
    members, keys, each = 6, 5, 20
    async with living(tmp_path, 2) as (broker, mq), contextlib.AsyncExitStack() as stack:
        async with mq.producer() as producer:
            for number in range(each):
                for key in range(keys):
                    await producer.send(TOPIC, b"%d" % number, key=b"%d" % key)
        out: dict[bytes, str] = {}
        done: defaultdict[bytes, list[int]] = defaultdict(list)
        most_at_once, who = 0, set[str]()
        chance = random.Random(1)

        async def work(name: str, consumer: SharedConsumer) -> None:
            nonlocal most_at_once
            async for message in consumer:
                key = message.key or b""
                assert key not in out, f"{name} gets a message of {key!r}, and {out[key]} has one"
                out[key] = name
                most_at_once = max(most_at_once, len(out))
                who.add(name)
                await asyncio.sleep(chance.random() * 0.02)
                del out[key]
                if chance.random() < 0.1:
                    await message.fail("once more")
                    continue
                done[key].append(int(message.value or b""))
                await message.ack()

        tasks = []
        for number in range(members):
            name = f"m{number}"
            client = await stack.enter_async_context(penstock.connect(broker.address))
            shared = client.share(
                TOPIC, group=GROUP, ordered=True, push=push, backoff_ms=20, attempts_max=100
            )
            consumer = await stack.enter_async_context(shared)
            tasks.append(asyncio.create_task(work(name, consumer)))
        try:
            await until(
                lambda: (
                    any(task.done() for task in tasks)
                    or sum(map(len, done.values())) == keys * each
                )
            )
            assert [task.exception() for task in tasks if task.done()] == []
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        assert done == {b"%d" % key: list(range(each)) for key in range(keys)}
        assert most_at_once > 2, "the keys waited for one another"
        assert len(who) > 2, "only so many members as partitions worked"


async def test_a_partition_that_is_another_members_now_keeps_nothing_back(tmp_path: Path) -> None:
    """R-DEL-3: what is leased to a member that is asking, while the group tells it to ask
    elsewhere, comes into its hands all the same: else it would be nobody's for a lease."""
    async with living(tmp_path, 2) as (broker, mq):
        done: set[int] = set()

        async def work(consumer: SharedConsumer) -> None:
            async for message in consumer:
                done.add(int(message.value or b""))
                await message.ack()

        async with (
            penstock.connect(broker.address) as other,
            mq.share(TOPIC, group=GROUP, attempts_max=1) as first,
        ):
            working = [asyncio.create_task(work(first))]
            await until(lambda: len(first.partitions) == 2)
            await publish_numbers(mq, TOPIC, range(10))
            await until(lambda: len(done) == 10)
            async with other.share(TOPIC, group=GROUP, attempts_max=1) as second:
                working.append(asyncio.create_task(work(second)))
                await until(lambda: len(first.partitions) == 1)
                for partition in range(2):
                    await mq.publish(TOPIC, b"%d" % (10 + partition), partition=partition)
                # Long before a lease is over, which is 30 s.
                await until(lambda: len(done) == 12)
                for task in working:
                    task.cancel()
                await asyncio.gather(*working, return_exceptions=True)


async def test_who_leaves_gives_back_what_it_has_not_begun_with(tmp_path: Path) -> None:
    """R-DEL-3: also what was on its way to it. What it had in its hands was an attempt."""
    async with living(tmp_path) as (_, mq):
        await publish_numbers(mq, TOPIC, range(2_000))
        chance = random.Random(1)
        seen: list[int] = []
        for _ in range(40):
            async with mq.share(TOPIC, group=GROUP, attempts_max=1, prefetch=10) as consumer:
                for _ in range(chance.randrange(1, 12)):
                    [message] = await taken(consumer, 1)
                    seen.append(int(message.value or b""))
                    await message.ack()
                    await asyncio.sleep(chance.random() * 0.002)
        async with mq.share(TOPIC, group=GROUP, attempts_max=1) as consumer:
            [begun] = await taken(consumer, 1)
        assert begun.value is not None
        async with mq.share(TOPIC, group=GROUP, attempts_max=1) as consumer:
            while len(seen) < 1_999:
                for message in await consumer.fetch(timeout_s=PATIENCE_S):
                    seen.append(int(message.value or b""))
                    await message.ack()
        assert sorted([*seen, int(begun.value)]) == list(range(2_000))
        assert set(await dead_letters(mq)) == {int(begun.value)}


async def test_outcomes_are_told_at_the_end_though_one_topic_is_gone(tmp_path: Path) -> None:
    """R-DEL-3: what was acknowledged in another topic does not come again."""
    async with living(tmp_path) as (_, mq):
        await mq.admin.create_topic("gone")
        await publish_numbers(mq, "gone", range(1))
        await publish_numbers(mq, TOPIC, range(1))
        async with mq.share("gone", TOPIC, group=GROUP) as consumer:
            messages = await taken(consumer, 2)
            await mq.admin.delete_topic("gone")
            for message in messages:
                try:
                    await message.ack()
                except UnknownTopic:  # whichever is first may be told of the deletion, once
                    await message.ack()
        async with mq.share(TOPIC, group=GROUP) as consumer:
            assert await consumer.fetch(timeout_s=1.0) == []


async def test_a_full_disk_is_told_of_once_by_all_groups_together(tmp_path: Path) -> None:
    """R-STO-1: not by each attempt of each to have kept what was settled, which is, in the end."""
    with up("--data", str(tmp_path / "data"), "--listen", "127.0.0.1:0") as (process, line):
        async with asyncio.timeout(PATIENCE_S), penstock.connect(address_of(line)) as mq:
            await mq.admin.create_topic(TOPIC, 3)
            await publish_numbers(mq, TOPIC, range(30))
            async with mq.share(TOPIC, group=GROUP) as consumer:
                messages = await taken(consumer, 30)
                room = resource.prlimit(process.pid, resource.RLIMIT_FSIZE)
                resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (0, room[1]))
                for message in messages:
                    await message.ack()
                await asyncio.sleep(5)
                resource.prlimit(process.pid, resource.RLIMIT_FSIZE, room)
            async with mq.share(TOPIC, group=GROUP) as consumer:
                # Nothing refused for three seconds is well.
                assert await consumer.fetch(timeout_s=5) == []
        process.send_signal(signal.SIGTERM)
        _, log = await asyncio.to_thread(process.communicate, timeout=PATIENCE_S)
    about = [each for each in log.splitlines() if "delivery.shared" in each or "settled" in each]
    assert len(about) == 2, about
    assert "What shared groups have settled cannot be written, and is tried again: " in about[0]
    assert "What shared groups have settled can be written again, after " in about[1]
