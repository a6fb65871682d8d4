"""Has batches pushed ahead of the reader: one stream per partition, with credit for each.

Beside `fetcher`, which asks for them: what the reader takes, how a partition is found again after
an error, and where it goes on, are the same. The invariants: what a partition hands out is what a
`Fetcher` hands out; a broker has credit for no more than what the reader has taken leaves free, so
what was pushed and not taken is bounded as with a `Fetcher`, and by messages too.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Collection
from functools import partial
from typing import Final

from penstock.client.concurrency.backoff import Backoff
from penstock.client.connection.deliveries import Pushes, PushStream
from penstock.client.connection.parks import forget_park
from penstock.client.connection.routes import Routes
from penstock.client.consuming.fetcher import FETCH_BYTES_MIN, Chunk, Feed, Fetcher, FetcherConfig
from penstock.model.errors import ConnectionLost, Parked, PenstockError, UnknownStream
from penstock.model.limits import MIB
from penstock.protocol import penstock_pb2 as pb

logger = logging.getLogger(__name__)

# Of one partition: deliveries enough to hide a round trip's time. With less the broker is called
# for credit all the time, and with more they only wait here, out of the processor's caches.
CREDIT_BYTES_MAX: Final = 8 * MIB


class PushFetcher(Fetcher):
    """The feeds of a consumer that is pushed to."""

    def __init__(
        self,
        routes: Routes,
        backoff: Backoff,
        config: FetcherConfig,
        timeout_s: float,
        pushes: Pushes,
        *,
        group: str = "",
        credit_messages: int,
        resumes_itself: bool = True,
    ) -> None:
        """resumes_itself: go on after a park as soon as this side is alive, unless an operator has
        parked it; else the reader is told, and asks for it by `resume`."""
        super().__init__(routes, backoff, config, timeout_s)
        self._pushes = pushes
        self._group = group
        self._credit_messages = credit_messages
        self._resumes_itself = resumes_itself
        self._timeout_s = timeout_s
        self.member_id = ""
        """Whom the group knows this reader as, if it is a member."""
        self._streams: dict[Feed, _FeedStream] = {}
        # Brokers that are told that the reader has resumed what an operator had parked.
        self._telling: asyncio.Task[None] | None = None

    def take(self) -> Chunk | None:
        chunk = super().take()
        if chunk is not None and (stream := self._streams.get(chunk.feed)) is not None:
            stream.taken(chunk)
        return chunk

    def resume(self, feed: Feed) -> None:
        super().resume(feed)
        stream = self._streams.get(feed)
        if stream is not None and stream.is_parked:
            if isinstance(feed.failure, Parked):
                feed.failure = None  # whoever resumes it knows
            stream.resume(is_automatic=False)
            if stream.is_parked_by_operator and (self._telling is None or self._telling.done()):
                told = forget_park(self._routes, self._pushes.client_name, self._group)
                self._telling = self._scope.start(told, name=f"resume of {feed}")

    async def close(self) -> None:
        for stream in self._streams.values():
            self._pushes.close(stream.stream)
        self._streams.clear()
        await super().close()

    def _drop_stale(self) -> None:
        """The reader has moved a partition: what is pushed of it is of no use any more."""
        for feed, stream in list(self._streams.items()):
            if stream.generation != feed.generation:
                del self._streams[feed]
                self._pushes.close(stream.stream)
        super()._drop_stale()

    def _ask(self, feed: Feed) -> None:
        """Open a stream for a partition, unless there is one, or a reason not to."""
        if (
            feed.is_asking
            or feed.is_paused
            or feed.is_recovering
            or feed.failure is not None
            or self._closed
        ):
            return
        channel = feed.channel
        if channel is None or channel.connection.is_closed or feed.start is not None:
            self._recover(feed)
            return
        share_bytes = self._config.buffer_bytes // len(self.feeds)
        share_bytes = min(max(share_bytes, FETCH_BYTES_MIN), CREDIT_BYTES_MAX)
        stream = _FeedStream(self, feed, self._credit_messages, share_bytes)
        stream.stream = self._pushes.open(channel, stream)
        feed.is_asking = True
        self._streams[feed] = stream
        request = pb.OpenPushRequest(
            stream=stream.stream.number,
            group=self._group,
            member_id=self.member_id,
            topic=feed.topic,
            partition=feed.partition,
            offset=feed.fetch_offset,
            credit_messages=stream.credit_messages,
            credit_bytes=stream.credit_bytes,
            filter=self._config.filter,
        )
        channel.start_call(
            pb.CALL_OPEN_PUSH,
            request.SerializeToString(),
            (),
            partial(self._opened, stream),
            self._timeout_s,
        )

    def _opened(
        self,
        stream: _FeedStream,
        error: PenstockError | None,
        envelope: memoryview,
        payload: memoryview,
    ) -> None:
        del envelope, payload
        if error is not None:
            self.reopen(stream, error)

    # --- what streams tell ---------------------------------------------------------------------

    def delivered(
        self, stream: _FeedStream, request: pb.DeliverRequest, payload: memoryview
    ) -> None:
        feed = stream.feed
        feed.high_watermark = request.high_watermark
        # Not when it was opened: one that ends at once, again and again, needs its waits.
        feed.failures = 0
        is_filtered = self._config.filter is not None
        try:
            if payload or is_filtered:
                self._take_in(
                    feed,
                    payload,
                    has_gaps=request.has_gaps,
                    next_offset=request.next_offset if is_filtered else None,
                )
                stream.charges.append((request.messages, len(payload)))
            feed.fetch_offset = max(feed.fetch_offset, request.next_offset)
        except PenstockError as error:
            self.reopen(stream, error)

    def parked(self, stream: _FeedStream, error: PenstockError, *, by_operator: bool) -> None:
        stream.is_parked = True
        stream.is_parked_by_operator = by_operator
        feed = stream.feed
        if by_operator:
            logger.warning("What is pushed of %s waits for a resume: %s", feed, error)
        elif self._resumes_itself:
            logger.info("%s is resumed: %s", feed, error)
            stream.resume(is_automatic=True)
        else:
            self._fail(feed, error)

    def reopen(self, stream: _FeedStream, error: PenstockError) -> None:
        """A stream is of no use: close it, and go on with another."""
        self._pushes.close(stream.stream)
        self.ended(stream, error)

    def ended(self, stream: _FeedStream, error: PenstockError) -> None:
        """A stream is closed: go on with another, if it was the partition's last one."""
        feed = stream.feed
        if self._streams.get(feed) is not stream:
            return
        del self._streams[feed]
        if stream.generation == feed.generation and not self._closed:
            feed.is_asking = False
            self._judge(feed, error)


