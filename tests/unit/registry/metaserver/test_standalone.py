"""A meta server's port: what is answered on it, and what is not (R-REP-5)."""

from __future__ import annotations

import asyncio
import logging

import pytest

from penstock.model.errors import InvalidConfig, UnknownCall
from penstock.net.address import TcpAddress, parse_address
from penstock.net.channel import connect_channel
from penstock.protocol import calls
from penstock.protocol import penstock_pb2 as pb
from penstock.registry.metaserver.standalone import StandaloneMetaServer
from tests.kit.registry.facts import broker
from tests.kit.registry.lone_meta_server import config, opened, server
from tests.kit.simulated_disk import SimulatedDisk


async def test_it_says_who_it_is_and_answers_no_client() -> None:
    where = config()
    async with server(where, SimulatedDisk()) as running, opened(where):
        assert running.address == where.servers[1]
        channel = await connect_channel(parse_address(running.address))
        hello, _ = await channel.call(calls.HELLO, pb.HelloRequest())
        assert (hello.broker_id, hello.cluster_id, hello.directory) == (1, "cluster", 0)
        with pytest.raises(UnknownCall, match="ask a broker"):
            await channel.call(calls.METADATA, pb.MetadataRequest())
        channel.tell(calls.RAFT.number, pb.RaftRequest().SerializeToString())
        await channel.call(calls.PING, pb.PingRequest())
        channel.close()


async def test_http_is_told_that_this_is_a_meta_server(caplog: pytest.LogCaptureFixture) -> None:
    """In HTTP, instead of an end of the connection that says nothing."""
    caplog.set_level(logging.INFO)
    where = config()
    async with server(where, SimulatedDisk()) as running:
        address = parse_address(running.address)
        assert isinstance(address, TcpAddress)
        reader, writer = await asyncio.open_connection(address.host, address.port)
        writer.write(b"GET / HTTP/1.1\r\n\r\n")
        answer = await reader.read()
        writer.close()
        await writer.wait_closed()
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"what meta servers and brokers say to each other, and no HTTP: use the" in answer
    (told,) = [each.getMessage() for each in caplog.records if "disconnected" in each.message]
    assert "it speaks HTTP" in told
    assert "use the address of a broker" in told


@pytest.mark.parametrize("sent", [bytes(64), b"\0\0\0\x10\0\x12\0\0" + bytes(12)])
async def test_what_is_no_text_is_told_of_by_its_bytes(
    sent: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """A Kafka client that was given the wrong address, too."""
    where = config()
    async with server(where, SimulatedDisk()) as running:
        address = parse_address(running.address)
        assert isinstance(address, TcpAddress)
        reader, writer = await asyncio.open_connection(address.host, address.port)
        writer.write(sent)
        assert await reader.read() == b""
        writer.close()
        await writer.wait_closed()
    (told,) = [each.getMessage() for each in caplog.records if "disconnected" in each.message]
    assert "0000 do not begin a Penstock frame" in told


async def test_it_stops_in_order_and_goes_on() -> None:
    where, disk = config(), SimulatedDisk()
    for number in (1, 2):
        async with server(where, disk), opened(where) as one:
            await one.register_broker(broker(number))
            assert await one.reserve_producer_ids(1) == range(number - 1, number)


async def test_a_folder_is_not_used_for_another_server() -> None:
    where, disk = config(), SimulatedDisk()
    async with server(where, disk):
        pass
    with pytest.raises(InvalidConfig, match="is of meta server 1 of 1, not of 2"):
        async with StandaloneMetaServer(disk.root, 2, {2: "127.0.0.1:7000"}, "127.0.0.1:0"):
            pass
    with pytest.raises(InvalidConfig, match="2 is not among the servers"):
        async with StandaloneMetaServer(disk.root, 2, where.servers, "127.0.0.1:0"):
            pass
