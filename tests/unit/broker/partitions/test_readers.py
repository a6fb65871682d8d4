"""Readers are woken after the producer's answer has left, so many in a turn of the loop."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections import Counter
from collections.abc import AsyncIterator, Callable

import pytest

from penstock.broker.broker import Broker
from penstock.broker.partitions.partition import Partition
from penstock.broker.partitions.readers import Readers, Wakings
from penstock.model.limits import READERS_WOKEN_PER_TURN_MAX
from penstock.protocol import calls
from penstock.protocol import penstock_pb2 as pb
from penstock.protocol.frame import encode_head
from tests.kit.broker.running import RawClient, another_client, batch, running

GROUPS = 10


class Loop:
    """What was asked of `call_soon`, a turn at a time."""

    def __init__(self) -> None:
        self._soon: list[Callable[[], None]] = []

    def call_soon(self, what: Callable[[], None]) -> None:
        self._soon.append(what)

    def turn(self) -> None:
        soon, self._soon = self._soon, []
        for what in soon:
            what()


class Reader:
    """One that looks, and waits again if it was told to."""

    def __init__(self, readers: Readers, seen: list[str], name: str) -> None:
        self.readers = readers
        self.seen = seen
        self.name = name
        self.then: Callable[[], None] = lambda: None
        self.wait()

    def wait(self) -> None:
        self.readers.wait(self, self._woken)

    def _woken(self) -> None:
        self.seen.append(self.name)
        self.then()


class Stage:
    def __init__(self) -> None:
        self.loop = Loop()
        self.wakings = Wakings(self.loop.call_soon)
        self.seen: list[str] = []

    def readers(self, name: str, count: int) -> tuple[Readers, list[Reader]]:
        readers = Readers(self.wakings)
        return readers, [Reader(readers, self.seen, f"{name}{n}") for n in range(count)]

    def turn(self) -> list[str]:
        """Whom it woke."""
        self.seen.clear()
        self.loop.turn()
        return list(self.seen)


def test_nobody_is_woken_in_the_turn_in_which_more_came() -> None:
    stage = Stage()
    readers, _ = stage.readers("a", 2)
    readers.on_more()
    assert stage.seen == []
    assert stage.turn() == ["a0", "a1"]
    readers.on_more()
    assert stage.turn() == [], "each is woken once"


def test_no_more_than_so_many_are_woken_in_a_turn() -> None:
    stage = Stage()
    readers, _ = stage.readers("a", 2 * READERS_WOKEN_PER_TURN_MAX + 1)
    readers.on_more()
    readers.on_more()
    counts = [len(stage.turn()) for _ in range(4)]
    assert counts == [READERS_WOKEN_PER_TURN_MAX, READERS_WOKEN_PER_TURN_MAX, 1, 0]


def test_partitions_take_turns() -> None:
    """Many who read one topic do not keep those of another waiting."""
    stage = Stage()
    crowd, _ = stage.readers("a", 10 * READERS_WOKEN_PER_TURN_MAX)
    few, _ = stage.readers("b", 2)
    crowd.on_more()
    few.on_more()
    assert stage.turn()[:4] == ["a0", "b0", "a1", "b1"]


def test_who_waits_again_is_not_woken_for_the_same() -> None:
    stage = Stage()
    readers, [reader] = stage.readers("a", 1)
    reader.then = reader.wait
    readers.on_more()
    assert [stage.turn(), stage.turn()] == [["a0"], []]
    readers.on_more()
    assert stage.turn() == ["a0"]


def test_who_has_gone_in_between_is_not_called() -> None:
    stage = Stage()
    readers, [first, second, third] = stage.readers("a", 3)
    first.then = lambda: readers.stop_waiting(second)
    readers.on_more()
    readers.stop_waiting(third)
    assert stage.turn() == ["a0"]
    # Also where all are told at once.
    for each in (first, second, third):
        each.wait()
    stage.seen.clear()
    readers.wake_all()
    assert stage.seen == ["a0", "a2"]


def test_where_a_partition_goes_away_all_are_told_at_once_and_not_again() -> None:
    stage = Stage()
    readers, [reader, _] = stage.readers("a", 2)
    readers.on_more()
    late = Reader(readers, stage.seen, "late")
    reader.then = late.wait
    readers.wake_all()
    assert stage.seen == ["a0", "a1", "late"]
    assert stage.turn() == []


def test_one_that_fails_does_not_keep_the_others_from_being_woken(
    caplog: pytest.LogCaptureFixture,
) -> None:
    stage = Stage()
    readers, [reader, _] = stage.readers("a", 2)

    def fail() -> None:
        raise ZeroDivisionError

    reader.then = fail
    readers.on_more()
    assert stage.turn() == ["a0", "a1"]
    assert "ZeroDivisionError" in caplog.text


def test_one_that_is_stopped_by_force_does_not_keep_the_others_from_being_woken() -> None:
    """What is no failure, as a KeyboardInterrupt, goes its way, and the next turn is planned."""
    stage = Stage()
    readers, [reader, _] = stage.readers("a", 2)
    others, _ = stage.readers("b", 1)

    def stop() -> None:
        raise KeyboardInterrupt

    reader.then = stop
    readers.on_more()
    others.on_more()
    with pytest.raises(KeyboardInterrupt):
        stage.turn()
    assert sorted(stage.turn()) == ["a1", "b0"]
    readers, _ = stage.readers("c", 1)
    readers.on_more()
    assert stage.turn() == ["c0"]


# --- in a broker ---------------------------------------------------------------------------------


@contextlib.asynccontextmanager
async def producing(broker: Broker) -> AsyncIterator[socket.socket]:
    """A connection whose answers nobody takes, so that it shows when they are there."""
    host, _, port = broker.addresses[0].rpartition(":")
    connection = socket.create_connection((host, int(port)))
    try:
        connection.setblocking(False)
        yield connection
    finally:
        connection.close()


def publish(connection: socket.socket, message_id: int) -> None:
    request = pb.ProduceRequest(topic="orders", acks=-1).SerializeToString()
    payload = bytes(batch([b"tea"]))
    head = encode_head(calls.PRODUCE.number, message_id, request, len(payload))
    connection.sendall(head + payload)


def is_answered(connection: socket.socket) -> bool:
    try:
        return bool(connection.recv(1, socket.MSG_PEEK))
    except BlockingIOError:
        return False


async def lease(client: RawClient, group: str, wait_ms: int = 60_000) -> None:
    asked = pb.LeaseRequest(
        group=group,
        member_id="m",
        topic="orders",
        messages_max=1,
        bytes_max=1 << 20,
        max_wait_ms=wait_ms,
    )
    await client.channel.call(calls.LEASE, asked)


@pytest.mark.parametrize("durability", ["os", "fsync"])
async def test_a_producer_is_answered_before_ten_shared_groups_are_served(
    durability: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R-PRF-1: how long publishing takes does not depend on how many read."""
    waiting: set[object] = set()
    woken: dict[object, tuple[bool, int]] = {}
    turn = 0
    wait_for_more = Partition.wait_for_more

    async def count_turns() -> None:
        nonlocal turn
        while True:
            turn += 1
            await asyncio.sleep(0)

    async with running() as (broker, client), producing(broker) as producer:
        await client.create("orders", durability=durability)

        def note(partition: Partition, waiter: object, wake: Callable[[], None]) -> None:
            def note_woken() -> None:
                if waiter not in woken:
                    woken[waiter] = (is_answered(producer), turn)
                wake()

            waiting.add(waiter)
            wait_for_more(partition, waiter, note_woken)

        monkeypatch.setattr(Partition, "wait_for_more", note)
        async with contextlib.AsyncExitStack() as stack:
            leases = []
            for number in range(GROUPS):
                member = await stack.enter_async_context(another_client(broker))
                heartbeat = pb.GroupHeartbeatRequest(
                    group=f"g{number}",
                    member_id="m",
                    shared=True,
                    topics=["orders"],
                    settings=pb.SharedSettings(lease_ms=10_000),
                    is_full=True,
                )
                await member.channel.call(calls.GROUP_HEARTBEAT, heartbeat)
                leases.append(asyncio.create_task(lease(member, f"g{number}")))
            while len(waiting) < GROUPS:
                await asyncio.sleep(0)
            counting = asyncio.create_task(count_turns())
            publish(producer, 1)
            await asyncio.gather(*leases)
            counting.cancel()
    assert len(woken) == GROUPS
    assert all(was_answered for was_answered, _ in woken.values())
    in_turn = Counter(turn for _, turn in woken.values())
    assert max(in_turn.values()) <= READERS_WOKEN_PER_TURN_MAX
