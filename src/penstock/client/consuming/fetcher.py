"""Fetches batches ahead of the reader: one long poll in flight per partition, none wasted.

It hands out bytes in the order of arrival and decodes nothing: `consumer` does, when the reader
takes them. The invariants: what a partition hands out is without repeat from the position it was
last sent to, and without a gap unless its log is compacted or there is a filter; a partition has
at most one live question; what was fetched and not taken is bounded (see
`FetcherConfig.buffer_bytes`), because a partition asks again only below the bound.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final, NamedTuple

from penstock.client.concurrency.backoff import Backoff
from penstock.client.concurrency.tasks import TaskScope, all_of
from penstock.client.connection.routes import Routes
from penstock.client.consuming.damage import sound_part
from penstock.client.consuming.starts import OutOfRange, Start, find_request
from penstock.model.errors import (
    ClientClosed,
    InvalidRequest,
    OffsetOutOfRange,
    PenstockError,
    UnknownTopic,
    UnsupportedVersion,
)
from penstock.model.ids import TopicPartition
from penstock.model.limits import KIB, MIB
from penstock.net.channel import Channel
from penstock.protocol import penstock_pb2 as pb
from penstock.protocol.calls import FETCH, FIND_OFFSET, parse

logger = logging.getLogger(__name__)

# One answer: enough to make its cost small beside its messages', little enough to stay in a cache.
FETCH_BYTES_MAX: Final = 1 * MIB
# With many partitions the answers get smaller, but not smaller than this.
FETCH_BYTES_MIN: Final = 64 * KIB
# What an answer without a message counts as, while it waits to be taken: so those are bounded too.
_EMPTY_CHUNK_BYTES: Final = 1 * KIB


@dataclass(frozen=True, slots=True, kw_only=True)
class FetcherConfig:
    """How far and how patiently to fetch ahead."""

    buffer_bytes: int = 16 * MIB
    """Above this much fetched and not taken, nothing more is asked for. Answers to questions
    already asked may still come: at most one per partition."""

    max_wait_ms: int = 5_000
    """How long a broker holds a question open while there is nothing to answer."""

    on_out_of_range: OutOfRange = "earliest"
    """Where to go on when retention has taken the next message: there, or raise."""

    filter: pb.Filter | None = None
    """Only messages that this lets through are asked for."""


class Chunk(NamedTuple):
    """Whole batches of one partition, as they came; none, if a filter let none through."""

    feed: Feed
    generation: int
    payload: memoryview
    start_offset: int
    next_offset: int

    @property
    def size_bytes(self) -> int:
        """What it takes of the buffer."""
        return len(self.payload) or _EMPTY_CHUNK_BYTES


class Feed:
    """One partition being read."""

    __slots__ = (
        "asked_at_s",
        "channel",
        "failure",
        "failures",
        "fetch_offset",
        "generation",
        "high_watermark",
        "is_asking",
        "is_held",
        "is_recovering",
        "is_stopped",
        "partition",
        "position",
        "start",
        "topic",
    )

    def __init__(self, topic: str, partition: int, start: Start) -> None:
        self.topic = topic
        self.partition = partition
        # Where to begin, until the broker has said which offset that is.
        self.start: Start | None = start
        # The next offset to hand out, and the next to ask for.
        self.position = -1
        self.fetch_offset = -1
        # Answers and chunks of an earlier generation are of no use any more.
        self.generation = 0
        self.channel: Channel | None = None
        self.is_asking = False
        # By the user, and by who gives and takes partitions: neither ends what the other began.
        self.is_stopped = False
        self.is_held = False
        self.is_recovering = False
        self.asked_at_s = 0.0
        self.failures = 0
        # What the reader has to be told before this partition goes on.
        self.failure: PenstockError | None = None
        self.high_watermark = -1

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"

    @property
    def is_paused(self) -> bool:
        return self.is_stopped or self.is_held

    def move(self, position: int) -> None:
        """Go on elsewhere; everything fetched so far is dropped."""
        self.generation += 1
        self.is_asking = False
        self.failure = None
        self.start = None
        self.position = self.fetch_offset = position


class Fetcher:
    """The feeds of a consumer, and the chunks that wait for the reader."""

    def __init__(self, routes: Routes, backoff: Backoff, config: FetcherConfig, timeout_s: float):
        self._routes = routes
        self._backoff = backoff
        self._config = config
        # A broker may hold a question for so long before the answer is late.
        self._fetch_timeout_s = config.max_wait_ms / 1000 + timeout_s
        self._loop = asyncio.get_running_loop()
        self._scope = TaskScope()
        self.feeds: dict[tuple[str, int], Feed] = {}
        self._chunks: deque[Chunk] = deque()
        self._chunk_bytes = 0
        # Those with a failure to raise, in the order in which they failed.
        self._failed: deque[Feed] = deque()
        self._waiters: list[asyncio.Future[None]] = []
        # Partitions may come when there are none: who reads waits for them.
        self.may_be_idle = False
        # Why nothing can be read any more.
        self._failure: PenstockError | None = None
        self._closed = False

    def feed(self, partition: tuple[str, int]) -> Feed:
        """The feed of a partition, or InvalidRequest if it is not being read."""
        feed = self.feeds.get(partition)
        if feed is None:
            raise InvalidRequest(
                f"The consumer does not read {partition[0]}-{partition[1]}: assign it first, or "
                f"start the consumer."
            )
        return feed

    async def add(self, starts: Mapping[TopicPartition, Start]) -> dict[TopicPartition, int]:
        """Read these partitions as well, from the offsets returned."""
        feeds = [Feed(*partition, start) for partition, start in starts.items()]
        await all_of(self._find_position(feed) for feed in feeds)
        for feed in feeds:
            self.feeds[feed.topic, feed.partition] = feed
        for feed in feeds:
            self._ask(feed)
        return {TopicPartition(feed.topic, feed.partition): feed.position for feed in feeds}

    def remove(self, partitions: Iterable[tuple[str, int]]) -> None:
        """Stop reading these partitions and drop what was fetched of them."""
        for partition in partitions:
            feed = self.feeds.pop(partition)
            feed.is_stopped = True
            feed.move(feed.position)
        self._drop_stale()

    async def find(self, partition: tuple[str, int], start: Start) -> int:
        """The offset that a start means for a partition now."""
        request = find_request(*partition, start)
        if request is None:
            assert isinstance(start, int)
            return start
        answer = await self._routes.call_leader(TopicPartition(*partition), FIND_OFFSET, request)
        return answer.offset

    def seek(self, feed: Feed, position: int) -> None:
        feed.move(position)
        self._drop_stale()
        self._ask(feed)

    def pause(self, feed: Feed) -> None:
        """Hand out nothing more of the partition, also of what was fetched already."""
        feed.is_stopped = True
        feed.move(feed.position)
        self._drop_stale()

    def resume(self, feed: Feed) -> None:
        feed.is_stopped = False
        self._ask(feed)

    def take(self) -> Chunk | None:
        """The next chunk, or None if there is none now."""
        if not self._chunks:
            return None
        chunk = self._chunks.popleft()
        was_full = self._is_full()
        self._chunk_bytes -= chunk.size_bytes
        if was_full and not self._is_full():
            self._ask_all()
        return chunk

    def raise_failure(self) -> None:
        """Raise what a partition failed by, once, when all that was fetched of it has been taken.

        Then it is tried again. Other partitions, however busy, do not keep it from being told.
        """
        if self._closed:
            raise ClientClosed("The consumer was closed: make another one to go on.")
        if self._failure is not None and not self._chunks:
            raise self._failure
        for _ in range(len(self._failed)):
            feed = self._failed.popleft()
            if feed.failure is None:
                continue  # the reader has moved it since
            if any(chunk.feed is feed for chunk in self._chunks):
                self._failed.append(feed)
                continue
            failure, feed.failure = feed.failure, None
            self._recover(feed)
            raise failure

    async def wait(self) -> None:
        """Until there may be a chunk to take or a failure to raise."""
        if not self.feeds and not self.may_be_idle:
            raise InvalidRequest(
                "The consumer reads nothing: give it a topic, or assign partitions."
            )
        if self._chunks or self._closed or self._failed or self._failure is not None:
            return
        waiter = self._loop.create_future()
        self._waiters.append(waiter)
        try:
            await waiter
        finally:
            self._waiters.remove(waiter)

    async def close(self) -> None:
        self._closed = True
        self._chunks.clear()
        self._wake()
        await self._scope.close()

    def _is_full(self) -> bool:
        return self._chunk_bytes >= self._config.buffer_bytes

    def _wake(self) -> None:
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)

    def _drop_stale(self) -> None:
        fresh = [chunk for chunk in self._chunks if chunk.generation == chunk.feed.generation]
        self._chunks = deque(fresh)
        self._chunk_bytes = sum(chunk.size_bytes for chunk in fresh)
        self._ask_all()

    def _ask_all(self) -> None:
        for feed in self.feeds.values():
            self._ask(feed)

    def _ask(self, feed: Feed) -> None:
        """Ask for the next bytes of a partition, unless there is a reason not to."""
        if (
            feed.is_asking
            or feed.is_paused
            or feed.is_recovering
            or feed.failure is not None
            or self._closed
            or self._is_full()
        ):
            return
        channel = feed.channel
        if channel is None or channel.connection.is_closed or feed.start is not None:
            self._recover(feed)
            return
        share_bytes = self._config.buffer_bytes // len(self.feeds)
        request = pb.FetchRequest(
            topic=feed.topic,
            partition=feed.partition,
            offset=feed.fetch_offset,
            max_bytes=min(max(share_bytes, FETCH_BYTES_MIN), FETCH_BYTES_MAX),
            min_bytes=1,
            max_wait_ms=self._config.max_wait_ms,
            filter=self._config.filter,
        )
        feed.is_asking = True
        feed.asked_at_s = self._loop.time()
        channel.start_call(
            FETCH.number,
            request.SerializeToString(),
            (),
            partial(self._answered, feed, feed.generation),
            self._fetch_timeout_s,
        )

    def _answered(
        self,
        feed: Feed,
        generation: int,
        error: PenstockError | None,
        envelope: memoryview,
        payload: memoryview,
    ) -> None:
        if generation != feed.generation or self._closed:
            return
        feed.is_asking = False
        try:
            if error is not None:
                raise error
            answer = parse(pb.FetchResponse, envelope)
            feed.high_watermark = answer.high_watermark
            is_filtered = self._config.filter is not None
            is_further = self._take_in(
                feed,
                payload,
                has_gaps=answer.compacted or is_filtered,
                next_offset=answer.next_offset if is_filtered else None,
            )
        except PenstockError as problem:
            self._judge(feed, problem)
            return
        waited_s = self._loop.time() - feed.asked_at_s
        if not is_further and waited_s < self._config.max_wait_ms / 2000:
            # Asking again at once would be a busy loop.
            feed.failures += 1
            self._recover(feed)
            return
        feed.failures = 0
        self._ask(feed)

    def _take_in(
        self, feed: Feed, payload: memoryview, *, has_gaps: bool, next_offset: int | None
    ) -> bool:
        """Keep what came. True if it leads on. next_offset: where to go on, after a filter. Where
        something of it is damaged, what is before that is kept, and then it is raised."""
        length, end, error = sound_part(payload, feed.fetch_offset, str(feed), compacted=has_gaps)
        if next_offset is None or error is not None:
            next_offset = end
        elif next_offset < end:
            raise UnsupportedVersion(
                f"{feed} is not filtered by its broker, which has sent messages up to offset "
                f"{end} and looked at those before {next_offset}: upgrade it."
            )
        is_further = next_offset > feed.fetch_offset
        if is_further:
            start_offset, feed.fetch_offset = feed.fetch_offset, next_offset
            chunk = Chunk(feed, feed.generation, payload[:length], start_offset, next_offset)
            self._chunks.append(chunk)
            self._chunk_bytes += chunk.size_bytes
            self._wake()
        if error is not None:
            raise error
        return is_further

    def _judge(self, feed: Feed, error: PenstockError) -> None:
        """Decide how a partition goes on after an error: again, elsewhere, or by the reader."""
        if isinstance(error, OffsetOutOfRange) and self._config.on_out_of_range != "error":
            logger.warning("%s goes on at %s: %s", feed, self._config.on_out_of_range, error)
            # What was fetched before this is still good; it is where it ended that is gone.
            feed.start = self._config.on_out_of_range
        elif not error.retriable and not isinstance(error, UnknownTopic):
            self._fail(feed, error)
            return
        elif feed.failures == 0:
            logger.warning("%s cannot be read now and is tried again: %s", feed, error)
        feed.failures += 1
        self._recover(feed)

    def fail(self, error: PenstockError) -> None:
        """Whoever reads is told, now and from now on."""
        self._failure = error
        self._wake()

    def _fail(self, feed: Feed, error: PenstockError) -> None:
        feed.failure = error
        self._failed.append(feed)
        self._wake()

    def _recover(self, feed: Feed) -> None:
        if not feed.is_recovering and not self._closed:
            feed.is_recovering = True
            self._scope.start(self._recovery(feed), name=f"recovery of {feed}")

    async def _recovery(self, feed: Feed) -> None:
        """Find the partition's leader, and its position where that is not known, until it works."""
        while True:
            # The first retry is at once, with a new route; from then on there are waits.
            await asyncio.sleep(self._backoff.wait_s(feed.failures - 1))
            try:
                feed.channel = await self._routes.leader(
                    feed.topic, feed.partition, refresh=feed.failures > 0
                )
                if feed.start is not None:
                    await self._find_position(feed)
                break
            except PenstockError as error:
                feed.failures += 1
                if not error.retriable:
                    self._fail(feed, error)
                    break
        feed.is_recovering = False
        self._ask(feed)

    async def _find_position(self, feed: Feed) -> None:
        assert feed.start is not None
        generation = feed.generation
        position = await self.find((feed.topic, feed.partition), feed.start)
        if feed.generation == generation:  # else somebody has moved it meanwhile
            feed.start = None
            feed.fetch_offset = position
            if feed.position < 0:
                feed.position = position
