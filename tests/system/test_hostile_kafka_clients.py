"""Kafka clients that mean harm or make mistakes: thousands of wrong requests of every API and
version, and clients that hold on to what they can. Others are served all the while."""

from __future__ import annotations

import os
import random
import socket
import struct
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from penstock.protocol.kafka import apis
from penstock.protocol.kafka.apis import API_VERSIONS, APIS, Api
from penstock.protocol.kafka.codec import read_message
from penstock.protocol.kafka.messages.api_versions import ApiVersionsRequest
from penstock.protocol.kafka.messages.create_topics import CreatableTopic, CreateTopicsRequest
from penstock.protocol.kafka.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from penstock.protocol.kafka.messages.metadata import MetadataRequest, MetadataRequestTopic
from penstock.protocol.kafka.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from tests.kit.broker.kafka_client import encode_request
from tests.kit.broker.running import batch
from tests.kit.processes.brokers import BrokerProcess
from tests.kit.records.kafka_messages import Samples
from tests.system.test_hostile_clients import until

MIB = 1 << 20
TIMEOUT_MS = 1000
HEAD_BYTES = 14
PING = encode_request(API_VERSIONS, 0, 77, ApiVersionsRequest())
PRODUCE = encode_request(
    apis.PRODUCE,
    9,
    78,
    ProduceRequest(
        None,
        1,
        1000,
        [TopicProduceData("others", b"", [PartitionProduceData(0, batch([b"fine"]))])],  # type: ignore[arg-type]
    ),
)


class Hostile(BrokerProcess):
    """A broker whose words are kept."""

    def __init__(self, data: Path, log: Path, *settings: str) -> None:
        super().__init__(data, *settings)
        self._log = log

    def start(self) -> None:
        own = os.dup(2)
        with self._log.open("ab") as log:
            os.dup2(log.fileno(), 2)
            try:
                super().start()
            finally:
                os.dup2(own, 2)
                os.close(own)

    def words(self) -> str:
        return self._log.read_text()


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hostile]:
    folder = tmp_path_factory.mktemp("hostile-kafka")
    settings = (f"first_frame_timeout_ms={TIMEOUT_MS}", f"frame_timeout_ms={TIMEOUT_MS}")
    with Hostile(folder / "data", folder / "log", *settings) as process:
        topics = [CreatableTopic(name, 1, 1) for name in ("a", "orders", "others")]
        with connect(process) as client:
            client.sendall(encode_request(apis.CREATE_TOPICS, 7, 1, CreateTopicsRequest(topics)))
            assert receive(client)
        yield process


@pytest.fixture(autouse=True)
def no_traceback(broker: Hostile) -> Iterator[None]:
    """Whatever a test did, the broker runs, has no connection left over, and saw no bug."""
    serve_others(broker)
    descriptors, resident_bytes = broker.descriptors(), broker.resident_bytes()
    yield
    serve_others(broker)
    assert broker.process.poll() is None
    until(lambda: broker.descriptors() <= descriptors + 5)
    # The allocator keeps some of what the largest request took; the first one that is large shows.
    assert broker.resident_bytes() - resident_bytes < 128 * MIB
    assert "Traceback" not in broker.words(), broker.words()[-4000:]


def connect(broker: BrokerProcess) -> socket.socket:
    client = socket.create_connection(("127.0.0.1", broker.port), timeout=20)
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return client


def receive(client: socket.socket) -> bytes:
    """The next answer without its length; nothing if the connection ended."""
    try:
        head = _exactly(client, 4)
        return _exactly(client, int.from_bytes(head)) if head else b""
    except ConnectionError:
        return b""


def _exactly(client: socket.socket, length: int) -> bytes:
    data = b""
    while len(data) < length:
        more = client.recv(min(length - len(data), 1 << 20))
        if not more:
            return b""
        data += more
    return data


def serve_others(broker: BrokerProcess) -> None:
    """On a topic of their own: a request made by chance may delete the other, as it may."""
    with connect(broker) as client:
        client.sendall(PING + PRODUCE)
        assert receive(client)[:4] == (77).to_bytes(4)
        answer = receive(client)
        response = read_message(apis.PRODUCE.response, 9, True, memoryview(answer), 5)
        assert response.responses[0].partition_responses[0].error_code == 0


def framed(body: bytes) -> bytes:
    return len(body).to_bytes(4) + body


# --- fuzzed requests ---------------------------------------------------------------------------


def wrong(chance: random.Random, api: Api, version: int) -> Iterator[bytes]:
    """Frames that are nearly right: cut, with lengths and counts that lie, and by chance."""
    sample = Samples(f"{chance.random()}").ours(api.request, version)
    good = encode_request(api, version, 5, sample)
    body = good[4:]
    yield framed(body[: chance.randrange(10, len(body) + 1)])
    yield framed(body + chance.randbytes(chance.randrange(1, 20)))
    yield good[: chance.randrange(len(good))]
    lie = chance.choice((-1, -(2**31), 0, 1, 9, 2**31 - 1, len(body) - 1, len(body) + 1, 9 * MIB))
    yield lie.to_bytes(4, signed=True) + body
    for lie_bytes in (
        b"\xff\xff\xff\xfe",
        b"\x80\0\0\0",
        b"\x7f\xff\xff\xff",
        b"\0\x03\x0d\x40",
        b"\xff\xff\xff\xff\x0f",
        b"\xff\xff\xff\xff\x7f",
        b"\xff\xfe",
        b"\x7f\xff",
    ):
        place = chance.randrange(min(HEAD_BYTES, len(body) - 1), len(body))
        yield framed((body[:place] + lie_bytes + body[place + len(lie_bytes) :])[: len(body)])
    head = struct.pack(">hhih", api.key, version, 5, chance.choice((-1, 0, 4)))
    yield framed(head + chance.randbytes(chance.randrange(0, 200)))
    yield framed(head + bytes(chance.randrange(0, 200)))


