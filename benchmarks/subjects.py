"""Who is measured: the floor, Penstock with either durability and, if asked for, Kafka with and
without a flush, all running at once so that they can be measured in turns.

Not a measurement. Invariant: in one round every subject meets the same machine, so that its noise
falls on all of them and leaves the ratios standing.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from benchmarks import cores, servers
from benchmarks.load import Link
from benchmarks.servers import Server
from benchmarks.wire import KafkaWire, NativeWire, Wire, record_batch

FLOOR: Final = "floor"
PENSTOCK_OS: Final = "Penstock, os"
PENSTOCK_FSYNC: Final = "Penstock, fsync"
KAFKA: Final = "Kafka"
KAFKA_FLUSHED: Final = "Kafka, flushed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """One row's server, and the topic on it that is measured."""

    name: str
    server: Server
    wire: Wire
    topic: str
    empty: Callable[[], None]
    """Take what was written off the disk: the topic is as it was when it was made."""

    @contextlib.contextmanager
    def link(self) -> Iterator[Link]:
        with cores.load(), Link(self.server.address, self.wire) as link:
            yield link

    def small_blocks(self, window: int, partitions: int = 1) -> list[bytes]:
        """Two blocks of half a window each: produce requests of one message of 100 bytes."""
        batch = record_batch(100, 1)
        requests = [
            self.wire.produce(self.topic, number % partitions, batch, number)
            for number in range(window)
        ]
        half = window // 2
        return [b"".join(requests[:half]), b"".join(requests[half:])]


@contextlib.contextmanager
def running(*, peers: bool) -> Iterator[list[Subject]]:
    """All subjects, started."""
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(servers.scratch_folder())
        log = folder / "floor.log"
        floor = stack.enter_context(servers.start_floor(log))
        penstock = stack.enter_context(servers.start_penstock(folder / "penstock"))
        subjects = [
            Subject(
                name=FLOOR,
                server=floor,
                wire=KafkaWire("floor"),
                topic="floor",
                empty=partial(os.truncate, log, 0),
            )
        ]
        for name, durability in ((PENSTOCK_OS, "os"), (PENSTOCK_FSYNC, "fsync")):
            servers.create_topic(penstock, durability, 1, durability)
            subjects.append(
                Subject(
                    name=name,
                    server=penstock,
                    wire=NativeWire(),
                    topic=durability,
                    empty=partial(_empty_penstock, penstock, durability),
                )
            )
        if peers:
            subjects += stack.enter_context(_kafka(folder / "kafka"))
        for server in (floor, penstock):
            cores.leave_to_load(server.pid)
        yield subjects


def _empty_penstock(server: Server, durability: str) -> None:
    servers.delete_topic(server, durability)
    servers.create_topic(server, durability, 1, durability)


@contextlib.contextmanager
def _kafka(folder: Path) -> Iterator[list[Subject]]:
    # Only here, because it asks for packages and programs that only the peers need.
    from benchmarks import kafka_peer

    settings = kafka_peer.prepare(folder)
    with kafka_peer.start_kafka(settings) as server:

        def create(topic: str) -> None:
            kafka_peer.create_topic(server, topic, flushed=topic == "flushed")

        def empty(topic: str) -> None:
            kafka_peer.delete_topic(server, settings, topic)
            create(topic)

        subjects = []
        for name, topic in ((KAFKA, "plain"), (KAFKA_FLUSHED, "flushed")):
            create(topic)
            wire = KafkaWire(topic)
            subjects.append(
                Subject(
                    name=name, server=server, wire=wire, topic=topic, empty=partial(empty, topic)
                )
            )
        yield subjects
