"""Topics that a consumer names and that are not there: waited for, made, or an error.

Not what is read of them when they come: routes tell whoever listens, and groups assign. Who starts
readers before writers is not wrong, so waiting is the default; but a misspelt name waits for ever,
so after a moment one warning tells of it, with the name that may be meant. The invariant: however
many topics are missing, one question at a time is asked, at intervals that grow.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from typing import Final, Literal

from penstock.client.concurrency.backoff import Backoff
from penstock.client.concurrency.tasks import TaskScope
from penstock.client.connection.routes import Routes, TopicRoute
from penstock.model.errors import InvalidConfig, PenstockError, UnknownTopic
from penstock.model.ids import is_internal

logger = logging.getLogger(__name__)

MissingTopic = Literal["wait", "create", "error"]

# Writers that are started together with readers have made their topics by then.
_TOLD_AFTER_S: Final = 2.0
_TOLD_MAX: Final = 10


def check_missing_topic(policy: MissingTopic) -> MissingTopic:
    if policy not in ("wait", "create", "error"):
        raise InvalidConfig(
            f'on_missing_topic is {policy!r}: it can be "wait", "create" or "error".'
        )
    return policy


async def nearest_topic(routes: Routes, name: str) -> str | None:
    """A topic that there is and that may be meant by this name."""
    answer = await routes.metadata(all_topics=True)
    known = [topic.name for topic in answer.topics if not is_internal(topic.name)]
    return next(iter(get_close_matches(name, known, n=1)), None)


async def _no_such_topic(routes: Routes, name: str) -> str:
    near = await nearest_topic(routes, name)
    return f"There is no topic {name!r}" + (f" (did you mean {near!r}?)" if near else "")


class MissingTopics:
    """Of one consumer."""

    def __init__(
        self,
        routes: Routes,
        backoff: Backoff,
        policy: MissingTopic,
        on_found: Callable[[], None] | None = None,
    ) -> None:
        """on_found: is told when some have come, after those who listen to routes."""
        self._routes = routes
        self._backoff = backoff
        self._policy = policy
        self._on_found = on_found
        self._missing: set[str] = set()
        self._scope = TaskScope()
        self._watching: asyncio.Task[None] | None = None

    async def look(self, topics: Iterable[str]) -> list[TopicRoute]:
        """The routes of those that are there now, or are made; the others are waited for. Not from
        the cache: a topic may have been changed or deleted since."""
        there = []
        for topic in topics:
            try:
                is_made = self._policy == "create"
                there.append(await self._routes.topic(topic, refresh=True, create=is_made))
            except UnknownTopic:
                if self._policy == "create":
                    raise
                if self._policy == "error":
                    reason = await _no_such_topic(self._routes, topic)
                    raise UnknownTopic(f"{reason}: create it first.") from None
                self._missing.add(topic)
        if self._missing and self._watching is None:
            self._watching = self._scope.start(self._watch(), name="wait for topics")
        return there

    async def found(self) -> None:
        """Returns when none is missing."""
        if self._watching is not None:
            await asyncio.wait([self._watching])

    async def close(self) -> None:
        await self._scope.close()

    async def _watch(self) -> None:
        loop = asyncio.get_running_loop()
        tells_at_s = loop.time() + _TOLD_AFTER_S
        questions = 0
        while self._missing:
            await asyncio.sleep(self._backoff.wait_s(questions))
            questions += 1
            try:
                await self._look_again()
                if self._missing and loop.time() >= tells_at_s:
                    tells_at_s = float("inf")
                    for name in sorted(self._missing)[:_TOLD_MAX]:
                        reason = await _no_such_topic(self._routes, name)
                        logger.warning("%s: waiting until somebody makes it.", reason)
            except PenstockError as error:
                logger.info("Missing topics cannot be asked for now: %s", error)
        self._watching = None

    async def _look_again(self) -> None:
        answer = await self._routes.metadata(self._missing)
        found = {topic.name for topic in answer.topics if not topic.HasField("error")}
        for name in found & self._missing:
            await self._routes.topic(name, refresh=True)
            self._missing.discard(name)
        if found and self._on_found is not None:
            self._on_found()
