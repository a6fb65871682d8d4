"""The partitions that a broker has follow the registry: new ones are opened, deleted ones removed.

Not who leads them, and not the moving from one broker to another: a copy that this broker is not to
have any more stays until its leader says that it is none (R-REP-7). The invariant: what the
registry does not know is removed only if it says that it was deleted, and left as soon as it does;
the partitions are changed by one image at a time, the latest there is.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from penstock.broker.config import BrokerConfig
from penstock.broker.partitions.partition import Partition
from penstock.broker.partitions.partitions import Partitions
from penstock.broker.topics.defaults import TopicDefaults, topic_defaults
from penstock.model.errors import PenstockError
from penstock.model.ids import BrokerId, TopicId, is_internal
from penstock.model.topic_config import TopicConfig, with_settings
from penstock.raft.state import SavedState
from penstock.registry.api import Registry
from penstock.registry.image import (
    NO_BROKER_SETTINGS,
    BrokerSettings,
    ClusterImage,
    TopicImage,
)
from penstock.replication.replica.saved_state import encode

logger = logging.getLogger(__name__)


class Assignment:
    """One per broker."""

    def __init__(
        self, config: BrokerConfig, me: BrokerId, registry: Registry, partitions: Partitions
    ) -> None:
        self._config = config
        self._me = me
        self._registry = registry
        self._partitions = partitions
        partitions.opener.deleted_topics = lambda: registry.image.deleted_topics
        self._changing = asyncio.Lock()
        self._broker_settings: BrokerSettings = NO_BROKER_SETTINGS
        self._topic_defaults = TopicDefaults(config.topic_defaults)
        self._followed_defaults = self.topic_defaults
        # The topics as they were when the partitions here were last made to follow them.
        self._followed: dict[str, TopicImage] = {}
        # What was there when the broker started.
        self._found: dict[str, tuple[int, ...]] = {}
        # Folders of topics that are gone, which are yet to be put away.
        self._leftovers: dict[str, tuple[TopicId, bool]] = {}
        self._following: asyncio.Task[None] | None = None
        self._is_running = False

    @property
    def topic_defaults(self) -> TopicDefaults:
        """What topics here get that do not say it themselves, by the latest image."""
        settings = self._registry.image.broker_settings
        if settings is not self._broker_settings:
            self._topic_defaults = topic_defaults(self._config.topic_defaults, self._me, settings)
            self._broker_settings = settings
        return self._topic_defaults

    def effective_config(self, topic: TopicImage) -> TopicConfig:
        return with_settings(self.topic_defaults.effective, topic.settings)

    async def sort_folders(self) -> None:
        """At start, before anything is opened: see to folders that are not those of a topic."""
        image, folders = self._registry.image, self._partitions.folders
        for name, numbers in folders.found().items():
            topic, identity = image.topics.get(name), folders.identity(name)
            if topic is None and numbers and not self._config.registry:
                logger.warning("The folder of topic %s is not in the registry: taken in", name)
                count = max(numbers) + 1
                await self._registry.create_topic(name, count, {}, topic_id=identity)
            elif topic is None or topic.deleting or identity not in (None, topic.id):
                await self._put_away(name, identity, image)
            else:
                self._found[name] = numbers

    def open_found(self, *, internal: bool) -> None:
        """At start: open what is there already of the broker's own topics, or of the others."""
        for topic in self._registry.image.topics.values():
            if is_internal(topic.name) == internal and not topic.deleting:
                # Others may need the vote of a copy that is to go.
                numbers = {*self._assigned(topic), *self._found.get(topic.name, ())}
                there = sorted(number for number in numbers if number < len(topic.partitions))
                self._partitions.open_found(topic, there, self.effective_config(topic))
                self._followed[topic.name] = topic

    def start(self) -> None:
        """From now on follow each new image."""
        self._is_running = True
        self._registry.watch(self._on_image)
        self._on_image(self._registry.image)

    async def stop(self) -> None:
        self._is_running = False
        if self._following is not None:
            await asyncio.wait([self._following])

    async def follow(self) -> None:
        """Return when the partitions here are as the registry has them by now, or later."""
        async with self._changing:
            await self._follow(self._registry.image)

    def is_leaving(self, partition: Partition) -> bool:
        """Whether this broker is not to have the partition, and has a copy."""
        topic, number = self._registry.image.topics.get(partition.name.topic), partition.name[1]
        return (
            topic is not None
            and not topic.deleting
            and topic.id == partition.topic_id
            and number < len(topic.partitions)
            and self._me not in topic.partitions[number].replicas
        )

    async def let_go(self, partition: Partition, remember: Callable[[], SavedState | None]) -> None:
        """Throw away the copy, if that is still to be and `remember` says what must stay known; it
        is asked at the last moment. StorageError."""
        async with self._changing:
            if partition.is_open and self.is_leaving(partition):
                memory = remember()
                if memory is not None:
                    logger.info("%s is on other brokers now: it is removed here", partition.name)
                    await self._partitions.let_go(partition, encode(memory))

    def _on_image(self, image: ClusterImage) -> None:
        if not self._is_running:
            return
        # To follow takes as long as the disk does, also about other topics. Until then what is sent
        # to a topic's namesake must not be written to what was deleted, nor anybody wait there.
        for name, topic_id in self._partitions.topic_ids.items():
            if _is_deleted(image, name, topic_id):
                self._partitions.leave_topic(name)
        # By the time that it is followed there may be a later one.
        if self._following is None:
            self._following = asyncio.get_running_loop().create_task(self._follow_quietly())

    async def _follow_quietly(self) -> None:
        try:
            await asyncio.sleep(0)
            self._following = None
            await self.follow()
        except PenstockError as error:
            logger.error("The partitions here could not follow the registry: %s", error)
        except Exception:
            logger.exception("Following the registry failed in a way nobody foresaw")

    async def _follow(self, image: ClusterImage) -> None:
        await self._put_leftovers_away(image)
        for name, topic_id in self._partitions.topic_ids.items():
            topic = image.topics.get(name)
            if topic is None or topic.deleting or topic.id != topic_id:
                await self._remove(name, topic_id, image)
        defaults = self.topic_defaults
        is_as_before = defaults == self._followed_defaults
        for topic in image.topics.values():
            before = self._followed.get(topic.name)
            if topic.deleting or (before is topic and is_as_before):
                continue
            config = self.effective_config(topic)
            if before is not None and before.id == topic.id:
                has_changed = before.settings != topic.settings or not is_as_before
                if has_changed:
                    self._partitions.configure(topic.name, config)
            numbers = self._assigned(topic)
            new = [number for number in numbers if not self._partitions.has(topic.name, number)]
            if new:
                await self._partitions.open_new(topic, new, config)
            self._followed[topic.name] = topic
        self._followed_defaults = defaults

    def _assigned(self, topic: TopicImage) -> list[int]:
        """The partitions of the topic that this broker is to have a copy of."""
        return [
            number
            for number, placement in enumerate(topic.partitions)
            if self._me in placement.replicas
        ]

    async def _remove(self, name: str, topic_id: TopicId, image: ClusterImage) -> None:
        """The topic is gone, or is another one by now."""
        partitions = self._partitions.of_topic(name)
        is_empty = all(partition.replica.log.next_offset == 0 for partition in partitions)
        await self._partitions.close_topic(name)
        self._followed.pop(name, None)
        self._leftovers[name] = topic_id, is_empty
        await self._put_leftovers_away(image)

    async def _put_leftovers_away(self, image: ClusterImage) -> None:
        """One that could not be is tried again before anything else: a topic of its name would be
        taken for it."""
        for name, (topic_id, is_empty) in list(self._leftovers.items()):
            await self._put_away(name, topic_id, image, is_empty=is_empty)
            del self._leftovers[name]

    async def _put_away(
        self, name: str, topic_id: TopicId | None, image: ClusterImage, *, is_empty: bool = False
    ) -> None:
        topic = image.topics.get(name)
        is_deleted = (topic is not None and topic.deleting and topic_id in (None, topic.id)) or any(
            deletion.topic_id == topic_id for deletion in image.deleted_topics
        )
        folders = self._partitions.folders
        if is_deleted or is_empty:
            await asyncio.to_thread(folders.move_to_trash, name)
            await asyncio.to_thread(folders.empty_trash)
        else:
            await asyncio.to_thread(folders.set_aside, name)


def _is_deleted(image: ClusterImage, name: str, topic_id: TopicId) -> bool:
    """Whether that is said of the topic: not only that it is not known."""
    topic = image.topics.get(name)
    if topic is not None:
        return topic.deleting or topic.id != topic_id
    return any(deletion.topic_id == topic_id for deletion in image.deleted_topics)
