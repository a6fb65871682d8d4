"""What a broker asks of a registry, whichever keeps it: embedded, ZooKeeper or MetaServer.

A change returns when it is durable; the new image is there by then. Names, limits and settings
are checked by the caller: the registry keeps facts, it does not judge them. The registry of a
cluster may be out of reach for a while: then the image stays as it was, and changes are refused
with RegistryUnavailable.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from penstock.model.ids import BrokerId, TopicId
from penstock.model.removal import DeletedTopic
from penstock.registry.facts import Facts, Move, Replicas
from penstock.registry.image import BrokerImage, ClusterImage, TopicImage
from penstock.registry.quorum import Quorum


class Registry(Protocol):
    """The facts of the cluster and the ways to change them."""

    @property
    def image(self) -> ClusterImage: ...

    @property
    def is_controller(self) -> bool:
        """Whether this broker, and no other at this moment, sees to the cluster as a whole."""
        ...

    def watch(self, callback: Callable[[ClusterImage], None]) -> None:
        """Have each new image told, on the event loop, from the next one on."""
        ...

    async def catch_up(self) -> None:
        """Let the image be no older than this call. RegistryUnavailable."""
        ...

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
        ...

    async def begin_deletion(
        self, name: str, deletion: DeletedTopic | None, *, last_term: int = 0
    ) -> TopicImage:
        """Mark the topic: nobody sees it any more, its data may go. Remember the deletion.
        last_term: the latest that it is known to have reached; its namesakes begin later."""
        ...

    async def finish_deletion(self, name: str) -> None:
        """Forget a topic whose data is gone."""
        ...

    async def change_settings(
        self, name: str, settings: Mapping[str, str], *, version: int | None = None
    ) -> TopicImage:
        """Replace the topic's settings by these; ChangedMeanwhile if it is of another version
        than the one they were decided by, where that is told."""
        ...

    async def add_partitions(
        self, name: str, total: int, *, placement: Sequence[Replicas] | None = None
    ) -> TopicImage:
        """Let the topic have this many partitions, more than it has; if need be, the new ones
        where told."""
        ...

    async def change_targets(self, moves: Sequence[Move], seen: ClusterImage) -> None:
        """Give partitions new targets, all of them or none. ChangedMeanwhile if one of the topics
        is not as it was in the image that the plan was made by."""
        ...

    async def reserve_producer_ids(self, count: int) -> range:
        """A range of producer ids that nobody gets twice."""
        ...

    async def register_broker(self, broker: BrokerImage) -> None:
        """Say that this broker is alive and where clients reach it, until the registry is closed
        or the broker is gone. Again: it has another address."""
        ...

    async def drain_broker(self, broker: BrokerId, *, is_drained: bool) -> None:
        """Give the broker, alive or not, no new replicas; or let it have some again."""
        ...

    async def change_broker_settings(
        self, broker: str, settings: Mapping[str, str], *, seen: Mapping[str, str]
    ) -> None:
        """Replace what was set for a broker while it runs, or for every one. ChangedMeanwhile if
        that is not what was seen."""
        ...

    async def adopt(self, facts: Facts) -> None:
        """Take in what a broker kept when it was on its own. May be done again."""
        ...

    async def describe_quorum(self) -> Quorum:
        """Who keeps the facts. UnsupportedVersion where that is no quorum of ours;
        RegistryUnavailable if none of them leads."""
        ...

    async def close(self) -> None:
        """Leave the cluster: others see at once that this broker is gone."""
        ...
