"""What a registry must not forget, and the changes to it: the same for every store.

Pure: no clock, no network, no disk; whoever keeps the facts applies changes one after another and
makes them durable. Not here: who leads (the brokers tell each other), and where replicas should go
(`registry.placement`). The invariant: `apply` gives new facts that contradict nothing, or raises a
typed refusal and nothing has changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import NamedTuple, TypeAlias, assert_never

from penstock.model.errors import (
    ChangedMeanwhile,
    InvalidConfig,
    InvalidPlacement,
    TopicExists,
)
from penstock.model.ids import BrokerId, TopicId
from penstock.model.limits import FIRST_TERM_MAX, UNHEARD_ELECTIONS_MAX
from penstock.model.removal import DeletedTopic
from penstock.raft.membership import Node
from penstock.registry.image import (
    NO_BROKER_SETTINGS,
    BrokerImage,
    BrokerSettings,
    ClusterImage,
    PartitionImage,
    TopicImage,
    find_topic,
    latest_deletions,
    placed,
)

Replicas: TypeAlias = tuple[BrokerId, ...]
"""Who is to have a copy of a partition; the first is its preferred leader."""


class Move(NamedTuple):
    """A partition's new target."""

    topic: str
    partition: int
    replicas: Replicas


class Seen(NamedTuple):
    """Which state of a topic somebody decided by."""

    topic_id: TopicId
    version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Everything that must survive. The partitions of topics name their preferred leaders."""

    cluster_id: str
    version: int = 0
    """How many changes were applied."""
    brokers: Mapping[BrokerId, BrokerImage] = field(default_factory=lambda: MappingProxyType({}))
    """Those that are known, alive or not."""
    broker_settings: BrokerSettings = field(default_factory=lambda: NO_BROKER_SETTINGS)
    drained: frozenset[BrokerId] = frozenset()
    topics: Mapping[str, TopicImage] = field(default_factory=lambda: MappingProxyType({}))
    deleted_topics: tuple[DeletedTopic, ...] = ()
    first_term: int = 0
    """Which term the next topic begins with: none that was deleted was led in a later one. One for
    all of them, since deletions are forgotten and clients remember."""
    next_producer_id: int = 0

    def image(
        self,
        *,
        controller: BrokerId | None = None,
        unreadable: Mapping[str, str] = MappingProxyType({}),
    ) -> ClusterImage:
        """The facts as brokers look at them."""
        return ClusterImage(
            cluster_id=self.cluster_id,
            brokers={key: broker for key, broker in self.brokers.items() if broker.is_alive},
            topics=self.topics,
            deleted_topics=self.deleted_topics,
            broker_settings=self.broker_settings,
            drained=self.drained,
            version=self.version,
            controller=controller,
            unreadable=unreadable,
        )

    def topic(self, name: str) -> TopicImage:
        """The topic, or UnknownTopic with what to do."""
        return find_topic(self.topics, name)


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterBroker:
    """A broker has started, or started again, or has another address."""

    broker: BrokerImage


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpireBroker:
    """Nothing was heard of the broker for too long. One that came back meanwhile with another
    directory stays."""

    node: Node


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainBroker:
    """Give the broker no new replicas, or give it some again."""

    broker: BrokerId
    is_drained: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeBrokerSettings:
    """Replace what was set for a broker, or for every one, if it is what was seen."""

    broker: str
    settings: Mapping[str, str]
    seen: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTopic:
    name: str
    id: TopicId
    settings: Mapping[str, str]
    placement: tuple[Replicas, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class BeginDeletion:
    """Nobody sees the topic any more. Without a deletion nothing is remembered of it, but the
    terms that it was led in."""

    name: str
    deletion: DeletedTopic | None
    last_term: int | None = None
    """The latest that any of its partitions is known to have reached. None: brokers of earlier
    versions do not say it, and what they changed must be the same for those that look later."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishDeletion:
    """Forget the topic if it is this one and is being deleted."""

    name: str
    id: TopicId


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeSettings:
    """Replace the settings; if it matters which they replace, of that version only."""

    name: str
    settings: Mapping[str, str]
    version: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AddPartitions:
    """Partitions from number `first` on, which is how many there are."""

    name: str
    first: int
    placement: tuple[Replicas, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeTargets:
    """All of the moves or none; each topic must be the one that was seen."""

    moves: tuple[Move, ...]
    seen: Mapping[str, Seen]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReserveProducerIds:
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Adopt:
    """Take in what a broker on its own has kept: it becomes the first of a cluster. What is there
    already, by its id, stays as it is, so that it can be done again after a crash."""

    facts: Facts


Change: TypeAlias = (
    RegisterBroker
    | ExpireBroker
    | DrainBroker
    | ChangeBrokerSettings
    | CreateTopic
    | BeginDeletion
    | FinishDeletion
    | ChangeSettings
    | AddPartitions
    | ChangeTargets
    | ReserveProducerIds
    | Adopt
)


def apply(facts: Facts, change: Change) -> Facts:
    """The facts after the change, or a refusal."""
    after = _apply(facts, change)
    return replace(after, version=facts.version + 1)


def _apply(facts: Facts, change: Change) -> Facts:  # noqa: C901 - a table of changes
    match change:
        case RegisterBroker():
            return _register(facts, change.broker)
        case ExpireBroker():
            return _expire(facts, change.node)
        case DrainBroker():
            return _drain(facts, change)
        case ChangeBrokerSettings():
            return _change_broker_settings(facts, change)
        case CreateTopic():
            return _create(facts, change)
        case BeginDeletion():
            return _begin_deletion(facts, change)
        case FinishDeletion():
            return _finish_deletion(facts, change)
        case ChangeSettings():
            return _change_settings(facts, change)
        case AddPartitions():
            return _add_partitions(facts, change)
        case ChangeTargets():
            return _change_targets(facts, change)
        case ReserveProducerIds():
            assert change.count > 0, change
            return replace(facts, next_producer_id=facts.next_producer_id + change.count)
        case Adopt():
            return _adopt(facts, change.facts)
        case _:
            assert_never(change)


def topics_of(change: Change) -> tuple[str, ...]:
    """The names of the topics that the change is about."""
    match change:
        case CreateTopic() | BeginDeletion() | FinishDeletion() | ChangeSettings():
            return (change.name,)
        case AddPartitions():
            return (change.name,)
        case ChangeTargets():
            return tuple(dict.fromkeys(move.topic for move in change.moves))
        case Adopt():
            return tuple(change.facts.topics)
        case RegisterBroker() | ExpireBroker() | DrainBroker() | ChangeBrokerSettings():
            return ()
        case ReserveProducerIds():
            return ()
        case _:
            assert_never(change)


# --- brokers -----------------------------------------------------------------------------------


def check_free(known: BrokerImage | None, broker: BrokerImage) -> None:
    """Refuse an id that a broker with another data folder has, and is alive."""
    if known is None or not known.is_alive or known.has_folder(broker.directory, broker.place):
        return
    if known.directory == broker.directory:
        raise InvalidConfig(
            f"The data folder of broker {broker.id} is in use by the broker at {known.address}, "
            "and this one has a copy of it, which would vote and acknowledge in its name: start a "
            "broker of its own with an empty folder and another --broker-id; if the folder was "
            "moved here, stop the one it came from."
        )
    raise InvalidConfig(
        f"The broker id {broker.id} is in use by the broker at {known.address}: give every "
        "broker its own with --broker-id; if that one's folder was just replaced, wait until "
        "it is known to be dead."
    )


def _register(facts: Facts, broker: BrokerImage) -> Facts:
    check_free(facts.brokers.get(broker.id), broker)
    return replace(facts, brokers={**facts.brokers, broker.id: replace(broker, is_alive=True)})


def _expire(facts: Facts, node: Node) -> Facts:
    known = facts.brokers.get(BrokerId(node.broker))
    if known is None or known.node != node:
        return facts
    return replace(facts, brokers={**facts.brokers, known.id: replace(known, is_alive=False)})


def _drain(facts: Facts, change: DrainBroker) -> Facts:
    is_used = any(
        change.broker in partition.replicas
        for topic in facts.topics.values()
        for partition in topic.partitions
    )
    if not (is_used or change.broker in facts.brokers or change.broker in facts.drained):
        raise InvalidPlacement(f"There is no broker {change.broker}.")
    others = facts.drained - {change.broker}
    return replace(facts, drained=others | {change.broker} if change.is_drained else others)


def _change_broker_settings(facts: Facts, change: ChangeBrokerSettings) -> Facts:
    if dict(facts.broker_settings.get(change.broker, {})) != dict(change.seen):
        raise ChangedMeanwhile("The broker's settings were changed meanwhile: look at them again.")
    settings = {key: each for key, each in facts.broker_settings.items() if key != change.broker}
    if change.settings:
        settings[change.broker] = dict(change.settings)
    return replace(facts, broker_settings=settings)


# --- topics ------------------------------------------------------------------------------------


def _create(facts: Facts, change: CreateTopic) -> Facts:
    if change.name in facts.topics:
        raise TopicExists(f"The topic {change.name!r} exists already.")
    topic = TopicImage(
        name=change.name,
        id=change.id,
        partitions=_new_partitions(facts, change.name, change.placement),
        settings=dict(change.settings),
        first_term=facts.first_term,
    )
    return replace(facts, topics={**facts.topics, topic.name: topic})


def _begin_deletion(facts: Facts, change: BeginDeletion) -> Facts:
    topic = facts.topic(change.name)
    deleted = facts.deleted_topics
    if change.deletion is not None:
        if change.deletion.topic_id != topic.id:
            raise ChangedMeanwhile(f"{change.name!r} was made anew meanwhile: look at it again.")
        deleted = latest_deletions((*deleted, change.deletion))
    return replace(
        _with(facts, replace(topic, deleting=True)),
        deleted_topics=deleted,
        first_term=_first_term_after(facts, topic, change.last_term),
    )


def _first_term_after(facts: Facts, topic: TopicImage, last_term: int | None) -> int:
    """Later than any leader of the topic: who has heard of that one takes what he hears of an
    earlier for outdated, though it is of another topic of that name."""
    if last_term is None:
        return facts.first_term
    is_lone = all(
        len(partition.voters) == 1 and partition.replicas == (partition.voters[0].broker,)
        for partition in topic.partitions
    )
    if topic.version and len(facts.brokers) > 1:
        is_lone = False  # it may have been moved, and back
    if not is_lone or last_term > topic.first_term:
        last_term = max(last_term, topic.first_term) + UNHEARD_ELECTIONS_MAX
    return max(facts.first_term, min(last_term, FIRST_TERM_MAX))


def _finish_deletion(facts: Facts, change: FinishDeletion) -> Facts:
    topic = facts.topics.get(change.name)
    if topic is None or topic.id != change.id or not topic.deleting:
        return facts
    return replace(
        facts, topics={key: value for key, value in facts.topics.items() if key != change.name}
    )


def _change_settings(facts: Facts, change: ChangeSettings) -> Facts:
    topic = facts.topic(change.name)
    if change.version is not None and change.version != topic.version:
        raise ChangedMeanwhile(f"{change.name!r} was changed meanwhile: look at it again.")
    return _with(facts, replace(topic, settings=dict(change.settings)))


def _add_partitions(facts: Facts, change: AddPartitions) -> Facts:
    topic = facts.topic(change.name)
    have = len(topic.partitions)
    if change.first != have:
        raise ChangedMeanwhile(
            f"{change.name!r} has {have} partitions by now, not {change.first}: look at it again."
        )
    new = _new_partitions(facts, change.name, change.placement)
    return _with(facts, replace(topic, partitions=topic.partitions + new))


def _change_targets(facts: Facts, change: ChangeTargets) -> Facts:
    moves: dict[str, dict[int, Replicas]] = {}
    for move in change.moves:
        moves.setdefault(move.topic, {})[move.partition] = move.replicas
    for name, targets in moves.items():
        topic = facts.topic(name)
        if change.seen.get(name) != (topic.id, topic.version):
            raise ChangedMeanwhile(f"{name!r} was changed meanwhile: look at it again.")
        partitions = list(topic.partitions)
        for number, replicas in targets.items():
            if not 0 <= number < len(partitions):
                raise InvalidPlacement(f"{name!r} has no partition {number}.")
            before = partitions[number]
            _check_replicas(facts, name, replicas, already=before.replicas)
            partitions[number] = placed(replicas, before.voters)
        facts = _with(facts, replace(topic, partitions=tuple(partitions)))
    return facts


def _adopt(facts: Facts, adopted: Facts) -> Facts:
    topics = dict(facts.topics)
    for name, topic in adopted.topics.items():
        there = topics.setdefault(name, replace(topic, version=0))
        if there.id != topic.id:
            raise TopicExists(
                f"The topic {name!r} is in the cluster already and is not the one of this broker: "
                "rename or delete one of the two."
            )
    known = {deletion.topic_id for deletion in facts.deleted_topics}
    deleted = (
        *facts.deleted_topics,
        *(each for each in adopted.deleted_topics if each.topic_id not in known),
    )
    return replace(
        facts,
        topics=topics,
        broker_settings={**adopted.broker_settings, **facts.broker_settings},
        deleted_topics=latest_deletions(tuple(sorted(deleted, key=lambda each: each.at_ms))),
        first_term=max(facts.first_term, adopted.first_term),
        next_producer_id=max(facts.next_producer_id, adopted.next_producer_id),
    )


def _with(facts: Facts, topic: TopicImage) -> Facts:
    """The facts with the topic changed once more."""
    changed = replace(topic, version=topic.version + 1)
    return replace(facts, topics={**facts.topics, topic.name: changed})


def _new_partitions(
    facts: Facts, name: str, placement: Iterable[Replicas]
) -> tuple[PartitionImage, ...]:
    partitions = []
    for replicas in placement:
        _check_replicas(facts, name, replicas)
        voters = tuple(facts.brokers[broker].node for broker in replicas)
        partitions.append(placed(replicas, voters))
    return tuple(partitions)


def _check_replicas(facts: Facts, name: str, replicas: Replicas, already: Replicas = ()) -> None:
    """Brokers that are alive, each once; who has a copy already may be dead."""
    if not replicas or len(set(replicas)) != len(replicas):
        raise InvalidPlacement(f"A partition of {name!r} names no broker, or one twice.")
    for broker in replicas:
        known = facts.brokers.get(broker)
        if broker not in already and (known is None or not known.is_alive):
            raise InvalidPlacement(f"There is no live broker {broker} for {name!r}.")