@pytest.mark.parametrize("seed", range(4))
def test_fuzzed_requests_of_every_api_and_version(broker: Hostile, seed: int) -> None:
    """R-NET-1: about 2,500 a burst, each on a connection that a good request opened; each is
    answered or ends its connection, none leaves anything behind, also if its client just goes."""
    chance = random.Random(seed)
    for api in APIS.values():
        for version in range(api.version_min, api.version_max + 1):
            for number, frame in enumerate(wrong(chance, api, version)):
                with connect(broker) as client:
                    client.sendall(PING)
                    assert receive(client)
                    client.sendall(frame)
                    # Some wait for others to join, or for messages; then their client goes.
                    client.settimeout(0.002 if number % 4 else 0.02)
                    try:
                        receive(client)
                    except TimeoutError:
                        continue
    serve_others(broker)


def test_random_bytes(broker: Hostile) -> None:
    chance = random.Random(7)
    for number in range(1_000):
        with connect(broker) as client:
            data = chance.randbytes(chance.randrange(1, 300))
            client.sendall(data if number % 2 else framed(data))
            client.settimeout(0.002)
            try:
                receive(client)
            except TimeoutError:
                continue


# --- clients that hold on ----------------------------------------------------------------------


def test_absurd_counts_take_no_memory(broker: Hostile) -> None:
    """R-NET-4: an array of two thousand million topics, in every API, in a frame of 8 MiB."""
    before_bytes = broker.resident_bytes()
    for api in APIS.values():
        head = struct.pack(">hhih", api.key, api.version_min, 5, -1)
        body = head + b"\x7f\xff\xff\xff" * (2 * MIB - 5)
        with connect(broker) as client:
            try:
                client.sendall(framed(body))
                receive(client)
            except (ConnectionError, TimeoutError):
                continue
    assert broker.resident_bytes() - before_bytes < 64 * MIB


def test_long_claims_take_no_memory(broker: Hostile) -> None:
    """R-NET-4: memory follows the bytes that come, not the length that is claimed."""
    before_bytes = broker.resident_bytes()
    with ExitStack() as stack:
        clients = [stack.enter_context(connect(broker)) for _ in range(200)]
        for client in clients:
            client.sendall((60 * MIB).to_bytes(4) + apis.PRODUCE.key.to_bytes(2) + b"x" * 1000)
        serve_others(broker)
        assert broker.resident_bytes() - before_bytes < 32 * MIB
        for client in clients:
            assert receive(client) == b"", "a frame that does not end in time closes"


def test_many_that_wait_and_go(broker: Hostile) -> None:
    """R-NET-4: 500 fetches wait for five minutes; their clients go, and all is as before."""
    partitions = [FetchPartition(0, partition_max_bytes=MIB)]
    request = FetchRequest(
        max_wait_ms=300_000, min_bytes=MIB, topics=[FetchTopic("others", partitions=partitions)]
    )
    frame = encode_request(apis.FETCH, 12, 5, request)
    with ExitStack() as stack:
        for _ in range(500):
            client = stack.enter_context(connect(broker))
            client.sendall(PING + frame)
            assert receive(client)
        serve_others(broker)


def test_a_slow_reader_is_not_buffered_for(broker: Hostile) -> None:
    """R-NET-4: who does not take its answers is not read from."""
    before_bytes = broker.resident_bytes()
    request = MetadataRequest(
        [MetadataRequestTopic(name=f"{number:0200}") for number in range(100)]
    )
    request.allow_auto_topic_creation = False
    asking = encode_request(apis.METADATA, 9, 5, request) * 50
    with connect(broker) as client:
        client.settimeout(1)
        sent = 0
        try:
            while sent < 64 * MIB:
                sent += client.send(asking)
        except TimeoutError:
            pass
        assert sent < 64 * MIB, "the broker stopped reading"
        assert broker.resident_bytes() - before_bytes < 48 * MIB
        serve_others(broker)


def test_sessions_without_end_take_bounded_memory(broker: Hostile) -> None:
    """R-NET-4: of partitions that are not there, as many as a request can name, again and again."""
    before_bytes = broker.resident_bytes()
    for turn in range(6):
        wanted = [
            FetchPartition(number, partition_max_bytes=1)
            for number in range(turn * 100_000, (turn + 1) * 100_000)
        ]
        request = FetchRequest(
            session_epoch=0, max_wait_ms=0, topics=[FetchTopic("others", partitions=wanted)]
        )
        with connect(broker) as client:
            client.sendall(encode_request(apis.FETCH, 12, 5, request))
            assert receive(client)
    assert broker.resident_bytes() - before_bytes < 256 * MIB
