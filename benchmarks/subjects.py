"""Who is measured: the floor, Penstock with either durability and, if asked for, Kafka with and
without a flush, all running at once so that they can be measured in turns.

Not a measurement. Invariant: in one round every subject meets the same machine, so that its noise
falls on all of them and leaves the ratios standing.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
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
# Each partition is for one measurement, so that every one of them starts on an empty file: as
# many as there are rounds at the most, with those that warm.
PARTITIONS: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """One row's server, and the topic on it that is measured."""

    name: str
    server: Server
    wire: Wire
    topic: str

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
        floor = stack.enter_context(servers.start_floor(folder))
        penstock = stack.enter_context(
            servers.start_penstock(folder / "penstock", f"partitions_per_topic_max={PARTITIONS}")
        )
        subjects = [Subject(name=FLOOR, server=floor, wire=KafkaWire("floor"), topic="floor")]
        for name, durability in ((PENSTOCK_OS, "os"), (PENSTOCK_FSYNC, "fsync")):
            servers.create_topic(penstock, durability, PARTITIONS, durability)
            wire = NativeWire()
            subjects.append(Subject(name=name, server=penstock, wire=wire, topic=durability))
        if peers:
            # Only here, because it asks for packages and programs that only the peers need.
            from benchmarks import kafka_peer

            kafka = stack.enter_context(
                kafka_peer.start_kafka(kafka_peer.prepare(folder / "kafka"))
            )
            for name, topic in ((KAFKA, "plain"), (KAFKA_FLUSHED, "flushed")):
                kafka_peer.create_topic(
                    kafka, topic, flushed=topic == "flushed", partitions=PARTITIONS
                )
                subjects.append(
                    Subject(name=name, server=kafka, wire=KafkaWire(topic), topic=topic)
                )
        for server in (floor, penstock):
            cores.leave_to_load(server.pid)
        yield subjects
