"""What a broker asks of a registry, whichever keeps it: embedded, ZooKeeper or MetaServer.

Calls become changes of facts, and new images are told. A change returns when it is durable; the new
image is there by then. Names, limits and settings are checked by the caller: the registry keeps
facts, it does not judge them. The registry of a cluster may be out of reach for a while: then the
image stays as it was, and changes are refused with RegistryUnavailable. Not the keeping: a store
says how a change becomes durable (`change`) and what the facts are then. The invariant: the image
is replaced only by `_install`, on the event loop, and everybody who watches is told each one in
order.
"""

from __future__ import annotations

import logging
import uuid
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence

from penstock.model.errors import (
    ChangedMeanwhile,
    InvalidConfig,
    InvalidPartitions,
    InvalidPlacement,
    InvalidReplication,
    UnsupportedVersion,
)
from penstock.model.ids import BrokerId, TopicId
from penstock.model.removal import DeletedTopic
from penstock.registry import facts as changes
from penstock.registry.facts import Change, Facts, Move, Replicas, Seen
from penstock.registry.image import BrokerImage, ClusterImage, TopicImage
from penstock.registry.placement import place
from penstock.registry.quorum import Quorum

logger = logging.getLogger(__name__)


def lost_cluster(registry: str, cluster_id: str) -> InvalidConfig:
    """Of a broker that belongs to a cluster which the registry knows nothing of."""
    return InvalidConfig(
        f"{registry} keeps no cluster, and this broker's folder is of the cluster {cluster_id}: "
        "name the registry of that one, or restore what it kept; a new cluster would know nothing "
        "of its topics."
    )


