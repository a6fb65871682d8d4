"""Who is measured through a client: ours with a broker of ours, with either durability, and, if
asked for, confluent-kafka (librdkafka) with that same broker and with Kafka.

Not a measurement. Invariant: both clients do the same with the same messages; only the client and
the broker differ.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, Protocol

from benchmarks import penstock_client, servers
from benchmarks.servers import Server

PENSTOCK_OS: Final = "Penstock, os"
PENSTOCK_FSYNC: Final = "Penstock, fsync"
CONFLUENT: Final = "confluent-kafka, Kafka"
CONFLUENT_OS: Final = "confluent-kafka, Penstock, os"
CONFLUENT_FSYNC: Final = "confluent-kafka, Penstock, fsync"


class PacedClient(Protocol):
    """What is asked of a client at a steady pace."""

    def send_paced(
        self,
        bootstrap: str,
        topic: str,
        value_bytes: int,
        ticks: int,
        per_tick: int,
        wait_for_consumer: Callable[[], None],
    ) -> None:
        """So many messages each millisecond, each starting with the time it was sent; before
        them one that starts with zeros, to make all connections."""

    def latencies_ns(
        self, bootstrap: str, topic: str, count: int, say_ready: Callable[[], None]
    ) -> list[int]:
        """From sent to handed out, for `count` messages from the topic's start; ready when the
        message with zeros is there, which does not count."""


class Client(PacedClient, Protocol):
    """What a module that drives a client offers."""

    def produce(self, bootstrap: str, topic: str, value: bytes, count: int) -> float:
        """Seconds until `count` messages are confirmed."""

    def consume(self, bootstrap: str, topic: str, value_bytes: int, count: int) -> float:
        """Seconds until `count` messages have been handed out, from the topic's start, and the
        value of each has been looked at."""


class Served(Protocol):
    """What serves a client: a broker, or all brokers of a cluster together."""

    @property
    def bootstrap(self) -> str: ...

    @property
    def cpu_s(self) -> float: ...

    @property
    def resident_bytes(self) -> int: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """A client and what it talks to."""

    name: str
    client: Client
    server: Served
    create_topic: Callable[[str], None]


@contextlib.contextmanager
def running(*, peers: bool) -> Iterator[list[Pair]]:
    """All pairs, with their brokers started."""
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(servers.scratch_folder())
        server = stack.enter_context(servers.start_penstock(folder / "penstock"))
        pairs = [
            _penstock(PENSTOCK_OS, penstock_client, server, "os"),
            _penstock(PENSTOCK_FSYNC, penstock_client, server, "fsync"),
        ]
        if peers:
            # Only here, because they ask for packages and programs that only the peers need.
            from benchmarks import kafka_peer, librdkafka

            pairs += [
                _penstock(CONFLUENT_OS, librdkafka, server, "os"),
                _penstock(CONFLUENT_FSYNC, librdkafka, server, "fsync"),
            ]
            settings = kafka_peer.prepare(folder / "kafka")
            kafka = stack.enter_context(kafka_peer.start_kafka(settings))
            pairs.append(
                Pair(
                    name=CONFLUENT,
                    client=librdkafka,
                    server=kafka,
                    create_topic=lambda topic: kafka_peer.create_topic(kafka, topic),
                )
            )
        yield pairs


def _penstock(name: str, client: Client, server: Server, durability: str) -> Pair:
    return Pair(
        name=name,
        client=client,
        server=server,
        create_topic=lambda topic: servers.create_topic(server, topic, 1, durability),
    )
