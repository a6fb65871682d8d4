"""Topics as users ask for them: names, limits and settings checked, then the registry changed, and
the partitions here after it, in an order that a crash between the two leaves repairable.

Creation: the registry first, then the folders, which are made when opened. Deletion: marked in the
registry, the folder moved away, forgotten by the registry; the next start finishes what a crash
left half done. The other brokers of a cluster follow the registry by themselves.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

from penstock.broker.config import BrokerConfig
from penstock.broker.partitions.leaders import Leaders
from penstock.broker.partitions.partitions import Partitions
from penstock.broker.topics.assignment import Assignment
from penstock.broker.topics.defaults import TopicDefaults
from penstock.model.errors import (
    InvalidPartitions,
    InvalidTopic,
    PenstockError,
    StorageError,
    TooManyPartitions,
    TopicExists,
    UnknownTopic,
)
from penstock.model.ids import TopicId, check_public, check_topic_name, is_internal
from penstock.model.limits import DELETED_TOPIC_STAYS_MS, REPLICATION_FACTOR, TOPICS_MAX
from penstock.model.removal import DeletedTopic
from penstock.model.topic_config import TopicConfig, canonical_name, with_settings
from penstock.registry.api import Registry
from penstock.registry.facts import Replicas
from penstock.registry.image import TopicImage
from penstock.registry.placement import internal_copies

logger = logging.getLogger(__name__)

Decide = Callable[[Mapping[str, str]], tuple[Mapping[str, str], Iterable[str]]]
"""From a topic's settings to those to set, and those to take back."""


