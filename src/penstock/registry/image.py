"""The cluster as one broker knows it: an immutable picture, replaced whole at every change.

Nothing on the data path asks the registry a question; it looks at the image it has. Not who leads
at this moment: the brokers tell each other that.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, TypeAlias

from penstock.model.errors import CorruptFacts, UnknownTopic, UnknownTopicId
from penstock.model.ids import BrokerId, TopicId
from penstock.model.limits import DELETED_PARTITIONS_MAX, DELETED_TOPICS_MAX
from penstock.model.removal import DeletedTopic
from penstock.raft.membership import Node

EVERY_BROKER: Final = ""
BrokerSettings: TypeAlias = Mapping[str, Mapping[str, str]]
"""What topics get that do not say it themselves, as it was set while brokers ran: by a broker's id
as text, or EVERY_BROKER. What is of one broker goes before what is of all."""
NO_BROKER_SETTINGS: Final[BrokerSettings] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerImage:
    """A broker, where clients reach it, and what placement has to know of it."""

    id: BrokerId
    address: str
    host: str = ""
    """The machine it runs on: what fails together. Empty: one of its own."""
    directory: int = 0
    """Which data folder it has, 64 bits: a broker that lost its folder comes back with another."""
    place: int = 0
    """Where that folder is, 64 bits: a copy of it is elsewhere, and is another broker's."""
    is_alive: bool = True

    def has_folder(self, directory: int, place: int) -> bool:
        """Whether it is this very folder that the broker has: one process at a time can. Where one
        of the two does not say its place, it may be."""
        return self.directory == directory and (self.place == place or 0 in (self.place, place))

    @property
    def node(self) -> Node:
        """Its copy of a partition, as Raft names it."""
        return Node(self.id, self.directory)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionImage:
    """Who is to have a copy of a partition."""

    replicas: tuple[BrokerId, ...]
    """The target: who has a copy when all moves are done. The first is the preferred leader."""
    voters: tuple[Node, ...] = ()
    """Who the partition began with. Who votes now is in the partition's own log."""


def placed(replicas: tuple[BrokerId, ...], voters: tuple[Node, ...]) -> PartitionImage:
    """A partition as the registry knows it."""
    return PartitionImage(replicas=replicas, voters=voters)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicImage:
    """A topic: its partitions, and those of its settings that differ from the defaults."""

    name: str
    id: TopicId
    partitions: tuple[PartitionImage, ...]
    settings: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    deleting: bool = False
    """Its deletion has begun and is finished at the next start if a crash comes between."""
    version: int = 0
    """How often it was changed: who changes it by what he saw says which one that was."""
    first_term: int = 0
    """What its partitions begin with, also those that are added: no topic of its name was led in a
    later term before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterImage:
    """Everything the registry knows."""

    cluster_id: str
    brokers: Mapping[BrokerId, BrokerImage]
    """Those that are alive."""
    topics: Mapping[str, TopicImage]
    deleted_topics: tuple[DeletedTopic, ...] = ()
    """The latest deletions, oldest first, so that whoever misses a topic can be told."""
    broker_settings: BrokerSettings = field(default_factory=lambda: NO_BROKER_SETTINGS)
    drained: frozenset[BrokerId] = frozenset()
    """Brokers, alive or not, that get no new replicas and are to lose those they have."""
    version: int = 0
    """Rises with every change this broker sees; another broker counts otherwise."""
    controller: BrokerId | None = None
    """Who sees to the cluster as a whole, as far as it is known."""
    unreadable: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """Topics that the registry has and nobody can understand, each with what is wrong with it."""
    names_by_id: Mapping[bytes, str] = field(init=False, repr=False, compare=False)
    """Topics by their ids as Kafka's protocol has them: sixteen bytes."""

    def __post_init__(self) -> None:
        names = {bytes.fromhex(topic.id): topic.name for topic in self.topics.values()}
        object.__setattr__(self, "names_by_id", MappingProxyType(names))

    def topic(self, name: str) -> TopicImage:
        """The topic; UnknownTopic with what to do, or CorruptFacts if only its name is known."""
        if name in self.unreadable:
            raise CorruptFacts(self.unreadable[name])
        return find_topic(self.topics, name)

    def topic_by_id(self, topic_id: bytes) -> TopicImage:
        """The topic, or UnknownTopicId."""
        name = self.names_by_id.get(topic_id)
        if name is None or self.topics[name].deleting:
            raise UnknownTopicId(f"There is no topic with the id {topic_id.hex()}.")
        return self.topics[name]


def find_topic(topics: Mapping[str, TopicImage], name: str) -> TopicImage:
    """The topic, or UnknownTopic with what to do."""
    topic = topics.get(name)
    if topic is None or topic.deleting:
        raise UnknownTopic(
            f"There is no topic {name!r}: create it with `penstock topics create {name}`."
        )
    return topic


def latest_deletions(deletions: tuple[DeletedTopic, ...]) -> tuple[DeletedTopic, ...]:
    """As many of the last ones as are remembered: so many topics, and so many partitions."""
    first = max(len(deletions) - DELETED_TOPICS_MAX, 0)
    partitions = sum(len(topic.partitions) for topic in deletions[first:])
    while first < len(deletions) - 1 and partitions > DELETED_PARTITIONS_MAX:
        partitions -= len(deletions[first].partitions)
        first += 1
    return deletions[first:]
