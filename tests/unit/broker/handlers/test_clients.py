"""The record of each client, and an operator's hand on its deliveries (R-DEL-7, R-DEL-8)."""

from __future__ import annotations

import pytest

from penstock.model.errors import InvalidRequest, Parked, UnknownClient
from penstock.protocol import calls
from penstock.protocol import penstock_pb2 as pb
from penstock.protocol.kafka import apis
from penstock.protocol.kafka.messages.api_versions import ApiVersionsRequest
from tests.kit.broker.kafka_client import connect
from tests.kit.broker.push_client import pushed, settled, until
from tests.kit.broker.running import batch, running


async def test_a_client_is_known_with_all_that_it_has() -> None:
    """R-DEL-7: name, address, software, protocol, state, subscriptions, partitions, last heard."""
    async with running() as (broker, producer), pushed(broker) as client:
        await producer.create("orders", 2)
        await producer.produce("orders", batch([b"a", b"b"]), partition=1)
        client_id = await client.hello("billing-1")
        await client.open(partition=1, messages=10)
        await until(lambda: bool(client.deliveries))
        await settled(client)
        [record] = await client.clients()
        assert (record.id, record.name, record.software) == (client_id, "billing-1", "test 1")
        assert (record.state, record.protocol) == ("alive", "penstock")
        assert record.address.startswith("127.0.0.1:")
        assert record.connected_at_ms <= record.heard_at_ms
        [stream] = record.streams
        assert (stream.group, stream.member_id) == ("billing", "me")
        assert (stream.topic, stream.partition, stream.shared) == ("orders", 1, False)
        assert (stream.state, stream.delivered, stream.in_flight) == ("alive", 2, 0)
        assert (stream.credit, stream.timeouts, stream.parked_at_ms) == (8, 0, 0)


async def test_a_client_without_credit_is_slow() -> None:
    async with running() as (broker, producer), pushed(broker) as client:
        await producer.create("orders")
        await producer.produce("orders", batch([b"a"] * 5))
        await client.hello()
        await client.open(messages=2)
        await until(lambda: bool(client.deliveries))
        await settled(client)
        [record] = await client.clients()
        assert (record.state, record.streams[0].state, record.streams[0].credit) == (
            "slow",
            "slow",
            0,
        )


async def test_a_client_that_closes_is_not_lost() -> None:
    async with running() as (broker, producer), pushed(broker) as watcher:
        await producer.create("orders")
        async with pushed(broker) as client:
            await client.hello()
            await client.open()
            await client.close_stream()
        await settled(watcher)
        while any(record.state == "alive" for record in await watcher.clients()):
            pass
        assert await watcher.clients() == []


async def test_a_client_that_leaves_its_streams_open_is_lost() -> None:
    """R-DEL-7: as a process that was killed does."""
    async with running() as (broker, producer), pushed(broker) as watcher:
        await producer.create("orders")
        async with pushed(broker) as client:
            await client.hello("killed")
            await client.open()
        records = await watcher.clients()
        while any(record.state == "alive" for record in records):
            records = await watcher.clients()
        [lost] = records
        assert (lost.name, lost.state) == ("killed", "lost")
        assert lost.reason == "It left without closing its push streams."
        assert lost.lost_at_ms >= lost.heard_at_ms > 0


async def test_kafka_clients_are_known_too() -> None:
    async with running() as (broker, _), pushed(broker) as watcher:
        kafka = await connect(broker)
        request = ApiVersionsRequest("librdkafka", "2.16")
        for _ in range(2):
            await kafka.call(apis.API_VERSIONS, 3, request)
        [record] = await watcher.clients()
        assert (record.protocol, record.software) == ("kafka", "librdkafka 2.16")
        assert (record.state, record.name) == ("alive", "test")
        assert await watcher.steer("test", park=True) == 0
        await kafka.close()
        while await watcher.clients():
            pass


