"""Reads partitions ahead of the reader: which ones, what waits, and what the reader has to be told.

It hands out bytes in the order of arrival and decodes nothing: `reader` does, when the reader takes
them. How they come is their source's affair. The invariants: above `buffer_bytes` fetched and not
taken nothing more is asked for, and what was asked for before is at most one answer for each
partition; a partition that fails is told of after all that was fetched of it before.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Mapping

from penstock.client.concurrency.tasks import all_of
from penstock.client.consuming.batch_feed import BatchFeed, Chunk
from penstock.client.consuming.settings import ConsumerConfig
from penstock.client.consuming.starts import Start
from penstock.client.reading.buffer import Buffer
from penstock.client.reading.supply import Source
from penstock.model.errors import ClientClosed, InvalidRequest, Parked, PenstockError
from penstock.model.ids import TopicPartition


class Fetcher:
    """The feeds of a consumer, and the chunks that wait for the reader."""

    def __init__(self, source: Source, config: ConsumerConfig) -> None:
        self.source = source
        self._config = config
        self.feeds: dict[tuple[str, int], BatchFeed] = {}
        self.buffer: Buffer[Chunk] = Buffer(
            config.buffer_bytes, self.feeds, lambda chunk: chunk.size_bytes
        )
        # Those with a failure to raise, in the order in which they failed.
        self._failed: deque[BatchFeed] = deque()
        # Partitions may come when there are none: who reads waits for them.
        self.may_be_idle = False
        # Why nothing can be read any more.
        self._failure: PenstockError | None = None

    def feed(self, partition: tuple[str, int]) -> BatchFeed:
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
        feeds: dict[tuple[str, int], BatchFeed] = {
            partition: BatchFeed(
                partition, start, self.source, self.buffer, self._config, self._on_failure
            )
            for partition, start in starts.items()
        }
        await all_of(feed.find_position() for feed in feeds.values())
        self.feeds |= feeds
        for feed in feeds.values():
            feed.supply.go_on()
        return {feed.partition: feed.position for feed in feeds.values()}

    def remove(self, partitions: Iterable[tuple[str, int]]) -> None:
        """Stop reading these partitions and drop what was fetched of them."""
        for partition in partitions:
            feed = self.feeds.pop(partition)
            feed.is_stopped = True
            feed.move(feed.position)
        self._drop_stale()

    def seek(self, feed: BatchFeed, position: int) -> None:
        feed.move(position)
        self._drop_stale()
        feed.supply.go_on()

    def pause(self, feed: BatchFeed) -> None:
        """Hand out nothing more of the partition, also of what was fetched already."""
        feed.is_stopped = True
        self.seek(feed, feed.position)

    def resume(self, feeds: Collection[BatchFeed]) -> None:
        for feed in feeds:
            feed.is_stopped = False
            if isinstance(feed.failure, Parked):
                feed.failure = None  # whoever resumes it knows
            feed.supply.go_on()
        self.source.resume(feed.supply for feed in feeds)

    def take(self) -> Chunk | None:
        """The next chunk, or None if there is none now."""
        chunk = self.buffer.take()
        if chunk is not None and chunk.credit is not None:
            chunk.credit.give_back()
        return chunk

    def raise_failure(self) -> None:
        """Raise what a partition failed by, once, when all that was fetched of it has been taken.

        Then it is tried again. Other partitions, however busy, do not keep it from being told.
        """
        if self.source.is_closed:
            raise ClientClosed("The consumer was closed: make another one to go on.")
        if self._failure is not None and not self.buffer:
            raise self._failure
        for _ in range(len(self._failed)):
            feed = self._failed.popleft()
            if feed.failure is None:
                continue  # the reader has moved it since
            if any(chunk.feed is feed for chunk in self.buffer):
                self._failed.append(feed)
                continue
            failure, feed.failure = feed.failure, None
            feed.supply.recover()
            raise failure

    async def wait(self) -> None:
        """Until there may be a chunk to take or a failure to raise, of which there is none now."""
        if not self.feeds and not self.may_be_idle:
            raise InvalidRequest(
                "The consumer reads nothing: give it a topic, or assign partitions."
            )
        await self.buffer.wait()

    def fail(self, error: PenstockError) -> None:
        """Whoever reads is told, now and from now on."""
        self._failure = error
        self.buffer.wake()

    async def close(self) -> None:
        self.buffer.drop(lambda _: True)
        self.buffer.wake()
        await self.source.close()

    def _on_failure(self, feed: BatchFeed) -> None:
        self._failed.append(feed)
        self.buffer.wake()

    def _drop_stale(self) -> None:
        self.buffer.drop(lambda chunk: chunk.is_stale)