class Registry(ABC):
    """The facts of the cluster and the ways to change them. `open`, where a store has it, and
    `close` belong to the broker's life."""

    def __init__(self, image: ClusterImage) -> None:
        self._image = image
        self._watchers: list[Callable[[ClusterImage], None]] = []

    @abstractmethod
    async def change(self, change: Change) -> Facts:
        """Make the change durable and install the image after it. Returns the facts before it."""

    @property
    def image(self) -> ClusterImage:
        return self._image

    @property
    @abstractmethod
    def is_controller(self) -> bool:
        """Whether this broker, and no other at this moment, sees to the cluster as a whole."""

    def watch(self, callback: Callable[[ClusterImage], None]) -> None:
        """Have each new image told, on the event loop, from the next one on."""
        self._watchers.append(callback)

    @abstractmethod
    async def catch_up(self) -> None:
        """Let the image be no older than this call. RegistryUnavailable."""

    @abstractmethod
    async def register_broker(self, broker: BrokerImage) -> None:
        """Say that this broker is alive and where clients reach it, until the registry is closed
        or the broker is gone. Again: it has another address."""

    @abstractmethod
    async def close(self) -> None:
        """Leave the cluster: others see at once that this broker is gone."""

    async def create_topic(
        self,
        name: str,
        partitions: int,
        settings: Mapping[str, str],
        *,
        replication_factor: int = 1,
        placement: Sequence[Replicas] | None = None,
        topic_id: TopicId | None = None,
    ) -> TopicImage:
        """Make a topic and place its partitions, if need be as told: then nothing else counts
        them. topic_id: of one that was lost. TopicExists if there is one."""
        topic_id = topic_id or TopicId(uuid.uuid4().hex)

        async def create() -> None:
            chosen = placement or place(self._image, name, range(partitions), replication_factor)
            await self.change(
                changes.CreateTopic(
                    name=name, id=topic_id, settings=settings, placement=tuple(chosen)
                )
            )

        await self._with_all_brokers(create)
        return self._changed(name)

    async def begin_deletion(
        self, name: str, deletion: DeletedTopic | None, *, last_term: int = 0
    ) -> TopicImage:
        """Mark the topic: nobody sees it any more, its data may go. Remember the deletion.
        last_term: the latest that it is known to have reached; its namesakes begin later."""
        change = changes.BeginDeletion(name=name, deletion=deletion, last_term=last_term)
        await self.change(change)
        return self._changed(name)

    async def finish_deletion(self, name: str) -> None:
        """Forget a topic whose data is gone."""
        topic = self._image.topics.get(name)
        if topic is not None:
            await self.change(changes.FinishDeletion(name=name, id=topic.id))

    async def change_settings(
        self, name: str, settings: Mapping[str, str], *, version: int | None = None
    ) -> TopicImage:
        """Replace the topic's settings by these; ChangedMeanwhile if it is of another version
        than the one they were decided by, where that is told."""
        await self.change(changes.ChangeSettings(name=name, settings=settings, version=version))
        return self._changed(name)

    async def add_partitions(
        self, name: str, total: int, *, placement: Sequence[Replicas] | None = None
    ) -> TopicImage:
        """Let the topic have this many partitions, more than it has; if need be, the new ones
        where told."""
        topic = self._image.topic(name)
        have = len(topic.partitions)
        if total <= have:
            raise InvalidPartitions(
                f"{name!r} has {have} partitions: it cannot have {total}, only more."
            )
        replication_factor = len(topic.partitions[0].replicas)

        async def add() -> None:
            chosen = placement or place(self._image, name, range(have, total), replication_factor)
            await self.change(changes.AddPartitions(name=name, first=have, placement=tuple(chosen)))

        await self._with_all_brokers(add)
        return self._changed(name)

    async def change_targets(self, moves: Sequence[Move], seen: ClusterImage) -> None:
        """Give partitions new targets, all of them or none. ChangedMeanwhile if one of the topics
        is not as it was in the image that the plan was made by."""
        topics = {move.topic: seen.topic(move.topic) for move in moves}
        await self.change(
            changes.ChangeTargets(
                moves=tuple(moves),
                seen={name: Seen(topic.id, topic.version) for name, topic in topics.items()},
            )
        )

    async def reserve_producer_ids(self, count: int) -> range:
        """A range of producer ids that nobody gets twice."""
        before = await self.change(changes.ReserveProducerIds(count=count))
        return range(before.next_producer_id, before.next_producer_id + count)

    async def drain_broker(self, broker: BrokerId, *, is_drained: bool) -> None:
        """Give the broker, alive or not, no new replicas; or let it have some again."""
        await self.change(changes.DrainBroker(broker=broker, is_drained=is_drained))

    async def change_broker_settings(
        self, broker: str, settings: Mapping[str, str], *, seen: Mapping[str, str]
    ) -> None:
        """Replace what was set for a broker while it runs, or for every one. ChangedMeanwhile if
        that is not what was seen."""
        await self.change(changes.ChangeBrokerSettings(broker=broker, settings=settings, seen=seen))

    async def describe_quorum(self) -> Quorum:
        """Who keeps the facts. UnsupportedVersion where that is no quorum of ours;
        RegistryUnavailable if none of them leads."""
        raise UnsupportedVersion(
            "The facts of this cluster are kept by servers that are not Penstock's, and have tools "
            "of their own: ask those."
        )

    async def adopt(self, facts: Facts) -> None:
        """Take in what a broker kept when it was on its own. May be done again."""
        await self.change(changes.Adopt(facts=facts))

    async def _with_all_brokers(self, attempt: Callable[[], Awaitable[None]]) -> None:
        """Where there are too few brokers, look whether the others are only not known here yet."""
        try:
            await attempt()
        except (InvalidReplication, InvalidPlacement):
            await self.catch_up()
            await attempt()

    def _changed(self, name: str) -> TopicImage:
        """The topic as it is by now."""
        topic = self._image.topics.get(name)
        if topic is None:
            raise ChangedMeanwhile(f"{name!r} was deleted meanwhile, by somebody else.")
        return topic

    def _install(self, image: ClusterImage) -> None:
        self._image = image
        for callback in list(self._watchers):
            try:
                callback(image)
            except Exception:
                # A bug of who watches: the others, and the change, have nothing to do with it.
                logger.exception("A watcher of the registry failed")
