"""The registry of a broker on its own (R-REP-6): one journal in the data folder, nothing to start.

The journal is written whole at every change: new file, flush, rename. The invariant: the image is
replaced only after the journal that holds it is durable, so what was answered survives a crash.
"""

from __future__ import annotations

import asyncio
import json
import logging
import uuid
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from penstock.model.errors import CorruptLog, StorageError, TopicExists
from penstock.model.ids import BrokerId, Term, TopicId
from penstock.model.removal import DeletedPartition, DeletedTopic
from penstock.registry.image import (
    BrokerImage,
    ClusterImage,
    PartitionImage,
    TopicImage,
    latest_deletions,
)
from penstock.storage.files import Directory
from penstock.storage.journal import read_journal, write_journal

logger = logging.getLogger(__name__)

_JOURNAL: Final = "registry.journal"
# A lone voter is elected once and for ever.
_ONLY_TERM: Final = Term(0)


class EmbeddedRegistry:
    """Implements `registry.api.Registry` for one broker."""

    def __init__(self, directory: Directory, broker_id: BrokerId, cluster_id: str) -> None:
        self._directory = directory
        self._broker_id = broker_id
        self._changing = asyncio.Lock()
        self._next_producer_id = 0
        self._image = ClusterImage(cluster_id=cluster_id, brokers={}, topics={})
        self._written = read_journal(directory, _JOURNAL)
        if self._written is not None:
            self._load(self._written)

    @property
    def image(self) -> ClusterImage:
        return self._image

    def register_broker(self, address: str) -> None:
        broker = BrokerImage(id=self._broker_id, address=address)
        self._image = replace(self._image, brokers={broker.id: broker})

    async def create_topic(
        self, name: str, partitions: int, settings: Mapping[str, str]
    ) -> TopicImage:
        async with self._changing:
            if name in self._image.topics:
                raise TopicExists(f"The topic {name!r} exists already.")
            topic = TopicImage(
                name=name,
                id=TopicId(uuid.uuid4().hex),
                partitions=self._place(partitions),
                settings=dict(settings),
            )
            await self._keep(topic)
            return topic

    async def begin_deletion(self, name: str, deletion: DeletedTopic | None) -> TopicImage:
        async with self._changing:
            topic = replace(self._image.topic(name), deleting=True)
            deleted = self._image.deleted_topics
            if deletion is not None:
                deleted = latest_deletions((*deleted, deletion))
            topics = {**self._image.topics, name: topic}
            await self._write(topics, self._next_producer_id, deleted)
            return topic

    async def finish_deletion(self, name: str) -> None:
        async with self._changing:
            topics = {key: topic for key, topic in self._image.topics.items() if key != name}
            await self._write(topics, self._next_producer_id, self._image.deleted_topics)

    async def change_settings(self, name: str, settings: Mapping[str, str]) -> TopicImage:
        async with self._changing:
            topic = replace(self._image.topic(name), settings=dict(settings))
            await self._keep(topic)
            return topic

    async def add_partitions(self, name: str, total: int) -> TopicImage:
        async with self._changing:
            topic = replace(self._image.topic(name), partitions=self._place(total))
            await self._keep(topic)
            return topic

    async def reserve_producer_ids(self, count: int) -> range:
        async with self._changing:
            first = self._next_producer_id
            await self._write(self._image.topics, first + count, self._image.deleted_topics)
            return range(first, first + count)

    def _place(self, partitions: int) -> tuple[PartitionImage, ...]:
        here = PartitionImage(leader=self._broker_id, term=_ONLY_TERM, replicas=(self._broker_id,))
        return (here,) * partitions

    async def _keep(self, topic: TopicImage) -> None:
        topics = {**self._image.topics, topic.name: topic}
        await self._write(topics, self._next_producer_id, self._image.deleted_topics)

    async def _write(
        self,
        topics: Mapping[str, TopicImage],
        next_producer_id: int,
        deleted_topics: tuple[DeletedTopic, ...],
    ) -> None:
        payload = json.dumps(
            {
                "next_producer_id": next_producer_id,
                "topics": [
                    {
                        "name": topic.name,
                        "id": topic.id,
                        "partitions": len(topic.partitions),
                        "settings": dict(topic.settings),
                        "deleting": topic.deleting,
                    }
                    for topic in topics.values()
                ],
                "deleted_topics": [
                    {
                        "name": topic.name,
                        "id": topic.topic_id,
                        "at_ms": topic.at_ms,
                        "partitions": topic.partitions,
                    }
                    for topic in deleted_topics
                ],
            }
        ).encode()
        # Off the loop, because it flushes; under the lock, so that journals keep their order.
        writing = asyncio.ensure_future(asyncio.to_thread(self._replace_journal, payload))
        try:
            await asyncio.shield(writing)
        except asyncio.CancelledError:
            # A thread cannot be cancelled, and must not write when others think it is over.
            await asyncio.wait([writing])
            raise
        except StorageError:
            if self._written == payload:
                # It could not be undone: what was refused is what a restart will find.
                self._image = replace(self._image, topics=topics, deleted_topics=deleted_topics)
            raise
        self._next_producer_id = next_producer_id
        self._image = replace(self._image, topics=topics, deleted_topics=deleted_topics)

    def _replace_journal(self, payload: bytes) -> None:
        try:
            write_journal(self._directory, _JOURNAL, payload)
            self._written = payload
        except StorageError:
            self._put_back(payload)
            raise

    def _put_back(self, refused: bytes) -> None:
        """If what was refused is in place all the same, put back what still holds: or it would be
        true after a restart. If that fails too, it is what holds from now on."""
        try:
            if self._written is not None and read_journal(self._directory, _JOURNAL) == refused:
                write_journal(self._directory, _JOURNAL, self._written)
        except StorageError as error:
            logger.error("%s could not be put back as it was: %s", _JOURNAL, error)
            self._written = refused

    def _load(self, data: bytes) -> None:
        try:
            facts: dict[str, Any] = json.loads(data)
            self._next_producer_id = int(facts["next_producer_id"])
            topics = {
                str(entry["name"]): TopicImage(
                    name=str(entry["name"]),
                    id=TopicId(str(entry["id"])),
                    partitions=self._place(int(entry["partitions"])),
                    settings={str(k): str(v) for k, v in entry["settings"].items()},
                    deleting=bool(entry["deleting"]),
                )
                for entry in facts["topics"]
            }
            deleted_topics = tuple(
                DeletedTopic(
                    name=str(entry["name"]),
                    topic_id=str(entry["id"]),
                    at_ms=int(entry["at_ms"]),
                    partitions=tuple(
                        DeletedPartition(*map(int, partition)) for partition in entry["partitions"]
                    ),
                )
                # Earlier versions did not remember them.
                for entry in facts.get("deleted_topics", ())
            )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise CorruptLog(
                f"{_JOURNAL} cannot be understood ({error!r}): it was written by another version."
            ) from error
        self._image = replace(self._image, topics=topics, deleted_topics=deleted_topics)
