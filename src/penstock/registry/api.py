"""What a broker asks of a registry, whichever keeps it: embedded, ZooKeeper or MetaServer.

A change returns when it is durable; the new image is there by then. Names, limits and settings
are checked by the caller: the registry keeps facts, it does not judge them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from penstock.model.removal import DeletedTopic
from penstock.registry.image import ClusterImage, TopicImage


class Registry(Protocol):
    """The facts of the cluster and the ways to change them."""

    @property
    def image(self) -> ClusterImage: ...

    async def create_topic(
        self, name: str, partitions: int, settings: Mapping[str, str]
    ) -> TopicImage:
        """Make a topic and place its partitions. TopicExists if there is one."""
        ...

    async def begin_deletion(self, name: str, deletion: DeletedTopic | None) -> TopicImage:
        """Mark the topic: nobody sees it any more, its data may go. Remember the deletion."""
        ...

    async def finish_deletion(self, name: str) -> None:
        """Forget a topic whose data is gone."""
        ...

    async def change_settings(self, name: str, settings: Mapping[str, str]) -> TopicImage:
        """Replace the topic's settings by these."""
        ...

    async def add_partitions(self, name: str, total: int) -> TopicImage:
        """Let the topic have this many partitions, more than it has."""
        ...

    async def reserve_producer_ids(self, count: int) -> range:
        """A range of producer ids that nobody gets twice."""
        ...

    def register_broker(self, address: str) -> None:
        """Say where clients reach this broker."""
        ...
