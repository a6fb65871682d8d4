"""Records what real clients say to real Kafka, as files of hexadecimal: the golden bytes of our
Kafka codec. Run it to record them again: `python -m tests.system.kafka.recorder`.

A proxy that Kafka advertises as its own address, so that every connection of a client goes through
it, and one file `<client>-<api>-v<version>.request.hex` and `.response.hex` for the first exchange
of each kind. A file holds one whole frame. Invariant: the bytes are passed on untouched.
"""

from __future__ import annotations

import asyncio
import contextlib
import struct
import subprocess
import tempfile
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

from confluent_kafka import Consumer

from tests.system.kafka.drivers.driver import PATIENCE_S
from tests.system.kafka.drivers.table import Clients
from tests.system.kafka.messages import Message
from tests.system.kafka.peer import KafkaPeer
from tests.system.kafka.provide import java

GOLDEN: Final = Path(__file__).parents[2] / "golden" / "kafka"
APIS: Final = {
    0: "Produce",
    1: "Fetch",
    2: "ListOffsets",
    3: "Metadata",
    8: "OffsetCommit",
    9: "OffsetFetch",
    10: "FindCoordinator",
    11: "JoinGroup",
    12: "Heartbeat",
    13: "LeaveGroup",
    14: "SyncGroup",
    18: "ApiVersions",
    22: "InitProducerId",
    68: "ConsumerGroupHeartbeat",
}
CLIENTS: Final = ("confluent-kafka", "aiokafka", "kafka-python", "kafkajs", "platformatic", "java")
VALUE: Final = b"the value"


class Recorder:
    """Keeps one exchange of each kind: the first that carries a message, else the first."""

    def __init__(self) -> None:
        self.client = ""
        self._kept: dict[str, tuple[bytes, bytes]] = {}

    def exchange(self, request: bytes, response: bytes) -> None:
        key, version = struct.unpack_from(">hh", request, 4)
        if key not in APIS:
            return
        name = f"{self.client}-{APIS[key]}-v{version}"
        kept = self._kept.get(name)
        if kept is None or (VALUE in response and VALUE not in kept[1]):
            self._kept[name] = (request, response)

    def write(self, folder: Path) -> int:
        folder.mkdir(parents=True, exist_ok=True)
        for old in folder.glob("*.hex"):
            old.unlink()
        for name, frames in self._kept.items():
            for kind, frame in zip(("request", "response"), frames, strict=True):
                text = frame.hex()
                lines = [text[start : start + 96] for start in range(0, len(text), 96)]
                (folder / f"{name}.{kind}.hex").write_text("\n".join(lines) + "\n")
        return len(self._kept)


class Proxy:
    """Listens on `port` and passes on to `target`, on a thread of its own."""

    def __init__(self, recorder: Recorder) -> None:
        self.target = 0
        self._recorder = recorder
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()
        listening = asyncio.start_server(self._serve, "127.0.0.1", 0)
        server = asyncio.run_coroutine_threadsafe(listening, self._loop).result()
        self.port = int(server.sockets[0].getsockname()[1])

    async def _serve(self, client: asyncio.StreamReader, answers: asyncio.StreamWriter) -> None:
        broker, requests = await asyncio.open_connection("127.0.0.1", self.target)
        waiting: dict[bytes, bytes] = {}  # by correlation id

        async def pass_requests() -> None:
            async for frame in _frames(client, requests):
                waiting[frame[8:12]] = frame

        async def pass_responses() -> None:
            async for frame in _frames(broker, answers):
                self._recorder.exchange(waiting.pop(frame[4:8]), frame)

        await asyncio.gather(pass_requests(), pass_responses())


async def _frames(
    source: asyncio.StreamReader, target: asyncio.StreamWriter
) -> AsyncIterator[bytes]:
    """Each frame before it is passed on; closes the target when the source ends."""
    with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
        while True:
            length = await source.readexactly(4)
            frame = length + await source.readexactly(int.from_bytes(length, "big"))
            yield frame
            target.write(frame)
            await target.drain()
    target.close()


def record() -> int:
    """Everything, from the beginning; how many exchanges were kept."""
    recorder = Recorder()
    proxy = Proxy(recorder)
    advertised = f"advertised.listeners=PLAINTEXT://127.0.0.1:{proxy.port}"
    with (
        tempfile.TemporaryDirectory() as folder,
        KafkaPeer(Path(folder) / "kafka", advertised) as kafka,
    ):
        proxy.target = int(kafka.bootstrap.rpartition(":")[2])
        bootstrap = f"127.0.0.1:{proxy.port}"
        clients = Clients(bootstrap)
        for name in CLIENTS:
            recorder.client = name
            driver = clients[name]
            message = Message(key=b"key", value=VALUE, headers=(("name", b"header"),))
            driver.produce(name, [message], idempotent=True)
            driver.consume({name: 1})
            driver.consume_in_group(name, name, 1)
            driver.offset_at(name, 1)
        clients.close()
        recorder.client = "confluent-kafka"
        _consume_with_the_new_protocol(bootstrap)
        recorder.client = "java"
        _consume_with_the_new_protocol_in_java(bootstrap)
        return recorder.write(GOLDEN)


def _consume_with_the_new_protocol(bootstrap: str) -> None:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "new-protocol",
            "group.protocol": "consumer",
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe(["confluent-kafka"])
    assert consumer.poll(PATIENCE_S) is not None
    consumer.close()


def _consume_with_the_new_protocol_in_java(bootstrap: str) -> None:
    tool = "org.apache.kafka.tools.consumer.ConsoleConsumer"
    command = java().with_arguments(tool, "--bootstrap-server", bootstrap, "--topic", "java")
    command += ["--group", "new-protocol-in-java", "--from-beginning", "--max-messages", "1"]
    command += ["--consumer-property", "group.protocol=consumer"]
    subprocess.run(command, check=True, capture_output=True, timeout=PATIENCE_S)


if __name__ == "__main__":
    print(f"{record()} exchanges are in {GOLDEN}")
