"""Three brokers of Apache Kafka as one cluster (KRaft, each broker a controller too), as a peer.

Not a measurement. Invariant: the settings are Kafka's defaults, except where `kafka_peer` says so.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks import kafka_peer
from benchmarks.clusters import BROKERS, MIN_INSYNC_REPLICAS, Cluster, Led

_ASK_S_MAX: Final = 10.0
_CREATE_S_MAX: Final = 60.0


class KafkaCluster(Cluster):
    """Started, and all of its brokers known to each other."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._settings = kafka_peer.prepare_cluster(folder, BROKERS)
        try:
            self.start(self._settings)
        except BaseException:
            self.__exit__()
            raise

    def start(self, ids: Iterable[int]) -> None:
        starting = {broker_id: kafka_peer.launch(self._settings[broker_id]) for broker_id in ids}
        for broker_id, process in starting.items():
            settings = self._settings[broker_id]
            self.brokers[broker_id] = kafka_peer.wait_until_it_answers(process, settings)
        self.brokers = dict(sorted(self.brokers.items()))

    def create_topic(
        self, topic: str, partitions: int = 1, replicas: int = BROKERS, durability: str = "os"
    ) -> None:
        assert durability == "os", "it flushes when it likes, unless each message is to be"
        minimum = str(min(replicas, MIN_INSYNC_REPLICAS))
        wanted = NewTopic(
            topic,
            num_partitions=partitions,
            replication_factor=replicas,
            config={"min.insync.replicas": minimum},
        )
        admin, deadline = self._admin(), time.monotonic() + _CREATE_S_MAX
        while True:
            try:
                for created in admin.create_topics([wanted]).values():
                    created.result(timeout=_CREATE_S_MAX)
                break
            except KafkaException:
                # Not all brokers have registered yet.
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.2)
        self.wait_until_whole(topic, replicas)

    def led(self, topic: str, ask: int | None = None) -> list[Led]:
        metadata = self._admin(ask).list_topics(topic, timeout=_ASK_S_MAX).topics[topic]
        return [
            Led(each.leader, frozenset(each.isrs))
            for _, each in sorted(metadata.partitions.items())
        ]

    def _admin(self, broker_id: int | None = None) -> AdminClient:
        where = self.bootstrap if broker_id is None else self.brokers[broker_id].bootstrap
        return AdminClient({"bootstrap.servers": where, "log_level": 0})
