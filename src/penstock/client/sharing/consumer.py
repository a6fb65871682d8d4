"""Reads topics together with others, message by message: a member of a shared group (R-DEL-3).

Each message is leased to one member, which says what became of it: dealt with, given back, failed,
or never to be dealt with. Order is given up, or kept for each key (R-DEL-11). Membership is
`membership`'s, leases come by `lease_feed` and are `keeper`'s, outcomes `settler`'s. The invariant:
a message is handed out while its lease runs, and settled at most once.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from types import TracebackType
from typing import Any, Final, Self

from penstock.client.concurrency.tasks import TaskScope
from penstock.client.config import ClientConfig
from penstock.client.connection.deliveries import Pushes
from penstock.client.connection.routes import Routes
from penstock.client.consuming.missing_topics import MissingTopics
from penstock.client.reading.asked import Asked
from penstock.client.reading.pushed import Pushed
from penstock.client.reading.supply import Source
from penstock.client.requests.replies import Replying
from penstock.client.sharing.buffer import LeaseBuffer
from penstock.client.sharing.keeper import LeaseKeeper
from penstock.client.sharing.lease_feed import LeaseFeed
from penstock.client.sharing.ledger import LeaseLedger
from penstock.client.sharing.membership import ShareMembership
from penstock.client.sharing.settings import SharedConsumerConfig
from penstock.client.sharing.settler import ABANDON, RELEASE, Outcome, Settler
from penstock.model.errors import ClientClosed, InvalidRequest, PenstockError
from penstock.model.ids import TopicPartition
from penstock.protocol import penstock_pb2 as pb
from penstock.records import Message

logger = logging.getLogger(__name__)

# Who closes a consumer waits no longer for a broker that is gone.
_CLOSE_TIMEOUT_S: Final = 5.0


class SharedConsumer(LeaseLedger, Replying):
    """Made by `Client.subscribe(..., shared=True)`; begins when it is entered or first read."""

    def __init__(
        self,
        routes: Routes,
        config: ClientConfig,
        topics: Collection[str],
        settings: SharedConsumerConfig,
        *,
        source: Any,
        on_end: Callable[[SharedConsumer], None],
        pushes: Pushes,
    ) -> None:
        """source: whom messages tell what became of them; None: this."""
        super().__init__()
        self._routes = routes
        self._backoff = config.backoff
        self._settings = settings
        self._topics = tuple(dict.fromkeys(topics))
        self._on_end = on_end
        self.member_id = f"{config.client_name}-{uuid.uuid4()}"
        self._membership = ShareMembership(
            routes,
            config.backoff,
            pb.GroupHeartbeatRequest(
                group=settings.group,
                member_id=self.member_id,
                shared=True,
                topics=self._topics,
                settings=settings.of_group(),
                client_name=config.client_name,
                is_full=True,
            ),
            self._assigned,
        )
        self._missing = MissingTopics(
            routes, config.backoff, settings.on_missing_topic, self._membership.look_at_once
        )
        self._scope = TaskScope()
        self._source: Source = Asked(routes, config)
        if settings.push:
            self._source = Pushed(
                routes,
                config,
                pushes,
                group=settings.group,
                member_id=self.member_id,
                resumes_itself=settings.auto_resume,
            )
        self._message_source = source if source is not None else self
        self._feeds: dict[tuple[str, int], LeaseFeed] = {}
        self._buffer = LeaseBuffer(settings.prefetch, self._feeds)
        self._keeper = LeaseKeeper(
            self._buffer, self._held, self._settle, extends=settings.auto_extend
        )
        self._starting = asyncio.Lock()
        self._is_started = False

    async def __aenter__(self) -> Self:
        try:
            await self.start()
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def start(self) -> None:
        """Join the group. Reading does it too."""
        if self._is_closed:
            raise ClientClosed("The consumer was closed: make another one to go on.")
        async with self._starting:
            if self._is_started:
                return
            await self._missing.look(self._topics)
            wait_s = await self._membership.join()
            self._scope.start(
                self._membership.run(wait_s, self._fail), name=f"member of {self._settings.group}"
            )
            self._scope.start(self._keeper.run(), name=f"keeping of {self._settings.group}")
            self._is_started = True

    async def close(self) -> None:
        """Tell the outcomes that there are, give the rest back, and leave the group. What the
        reader has taken and not settled was an attempt; what it has not taken was none."""
        if self._is_closed:
            return
        self._is_closed = True
        for feed in self._feeds.values():
            feed.close()
        for message in self._buffer.withdraw(lambda _: True):
            self._settle((message.topic, message.partition), message.offset, Outcome(RELEASE))
        for (_, _, offset), hold in self._held.items():
            self._settle(hold.partition, offset, Outcome(ABANDON))
        self._held.clear()
        try:
            async with asyncio.timeout(_CLOSE_TIMEOUT_S):
                endings = [_left(settler) for settler in self._settlers.values()]
                # Each partition for itself: outcomes of one are told though another is gone.
                outcomes = await asyncio.gather(*endings, return_exceptions=True)
            for outcome in outcomes:
                if outcome is not None:
                    raise outcome
        except (TimeoutError, PenstockError) as error:
            logger.warning(
                "Not every outcome could be told before group %s was left: %s",
                self._settings.group,
                str(error) or "there was no answer.",
            )
        finally:
            await self._missing.close()
            await self._source.close()
            await self._scope.close()
            if self._is_started:
                await self._membership.leave()
            self._on_end(self)

    # --- reading -------------------------------------------------------------------------------

    async def __aiter__(self) -> AsyncIterator[Message]:
        """Every message that is leased to this member, for ever."""
        while True:
            yield await self._next()

    async def fetch(
        self, max_messages: int | None = None, timeout_s: float | None = None
    ) -> list[Message]:
        """The next messages: at least one, unless the time is over first."""
        if max_messages is not None and max_messages < 1:
            raise InvalidRequest(f"max_messages is {max_messages}: it must be at least 1.")
        await self.start()
        try:
            async with asyncio.timeout(timeout_s):
                messages = [await self._next()]
        except TimeoutError:
            return []
        while max_messages is None or len(messages) < max_messages:
            message = self._take()
            if message is None:
                break
            messages.append(message)
        return messages

    async def next_hand(self) -> list[Message]:
        """The next message, alone: what is not taken is not the reader's. For `serve`."""
        return [await self._next()]

    @property
    def partitions(self) -> list[TopicPartition]:
        """What is being leased from."""
        return [TopicPartition(*partition) for partition in self._feeds]

    def resume(self) -> None:
        """Go on where a broker has parked what it pushes, whoever had it do so."""
        self._source.resume(feed.supply for feed in self._feeds.values())

    # --- helpers -------------------------------------------------------------------------------

    async def _next(self) -> Message:
        await self.start()
        while True:
            message = self._take()
            if message is not None:
                return message
            self._raise_failure()
            await self._buffer.wait()

    def _take(self) -> Message | None:
        taken = self._buffer.take_leased()
        if taken is None:
            return None
        hold, message = taken
        self._held[message.topic, message.partition, message.offset] = hold
        return message

    def _assigned(self, partitions: Sequence[TopicPartition]) -> None:
        for partition in [one for one in self._feeds if one not in partitions]:
            self._feeds.pop(partition).leave()
        added = [partition for partition in partitions if partition not in self._feeds]
        for partition in added:
            if partition not in self._settlers:
                settler = self._settlers[partition] = Settler(
                    self._settings.group, self.member_id, partition, self._routes, self._backoff
                )
                self._scope.start(settler.run(), name=f"outcomes of {partition}")
            self._feeds[partition] = LeaseFeed(
                partition,
                self.member_id,
                self._settings,
                self._source,
                self._buffer,
                self._message_source,
                self._fail,
            )
        for partition in added:
            self._feeds[partition].supply.go_on()

    def _fail(self, error: PenstockError) -> None:
        self._failure = error
        self._buffer.wake()


async def _left(settler: Settler) -> None:
    """Everything is told, and the partition is left, whatever was refused before."""
    refused: PenstockError | None = None
    try:
        await settler.told()
    except PenstockError as error:
        refused = error
    await settler.leave()
    if refused is not None:
        raise refused