class _FeedStream:
    """The stream of one feed, and the credit that is to be given back."""

    __slots__ = (
        "_fetcher",
        "_owed_bytes",
        "_owed_messages",
        "charges",
        "credit_bytes",
        "credit_messages",
        "feed",
        "generation",
        "is_parked",
        "is_parked_by_operator",
        "stream",
    )

    stream: PushStream

    def __init__(
        self, fetcher: PushFetcher, feed: Feed, credit_messages: int, credit_bytes: int
    ) -> None:
        self.feed = feed
        self.generation = feed.generation
        self.credit_messages = credit_messages
        self.credit_bytes = credit_bytes
        self.is_parked = False
        self.is_parked_by_operator = False
        # Messages and bytes of each chunk that the reader has not taken.
        self.charges: deque[tuple[int, int]] = deque()
        self._fetcher = fetcher
        # Taken by the reader, and not given back.
        self._owed_messages = 0
        self._owed_bytes = 0

    def taken(self, chunk: Chunk) -> None:
        """Give its credit back, with that of others: half of the credit is always the broker's."""
        if chunk.generation != self.generation or not self.charges:
            return
        messages, size_bytes = self.charges.popleft()
        self._owed_messages += messages
        self._owed_bytes += size_bytes
        if (
            self._owed_messages < self.credit_messages / 2
            and self._owed_bytes < self.credit_bytes / 2
        ) or self.stream.channel.connection.is_closed:
            return
        request = pb.GiveCreditRequest(
            stream=self.stream.number, messages=self._owed_messages, bytes=self._owed_bytes
        )
        self._owed_messages = self._owed_bytes = 0
        self.stream.channel.tell(pb.CALL_GIVE_CREDIT, request.SerializeToString())

    def resume(self, *, is_automatic: bool) -> None:
        """is_automatic: by the library itself, and not because somebody asked for it."""
        if self.stream.channel.connection.is_closed:
            return  # another is opened
        request = pb.ResumePushRequest(stream=self.stream.number, is_automatic=is_automatic)
        self.stream.channel.start_call(
            pb.CALL_RESUME_PUSH, request.SerializeToString(), (), self._resumed
        )

    def _resumed(
        self, error: PenstockError | None, envelope: memoryview, payload: memoryview
    ) -> None:
        del envelope, payload
        if error is None:
            self.is_parked = False
        elif not isinstance(error, ConnectionLost | UnknownStream | Parked):
            # Not known whether it goes on: another stream does.
            self._fetcher.reopen(self, error)

    # --- pushes.Receiver -----------------------------------------------------------------------

    def on_delivery(self, request: pb.DeliverRequest, payload: memoryview) -> None:
        self._fetcher.delivered(self, request, payload)

    def on_parked(
        self, error: PenstockError, *, by_operator: bool, withdrawn: Collection[int]
    ) -> None:
        del withdrawn  # messages of leases are, and these are none
        self._fetcher.parked(self, error, by_operator=by_operator)

    def on_ended(self, error: PenstockError) -> None:
        self._fetcher.ended(self, error)
