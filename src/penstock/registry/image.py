"""The cluster as one broker knows it: an immutable picture, replaced whole at every change.

Nothing on the data path asks the registry a question; it looks at the image it has.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from penstock.model.errors import UnknownTopic, UnknownTopicId
from penstock.model.ids import BrokerId, Term, TopicId
from penstock.model.limits import DELETED_PARTITIONS_MAX, DELETED_TOPICS_MAX
from penstock.model.removal import DeletedTopic


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerImage:
    """A broker that is alive and where clients reach it."""

    id: BrokerId
    address: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionImage:
    """Who leads a partition and who has a copy."""

    leader: BrokerId
    term: Term
    replicas: tuple[BrokerId, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicImage:
    """A topic: its partitions, and those of its settings that differ from the defaults."""

    name: str
    id: TopicId
    partitions: tuple[PartitionImage, ...]
    settings: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    deleting: bool = False
    """Its deletion has begun and is finished at the next start if a crash comes between."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterImage:
    """Everything the registry knows."""

    cluster_id: str
    brokers: Mapping[BrokerId, BrokerImage]
    topics: Mapping[str, TopicImage]
    deleted_topics: tuple[DeletedTopic, ...] = ()
    """The latest deletions, oldest first, so that whoever misses a topic can be told."""
    names_by_id: Mapping[bytes, str] = field(init=False, repr=False, compare=False)
    """Topics by their ids as Kafka's protocol has them: sixteen bytes."""

    def __post_init__(self) -> None:
        names = {bytes.fromhex(topic.id): topic.name for topic in self.topics.values()}
        object.__setattr__(self, "names_by_id", MappingProxyType(names))

    def topic(self, name: str) -> TopicImage:
        """The topic, or UnknownTopic with what to do."""
        topic = self.topics.get(name)
        if topic is None or topic.deleting:
            raise UnknownTopic(
                f"There is no topic {name!r}: create it with `penstock topics create {name}`."
            )
        return topic

    def topic_by_id(self, topic_id: bytes) -> TopicImage:
        """The topic, or UnknownTopicId."""
        name = self.names_by_id.get(topic_id)
        if name is None or self.topics[name].deleting:
            raise UnknownTopicId(f"There is no topic with the id {topic_id.hex()}.")
        return self.topics[name]


def latest_deletions(deletions: tuple[DeletedTopic, ...]) -> tuple[DeletedTopic, ...]:
    """As many of the last ones as are remembered: so many topics, and so many partitions."""
    first = max(len(deletions) - DELETED_TOPICS_MAX, 0)
    partitions = sum(len(topic.partitions) for topic in deletions[first:])
    while first < len(deletions) - 1 and partitions > DELETED_PARTITIONS_MAX:
        partitions -= len(deletions[first].partitions)
        first += 1
    return deletions[first:]
