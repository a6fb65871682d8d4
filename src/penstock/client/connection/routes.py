"""Where the leader of each partition is, and who looks after groups and staged writes: asked once,
remembered, asked again for a reason.

R-CORE-5: routes come from any broker, are cached, and are refreshed on a timer and at once when a
caller says that one is wrong. Connections are `links`' affair. The invariant: for one topic, or one
coordinator, at most one question is under way, and all who need its answer share it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, TypeVar

from google.protobuf.message import Message

from penstock.client.concurrency.hindrance import Hindrance
from penstock.client.concurrency.once import Once
from penstock.client.config import ClientConfig
from penstock.client.connection.links import Links, Watcher
from penstock.model.error_codes import from_code
from penstock.model.errors import (
    Busy,
    CoordinatorLoading,
    DiskFull,
    MalformedFrame,
    NotCoordinator,
    NotLeader,
    PenstockError,
    ShuttingDown,
    StaleMemberEpoch,
    TimedOut,
    UnknownTopic,
)
from penstock.model.ids import TopicPartition, check_topic_name
from penstock.net.channel import Channel
from penstock.net.outbox import Buffer
from penstock.protocol import penstock_pb2 as pb
from penstock.protocol.calls import FIND_COORDINATOR, METADATA, CallType

logger = logging.getLogger(__name__)

Coordinator = pb.FindCoordinatorRequest.Kind
"""What somebody looks after: GROUPS, STAGED_WRITES or DELAYED."""
RequestT = TypeVar("RequestT", bound=Message)
ResponseT = TypeVar("ResponseT", bound=Message)

NO_LEADER: Final = -1
GROUPS: Final = pb.FindCoordinatorRequest.KIND_GROUPS
STAGED_WRITES: Final = pb.FindCoordinatorRequest.KIND_STAGED_WRITES
DELAYED: Final = pb.FindCoordinatorRequest.KIND_DELAYED
# Errors with which a broker says that it did not do what was asked.
_REFUSALS: Final = (Busy, CoordinatorLoading, NotCoordinator, NotLeader, ShuttingDown)
# To be tried again with another epoch, which only the caller has.
_AT_ONCE: Final = (StaleMemberEpoch,)
# A broker that hangs must not use up all the time there is: another may answer.
_ATTEMPTS: Final = 3


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
        self._questions: Once[tuple[str, bool], TopicRoute] = Once()
        self._coordinators: dict[Coordinator, int] = {}
        self._coordinator_questions: Once[Coordinator, int] = Once()
        # Who was asked last for one and had no answer.
        self._asked_for_coordinator: Channel | None = None
        # Who was asked last for a route and knew no leader: it may be cut off from one that others
        # hear.
        self._asked_for_leader: Channel | None = None
        self._listeners: list[Callable[[TopicRoute], None]] = []
        # By the names of calls: of all that wait with one, the one that says so.
        self._hindrances: dict[str, Hindrance] = {}

    def listen(self, listener: Callable[[TopicRoute], None]) -> None:
        """Have the listener called with every route that is new or has changed."""
        self._listeners.append(listener)

    def unlisten(self, listener: Callable[[TopicRoute], None]) -> None:
        self._listeners.remove(listener)

    def watch(self, watcher: Watcher) -> None:
        """Have it told of each connection that ends."""
        self._links.watch(watcher)

    def unwatch(self, watcher: Watcher) -> None:
        self._links.unwatch(watcher)

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

    async def coordinator(self, kind: Coordinator, *, refresh: bool = False) -> Channel:
        """A channel to the broker that looks after groups, or after staged writes."""
        broker = self._coordinators.get(kind)
        if broker is None or refresh:
            broker = await self._coordinator_questions.join(
                kind, lambda: self._ask_for_coordinator(kind)
            )
        return await self._links.broker(broker)

    async def broker(self, broker_id: int) -> Channel:
        """A channel to this broker."""
        if not self._links.knows(broker_id):
            await self.metadata()
        return await self._links.broker(broker_id)

    async def call_any(
        self, call: CallType[RequestT, ResponseT], request: RequestT, *, repeatable: bool = True
    ) -> ResponseT:
        """Call any broker, again until it answers or the request timeout is over.

        repeatable: the call may be made again although the broker may have done it already.
        DiskFull is raised at once: what any broker may be asked to change is kept by the registry,
        whichever broker is asked, and somebody is to free some room.
        """

        async def channel(failures: int, failed: Channel | None) -> Channel:
            del failures
            return await self._links.any_broker(avoid=failed)

        # What is found out on the way to something else is answered soon, or by another broker.
        attempt_s = self._config.connect_timeout_s if call in (METADATA, FIND_COORDINATOR) else None
        response, _ = await self._call(
            channel, call, request, repeatable, attempt_s, at_once=(*_AT_ONCE, DiskFull)
        )
        return response

    async def call_coordinator(
        self,
        kind: Coordinator,
        call: CallType[RequestT, ResponseT],
        request: RequestT,
        payload: Sequence[Buffer] = (),
    ) -> ResponseT:
        """Call whoever looks after groups, or after staged writes, again until it answers or the
        request timeout is over. The broker may do what is asked more than once."""

        async def channel(failures: int, failed: Channel | None) -> Channel:
            del failed
            return await self.coordinator(kind, refresh=failures > 0)

        response, _ = await self._call(channel, call, request, repeatable=True, payload=payload)
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

        async def channel(failures: int, failed: Channel | None) -> Channel:
            del failed
            return await self.leader(*partition, refresh=failures > 0)

        attempt_s = self._config.request_timeout_s / _ATTEMPTS
        return await self._call(channel, call, request, True, attempt_s)

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
        await self._coordinator_questions.close()

    async def _ask_for_coordinator(self, kind: Coordinator) -> int:
        """Nobody waits here until there is one: who asks does, by asking again."""
        channel = await self._links.any_broker(avoid=self._asked_for_coordinator)
        self._asked_for_coordinator = channel
        request = pb.FindCoordinatorRequest(kind=kind)
        timeout_s = self._config.connect_timeout_s
        found, _ = await channel.call(FIND_COORDINATOR, request, timeout_s=timeout_s)
        self._asked_for_coordinator = None
        self._links.know_broker(found.broker, found.address)
        self._coordinators[kind] = found.broker
        return found.broker

    async def _ask(self, name: str, create: bool) -> TopicRoute:
        asked: Channel | None = None

        async def channel(failures: int, failed: Channel | None) -> Channel:
            del failures
            nonlocal asked
            asked = await self._links.any_broker(avoid=failed or self._asked_for_leader)
            return asked

        request = pb.MetadataRequest(topics=[name], create_missing=create)
        attempt_s = self._config.connect_timeout_s
        response, _ = await self._call(channel, METADATA, request, True, attempt_s)
        self._asked_for_leader = None
        self._learn_brokers(response)
        for topic in response.topics:
            if topic.name == name and topic.HasField("error"):
                self.forget(name)
                raise from_code(topic.error.code, topic.error.message)
            if topic.name == name:
                route = self._learn(topic)
                if NO_LEADER in route.leaders:
                    self._asked_for_leader = asked
                return route
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
        find: Callable[[int, Channel | None], Awaitable[Channel]],
        call: CallType[RequestT, ResponseT],
        request: RequestT,
        repeatable: bool,
        attempt_s: float | None = None,
        payload: Sequence[Buffer] = (),
        *,
        at_once: tuple[type[PenstockError], ...] = _AT_ONCE,
    ) -> tuple[ResponseT, memoryview]:
        """Find the broker and call it until it answers. `find` is given the failures so far, and
        the channel of the last call. attempt_s: how long one call may take. at_once: after which
        errors it is not tried again."""
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + self._config.request_timeout_s
        failures = 0
        last_error: str | None = None  # not itself, which would hold on to this frame
        channel: Channel | None = None
        with self._telling(call) as tell:
            while True:
                called = False
                try:
                    async with asyncio.timeout_at(deadline_s):
                        channel = await find(failures, channel)
                        called = True
                        timeout_s = max(deadline_s - loop.time(), 0.001)
                        if attempt_s is not None:
                            timeout_s = min(timeout_s, attempt_s)
                        return await channel.call(call, request, payload, timeout_s=timeout_s)
                except TimeoutError:
                    raise self._out_of_time(call, last_error) from None
                except at_once:
                    raise
                except PenstockError as error:
                    done_perhaps = called and not isinstance(error, _REFUSALS)
                    if not error.retriable or (done_perhaps and not repeatable):
                        raise
                    failures += 1
                    wait_s = self._backoff.wait_s(failures - 1)
                    left_s = deadline_s - loop.time()
                    if wait_s >= left_s:
                        if isinstance(error, TimedOut) and last_error is not None:
                            raise self._out_of_time(call, last_error) from None
                        raise
                    last_error = str(error)
                    tell(left_s, error)
                await asyncio.sleep(wait_s)

    @contextmanager
    def _telling(
        self, call: CallType[RequestT, ResponseT]
    ) -> Iterator[Callable[[float, PenstockError], None]]:
        """For one call: say what it waits for. Of all that wait with calls of one type one speaks,
        and of routes nobody does here: whoever needs one says what for."""
        hindrance = Hindrance(logger, call.name, "answered")
        loop = asyncio.get_running_loop()

        def tell(left_s: float, error: PenstockError) -> None:
            if call is METADATA:
                return
            if self._hindrances.setdefault(call.name, hindrance) is hindrance:
                hindrance.met(loop.time(), left_s, error)

        try:
            yield tell
            hindrance.overcome()
        finally:
            if self._hindrances.get(call.name) is hindrance:
                del self._hindrances[call.name]

    def _out_of_time(self, call: CallType[RequestT, ResponseT], last_error: str | None) -> TimedOut:
        within = f"within {self._config.request_timeout_ms} ms"
        if last_error is None:
            return TimedOut(f"{call.name} was not answered {within}: see whether the broker is up.")
        return TimedOut(f"{call.name} was not done {within}. The last error was: {last_error}")
