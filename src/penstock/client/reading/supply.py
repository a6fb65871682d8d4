"""The supply of one partition's messages: who leads it, and how it goes on after an error.

Not how messages come: a source asks for them (`asked`) or has them pushed (`pushed`). Nor what they
are: a feed takes whole batches of a partition that its reader has alone (`consuming/batch_feed`),
or messages that are leased one by one (`sharing/lease_feed`). The invariants: of a partition one
question or one stream is of use at a time; what fails is tried again, with a new route and waits
that grow, or the reader is told.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable
from typing import Any, ClassVar, NamedTuple, Protocol

from penstock.client.concurrency.tasks import TaskScope
from penstock.client.config import ClientConfig
from penstock.client.connection.routes import Routes
from penstock.client.reading.buffer import Buffer
from penstock.model.errors import PenstockError
from penstock.model.ids import TopicPartition
from penstock.net.channel import Channel
from penstock.protocol import penstock_pb2 as pb


class Question(NamedTuple):
    """What a leader is asked for, and how long the answer may take."""

    number: int
    request: bytes
    timeout_s: float


class Stream(Protocol):
    """By which messages are pushed, as far as a feed sees it."""

    def give_back(self, messages: int, size_bytes: int) -> None:
        """So much of what came by it waits for the reader no longer: as much again may come."""

    def ping(self, answered: Callable[[], None]) -> None:
        """answered: is called when all that the broker has sent by now has come."""


class Credit:
    """What one delivery took of its stream's, until the reader has room for as much again."""

    __slots__ = ("_messages", "_size_bytes", "_waiting", "stream")

    def __init__(self, stream: Stream, messages: int, size_bytes: int) -> None:
        self.stream = stream
        self._messages = messages
        self._size_bytes = size_bytes
        # Of its messages, where they wait one by one.
        self._waiting = 0

    def arrived(self, messages: int) -> None:
        """So many wait for the reader, each for itself."""
        self._waiting = messages
        if not messages:
            self.give_back()

    def one_left(self) -> None:
        """One of them waits no longer: it was taken, or given back."""
        self._waiting -= 1
        if self._waiting:
            self._messages -= 1
            self.stream.give_back(1, 0)
        else:
            self.give_back()

    def give_back(self) -> None:
        """All that is left of it: its bytes, and what was paid for messages that are not there."""
        self.stream.give_back(self._messages, self._size_bytes)


class Feed(Protocol):
    """What is wanted of a partition, and what is made of what comes."""

    @property
    def is_wanted(self) -> bool:
        """Whether more is to come."""

    @property
    def needs_position(self) -> bool:
        """Whether it has to be found out first where to go on."""

    async def find_position(self) -> None:
        """Find out where to go on."""

    def fail(self, error: PenstockError) -> None:
        """It cannot go on by itself: the reader has to be told."""

    def on_error(self, error: PenstockError) -> None:
        """What was under way has ended by this: try again, or fail."""

    # --- asked ---------------------------------------------------------------------------------

    def question(self) -> Question: ...

    def on_answer(self, envelope: memoryview, payload: memoryview) -> bool:
        """Whether the next question is worth asking at once."""

    # --- pushed --------------------------------------------------------------------------------

    def opening(self) -> pb.OpenPushRequest:
        """What is to be pushed, and with how much credit."""

    def on_delivery(
        self, request: pb.DeliverRequest, payload: memoryview, credit: Credit
    ) -> None: ...

    def on_withdrawn(self, stream: Stream, deliveries: Collection[int]) -> None:
        """Nothing of these is this client's any more, if they came at all."""

    def on_stream_end(self, stream: Stream, error: PenstockError) -> None:
        """Nothing more comes by it; `on_error` is told next."""

    def on_parked(self, error: PenstockError) -> None:
        """Nothing more comes until the reader asks for it, who is to be told so."""


class Source(ABC):
    """What brings the messages of one consumer's feeds."""

    waits_for_room: ClassVar[bool]
    """Whether it begins only while there is room: else credit bounds what comes."""

    def __init__(self, routes: Routes, config: ClientConfig) -> None:
        self.routes = routes
        self.backoff = config.backoff
        self.timeout_s = config.request_timeout_s
        """How long a broker may take for what it can answer at once."""
        self.scope = TaskScope()
        self.is_closed = False

    @abstractmethod
    def begin(self, supply: Supply, channel: Channel) -> None:
        """Bring messages from the partition's leader."""

    @abstractmethod
    def stop(self, supply: Supply) -> None:
        """Let nothing more come but the answer to what was asked already."""

    @abstractmethod
    def resume(self, supplies: Iterable[Supply]) -> None:
        """The reader wants those to go on that a broker has parked, whoever had it do so."""

    async def close(self) -> None:
        self.is_closed = True
        await self.scope.close()


class Supply:
    """Of one partition."""

    def __init__(
        self, partition: TopicPartition, feed: Feed, source: Source, buffer: Buffer[Any]
    ) -> None:
        self.partition = partition
        self.feed = feed
        self.source = source
        self._buffer = buffer
        self._channel: Channel | None = None
        self._is_recovering = False
        self.is_busy = False
        """Whether something is under way: a question, or a stream."""
        self.failures = 0
        """In a row."""
        self.generation = 0
        """What was begun in an earlier one is of no use any more."""

    def __str__(self) -> str:
        return str(self.partition)

    def go_on(self) -> None:
        """Have more brought, unless it is already, or there is a reason not to."""
        source = self.source
        if self.is_busy or self._is_recovering or source.is_closed or not self.feed.is_wanted:
            return
        if source.waits_for_room and self._buffer.room <= 0:
            self._buffer.when_room(self.go_on)
            return
        channel = self._channel
        if channel is None or channel.connection.is_closed or self.feed.needs_position:
            self.recover()
            return
        self.is_busy = True
        source.begin(self, channel)

    def begin_anew(self) -> None:
        """What is under way, and what waits of it, is of no use any more."""
        self.generation += 1
        self.is_busy = False
        self.source.stop(self)

    def try_again(self, *, at_once: bool = True) -> None:
        """What was under way has led nowhere. at_once: the first time, with a new route; from then
        on there are waits."""
        self.failures = max(self.failures + 1, 1 if at_once else 2)
        self.recover()

    def recover(self) -> None:
        if not self._is_recovering and not self.source.is_closed:
            self._is_recovering = True
            self.source.scope.start(self._recovery(), name=f"recovery of {self}")

    async def _recovery(self) -> None:
        """Find the partition's leader, and its position where that is not known, until it works."""
        source, feed = self.source, self.feed
        while feed.is_wanted:
            await asyncio.sleep(source.backoff.wait_s(self.failures - 1))
            try:
                refresh = self.failures > 0
                self._channel = await source.routes.leader(*self.partition, refresh=refresh)
                if feed.needs_position:
                    await feed.find_position()
                break
            except PenstockError as error:
                self.failures += 1
                if not error.retriable:
                    feed.fail(error)
                    break
        self._is_recovering = False
        self.go_on()
