"""Where the leader of each partition is: asked once, remembered, asked again for a reason.

R-CORE-5: routes come from any broker, are cached, and are refreshed on a timer and at once when a
caller says that one is wrong. Connections are `links`' affair. The invariant: for one topic at
most one question is under way, and all who need its answer share it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Final, TypeVar

from google.protobuf.message import Message

from penstock.client.config import ClientConfig
from penstock.client.links import Links
from penstock.client.shared import Shared
from penstock.model.error_codes import from_code
from penstock.model.errors import (
    Busy,
    MalformedFrame,
    NotLeader,
    PenstockError,
    ShuttingDown,
    TimedOut,
    UnknownTopic,
)
from penstock.model.ids import TopicPartition, check_topic_name
from penstock.net.channel import Channel
from penstock.protocol import penstock_pb2 as pb
from penstock.protocol.calls import METADATA, CallType

logger = logging.getLogger(__name__)

RequestT = TypeVar("RequestT", bound=Message)
ResponseT = TypeVar("ResponseT", bound=Message)

NO_LEADER: Final = -1
# Errors with which a broker says that it did not do what was asked.
_REFUSALS: Final = (Busy, NotLeader, ShuttingDown)


@dataclass(frozen=True, slots=True)
class TopicRoute:
    """The leaders of a topic's partitions, by partition number; NO_LEADER where there is none."""

    topic: str
    topic_id: str
    leaders: tuple[int, ...]

    @property
    def partition_count(self) -> int:
        return len(self.leaders)