async def test_an_operator_parks_and_resumes() -> None:
    """R-DEL-8: by the client's name or its id, all groups or one."""
    async with running() as (broker, producer), pushed(broker) as client:
        await producer.create("orders")
        client_id = await client.hello("billing-1")
        await client.open()
        await client.open(stream=2, group="audit")
        assert await client.steer("billing-1", park=True, group="audit") == 1
        await until(lambda: len(client.endings) == 1)
        [ended] = client.endings
        assert (ended.stream, ended.is_parked, ended.by_operator) == (2, True, True)
        await producer.produce("orders", batch([b"a"]))
        await until(lambda: [each.request.stream for each in client.deliveries] == [1])
        with pytest.raises(Parked, match="An operator has parked it"):
            await client.resume(2, is_automatic=True)
        assert await client.steer(str(client_id), park=False) == 2
        await until(lambda: [each.request.stream for each in client.deliveries] == [1, 2])


async def test_an_operators_park_lasts_over_another_stream_and_connection() -> None:
    """R-DEL-8: until it is resumed, by an operator or by the application; of that group alone."""
    async with running() as (broker, producer), pushed(broker) as watcher:
        await producer.create("orders")
        async with pushed(broker) as client:
            await client.hello("billing-1")
            await client.open()
            assert await watcher.steer("billing-1", park=True) == 1
            await producer.produce("orders", batch([b"a"]))
            await client.close_stream()
            await client.open(stream=2)
            await client.open(stream=3, group="audit")
            await until(lambda: [each.request.stream for each in client.deliveries] == [3])
            assert [each.stream for each in client.endings] == [1, 2]
            assert all(each.by_operator for each in client.endings)
        async with pushed(broker) as client:
            await client.hello("billing-1")
            await client.open()
            await until(lambda: [each.by_operator for each in client.endings] == [True])
            with pytest.raises(Parked):
                await client.resume(is_automatic=True)
            assert not client.deliveries
            await client.resume()
            await until(lambda: len(client.deliveries) == 1)
            await client.open(stream=2)
            await until(lambda: len(client.deliveries) == 2)


async def test_a_park_is_remembered_for_a_client_of_another_broker() -> None:
    """R-DEL-8: its partitions may be led by this one tomorrow."""
    async with running() as (broker, producer), pushed(broker) as client:
        await producer.create("orders")
        await producer.produce("orders", batch([b"a"]))

        async def remember(*, park: bool, name: str = "billing-1") -> None:
            request = pb.SteerClientRequest(
                client=name, park=park, group="billing", only_remembers=True
            )
            await client.channel.call(calls.STEER_CLIENT, request)

        await remember(park=True)
        await client.hello("billing-1")
        await client.open()
        await until(lambda: [each.by_operator for each in client.endings] == [True])
        await remember(park=False)
        await client.open(stream=2)
        await until(lambda: [each.request.stream for each in client.deliveries] == [2])
        with pytest.raises(InvalidRequest, match="so long"):
            await remember(park=True, name="x" * 256)


async def test_who_was_parked_and_left_can_be_resumed() -> None:
    async with running() as (broker, producer), pushed(broker) as watcher:
        await producer.create("orders")
        await producer.produce("orders", batch([b"a"]))
        async with pushed(broker) as client:
            await client.hello("billing-1")
            await client.open()
            await watcher.steer("billing-1", park=True)
            await client.close_stream()
        while len(await watcher.clients()):
            pass
        assert await watcher.steer("billing-1", park=False) == 0
        with pytest.raises(UnknownClient):
            await watcher.steer("billing-1", park=False)
        async with pushed(broker) as client:
            await client.hello("billing-1")
            await client.open()
            await until(lambda: len(client.deliveries) == 1)


async def test_nobody_can_be_steered_who_is_not_there() -> None:
    async with running() as (broker, _), pushed(broker) as client:
        with pytest.raises(UnknownClient, match="No client 'nobody' is connected"):
            await client.steer("nobody", park=True)
