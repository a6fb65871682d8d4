"""Reads topics: message by message, in lists, or as columns.

The face of the consuming side; `fetcher` fetches ahead, `acknowledgements` and `committer` keep a
group's place. The invariant: of every partition the reader gets each message from its position on
once and in order, until it seeks.

There is no group membership yet: consumers of one group share committed offsets, not partitions,
so two that run at the same time both read everything.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from types import TracebackType
from typing import Any, Self, TypedDict

from penstock.client.acknowledgements import Acknowledgements
from penstock.client.committer import Committer
from penstock.client.config import ClientConfig
from penstock.client.fetcher import Fetcher, FetcherConfig
from penstock.client.push_fetcher import PushFetcher
from penstock.client.pushes import Pushes
from penstock.client.reader import Hand, PartitionColumns, Reader
from penstock.client.routes import Routes, TopicRoute
from penstock.client.starts import OutOfRange, Start, check_out_of_range, check_start
from penstock.client.tasks import TaskScope, all_of
from penstock.model.errors import ClientClosed, InvalidConfig, InvalidRequest, PenstockError
from penstock.model.ids import TopicPartition
from penstock.model.limits import (
    FETCH_WAIT_MS_MAX,
    GROUP_NAME_LENGTH_MAX,
    MIB,
    PUSH_CREDIT_MESSAGES_MAX,
)
from penstock.records import Message

logger = logging.getLogger(__name__)


class ConsumerSettings(TypedDict, total=False):
    """The settings of `ConsumerConfig`, as keywords of `Client.consumer`."""

    group: str | None
    start: Start
    on_out_of_range: OutOfRange
    buffer_bytes: int
    max_wait_ms: int
    push: bool
    push_messages: int
    auto_resume: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerConfig:
    """Where a consumer begins and how far it reads ahead."""

    group: str | None = None
    """Begin where this group has come to, and let messages be acknowledged for it."""

    start: Start = "earliest"
    """Where to begin in partitions that the group has not read, or without a group in all."""

    on_out_of_range: OutOfRange = "earliest"
    """Where to go on when retention has taken the next message: there, or raise."""

    buffer_bytes: int = 16 * MIB
    """How much may be fetched ahead of the reader."""

    max_wait_ms: int = 5_000
    """How long a broker holds a question open while there is nothing new."""

    push: bool = False
    """Have messages pushed by the brokers, instead of asking for them: the loop is the same."""

    push_messages: int = 10_000
    """How many messages of a partition may be pushed ahead of the reader, and how many bytes of all
    of them `buffer_bytes` says; one batch is pushed whatever its size."""

    auto_resume: bool = True
    """Let a delivery that a broker parked, because this process did not answer it, go on by
    itself. Else reading raises Parked, and goes on after `resume`."""

    def __post_init__(self) -> None:
        check_start(self.start)
        check_out_of_range(self.on_out_of_range)
        if self.group is not None and not 1 <= len(self.group) <= GROUP_NAME_LENGTH_MAX:
            raise InvalidConfig(
                f"The group's name has {len(self.group)} characters: give it 1 to "
                f"{GROUP_NAME_LENGTH_MAX}."
            )
        if self.buffer_bytes <= 0:
            raise InvalidConfig(f"buffer_bytes is {self.buffer_bytes}: it must be at least 1.")
        if not 1 <= self.push_messages <= PUSH_CREDIT_MESSAGES_MAX:
            raise InvalidConfig(
                f"push_messages is {self.push_messages}: it must be from 1 to "
                f"{PUSH_CREDIT_MESSAGES_MAX}."
            )
        if not 1 <= self.max_wait_ms <= FETCH_WAIT_MS_MAX:
            raise InvalidConfig(
                f"max_wait_ms is {self.max_wait_ms}: it must be from 1 to {FETCH_WAIT_MS_MAX}."
            )


class Consumer:
    """Made by `Client.consumer` or `Client.subscribe`; begins when it is entered or first read."""

    def __init__(
        self,
        routes: Routes,
        config: ClientConfig,
        topics: Collection[str],
        settings: ConsumerConfig,
        *,
        source: Any,
        on_end: Callable[[Consumer], None],
        pushes: Pushes,
    ) -> None:
        """source: who takes the acknowledgements of messages; None: this."""
        self._routes = routes
        self._on_end = on_end
        self._backoff = config.backoff
        self._topics = tuple(dict.fromkeys(topics))
        self._settings = settings
        self._fetcher = _fetcher(routes, config, settings, pushes)
        self._committer = Committer(settings.group, routes) if settings.group else None
        self._reader = Reader(
            self._fetcher,
            self._committer.progress if self._committer is not None else {},
            source if source is not None else self,
        )
        self._scope = TaskScope()
        self._changing = asyncio.Lock()
        self._is_started = False
        self._is_closed = False
        self._done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._done.set_result(None)

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
        """Find the topics and the positions. Reading does it too; "latest" means from here on."""
        if self._is_closed:
            raise ClientClosed("The consumer was closed: make another one to go on.")
        if not self._is_started:
            async with self._changing:
                await self._start_once()

    async def close(self) -> None:
        """Commit what was acknowledged and stop reading."""
        if self._is_closed:
            return
        self._is_closed = True
        if self._is_started:
            self._routes.unlisten(self._on_route)
        try:
            if self._committer is not None:
                await self._committer.close()
        finally:
            await self._scope.close()
            await self._fetcher.close()
            self._on_end(self)

    # --- reading -------------------------------------------------------------------------------

    async def __aiter__(self) -> AsyncIterator[Message]:
        """Every message, one by one, for ever."""
        while True:
            for message in await self.next_hand():
                yield message

    async def batches(self) -> AsyncIterator[list[Message]]:
        """Messages in lists, each of one partition, as they were fetched: the fastest way."""
        while True:
            yield (await self.next_hand()).take()

    async def fetch(
        self, max_messages: int | None = None, timeout_s: float | None = None
    ) -> list[Message]:
        """The next messages, of one partition: at least one, unless the time is over first.

        The first call also starts the consumer, whatever time that takes.
        """
        if max_messages is not None and max_messages < 1:
            raise InvalidRequest(f"max_messages is {max_messages}: it must be at least 1.")
        await self.start()
        try:
            async with asyncio.timeout(timeout_s):
                hand = await self.next_hand()
        except TimeoutError:
            return []
        return hand.take(max_messages)

    async def next_hand(self) -> Hand:
        """The next messages of one partition, to be taken one by one or at once; for facades."""
        await self.start()
        return await self._reader.next_hand()

    async def fetch_columns(
        self, timeout_s: float | None = None, *, include_headers: bool = False
    ) -> list[PartitionColumns]:
        """Everything fetched so far, decoded straight into columns; waits for the first of it.

        Empty only if the time is over first. Several entries may be of one partition, in order.
        """
        await self.start()
        try:
            async with asyncio.timeout(timeout_s):
                return await self._reader.next_columns(include_headers=include_headers)
        except TimeoutError:
            return []

    # --- where to read -------------------------------------------------------------------------

    @property
    def partitions(self) -> list[TopicPartition]:
        """What is being read."""
        return [TopicPartition(*partition) for partition in self._fetcher.feeds]

    async def assign(self, partitions: Iterable[tuple[str, int]]) -> None:
        """Read these partitions from now on, instead of those of the topics given at first.

        The place of a group is committed before. Where that or the rest fails, nothing changes.
        """
        wanted = [TopicPartition(*partition) for partition in partitions]
        await self.start()
        async with self._changing:
            if self._committer is not None:
                await self._committer.commit()
            await self._add(wanted, self._settings.start)
            self._topics = ()
            unwanted = [partition for partition in self.partitions if partition not in wanted]
            self._fetcher.remove(unwanted)
            if self._committer is not None:
                for partition in unwanted:
                    del self._committer.progress[partition]

    def position(self, partition: tuple[str, int]) -> int:
        """The offset of the next message to be handed out."""
        return self._fetcher.feed(partition).position

    async def seek(self, partition: tuple[str, int], to: Start) -> None:
        """Go on elsewhere: at an offset, "earliest", "latest", or a moment."""
        self._fetcher.feed(partition)
        position = await self._fetcher.find(partition, check_start(to))
        # Asked for again: another task may have assigned other partitions meanwhile.
        self._fetcher.seek(self._fetcher.feed(partition), position)
        if self._committer is not None:
            self._committer.progress[partition].restart(position)

    async def seek_to_time(self, moment: datetime) -> None:
        """Go on in every partition at the first message of this moment or later."""
        await self.start()
        await all_of(self.seek(partition, moment) for partition in self.partitions)

    def pause(self, *partitions: tuple[str, int]) -> None:
        """Hand out nothing of these partitions (none given: of all) until `resume`."""
        for partition in partitions or self.partitions:
            self._fetcher.pause(self._fetcher.feed(partition))

    def resume(self, *partitions: tuple[str, int]) -> None:
        """Go on in these partitions (none given: in all) where they were paused, and where a broker
        has parked what it pushes of them, whoever had it do so."""
        for partition in partitions or self.partitions:
            self._fetcher.resume(self._fetcher.feed(partition))

    # --- a group's place -----------------------------------------------------------------------

    def acknowledge(self, message: Message) -> Awaitable[None]:
        """What `message.ack()` calls: the message is dealt with.

        It returns at once; the broker is told shortly after, by `commit` or when this closes. The
        group begins again at the first message that was not acknowledged.
        """
        committer = self.committer
        committer.raise_failure()
        committer.note(message)
        return self._done

    async def commit(self, offsets: Mapping[tuple[str, int], int] | None = None) -> None:
        """Set the group's place: after everything handed out so far, or at the offsets given.

        Returns when the broker has it.
        """
        committer = self.committer
        if offsets is not None:
            await committer.commit_at(offsets)
            return
        for partition, progress in committer.progress.items():
            progress.acknowledge_below(self._fetcher.feed(partition).position)
        await committer.commit()

    async def committed(self, partition: tuple[str, int]) -> int | None:
        """The group's place in a partition, as the broker has it; None if it has none."""
        return (await self.committer.committed([partition[0]])).get(TopicPartition(*partition))

    @property
    def committer(self) -> Committer:
        """Keeps the group's place; InvalidRequest if there is no group."""
        if self._committer is None:
            raise InvalidRequest(
                "The consumer has no group to acknowledge for: give it one, as in group='billing'."
            )
        return self._committer

    # --- helpers -------------------------------------------------------------------------------

    async def _start_once(self) -> None:
        if self._is_started:  # somebody else did it while this waited
            return
        for topic in self._topics:
            # Not from the cache: the topic may have been changed or deleted since.
            route = await self._routes.topic(topic, refresh=True, create=True)
            await self._add(_partitions(route), self._settings.start)
        if self._is_closed:
            raise ClientClosed("The consumer was closed before it had started.")
        self._routes.listen(self._on_route)
        if self._committer is not None:
            self._scope.start(self._committer.run(), name=f"commits of {self._settings.group}")
        self._is_started = True

    async def _add(self, partitions: Iterable[TopicPartition], start: Start) -> None:
        """Take up partitions, where the group has come to or at the start. Under `_changing`."""
        starts = {
            partition: start for partition in partitions if partition not in self._fetcher.feeds
        }
        committed: dict[TopicPartition, int] = {}
        if self._committer is not None and starts:
            committed = await self._committer.committed({topic for topic, _ in starts})
            starts |= {
                partition: offset for partition, offset in committed.items() if partition in starts
            }
        positions = await self._fetcher.add(starts)
        if self._committer is not None:
            for partition, position in positions.items():
                self._committer.progress[partition] = Acknowledgements(
                    position, committed.get(partition)
                )

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
                        await self._add(_partitions(route), "earliest")
                return
            except PenstockError as error:
                logger.warning("New partitions of %s cannot be read now: %s", route.topic, error)
                if not error.retriable:
                    return  # the topic is gone
                failures += 1
                await asyncio.sleep(self._backoff.wait_s(failures))


def _fetcher(
    routes: Routes, config: ClientConfig, settings: ConsumerConfig, pushes: Pushes
) -> Fetcher:
    """What brings the batches: by asking for them, or by being pushed to."""
    fetching = FetcherConfig(
        buffer_bytes=settings.buffer_bytes,
        max_wait_ms=settings.max_wait_ms,
        on_out_of_range=settings.on_out_of_range,
    )
    if not settings.push:
        return Fetcher(routes, config.backoff, fetching, config.request_timeout_s)
    return PushFetcher(
        routes,
        config.backoff,
        fetching,
        config.request_timeout_s,
        pushes,
        group=settings.group or "",
        credit_messages=settings.push_messages,
        resumes_itself=settings.auto_resume,
    )


def _partitions(route: TopicRoute) -> list[TopicPartition]:
    return [TopicPartition(route.topic, number) for number in range(route.partition_count)]