class Routes:
    """The route cache of a client, and calls that find their broker by it."""

    def __init__(self, links: Links, config: ClientConfig) -> None:
        self._links = links
        self._config = config
        self._backoff = config.backoff
        self._topics: dict[str, TopicRoute] = {}
        self._questions: Shared[tuple[str, bool], TopicRoute] = Shared()
        self._listeners: list[Callable[[TopicRoute], None]] = []

    def listen(self, listener: Callable[[TopicRoute], None]) -> None:
        """Have the listener called with every route that is new or has changed."""
        self._listeners.append(listener)

    def unlisten(self, listener: Callable[[TopicRoute], None]) -> None:
        self._listeners.remove(listener)

    async def topic(self, name: str, *, refresh: bool = False, create: bool = False) -> TopicRoute:
        """The route of a topic, from the cache unless `refresh`.

        create: let the broker make the topic if there is none and it may (R-CORE-4).
        """
        if not refresh and (route := self._topics.get(name)) is not None:
            return route
        check_topic_name(name)
        return await self._questions.join((name, create), lambda: self._ask(name, create))

    async def leader(
        self, topic: str, partition: int, *, refresh: bool = False, create: bool = False
    ) -> Channel:
        """A channel to the leader of a partition."""
        route = await self.topic(topic, refresh=refresh, create=create)
        if partition >= route.partition_count and not refresh:
            route = await self.topic(topic, refresh=True)  # it may be newer than the route
        if not 0 <= partition < route.partition_count:
            raise UnknownTopic(
                f"Topic {topic!r} has no partition {partition}: it has {route.partition_count}, "
                f"numbered from 0."
            )
        leader = route.leaders[partition]
        if leader == NO_LEADER:
            raise NotLeader(f"Partition {topic}-{partition} has no leader now: it may be elected.")
        return await self._links.broker(leader)

    async def coordinator(self) -> Channel:
        """A channel to the broker that keeps staged writes: with one broker, any."""
        return await self._links.any_broker()

    async def call_any(
        self, call: CallType[RequestT, ResponseT], request: RequestT, *, repeatable: bool = True
    ) -> ResponseT:
        """Call any broker, again until it answers or the request timeout is over.

        repeatable: the call may be made again although the broker may have done it already.
        """

        async def channel(failures: int) -> Channel:
            del failures
            return await self._links.any_broker()

        response, _ = await self._call(channel, call, request, repeatable)
        return response

    async def call_leader(
        self, partition: TopicPartition, call: CallType[RequestT, ResponseT], request: RequestT
    ) -> ResponseT:
        """Call the leader of a partition, with a new route after each failure."""
        response, _ = await self.call_leader_for_payload(partition, call, request)
        return response

    async def call_leader_for_payload(
        self, partition: TopicPartition, call: CallType[RequestT, ResponseT], request: RequestT
    ) -> tuple[ResponseT, memoryview]:
        """The same, for a call whose answer has a payload."""

        async def channel(failures: int) -> Channel:
            return await self.leader(*partition, refresh=failures > 0)

        return await self._call(channel, call, request, repeatable=True)

    async def refresh_on_timer(self) -> None:
        """Ask again for every known route from time to time; runs until it is cancelled."""
        while True:
            await asyncio.sleep(self._config.route_refresh_ms / 1000)
            try:
                await self.refresh_all()
            except PenstockError as error:
                logger.warning("Routes could not be refreshed: %s", error)

    async def refresh_all(self) -> None:
        request = pb.MetadataRequest(topics=list(self._topics))
        if not request.topics:
            return
        response = await self.call_any(METADATA, request)
        self._learn_brokers(response)
        for topic in response.topics:
            if topic.HasField("error"):
                # Whoever uses the topic asks for its route again, and is told.
                self._topics.pop(topic.name, None)
            else:
                self._learn(topic)

    async def metadata(
        self, topics: Iterable[str] = (), *, all_topics: bool = False
    ) -> pb.MetadataResponse:
        """What the broker says about topics now, for people; learns the brokers on the way."""
        request = pb.MetadataRequest(topics=list(topics), all_topics=all_topics)
        response = await self.call_any(METADATA, request)
        self._learn_brokers(response)
        return response

    def forget(self, name: str) -> None:
        self._topics.pop(name, None)

    async def close(self) -> None:
        await self._questions.close()

    async def _ask(self, name: str, create: bool) -> TopicRoute:
        request = pb.MetadataRequest(topics=[name], create_missing=create)
        response = await self.call_any(METADATA, request)
        self._learn_brokers(response)
        for topic in response.topics:
            if topic.name == name and topic.HasField("error"):
                self.forget(name)
                raise from_code(topic.error.code, topic.error.message)
            if topic.name == name:
                return self._learn(topic)
        raise UnknownTopic(f"The broker knows nothing of topic {name!r}: create it first.")

    def _learn_brokers(self, response: pb.MetadataResponse) -> None:
        self._links.know_brokers({broker.id: broker.address for broker in response.brokers})

    def _learn(self, topic: pb.MetadataResponse.Topic) -> TopicRoute:
        by_partition = sorted((entry.partition, entry.leader) for entry in topic.partitions)
        if not by_partition or [number for number, _ in by_partition] != list(
            range(len(by_partition))
        ):
            raise MalformedFrame(
                f"The broker's route of topic {topic.name!r} leaves partitions out."
            )
        route = TopicRoute(topic.name, topic.id, tuple(leader for _, leader in by_partition))
        if self._topics.get(topic.name) != route:
            self._topics[topic.name] = route
            for listener in list(self._listeners):
                listener(route)
        return route

    async def _call(
        self,
        find: Callable[[int], Awaitable[Channel]],
        call: CallType[RequestT, ResponseT],
        request: RequestT,
        repeatable: bool,
    ) -> tuple[ResponseT, memoryview]:
        """Find the broker and call it until it answers. `find` is given the failures so far."""
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + self._config.request_timeout_s
        failures = 0
        while True:
            called = False
            try:
                async with asyncio.timeout_at(deadline_s):
                    channel = await find(failures)
                    called = True
                    timeout_s = max(deadline_s - loop.time(), 0.001)
                    return await channel.call(call, request, timeout_s=timeout_s)
            except TimeoutError:
                raise TimedOut(
                    f"{call.name} was not answered within {self._config.request_timeout_ms} ms: "
                    f"see whether the broker is up."
                ) from None
            except PenstockError as error:
                done_perhaps = called and not isinstance(error, _REFUSALS)
                if not error.retriable or (done_perhaps and not repeatable):
                    raise
                failures += 1
                wait_s = self._backoff.wait_s(failures - 1)
                if loop.time() + wait_s >= deadline_s:
                    raise
            await asyncio.sleep(wait_s)
