"""A Kafka client made of nothing but our codec: one connection, requests and responses of any API
and version, for tests of the broker that the real clients cannot bring about."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from struct import Struct
from typing import Any

from penstock.broker.broker import Broker
from penstock.net.address import TcpAddress, parse_address
from penstock.protocol.kafka.apis import API_VERSIONS, Api
from penstock.protocol.kafka.codec import Outgoing, read_message, read_tag_section, write_message
from tests.kit.broker.running import running

_HEAD = Struct(">hhih")


class KafkaClient:
    """Requests may be sent before the answers of earlier ones are read; those come in order."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self._next_id = 1

    async def call(self, api: Api, version: int, request: object) -> Any:
        return await self.answer(api, version, await self.send(api, version, request))

    async def send(self, api: Api, version: int, request: object) -> int:
        """Returns the correlation id, which the answer will have."""
        self._next_id += 1
        frame = encode_request(api, version, self._next_id, request)
        self.writer.write(frame)
        await self.writer.drain()
        return self._next_id

    async def answer(self, api: Api, version: int, correlation_id: int) -> Any:
        frame = await self.frame()
        assert int.from_bytes(frame[:4]) == correlation_id
        is_flexible = api.is_flexible(version)
        position = 4
        if is_flexible and api is not API_VERSIONS:
            position = read_tag_section(frame, position)
        return read_message(api.response, version, is_flexible, frame, position)

    async def frame(self) -> memoryview:
        """The next frame without its length."""
        length = int.from_bytes(await self.reader.readexactly(4))
        return memoryview(await self.reader.readexactly(length))

    async def is_closed(self) -> bool:
        """Whether the broker ends the connection without another byte."""
        try:
            return await asyncio.wait_for(self.reader.read(1), 10) == b""
        except ConnectionError:
            return True

    async def close(self) -> None:
        self.writer.close()
        with contextlib.suppress(ConnectionError):
            await self.writer.wait_closed()


def encode_request(
    api: Api, version: int, correlation_id: int, request: object, client_id: str = "test"
) -> bytes:
    """A whole frame."""
    name = client_id.encode()
    out = Outgoing()
    out.buffer += _HEAD.pack(api.key, version, correlation_id, len(name)) + name
    if api.is_flexible(version):
        out.buffer.append(0)
    write_message(request, version, api.is_flexible(version), out)
    assert not out.parts, "a request is all in memory"
    return len(out.buffer).to_bytes(4) + bytes(out.buffer)


async def connect(broker: Broker) -> KafkaClient:
    address = parse_address(broker.addresses[0])
    assert isinstance(address, TcpAddress)
    return KafkaClient(*await asyncio.open_connection(address.host, address.port))


@contextlib.asynccontextmanager
async def kafka_running(**settings: Any) -> AsyncIterator[tuple[Broker, KafkaClient]]:
    """A broker, as `tests.kit.broker.running.running` starts it, and a Kafka client of it."""
    async with running(**settings) as (broker, _):
        client = await connect(broker)
        try:
            yield broker, client
        finally:
            await client.close()
