"""Connections: one per broker, tried in turn, one attempt at a time."""

from __future__ import annotations

import asyncio

import pytest

from penstock.client.config import ClientConfig
from penstock.client.connection.links import Links
from penstock.model.errors import ClientClosed, ConnectionLost, PenstockError, UnknownCall
from penstock.net.address import parse_address
from penstock.net.channel import Channel
from penstock.protocol import calls
from penstock.protocol import penstock_pb2 as pb
from penstock.protocol.calls import DELIVER, PUSH_ENDED
from tests.kit.client.fake_broker import HOLD, SWALLOW, FakeBroker

NOBODY = parse_address("127.0.0.1:1")
CONFIG = ClientConfig(client_name="tester", connect_timeout_ms=200)


async def test_bootstrap_brokers_are_tried_in_turn(broker: FakeBroker) -> None:
    links = Links([NOBODY, parse_address(broker.address)], CONFIG)
    channel = await links.any_broker()
    assert await links.any_broker() is channel
    ((_, hello),) = broker.calls
    assert hello.client_name == "tester"
    assert hello.software.startswith("penstock-python ")
    await links.close()
    assert channel.connection.is_closed


async def test_nobody_there() -> None:
    links = Links([NOBODY, parse_address("127.0.0.1:2")], CONFIG)
    with pytest.raises(ConnectionLost, match=r"127\.0\.0\.1:1.*127\.0\.0\.1:2"):
        await links.any_broker()
    await links.close()


async def test_brokers_may_call_what_is_served(broker: FakeBroker) -> None:
    """R-NET-2: and nothing else."""
    links = Links([parse_address(broker.address)], CONFIG)
    served: list[bytes] = []
    lost: list[Channel] = []

    def serve(channel: Channel, message_id: int, envelope: memoryview, data: memoryview) -> None:
        served.append(bytes(data))
        channel.answer(message_id, DELIVER.number, b"")

    links.serve(DELIVER.number, serve)
    links.watch(lambda channel, _: lost.append(channel))

    def never(channel: Channel, error: PenstockError | None) -> None:
        raise AssertionError(f"nobody wants to know of {channel} any more: {error}")

    links.watch(never)
    links.unwatch(never)
    ours = await links.any_broker()
    [channel] = broker.channels
    await channel.call(DELIVER, pb.DeliverRequest(), [b"data"])
    assert served == [b"data"]
    with pytest.raises(UnknownCall, match="PushEnded cannot be called on this side"):
        await channel.call(PUSH_ENDED, pb.PushEndedRequest())
    await links.close()
    assert lost == [ours]


async def test_all_share_one_attempt(broker: FakeBroker) -> None:
    broker.script[pb.CALL_HELLO].append(HOLD)
    links = Links([parse_address(broker.address)], CONFIG)
    waiting = [asyncio.ensure_future(links.any_broker()) for _ in range(5)]
    await broker.until(lambda: bool(broker.held))
    waiting.pop().cancel()
    broker.release()
    assert len(set(await asyncio.gather(*waiting))) == 1
    assert len(broker.channels) == 1
    await links.close()


async def test_attempts_are_spaced(broker: FakeBroker) -> None:
    """However many ask, an address that failed is left alone for a while."""
    address = parse_address(broker.address)
    await broker.stop()
    config = ClientConfig(retry_backoff_ms=60_000, retry_backoff_ms_max=60_000)
    links = Links([address], config)
    with pytest.raises(ConnectionLost, match="refused"):
        await links.any_broker()
    await broker.start()
    with pytest.raises(ConnectionLost, match="refused"):
        await links.any_broker()
    assert broker.channels == []
    await links.close()


async def test_a_lost_connection_is_made_anew(broker: FakeBroker) -> None:
    links = Links([parse_address(broker.address)], CONFIG)
    first = await links.any_broker()
    broker.channels[0].connection.abort()
    await broker.until(lambda: first.connection.is_closed)
    assert await links.any_broker() is not first
    await links.close()


async def test_a_broker_that_does_not_introduce_itself(broker: FakeBroker) -> None:
    broker.script[pb.CALL_HELLO].append(SWALLOW)
    links = Links([parse_address(broker.address)], ClientConfig(connect_timeout_ms=300))
    with pytest.raises(ConnectionLost):
        await links.any_broker()
    # It may be accepted only when it was given up.
    await broker.until(lambda: any(each.connection.is_closed for each in broker.channels))
    await links.close()


async def test_after_closing_there_are_no_connections(broker: FakeBroker) -> None:
    broker.script[pb.CALL_HELLO].append(HOLD)
    links = Links([parse_address(broker.address)], CONFIG)
    waiting = asyncio.ensure_future(links.any_broker())
    await broker.until(lambda: bool(broker.held))
    await links.close()
    with pytest.raises(ClientClosed):
        await waiting
    with pytest.raises(ClientClosed):
        await links.any_broker()


async def test_who_speaks_something_else_does_not_hide_the_others(broker: FakeBroker) -> None:
    broker.script[pb.CALL_HELLO].append(UnknownCall("What is a hello?"))
    other = FakeBroker(broker_id=1)
    async with other:
        links = Links([parse_address(broker.address), parse_address(other.address)], CONFIG)
        await links.any_broker()
        assert other.count(pb.CALL_HELLO) == 1
        await links.close()


async def test_one_that_has_just_failed_is_the_last_to_be_asked(broker: FakeBroker) -> None:
    """R-CORE-5."""
    async with FakeBroker(broker_id=5) as other:
        links = Links([parse_address(broker.address)], ClientConfig())
        first = await links.any_broker()
        assert await links.any_broker() is first
        assert await links.any_broker(avoid=first) is first, "there is no other"
        links.know_brokers({0: broker.address, 5: other.address})
        second = await links.any_broker(avoid=first)
        assert second is not first
        assert len(other.channels) == 1
        assert await links.any_broker(avoid=second) is first
        await other.stop()
        await asyncio.sleep(0.01)
        assert await links.any_broker() is first
        assert await links.any_broker(avoid=first) is first
        await links.close()


async def test_the_first_addresses_stay_known(broker: FakeBroker) -> None:
    """Whatever brokers the cluster has told of: all of those may be gone."""
    links = Links([parse_address(broker.address)], ClientConfig(retry_backoff_ms=1))
    links.know_brokers({7: "127.0.0.1:1"})
    assert not (await links.any_broker()).connection.is_closed
    assert not links.knows(0)
    links.know_broker(0, broker.address)
    assert links.knows(0)
    assert links.knows(7)
    await links.close()


async def test_a_connection_has_an_identity_until_it_ends(broker: FakeBroker) -> None:
    links = Links([parse_address(broker.address)], CONFIG)
    ended: list[Channel] = []
    links.watch(lambda channel, _: ended.append(channel))

    def serve(channel: Channel, message_id: int, envelope: memoryview, payload: memoryview) -> None:
        assert bytes(payload) == b"payload"
        assert calls.parse(pb.ReplyRequest, envelope).correlation == "it"
        channel.answer(message_id, pb.CALL_REPLY, b"")

    links.serve(pb.CALL_REPLY, serve)
    channel = await links.any_broker()
    assert links.identity(channel) == (0, 0)
    [theirs] = broker.channels
    await theirs.call(calls.REPLY, pb.ReplyRequest(correlation="it"), [b"payload"])
    with pytest.raises(UnknownCall, match="Deliver cannot be called"):
        await theirs.call(calls.DELIVER, pb.DeliverRequest())
    await links.close()
    assert ended == [channel]
    with pytest.raises(ConnectionLost):
        links.identity(channel)
