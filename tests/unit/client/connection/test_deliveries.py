"""What brokers push finds its stream, once; streams hear of their end, once."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection

import pytest

from penstock.client.config import ClientConfig
from penstock.client.connection.deliveries import Deliveries, DeliveryStream
from penstock.client.connection.links import Links
from penstock.model.errors import ConnectionLost, NotLeader, Parked, PenstockError, UnknownStream
from penstock.net.address import parse_address
from penstock.net.channel import Channel
from penstock.protocol import penstock_pb2 as pb
from penstock.protocol.calls import DELIVER, PUSH_ENDED, error_envelope
from tests.kit.client.fake_broker import FakeBroker


class Noted:
    def __init__(self) -> None:
        self.told: list[object] = []

    def on_delivery(self, request: pb.DeliverRequest, payload: memoryview) -> None:
        self.told.append((request.delivery, bytes(payload)))

    def on_parked(
        self, error: PenstockError, *, by_operator: bool, withdrawn: Collection[int]
    ) -> None:
        self.told.append((type(error), by_operator, *withdrawn))

    def on_ended(self, error: PenstockError) -> None:
        self.told.append(type(error))


class Bench:
    def __init__(self, broker: FakeBroker) -> None:
        self.broker = broker
        self.links = Links([parse_address(broker.address)], ClientConfig())
        self.deliveries = Deliveries(self.links)
        self.noted = Noted()

    async def open(self) -> DeliveryStream:
        return self.deliveries.open(await self.links.any_broker(), self.noted)

    @property
    def channel(self) -> Channel:
        """The broker's end."""
        return self.broker.channels[0]

    async def deliver(self, stream: int, delivery: int) -> None:
        request = pb.DeliverRequest(stream=stream, delivery=delivery)
        await self.channel.call(DELIVER, request, [b"%d" % delivery])

    async def end(self, stream: int, error: PenstockError, *, is_parked: bool = False) -> None:
        request = pb.PushEndedRequest(stream=stream, is_parked=is_parked, by_operator=is_parked)
        request.withdrawn.extend([3, 4] if is_parked else [])
        request.error.ParseFromString(error_envelope(error))
        await self.channel.call(PUSH_ENDED, request)


@pytest.fixture
async def bench(broker: FakeBroker) -> AsyncIterator[Bench]:
    bench = Bench(broker)
    yield bench
    bench.deliveries.end()
    await bench.links.close()


async def test_a_delivery_that_comes_again_is_answered_and_dropped(bench: Bench) -> None:
    """R-DEL-8: it was tried again because its answer was late."""
    stream = await bench.open()
    for delivery in (1, 2, 1, 2, 5, 4, 6):  # one may have been withdrawn between
        await bench.deliver(stream.number, delivery)
    assert bench.noted.told == [(1, b"1"), (2, b"2"), (5, b"5"), (6, b"6")]


async def test_what_is_for_no_stream_is_refused(bench: Bench) -> None:
    stream = await bench.open()
    bench.deliveries.close(stream)
    bench.deliveries.close(stream)
    with pytest.raises(UnknownStream):
        await bench.deliver(stream.number, 1)
    with pytest.raises(UnknownStream):
        await bench.end(99, NotLeader())
    assert bench.broker.count(pb.CALL_CLOSE_PUSH) == 1
    assert bench.noted.told == []


async def test_a_stream_hears_of_its_end_once(bench: Bench) -> None:
    first, second = await bench.open(), await bench.open()
    await bench.end(first.number, Parked(), is_parked=True)
    await bench.end(first.number, NotLeader())
    with pytest.raises(UnknownStream):
        await bench.end(first.number, NotLeader())
    assert bench.noted.told == [(Parked, True, 3, 4), NotLeader]
    bench.noted.told.clear()
    assert second.number != first.number
    bench.channel.connection.abort()
    await bench.broker.until(lambda: bench.noted.told == [ConnectionLost])
    bench.deliveries.close(second)
