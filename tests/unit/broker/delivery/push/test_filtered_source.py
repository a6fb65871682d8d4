"""What is pushed through a filter: what passes, and that the rest was passed over (R-DEL-12)."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from penstock.broker.delivery.push import filtered_source
from penstock.protocol import penstock_pb2 as pb
from penstock.records import BatchBuilder
from tests.kit.broker.push_client import pushed, settled, until
from tests.kit.broker.running import RawClient, running

EVEN = pb.Filter(key=b"even")


def numbered(numbers: Sequence[int]) -> bytearray:
    builder = BatchBuilder(1 << 20)
    for number in numbers:
        builder.append(1_000, b"odd" if number % 2 else b"even", b"%d" % number, ())
    return bytearray(builder.build())


async def odd(producer: RawClient, count: int = 1) -> None:
    for _ in range(count):
        await producer.produce("orders", numbered([1, 3, 5]))


async def test_only_what_passes_is_pushed() -> None:
    """R-DEL-12: of what is there, and of what comes."""
    async with running() as (broker, producer), pushed(broker) as client:
        await producer.create("orders")
        await producer.produce("orders", numbered(range(10)))
        await client.open(wanted=EVEN, offset=3)
        await until(lambda: client.values == [b"4", b"6", b"8"])
        last = client.deliveries[-1].request
        assert (last.next_offset, last.messages, last.has_gaps) == (10, 3, True)
        await producer.produce("orders", numbered([10, 11, 12]))
        await until(lambda: client.values[3:] == [b"10", b"12"])


async def test_what_is_passed_over_is_told_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """R-DEL-12: skipped messages advance the group, together and not one by one."""
    monkeypatch.setattr(filtered_source, "_SKIPPED_WAIT_S", 0.05)
    async with running() as (broker, producer), pushed(broker) as client:
        await producer.create("orders")
        await client.open(wanted=EVEN)
        await odd(producer, 10)
        await until(lambda: bool(client.deliveries) and client.end_offset == 30)
        assert len(client.deliveries) < 10
        assert {one.request.messages for one in client.deliveries} == {1}
        assert client.values == []
        # A message that passes is not kept waiting by that.
        await odd(producer)
        await producer.produce("orders", numbered([2]))
        await until(lambda: client.values == [b"2"])
        assert client.end_offset == 34


async def test_telling_of_nothing_takes_credit(monkeypatch: pytest.MonkeyPatch) -> None:
    """R-DEL-6: a reader that takes note of nothing is not told without an end."""
    monkeypatch.setattr(filtered_source, "_SKIPPED_WAIT_S", 0.0)
    async with running() as (broker, producer), pushed(broker) as client:
        await producer.create("orders")
        await client.open(wanted=EVEN, messages=2)
        await odd(producer)
        await until(lambda: len(client.deliveries) == 1)
        await odd(producer)
        await until(lambda: len(client.deliveries) == 2)
        await odd(producer, 3)
        await settled(client)
        assert len(client.deliveries) == 2
        await client.give(1, 1)
        await until(lambda: client.end_offset == 15)


async def test_credit_bounds_what_passes() -> None:
    async with running() as (broker, producer), pushed(broker) as client:
        await producer.create("orders")
        for first in range(0, 40, 4):
            await producer.produce("orders", numbered(range(first, first + 4)))
        await client.open(wanted=EVEN, messages=4)
        await until(lambda: len(client.values) >= 4)
        await settled(client)
        assert len(client.values) <= 6
        await client.give(100, 1000)
        await until(lambda: len(client.values) == 20)


async def test_a_parked_stream_is_opened_anew() -> None:
    """R-DEL-8: its client knows where it has come to, and nothing is looked at twice."""
    async with (
        running(push_timeout_ms=5, push_retry_ms=5) as (broker, producer),
        pushed(broker) as client,
    ):
        await producer.create("orders")
        client.is_silent = True
        await client.open(wanted=EVEN)
        await producer.produce("orders", numbered(range(4)))
        await until(lambda: len(client.endings) == 1)
        assert client.endings[0].is_parked
        assert client.numbers == [1]
        client.is_silent = False
        await client.resume()
        await until(lambda: len(client.endings) == 2)
        assert not client.endings[1].is_parked
        assert "open the stream again" in client.endings[1].error.message
        await client.open(wanted=EVEN, offset=2)
        await until(lambda: client.deliveries[-1].values == [b"2"])


async def test_a_closed_stream_looks_no_further() -> None:
    async with running() as (broker, producer), pushed(broker) as client:
        await producer.create("orders")
        for stream in range(20):
            await client.open(wanted=EVEN, stream=stream)
        await producer.produce("orders", numbered(range(1000)))
        for stream in range(20):
            await client.close_stream(stream)
        await settled(client)
        count = len(client.deliveries)
        await producer.produce("orders", numbered(range(1000)))
        await settled(client)
        assert len(client.deliveries) == count
