"""Requests that are well formed and make no sense, and damaged ones, to a whole broker.

Every API in every version. What comes back is an answer of that version or the end of the
connection, within bounds; the broker's log shows no traceback, and it serves the next client.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import struct
import tracemalloc
from collections.abc import AsyncIterator

import pytest

from penstock.net.address import TcpAddress, parse_address
from penstock.protocol.kafka.apis import API_VERSIONS, APIS, METADATA, Api
from penstock.protocol.kafka.codec import read_message
from penstock.protocol.kafka.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.kit.broker.running import running
from tests.kit.records.kafka_messages import Form, Samples

SAMPLES = 4
# A join or a fetch may wait for minutes: then there is no answer, and that is one too.
ANSWER_S_MAX = 0.05


class KafkaPeer:
    """A connection that sends whatever it is told to."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def send(self, frame: bytes) -> None:
        self._writer.write(frame)
        await self._writer.drain()

    async def receive(self, timeout_s: float) -> bytes | None:
        """The content of the next frame; nothing if there is none, or the connection was closed."""
        try:
            async with asyncio.timeout(timeout_s):
                (length,) = struct.unpack(">i", await self._reader.readexactly(4))
                return await self._reader.readexactly(length)
        except (TimeoutError, asyncio.IncompleteReadError, ConnectionError):
            return None


@contextlib.asynccontextmanager
async def connected(address: str) -> AsyncIterator[KafkaPeer]:
    parsed = parse_address(address)
    assert isinstance(parsed, TcpAddress)
    reader, writer = await asyncio.open_connection(parsed.host, parsed.port)
    try:
        yield KafkaPeer(reader, writer)
    finally:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


def frame_of(form: Form, body: bytes) -> bytes:
    header = struct.pack(">hhih4s", form.api.key, form.version, 7, 4, b"fuzz")
    if form.is_flexible:
        header += b"\0"
    return struct.pack(">i", len(header) + len(body)) + header + body


def assert_answers(form: Form, content: bytes) -> None:
    """The content is a response of this API in this version."""
    assert content[:4] == (7).to_bytes(4)
    position = 5 if form.is_flexible and form.api is not API_VERSIONS else 4
    read_message(form.api.response, form.version, form.is_flexible, memoryview(content), position)


def forms_of(api: Api) -> list[Form]:
    versions = range(api.version_min, api.version_max + 1)
    return [Form(api, version, api.request) for version in versions]


async def assert_serves(address: str) -> None:
    form = Form(METADATA, 12, MetadataRequest)
    async with connected(address) as peer:
        await peer.send(frame_of(form, form.write(MetadataRequest([MetadataRequestTopic()]))))
        content = await peer.receive(10.0)
    assert content is not None
    assert_answers(form, content)


@pytest.mark.parametrize("api", APIS.values(), ids=lambda api: api.name)
async def test_senseless_requests_are_answered(api: Api, caplog: pytest.LogCaptureFixture) -> None:
    """R-NET-1, R-NET-5."""
    caplog.set_level(logging.ERROR)
    samples = Samples(f"senseless {api.name}")
    async with running() as (broker, client):
        await client.create("orders")
        for form in forms_of(api):
            for _ in range(SAMPLES):
                async with connected(broker.addresses[0]) as peer:
                    await peer.send(
                        frame_of(form, form.write(samples.ours(api.request, form.version)))
                    )
                    content = await peer.receive(ANSWER_S_MAX)
                if content is not None:
                    assert_answers(form, content)
        await assert_serves(broker.addresses[0])
    assert [record.getMessage() for record in caplog.records] == []


@pytest.mark.parametrize("api", APIS.values(), ids=lambda api: api.name)
async def test_damaged_requests_do_no_harm(api: Api, caplog: pytest.LogCaptureFixture) -> None:
    """R-NET-1, R-NET-5: cut short, with false lengths, or of nothing but noise."""
    caplog.set_level(logging.ERROR)
    samples = Samples(f"damaged {api.name}")
    chance = random.Random(f"damaged {api.name}")
    async with running() as (broker, client):
        await client.create("orders")
        for form in forms_of(api):
            body = bytearray(form.write(samples.ours(api.request, form.version)))
            place = chance.randrange(len(body) + 1)
            noise = chance.choice((b"", b"\xff" * 4, b"\x7f\xff\xff\xff", chance.randbytes(8)))
            for damaged in (
                body[:place],
                body[:place] + noise,
                body[:place] + noise + body[place:],
            ):
                async with connected(broker.addresses[0]) as peer:
                    await peer.send(frame_of(form, bytes(damaged)))
                    await peer.receive(ANSWER_S_MAX)
        await assert_serves(broker.addresses[0])
    assert [record.getMessage() for record in caplog.records] == []


async def test_absurd_requests_take_no_memory() -> None:
    """R-NET-4: counts and lengths of gigabytes, in frames of a few bytes."""
    async with running() as (broker, _):
        await assert_serves(broker.addresses[0])
        tracemalloc.start()
        try:
            for api in APIS.values():
                for form in (forms_of(api)[0], forms_of(api)[-1]):
                    for noise in (b"\x7f" * 64, b"\xff\xff\xff\xff\x07" * 12):
                        async with connected(broker.addresses[0]) as peer:
                            await peer.send(frame_of(form, noise))
                            await peer.receive(ANSWER_S_MAX)
            assert tracemalloc.get_traced_memory()[1] < 2**20
        finally:
            tracemalloc.stop()


async def test_an_unknown_api_or_version_ends_the_connection() -> None:
    """R-NET-5: but ApiVersions is answered, so that the client can choose (KIP-511)."""
    async with running() as (broker, _):
        for key, version in ((999, 0), (-1, 0), (METADATA.key, 99), (METADATA.key, -1)):
            async with connected(broker.addresses[0]) as peer:
                await peer.send(struct.pack(">ihhih", 10, key, version, 7, -1))
                assert await peer.receive(10.0) is None
        async with connected(broker.addresses[0]) as peer:
            await peer.send(struct.pack(">ihhih", 10, API_VERSIONS.key, 99, 7, -1))
            content = await peer.receive(10.0)
        assert content is not None
        response = read_message(API_VERSIONS.response, 0, False, memoryview(content), 4)
        assert {api.api_key for api in response.api_keys} == set(APIS)
