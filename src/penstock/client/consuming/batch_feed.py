"""Whole batches of a partition that this reader has for itself: from where on, and what has come.

Nothing is decoded here: `reader` does that, when the reader comes to it. The invariant: what is
handed on is without repeat from the position it was last sent to, and without a gap unless the log
is compacted or there is a filter.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection
from typing import Final, NamedTuple

from penstock.client.connection.routes import Routes
from penstock.client.consuming.damage import sound_part
from penstock.client.consuming.settings import ConsumerConfig
from penstock.client.consuming.starts import Start, find_request
from penstock.client.reading.buffer import Buffer
from penstock.client.reading.supply import Credit, Question, Source, Stream, Supply
from penstock.model.errors import (
    OffsetOutOfRange,
    PenstockError,
    UnknownTopic,
    UnsupportedVersion,
)
from penstock.model.ids import TopicPartition
from penstock.model.limits import KIB, MIB
from penstock.protocol import penstock_pb2 as pb
from penstock.protocol.calls import FETCH, FIND_OFFSET, parse

logger = logging.getLogger(__name__)

# One answer: enough to make its cost small beside its messages', little enough to stay in a cache.
FETCH_BYTES_MAX: Final = 1 * MIB
# Of one partition: deliveries enough to hide a round trip's time. With less the broker is called
# for credit all the time, and with more they only wait here, out of the processor's caches.
CREDIT_BYTES_MAX: Final = 8 * MIB
# With many partitions both get smaller, but not smaller than this.
FETCH_BYTES_MIN: Final = 64 * KIB
# What an answer without a message counts as, while it waits to be taken: so those are bounded too.
_EMPTY_CHUNK_BYTES: Final = 1 * KIB


class Chunk(NamedTuple):
    """Whole batches of one partition, as they came; none, if a filter let none through."""

    feed: BatchFeed
    generation: int
    payload: memoryview
    start_offset: int
    next_offset: int
    # What it took, if it was pushed.
    credit: Credit | None = None

    @property
    def size_bytes(self) -> int:
        """What it takes of the buffer."""
        return len(self.payload) or _EMPTY_CHUNK_BYTES

    @property
    def is_stale(self) -> bool:
        """Whether the reader has moved or paused the partition since."""
        return self.generation != self.feed.supply.generation


class BatchFeed:
    """One partition being read."""

    def __init__(
        self,
        partition: TopicPartition,
        start: Start,
        source: Source,
        buffer: Buffer[Chunk],
        config: ConsumerConfig,
        on_failure: Callable[[BatchFeed], None],
    ) -> None:
        self.partition = partition
        self.supply = Supply(partition, self, source, buffer)
        # Where to begin, until the broker has said which offset that is.
        self.start: Start | None = start
        # The next offset to hand out, and the next to ask for.
        self.position = -1
        self.fetch_offset = -1
        # By the user, and by who gives and takes partitions: neither ends what the other began.
        self.is_stopped = False
        self.is_held = False
        # What the reader has to be told before this partition goes on.
        self.failure: PenstockError | None = None
        self._buffer = buffer
        self._config = config
        self._filter = config.wanted()
        self._on_failure = on_failure
        self._clock = asyncio.get_running_loop().time
        self._asked_at_s = 0.0

    def __str__(self) -> str:
        return str(self.partition)

    def move(self, position: int) -> None:
        """Go on elsewhere; everything fetched so far is dropped."""
        self.supply.begin_anew()
        self.failure = None
        self.start = None
        self.position = self.fetch_offset = position

    # --- supply.Feed ---------------------------------------------------------------------------

    @property
    def is_wanted(self) -> bool:
        return not self.is_stopped and not self.is_held and self.failure is None

    @property
    def needs_position(self) -> bool:
        return self.start is not None

    async def find_position(self) -> None:
        assert self.start is not None
        generation = self.supply.generation
        position = await find_offset(self.supply.source.routes, self.partition, self.start)
        if self.supply.generation == generation:  # else somebody has moved it meanwhile
            self.start = None
            self.fetch_offset = position
            if self.position < 0:
                self.position = position

    def fail(self, error: PenstockError) -> None:
        self.failure = error
        self._on_failure(self)

    def on_error(self, error: PenstockError) -> None:
        """Decide how the partition goes on: again, elsewhere, or by the reader."""
        if isinstance(error, OffsetOutOfRange) and self._config.on_out_of_range != "error":
            logger.warning("%s goes on at %s: %s", self, self._config.on_out_of_range, error)
            # What was fetched before this is still good; it is where it ended that is gone.
            self.start = self._config.on_out_of_range
        elif not error.retriable and not isinstance(error, UnknownTopic):
            self.fail(error)
            return
        elif self.supply.failures == 0:
            logger.warning("%s cannot be read now and is tried again: %s", self, error)
        self.supply.try_again()

    def question(self) -> Question:
        request = pb.FetchRequest(
            topic=self.partition.topic,
            partition=self.partition.partition,
            offset=self.fetch_offset,
            max_bytes=min(max(self._buffer.share, FETCH_BYTES_MIN), FETCH_BYTES_MAX),
            min_bytes=1,
            max_wait_ms=self._config.max_wait_ms,
            filter=self._filter,
        )
        self._asked_at_s = self._clock()
        # A broker may hold it for so long before the answer is late.
        timeout_s = self._config.max_wait_ms / 1000 + self.supply.source.timeout_s
        return Question(FETCH.number, request.SerializeToString(), timeout_s)

    def on_answer(self, envelope: memoryview, payload: memoryview) -> bool:
        answer = parse(pb.FetchResponse, envelope)
        is_further = self._take_in(
            payload, None, has_gaps=answer.compacted, next_offset=answer.next_offset
        )
        # Less, and asking again at once would be a busy loop.
        waited_s = self._clock() - self._asked_at_s
        return is_further or waited_s >= self._config.max_wait_ms / 2000

    def opening(self) -> pb.OpenPushRequest:
        return pb.OpenPushRequest(
            topic=self.partition.topic,
            partition=self.partition.partition,
            offset=self.fetch_offset,
            credit_messages=self._config.push_messages,
            credit_bytes=min(max(self._buffer.share, FETCH_BYTES_MIN), CREDIT_BYTES_MAX),
            filter=self._filter,
        )

    def on_delivery(self, request: pb.DeliverRequest, payload: memoryview, credit: Credit) -> None:
        # Not when it was opened: one that ends at once, again and again, needs its waits.
        self.supply.failures = 0
        next_offset = request.next_offset
        if payload or self._filter is not None:
            self._take_in(payload, credit, has_gaps=request.has_gaps, next_offset=next_offset)
        self.fetch_offset = max(self.fetch_offset, next_offset)

    def on_withdrawn(self, stream: Stream, deliveries: Collection[int]) -> None:
        """Nobody else reads the partition: what came is still this reader's."""

    def on_stream_end(self, stream: Stream, error: PenstockError) -> None:
        """What has come by it is good all the same."""

    def on_parked(self, error: PenstockError) -> None:
        self.fail(error)

    def _take_in(
        self,
        payload: memoryview,
        credit: Credit | None,
        *,
        has_gaps: bool,
        next_offset: int,
    ) -> bool:
        """Keep what came. True if it leads on. next_offset: where to go on, after a filter. Where
        something of it is damaged, what is before that is kept, and then it is raised."""
        is_filtered = self._filter is not None
        length, end, error = sound_part(
            payload, self.fetch_offset, str(self), compacted=has_gaps or is_filtered
        )
        if not is_filtered or error is not None:
            next_offset = end
        elif next_offset < end:
            raise UnsupportedVersion(
                f"{self} is not filtered by its broker, which has sent messages up to offset "
                f"{end} and looked at those before {next_offset}: upgrade it."
            )
        is_further = next_offset > self.fetch_offset
        if is_further:
            start_offset, self.fetch_offset = self.fetch_offset, next_offset
            chunk = Chunk(
                self, self.supply.generation, payload[:length], start_offset, next_offset, credit
            )
            self._buffer.add((chunk,))
        if error is not None:
            raise error
        return is_further


async def find_offset(routes: Routes, partition: TopicPartition, start: Start) -> int:
    """The offset that a start means for a partition now."""
    request = find_request(*partition, start)
    if request is None:
        assert isinstance(start, int)
        return start
    return (await routes.call_leader(partition, FIND_OFFSET, request)).offset
