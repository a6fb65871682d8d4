"""Clients of every broker, as a client of the cluster sees them (R-DEL-7)."""

from __future__ import annotations

import asyncio

import pytest

from penstock.client.admin.clients import ClientStatus
from penstock.client.client import Client, connect
from penstock.model.errors import UnknownClient
from tests.kit.broker.running import running


async def named(mq: Client, name: str) -> ClientStatus:
    found = await mq.clients.list()
    assert found.silent_brokers == ()
    [client] = [client for client in found.clients if client.name == name]
    return client


async def test_clients_are_listed_and_steered() -> None:
    """R-DEL-7, R-DEL-8"""
    async with (
        running() as (broker, raw),
        connect(broker.addresses, client_name="billing-7") as mq,
        connect(broker.addresses, client_name="operator") as operator,
    ):
        await raw.create("orders")
        async with mq.consumer("orders", group="billing", push=True):
            async with asyncio.timeout(10):
                while not (client := await named(operator, "billing-7")).streams:
                    pass
            assert (client.broker, client.state, client.protocol) == (1, "alive", "penstock")
            assert client.lost_at_ms is None
            [stream] = client.streams
            assert (stream.topic, stream.partition, stream.group) == ("orders", 0, "billing")
            assert stream.parked_at_ms is None
            assert await operator.clients.park("billing-7", "another") == 0
            assert await operator.clients.park("billing-7") == 1
            assert (await named(operator, "billing-7")).streams[0].parked_at_ms
            assert await operator.clients.resume(str(client.id), "billing") == 1
            assert (await named(operator, "billing-7")).state == "alive"
        for steer in (operator.clients.park, operator.clients.resume):
            with pytest.raises(UnknownClient, match="connected to any broker"):
                await steer("nobody")
