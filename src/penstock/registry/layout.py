"""Where all replicas are, while a plan is being made: a working copy of the image's targets that
keeps count of loads and chooses the next broker.

Not a plan: `registry.placement` decides what is to move and why. The invariant: the counts are
those of the targets as they stand; a broker that is dead or drained is never chosen.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable

from penstock.model.ids import BrokerId, TopicPartition
from penstock.registry.facts import Move, Replicas
from penstock.registry.image import ClusterImage
from penstock.registry.ring import Ring


class Layout:
    """The targets of all topics that are not being deleted."""

    def __init__(self, image: ClusterImage, *, closed: Collection[BrokerId] = ()) -> None:
        """closed: brokers that get nothing, beside those that are drained."""
        self.open = tuple(
            sorted(
                broker
                for broker in image.brokers
                if broker not in image.drained and broker not in closed
            )
        )
        self.targets: dict[TopicPartition, Replicas] = {}
        self.replicas: Counter[BrokerId] = Counter()
        self.leaders: Counter[BrokerId] = Counter()
        self._topic_replicas: Counter[tuple[str, BrokerId]] = Counter()
        self._topic_leaders: Counter[tuple[str, BrokerId]] = Counter()
        self._hosts = {broker.id: broker.host for broker in image.brokers.values() if broker.host}
        self._ring = Ring(self.open)
        self._ranks: dict[TopicPartition, dict[BrokerId, int]] = {}
        for topic in image.topics.values():
            if not topic.deleting:
                for number, partition in enumerate(topic.partitions):
                    self.set(TopicPartition(topic.name, number), partition.replicas)
        self._before = dict(self.targets)

    def set(self, partition: TopicPartition, replicas: Replicas) -> None:
        """Give the partition this target."""
        self._count(partition, -1)
        self.targets[partition] = replicas
        self._count(partition, +1)

    def moves(self) -> list[Move]:
        """What is not where it was."""
        return [
            Move(partition.topic, partition.partition, replicas)
            for partition, replicas in self.targets.items()
            if self._before[partition] != replicas
        ]

    def host(self, broker: BrokerId) -> str | BrokerId:
        """What fails together with the broker; if nobody said what, itself."""
        return self._hosts.get(broker, broker)

    def on_host(self, replicas: Iterable[BrokerId], broker: BrokerId) -> int:
        """How many of the replicas are on the broker's host."""
        host = self.host(broker)
        return sum(self.host(other) == host for other in replicas)

    def topic_replicas(self, topic: str, broker: BrokerId) -> int:
        return self._topic_replicas[topic, broker]

    def topic_leaders(self, topic: str, broker: BrokerId) -> int:
        return self._topic_leaders[topic, broker]

    def rank(self, partition: TopicPartition, broker: BrokerId) -> int:
        """How many brokers the ring prefers to this one."""
        ranks = self._ranks.get(partition)
        if ranks is None:
            order = self._ring.order(str(partition))
            ranks = self._ranks[partition] = {other: rank for rank, other in enumerate(order)}
        return ranks[broker]

    def choose(self, partition: TopicPartition, taken: Replicas) -> BrokerId | None:
        """Who should have the next replica beside those that are taken: a host without one before
        all, then whoever has least of the topic, of everything, and as the ring has it."""
        return min(
            (broker for broker in self.open if broker not in taken),
            key=lambda broker: (
                self.on_host(taken, broker),
                self._topic_replicas[partition.topic, broker],
                self.replicas[broker],
                self.rank(partition, broker),
            ),
            default=None,
        )

    def choose_leader(self, partition: TopicPartition, among: Iterable[BrokerId]) -> BrokerId:
        """Who of them should lead: whoever leads least of the topic and of everything."""
        return min(
            among,
            key=lambda broker: (
                self._topic_leaders[partition.topic, broker],
                self.leaders[broker],
                self._topic_replicas[partition.topic, broker],
                self.replicas[broker],
                self.rank(partition, broker),
            ),
        )

    def _count(self, partition: TopicPartition, change: int) -> None:
        replicas = self.targets.get(partition, ())
        for broker in replicas:
            self.replicas[broker] += change
            self._topic_replicas[partition.topic, broker] += change
        for broker in replicas[:1]:
            self.leaders[broker] += change
            self._topic_leaders[partition.topic, broker] += change
