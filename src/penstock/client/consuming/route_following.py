"""A consumer that is in no group reads all partitions of its topics, those too that come later.

Not which partitions a member of a group reads: its group says so (`membership`). The invariant: as
long as it follows them, every partition of the topics is read, or about to be.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable

from penstock.client.concurrency.backoff import Backoff
from penstock.client.concurrency.tasks import TaskScope
from penstock.client.connection.routes import Routes, TopicRoute
from penstock.client.consuming.partitions import OwnPartitions
from penstock.client.consuming.starts import Start
from penstock.client.reading.missing_topics import MissingTopics
from penstock.model.errors import PenstockError
from penstock.model.ids import TopicPartition

logger = logging.getLogger(__name__)


class RouteFollowing:
    """What is read by who names topics and no group."""

    def __init__(
        self,
        routes: Routes,
        backoff: Backoff,
        own: OwnPartitions,
        changing: asyncio.Lock,
        missing: MissingTopics,
    ) -> None:
        """changing: is held by whoever changes what is read."""
        self._routes = routes
        self._backoff = backoff
        self._own = own
        self._changing = changing
        self._missing = missing
        self._topics: frozenset[str] = frozenset()
        self._scope = TaskScope()
        self._is_listening = False

    async def start(self, topics: Iterable[str], start: Start) -> None:
        """Find the topics and the positions. Under `changing`. What comes later is read from its
        first message on."""
        topics = tuple(topics)
        for route in await self._missing.look(topics):
            await self._own.add(dict.fromkeys(partitions_of(route), start))
        self._topics = frozenset(topics)
        self._routes.listen(self._on_route)
        self._is_listening = True

    def forget_topics(self) -> None:
        """From now on somebody else says what is read."""
        self._topics = frozenset()

    async def close(self) -> None:
        if self._is_listening:
            self._is_listening = False
            self._routes.unlisten(self._on_route)
        await self._scope.close()

    def _on_route(self, route: TopicRoute) -> None:
        if route.topic in self._topics:
            self._scope.start(self._follow(route), name=f"new partitions of {route.topic}")

    async def _follow(self, route: TopicRoute) -> None:
        """Take up partitions that were added to a topic, from their first message on."""
        failures = 0
        while True:
            try:
                async with self._changing:
                    if route.topic in self._topics:  # unless others were assigned meanwhile
                        await self._own.add(dict.fromkeys(partitions_of(route), "earliest"))
                return
            except PenstockError as error:
                logger.warning("New partitions of %s cannot be read now: %s", route.topic, error)
                if not error.retriable:
                    return  # the topic is gone
                failures += 1
                await asyncio.sleep(self._backoff.wait_s(failures))


def partitions_of(route: TopicRoute) -> list[TopicPartition]:
    return [TopicPartition(route.topic, number) for number in range(route.partition_count)]
