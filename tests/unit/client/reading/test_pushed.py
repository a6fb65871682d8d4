"""Being pushed to: the same messages as by fetching, within the credit, through every failure."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

import penstock
from penstock import Client, Consumer
from penstock.broker.broker import Broker
from penstock.client.reading.pushed import PushedSource
from penstock.model.errors import InvalidConfig, Parked, UnknownTopic
from penstock.protocol import calls
from penstock.protocol import penstock_pb2 as pb
from tests.kit.broker.running import RawClient, batch, running
from tests.kit.client.standstill import stall
from tests.kit.simulated_disk import SimulatedDisk


@contextlib.asynccontextmanager
async def clients(**settings: Any) -> AsyncIterator[tuple[Broker, RawClient, Client]]:
    async with (
        running(**settings) as (broker, raw),
        penstock.connect(
            broker.addresses, retry_backoff_ms=1, retry_backoff_ms_max=2, client_name="pushed"
        ) as mq,
    ):
        yield broker, raw, mq


async def values(consumer: Consumer, count: int) -> list[bytes | None]:
    found: list[bytes | None] = []
    async with asyncio.timeout(10):
        async for message in consumer:
            found.append(message.value)
            if len(found) == count:
                break
    return found


async def record(raw: RawClient) -> pb.ListClientsResponse.Client:
    answer, _ = await raw.channel.call(calls.LIST_CLIENTS, pb.ListClientsRequest())
    [client] = [each for each in answer.clients if each.name == "pushed"]
    return client


async def until(raw: RawClient, condition: Callable[[pb.ListClientsResponse.Client], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition(await record(raw)):
            pass


async def test_the_same_loop_reads_what_is_pushed() -> None:
    """R-DEL-6: one `async for` for both, with the same acknowledgements."""
    async with clients() as (_, raw, mq):
        await raw.create("orders", 3)
        for number in range(9):
            await raw.produce("orders", batch([b"%d" % number]), partition=number % 3)
        found: list[bytes | None] = []
        async with mq.subscribe("orders", group="billing", push=True) as consumer:
            async with asyncio.timeout(10):
                async for message in consumer:
                    found.append(message.value)
                    await message.ack()
                    if len(found) == 9:
                        break
            assert sorted(found, key=bytes.__str__) == [b"%d" % number for number in range(9)]
            described = await record(raw)
            assert {stream.partition for stream in described.streams} == {0, 1, 2}
            assert {stream.group for stream in described.streams} == {"billing"}
        assert [lag.lag for lag in await mq.admin.group_lag("billing")] == [0, 0, 0]
        assert not (await record(raw)).streams


async def test_credit_follows_the_reader() -> None:
    """R-DEL-6: what is pushed ahead is bounded, and everything comes."""
    async with clients() as (_, raw, mq):
        await raw.create("orders")
        for number in range(100):
            await raw.produce("orders", batch([b"%d" % number]))
        async with mq.consumer("orders", push=True, push_messages=10) as consumer:
            await until(raw, lambda client: client.state == "slow")
            described = await record(raw)
            assert [stream.delivered for stream in described.streams] == [10]
            assert await values(consumer, 100) == [b"%d" % number for number in range(100)]


async def test_bytes_bound_what_is_pushed_too() -> None:
    async with clients() as (_, raw, mq):
        await raw.create("orders")
        for _ in range(20):
            await raw.produce("orders", batch([b"x" * 30_000]))
        async with mq.consumer("orders", push=True, buffer_bytes=64 << 10) as consumer:
            await until(raw, lambda client: client.state == "slow")
            assert [stream.delivered for stream in (await record(raw)).streams] == [3]
            assert len(await values(consumer, 20)) == 20


async def test_a_delivery_that_was_parked_is_resumed_by_the_library() -> None:
    """R-DEL-8: as soon as the process is alive again; no message is lost and none comes twice."""
    async with clients(push_timeout_ms=5, push_retry_ms=5) as (_, raw, mq):
        await raw.create("orders")
        async with mq.consumer("orders", push=True) as consumer:
            await raw.produce("orders", batch([b"0"]))
            assert await values(consumer, 1) == [b"0"]
            go_on = stall(mq)
            for number in range(1, 4):
                await raw.produce("orders", batch([b"%d" % number]))
            await until(raw, lambda client: client.state == "parked")
            go_on()
            assert await values(consumer, 3) == [b"1", b"2", b"3"]
            await until(raw, lambda client: client.state == "alive")
            await raw.produce("orders", batch([b"4"]))
            assert await values(consumer, 1) == [b"4"]


async def test_a_reader_may_resume_by_itself() -> None:
    """R-DEL-8: parked until the consumer sends resume."""
    async with clients(push_timeout_ms=5, push_retry_ms=5) as (_, raw, mq):
        await raw.create("orders")
        async with mq.consumer("orders", push=True, auto_resume=False) as consumer:
            go_on = stall(mq)
            await raw.produce("orders", batch([b"0"]))
            await until(raw, lambda client: client.state == "parked")
            await raw.produce("orders", batch([b"1"]))
            go_on()
            assert await values(consumer, 1) == [b"0"]
            with pytest.raises(Parked, match="left a delivery unanswered twice"):
                await values(consumer, 1)
            assert (await record(raw)).state == "parked"
            consumer.resume()
            assert await values(consumer, 1) == [b"1"]


async def test_what_an_operator_parks_waits_for_one() -> None:
    """R-DEL-8"""
    async with clients() as (_, raw, mq):
        await raw.create("orders")
        async with mq.consumer("orders", push=True) as consumer:
            await until(raw, lambda client: len(client.streams) == 1)
            await raw.channel.call(
                calls.STEER_CLIENT, pb.SteerClientRequest(client="pushed", park=True)
            )
            await raw.produce("orders", batch([b"0"]))
            for _ in range(5):
                assert (await record(raw)).state == "parked"
            consumer.resume()
            assert await values(consumer, 1) == [b"0"]


async def test_a_seek_goes_on_elsewhere() -> None:
    async with clients() as (_, raw, mq):
        await raw.create("orders")
        for number in range(5):
            await raw.produce("orders", batch([b"%d" % number]))
        async with mq.consumer("orders", push=True) as consumer:
            assert await values(consumer, 5) == [b"0", b"1", b"2", b"3", b"4"]
            await consumer.seek(("orders", 0), 3)
            assert await values(consumer, 2) == [b"3", b"4"]
            consumer.pause()
            await raw.produce("orders", batch([b"5"]))
            assert not (await record(raw)).streams
            consumer.resume()
            assert await values(consumer, 1) == [b"5"]
            await consumer.assign([])
            assert not (await record(raw)).streams


async def test_a_broker_that_comes_back_pushes_on() -> None:
    """From where it was: nothing is lost, nothing comes twice."""
    disk = SimulatedDisk()
    async with running(disk.root) as (broker, raw):
        await raw.create("orders")
        await raw.produce("orders", batch([b"0"]))
        address = broker.addresses[0]
        async with (
            penstock.connect(address, retry_backoff_ms=1, retry_backoff_ms_max=20) as mq,
            mq.consumer("orders", push=True) as consumer,
        ):
            assert await values(consumer, 1) == [b"0"]
            await broker.stop()
            async with running(disk.root, listen=(address,)) as (_, raw):
                await raw.produce("orders", batch([b"1"]))
                assert await values(consumer, 1) == [b"1"]


async def test_a_topic_that_is_deleted_is_told_to_the_reader() -> None:
    async with clients(auto_create_topics=False) as (_, raw, mq):
        await raw.create("orders")
        async with mq.consumer("orders", push=True) as consumer:
            await raw.channel.call(calls.DELETE_TOPIC, pb.DeleteTopicRequest(name="orders"))
            with pytest.raises(UnknownTopic):
                await values(consumer, 1)


async def test_a_connection_that_breaks_is_made_again(caplog: pytest.LogCaptureFixture) -> None:
    """R-DEL-7: in the middle of a push."""
    caplog.set_level(logging.ERROR)
    async with clients() as (_, raw, mq):
        await raw.create("orders")
        async with mq.consumer("orders", push=True) as consumer:
            for number in range(3):
                await raw.produce("orders", batch([b"%d" % number] * 100))
                assert mq._connected is not None
                for channel in list(mq._connected.links._open_channels):
                    channel.connection.abort()
                assert await values(consumer, 100) == [b"%d" % number] * 100
    assert not caplog.records


async def test_a_silent_broker_is_asked_whether_it_lives(monkeypatch: pytest.MonkeyPatch) -> None:
    """R-DEL-7: one that does not answer is left."""
    monkeypatch.setattr("penstock.client.connection.deliveries._SILENT_S_MAX", 0.0)
    monkeypatch.setattr("penstock.client.connection.deliveries._PING_S_MAX", 0.001)
    monkeypatch.setattr("penstock.client.connection.deliveries._LOOK_S", 0.001)
    async with clients() as (_, raw, mq):
        await raw.create("orders")
        async with mq.consumer("orders", push=True) as consumer:
            stall(mq)  # for good: only another connection helps
            await raw.produce("orders", batch([b"0"]))
            assert await values(consumer, 1) == [b"0"]


async def test_settings_that_make_no_sense_are_refused() -> None:
    async with clients() as (_, raw, mq):
        await raw.create("orders")
        with pytest.raises(InvalidConfig, match="push_messages is 0"):
            mq.consumer("orders", push=True, push_messages=0)
        assert isinstance(mq.consumer("orders", push=True)._fetcher.source, PushedSource)
