"""The broker that the foreign clients talk to: `penstock up` as a child process, or, with
PENSTOCK_TEST_PEER=kafka, Apache Kafka: what these tests ask for is what Kafka itself does.

Invariant: both have one partition by default, create topics when they are used, notice a dead
consumer within seconds, and keep their port and their folder over a restart.
"""

from __future__ import annotations

import os
from pathlib import Path
from types import TracebackType
from typing import Final, Protocol, Self

from benchmarks import kafka_peer
from benchmarks.servers import Server
from tests.kit.processes.brokers import BrokerProcess

IS_KAFKA: Final = os.environ.get("PENSTOCK_TEST_PEER", "penstock") == "kafka"
SESSION_TIMEOUT_MS: Final = 6_000


class Peer(Protocol):
    """A broker of either kind."""

    @property
    def bootstrap(self) -> str: ...
    def start(self) -> None: ...
    def kill(self) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...


class PenstockPeer(BrokerProcess):
    @property
    def bootstrap(self) -> str:
        return self.address


class KafkaPeer:
    """Apache Kafka, one broker that is its own controller."""

    def __init__(self, folder: Path, *settings: str) -> None:
        self._settings = kafka_peer.prepare(folder)
        with self._settings.open("a") as properties:
            properties.write("".join(f"{setting}\n" for setting in settings))
        self._server: Server | None = None

    @property
    def bootstrap(self) -> str:
        assert self._server is not None
        return self._server.bootstrap

    def start(self) -> None:
        self._server = kafka_peer.start_kafka(self._settings)

    def kill(self) -> None:
        assert self._server is not None
        self._server.kill()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self._server is not None
        self._server.__exit__()


def new_peer(
    folder: Path, *, auto_create: bool = True, consumer_session_timeout_ms: int = SESSION_TIMEOUT_MS
) -> Peer:
    """Not started yet; its data goes to the folder, which it makes. consumer_session_timeout_ms:
    of the protocol of KIP-848, where no member has a say in it."""
    if IS_KAFKA:
        return KafkaPeer(
            folder,
            f"auto.create.topics.enable={str(auto_create).lower()}",
            f"group.consumer.min.session.timeout.ms={SESSION_TIMEOUT_MS}",
            f"group.consumer.session.timeout.ms={consumer_session_timeout_ms}",
            "group.consumer.min.heartbeat.interval.ms=500",
            "group.consumer.heartbeat.interval.ms=1000",
        )
    return PenstockPeer(
        folder,
        "partitions_per_topic_max=100",
        f"auto_create_topics={str(auto_create).lower()}",
        "group_initial_rebalance_delay_ms=0",
        f"group_consumer_session_timeout_ms={consumer_session_timeout_ms}",
        "group_consumer_heartbeat_interval_ms=1000",
    )
