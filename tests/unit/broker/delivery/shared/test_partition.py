"""Batches that a broker cannot open, which a shared group survives; and what must be durable before
anybody is told."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from penstock.broker.delivery.dead_letters import DeadLetters
from penstock.broker.delivery.shared.log import Payload, ShareLog
from penstock.broker.delivery.shared.partition import Outcomes, Settled, Share, Surroundings
from penstock.broker.partitions import unopened
from penstock.broker.partitions.partition import Partition
from penstock.broker.turns.fair_turns import FairTurns
from penstock.coordination.delivery.shared_partition import SharePartition
from penstock.coordination.delivery.shared_settings import (
    DeadMessage,
    Lease,
    Settlement,
    ShareSettings,
)
from penstock.model.dead_letter import read_dead_letter
from penstock.model.errors import Busy, NotLeader, PenstockError
from penstock.protocol import penstock_pb2 as pb
from penstock.protocol.calls import DEAD_LETTER
from penstock.records import BatchBuilder, Codec
from penstock.records.header import read_header
from tests.kit.broker.openings import Watch, tiny_headers, zeros
from tests.kit.broker.shared_groups import Stage, stage


async def publish_bomb(here: Stage) -> None:
    """Three messages that are small, and too large when they are opened."""
    builder = BatchBuilder(100_000_000, Codec.ZSTD)
    for _ in range(3):
        builder.append(1_000, b"key", bytes(25_000_000), ())
    bomb = bytearray(builder.build())
    assert len(bomb) < 10_000
    await here.client.produce("orders", bomb)


@pytest.mark.parametrize(
    "settings",
    [{}, {"ordered_by_key": True}, {"filter": pb.Filter(expression="timestamp > 0")}],
    ids=["plain", "ordered", "filtered"],
)
async def test_one_that_would_be_too_large_is_a_dead_letter(settings: dict[str, Any]) -> None:
    """R-DEL-9: whoever can write must not be able to stop those who read."""
    async with stage() as here:
        await here.publish(2, key=b"a")
        await publish_bomb(here)
        await here.publish(1, key=b"b")
        member = await here.member("m", **settings)
        seen: list[int] = []
        while len(seen) < 3:
            for message in await member.lease(2):
                seen.append(message.offset)
                assert await member.settle(message.offset) == 0
        assert sorted(seen) == [0, 1, 5]
        # It is found out when somebody asks for more, as consumers always do.
        asking = asyncio.create_task(member.lease(max_wait_ms=60_000))
        [record] = await here.dead_letters()
        asking.cancel()
        letter = read_dead_letter(record.key, record.value, record.headers)
        assert letter is not None
        assert (letter.topic, letter.partition, letter.offset) == ("orders", 0, 2)
        assert "cannot be decompressed" in letter.reason
        assert not letter.may_be_redriven(force=False), "there is nothing in it to be put back"
        assert await member.lease(max_wait_ms=1) == []


async def test_a_consumer_may_reject_what_the_broker_cannot_open() -> None:
    """R-DEL-9: an exclusive one, which opens it for itself."""
    async with stage() as here:
        await publish_bomb(here)
        request = pb.DeadLetterRequest(group="g", topic="orders", offset=1, reason="never")
        await here.client.channel.call(DEAD_LETTER, request)
        [record] = await here.dead_letters()
        letter = read_dead_letter(record.key, record.value, record.headers)
        assert letter is not None
        assert (letter.offset, letter.value) == (1, None)
        assert letter.reason == "never"


NOW_MS = 1_000_000


class Bench:
    """A share whose member `m` holds four messages. The test is the coordinator that keeps states,
    the dead letters and the clock."""

    def __init__(self, alone_from_ms: int = 0) -> None:
        self.now_ms = NOW_MS
        self.told: list[Outcomes] = []
        self.buried: list[int] = []
        self.bury_error: PenstockError | None = None
        self.is_writing = False
        self._kept = asyncio.Event()
        self.machine = SharePartition.fresh(0, ShareSettings(lease_ms=60_000))
        self.machine.offer(0, 4, NOW_MS)
        while not self.machine.lease("m", 4, NOW_MS):
            self.machine.durable(self.machine.snapshot())
        replica = SimpleNamespace(is_leader=True, term=1)
        partition = SimpleNamespace(name="orders-0", is_open=True, replica=replica)
        partition.stop_waiting = lambda waiter: None
        self.share = Share(
            "g",
            cast("Partition", partition),
            1,
            self.machine,
            cast("ShareLog", None),  # nobody waits for messages
            Surroundings(
                loop=asyncio.get_running_loop(),
                now_ms=lambda: self.now_ms,
                write=self._write,
                alone_from_ms=alone_from_ms,
                is_steady=lambda: True,
                draw=lambda: 0.0,
                turns=cast("FairTurns", None),
                dead_letters=cast("DeadLetters", self),
                ended=lambda share, state: None,
            ),
        )

    def settle(self, kind: Settlement, first: int = 0) -> None:
        self.share.settle("m", [Settled(first, first, kind)], self.told.append)

    async def bury(self, group: str, partition: Partition, dead: Sequence[DeadMessage]) -> None:
        del group, partition
        if self.bury_error is not None:
            raise self.bury_error
        self.buried += [message.offset for message in dead]

    async def until_written(self) -> None:
        """The state is on its way, and whoever acts too early has had every chance to."""
        while not self.is_writing:
            await asyncio.sleep(0)
        await self.rest()

    async def keep(self) -> None:
        """What is on its way is durable."""
        self._kept.set()
        await self.rest()

    async def rest(self) -> None:
        for _ in range(20):
            await asyncio.sleep(0)

    async def _write(self, state: bytes) -> None:
        del state
        self.is_writing = True
        await self._kept.wait()
        self._kept.clear()
        self.is_writing = False


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    bench = Bench()
    yield bench
    bench.share.end(NotLeader())


async def test_who_settles_is_told_when_that_is_durable(bench: Bench) -> None:
    """R-DEL-3: one that is told too early loses a message that the next leader hands out again."""
    bench.settle(Settlement.ACKNOWLEDGE)
    await bench.until_written()
    assert bench.told == []
    bench.settle(Settlement.ACKNOWLEDGE, 1)  # not in what is being written
    await bench.keep()
    assert bench.told == [[None]]
    await bench.keep()
    assert bench.told == [[None], [None]]


async def test_what_is_dead_is_buried_when_that_is_durable(bench: Bench) -> None:
    """R-DEL-9: or the next leader hands out what is among the dead letters already."""
    bench.settle(Settlement.REJECT)
    await bench.until_written()
    assert bench.buried == []
    await bench.keep()
    assert bench.buried == [0]


async def test_what_cannot_be_buried_is_tried_again(bench: Bench) -> None:
    """R-DEL-9: no message is lost between life and death."""
    bench.bury_error = Busy("no room")
    bench.settle(Settlement.REJECT)
    await bench.until_written()
    await bench.keep()
    bench.bury_error = None
    bench.now_ms += 1_000
    bench.share.go_on()
    await bench.until_written()
    await bench.keep()
    assert bench.buried == [0]


async def test_nobody_is_told_while_a_former_leader_may_believe_that_it_leads() -> None:
    """R-DEL-3: it has not heard of it, and could hand the message out again."""
    bench = Bench(alone_from_ms=NOW_MS + 500)
    bench.settle(Settlement.ACKNOWLEDGE)
    await bench.until_written()
    await bench.keep()
    assert not bench.is_writing
    bench.now_ms = NOW_MS + 499
    bench.share.go_on()
    assert bench.told == []
    bench.now_ms = NOW_MS + 500
    bench.share.go_on()
    assert bench.told == [[None]]
    bench.share.end(NotLeader())


LARGE = {
    "zeros": [zeros(), zeros()],
    "headers": [tiny_headers(), tiny_headers()],
    "many": [tiny_headers(100, 500)] * 20,
}


@pytest.mark.parametrize("large", LARGE)
@pytest.mark.parametrize("ordered", [False, True])
async def test_nobody_waits_for_what_is_leased(
    monkeypatch: pytest.MonkeyPatch, ordered: bool, large: str
) -> None:
    """R-NET-5: a few kilobytes that open to megabytes, or many that open to some each."""
    async with stage() as here:
        member = await here.member("a", ordered_by_key=ordered)
        count = 0
        for payload in LARGE[large]:
            await here.client.produce("orders", payload)
            count += read_header(payload).record_count
        watch = Watch(monkeypatch)
        got: list[int] = []
        async with asyncio.timeout(60):
            while len(got) < count:
                leased = await member.lease(10_000, max_wait_ms=60_000)
                got += [message.offset for message in leased]
                for first, last in ranges(message.offset for message in leased):
                    assert await member.settle(first, last) == 0
        assert got == list(range(count))
        watch.check()


def ranges(offsets: Iterable[int]) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for offset in offsets:
        if found and found[-1][1] == offset - 1:
            found[-1] = found[-1][0], offset
        else:
            found.append((offset, offset))
    return found


async def test_what_would_take_long_is_not_sent_again() -> None:
    """To a client that does not answer: it returns to the group, and whoever leases it waits for
    it in turn."""
    bench, found = Bench(), Payload()
    log = SimpleNamespace(payload=lambda leases, bytes_max: found)
    bench.share._log = cast("ShareLog", log)
    lease = Lease(0, 3, 1)
    found.leases, found.pieces = [lease], [b"as it was"]
    again = bench.share.leased_again("m", [lease])
    assert again is not None
    assert again.payload == [b"as it was"]
    found.too_many = [(2, 3)]
    assert bench.share.leased_again("m", [lease]) is None
    assert bench.machine.counts().available == 4
    bench.share.end(NotLeader())


async def test_small_batches_opened_by_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if each took long: all of them come, in parts, and those that cannot be opened die."""
    monkeypatch.setattr(unopened, "OPENED_AT_ONCE_BYTES_MAX", 10)
    async with stage() as here:
        member = await here.member("a")
        for _ in range(6):
            await here.publish(10, codec=Codec.ZSTD)
        got: list[int] = []
        async with asyncio.timeout(20):
            while len(got) < 60:
                for message in await member.lease(7, max_wait_ms=60_000):
                    got.append(message.offset)
                    assert await member.settle(message.offset) == 0
        assert got == list(range(60))