class Topics:
    """One per broker. Changes are made one after another."""

    def __init__(
        self,
        config: BrokerConfig,
        registry: Registry,
        partitions: Partitions,
        assignment: Assignment,
        leaders: Leaders,
    ) -> None:
        self._config = config
        self._registry = registry
        self._partitions = partitions
        self._assignment = assignment
        self._leaders = leaders
        self._changing = asyncio.Lock()
        # Whose deletion failed here after it had begun: whoever was told so may ask once more.
        self._half_deleted: set[TopicId] = set()

    @property
    def defaults(self) -> TopicDefaults:
        """What topics get that do not say it themselves."""
        return self._assignment.topic_defaults

    def effective_config(self, topic: TopicImage) -> TopicConfig:
        return self._assignment.effective_config(topic)

    async def open_all(self, between: Callable[[], None] = lambda: None) -> None:
        """At start: finish deletions, open every partition, take in folders the registry does not
        know (it was lost, or the folder came from elsewhere).

        between: called when the broker's own topics are open, and no others.
        """
        await self._assignment.sort_folders()
        for topic in list(self._registry.image.topics.values()):
            if topic.deleting and self._registry.is_controller:
                await self._registry.finish_deletion(topic.name)
        self._assignment.open_found(internal=True)
        between()
        self._assignment.open_found(internal=False)

    async def create(
        self,
        name: str,
        partitions: int,
        settings: Mapping[str, str],
        *,
        replication_factor: int = 0,
        placement: Sequence[Replicas] | None = None,
        internal: bool = False,
    ) -> TopicImage:
        """Make a topic; no partitions or replicas named means the default number."""
        count, kept = self._checked(name, partitions, settings, internal=internal)
        async with self._changing:
            self._check_room()
            make = partial(
                self._registry.create_topic,
                name,
                count,
                kept,
                replication_factor=replication_factor or self.replicas_default,
                placement=placement,
            )
            try:
                topic = await make()
            except TopicExists:
                await self._registry.catch_up()
                there = self._registry.image.topics.get(name)
                if there is not None and not there.deleting:
                    raise
                # Whoever asks is told that there is none, so it must not be in the way.
                if there is not None:
                    await self._remove(name)
                topic = await make()
            await self._assignment.follow()
            if (error := self._partitions.offline(name)) is not None:
                await self._remove(name)
                raise error
        await self._leaders.wait_for(topic)
        return topic

    @property
    def replicas_default(self) -> int:
        """How many copies a topic has that is made without saying how many."""
        return self._possible(self._config.replication_factor_default or REPLICATION_FACTOR)

    def _possible(self, replicas: int) -> int:
        """So many, or as many brokers as may get any."""
        image = self._registry.image
        return max(min(replicas, len(image.brokers.keys() - image.drained)), 1)

    def check_new(self, name: str, partitions: int, settings: Mapping[str, str]) -> None:
        """Raise what `create` would, without making anything."""
        self._checked(name, partitions, settings, internal=False)
        if name in self._registry.image.topics:
            raise TopicExists(f"There is a topic {name!r} already.")
        self._check_room()

    def _checked(
        self, name: str, partitions: int, settings: Mapping[str, str], *, internal: bool
    ) -> tuple[int, dict[str, str]]:
        """How many partitions, and the settings under their own names."""
        check_topic_name(name)
        if is_internal(name) and not internal:
            raise InvalidTopic(f"{name!r}: names that begin with '__' are the broker's own.")
        count = partitions or self._config.partitions_default
        self._check_count(name, count)
        kept = {canonical_name(key): value for key, value in settings.items()}
        with_settings(self.defaults.effective, kept)
        return count, kept

    async def create_missing(self, name: str, *, is_reader: bool = False) -> None:
        """Make a topic because somebody uses it, if there is none and that is allowed.

        is_reader: it reads, so what it wants of a topic that was deleted is no more there.
        UnknownTopic where it was deleted and is to stay so."""
        if not self._config.auto_create_topics or self._partitions.is_closing:
            return
        if not self.is_known(name):
            _check_may_come_back(name, self._leaders.deleted_ms_ago(name), is_reader=is_reader)
            await self.keep(name, 0, {})

    async def keep(self, name: str, partitions: int, settings: Mapping[str, str]) -> None:
        """Make a topic if there is none. When this returns it is known here, whoever made it."""
        if self.is_known(name):
            return
        try:
            await self.create(name, partitions, settings)
        except TopicExists:
            # Another broker was faster, and its news are still on their way.
            await self._registry.catch_up()
            await self._leaders.wait_for(self.find(name))

    async def delete(self, name: str) -> None:
        check_public(name)
        known = self._registry.image.topics.get(name)
        if known is not None and not known.deleting:
            await self._leaders.wait_heard(known)
        async with self._changing:
            if name not in self._registry.image.topics:
                raise UnknownTopic(f"There is no topic {name!r} to delete.")
            topic = self._registry.image.topics[name]
            is_asked_again = topic.id in self._half_deleted
            await self._remove(name, self._leaders.as_deleted(topic))
            self._half_deleted.discard(topic.id)
            if topic.deleting and not is_asked_again:
                raise UnknownTopic(f"There is no topic {name!r} any more: it was being deleted.")

    async def alter(self, name: str, changes: Mapping[str, str], reset: Iterable[str]) -> None:
        """Change some settings, and take others back to the broker's defaults."""
        await self.alter_by(name, lambda _: (changes, reset))

    async def alter_by(self, name: str, decide: Decide) -> None:
        """The same, decided by the settings as they are when it is this change's turn."""
        check_public(name)
        async with self._changing:
            topic = self._registry.image.topic(name)
            settings = dict(topic.settings)
            changes, reset = decide(settings)
            for key in reset:
                settings.pop(canonical_name(key), None)
            settings.update({canonical_name(key): value for key, value in changes.items()})
            with_settings(self.defaults.effective, settings)
            await self._registry.change_settings(name, settings, version=topic.version)
            await self._assignment.follow()

    async def alter_defaults(self, broker: str, decide: Decide, *, is_dry_run: bool) -> None:
        """Change what topics get of this broker, or of every one (EVERY_BROKER), that do not say it
        themselves; decided by what is set so far. When this returns it holds here."""
        async with self._changing:
            seen = self._registry.image.broker_settings.get(broker, {})
            changes, reset = decide(seen)
            settings = {key: value for key, value in seen.items() if key not in set(reset)}
            settings.update(changes)
            with_settings(self.defaults.configured, settings)
            if not is_dry_run and settings != dict(seen):
                await self._registry.change_broker_settings(broker, settings, seen=seen)
                await self._assignment.follow()

    async def keep_internal(
        self, name: str, settings: Mapping[str, str], *, beside: str | None = None
    ) -> None:
        """Make a topic of the broker's own, or give one of an earlier version these settings.

        beside: one that has copies where the new one is to have them, if it is known.
        """
        if not self.is_known(name):
            image = self._registry.image
            replicas = internal_copies(image, self._config.internal_replication_factor)
            placement = None
            if beside is not None and (other := image.topics.get(beside)) is not None:
                placement = [other.partitions[0].replicas]
            # Another broker may be doing the same.
            with contextlib.suppress(TopicExists):
                await self.create(
                    name,
                    1,
                    settings,
                    replication_factor=replicas,
                    placement=placement,
                    internal=True,
                )
                return
        async with self._changing:
            # One that another broker has just made may not be known here yet.
            topic = self._registry.image.topics.get(name)
            if topic is not None and dict(topic.settings) != settings:
                await self._registry.change_settings(name, settings, version=topic.version)
                await self._assignment.follow()

    async def add_partitions(
        self, name: str, total: int, *, placement: Sequence[Replicas] | None = None
    ) -> None:
        check_public(name)
        self._check_count(name, total)
        async with self._changing:
            have = len(self._registry.image.topic(name).partitions)
            self._check_more(name, have, total)
            topic = await self._registry.add_partitions(name, total, placement=placement)
            await self._assignment.follow()
        await self._leaders.wait_for(topic)

    def check_more(self, name: str, total: int) -> None:
        """Raise what `add_partitions` would, without adding any."""
        check_public(name)
        self._check_count(name, total)
        self._check_more(name, len(self.find(name).partitions), total)

    def _check_more(self, name: str, have: int, total: int) -> None:
        if total <= have:
            raise InvalidPartitions(
                f"{name!r} has {have} partitions: it cannot have {total}, only more."
            )

    def is_known(self, name: str) -> bool:
        """Whether there is such a topic, wherever its partitions are."""
        return name in self._registry.image.topics

    def is_elsewhere_too(self, name: str) -> bool:
        """Whether another broker has a copy of the topic's first partition, or leads it."""
        topic = self._registry.image.topics.get(name)
        return topic is not None and self._leaders.has_others(topic, 0)

    def find(self, name: str) -> TopicImage:
        """The topic, or an error that says how to get it."""
        try:
            return self._registry.image.topic(name)
        except UnknownTopic as error:
            if self._config.auto_create_topics:
                raise
            raise UnknownTopic(
                f"{error.message} This broker does not create topics itself."
            ) from None

    async def _remove(self, name: str, deletion: DeletedTopic | None = None) -> None:
        """Delete, or finish a deletion that had begun. Without a `deletion` nothing is remembered:
        users never had the topic, or it was remembered when its deletion began."""
        if not self._registry.image.topics[name].deleting:
            try:
                last_term = self._leaders.last_term(self._registry.image.topics[name])
                await self._registry.begin_deletion(name, deletion, last_term=last_term)
            except StorageError:
                if self._registry.image.topics[name].deleting:
                    # A restart will delete it, so nothing more may be acknowledged in it.
                    self._half_deleted.add(self._registry.image.topics[name].id)
                    await self._assignment.follow()
                raise
        try:
            await self._assignment.follow()
            await self._registry.finish_deletion(name)
        except PenstockError:
            if name in self._registry.image.topics:
                self._half_deleted.add(self._registry.image.topics[name].id)
            raise

    def _check_room(self) -> None:
        if len(self._registry.image.topics) >= TOPICS_MAX:
            raise TooManyPartitions(
                f"There are {TOPICS_MAX} topics, which is the limit: delete some."
            )

    def _check_count(self, name: str, count: int) -> None:
        most = self._config.partitions_per_topic_max
        if count > most:
            raise TooManyPartitions(
                f"{name!r} would have {count} partitions: {most} is the limit of this broker; "
                "raise its partitions_per_topic_max or ask for fewer."
            )


def _check_may_come_back(name: str, deleted_ms_ago: int | None, *, is_reader: bool) -> None:
    """Who uses a topic learns a moment after its deletion that it is gone, and asks for it."""
    if deleted_ms_ago is not None and (is_reader or abs(deleted_ms_ago) < DELETED_TOPIC_STAYS_MS):
        raise UnknownTopic(
            f"The topic {name!r} was deleted, and is not made again by those that still use "
            f"it: create it with `penstock topics create {name}`."
        )
