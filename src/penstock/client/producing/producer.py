"""Publishes messages in batches: `send` to queue, `publish` for a receipt, `flush` to be sure.

The face of the producing side; `accumulator` gathers, `sender` delivers. The invariant: a message
that `send` accepted is either acknowledged or reported, by the next `flush` or by its future.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from time import time_ns
from types import TracebackType
from typing import Final, Literal, Self, TypedDict, Unpack

from penstock.client.concurrency.turn import TURN
from penstock.client.config import ClientConfig, check_range
from penstock.client.connection.routes import Routes, TopicRoute
from penstock.client.errors import DeliveryFailed
from penstock.client.producing.accumulator import Accumulator, Headers, Outgoing
from penstock.client.producing.exclusivity import Exclusivity
from penstock.client.producing.lanes import Batch
from penstock.client.producing.options import MessageOptions, QueueOptions, with_queue_headers
from penstock.client.producing.receipts import Receipt
from penstock.client.producing.sender import Sender
from penstock.model.errors import InvalidConfig, InvalidRequest, PenstockError
from penstock.model.limits import BATCH_BYTES_MAX, KIB, MIB
from penstock.records import Codec, EncodedBatch

logger = logging.getLogger(__name__)

Acks = Literal["all", 0, 1]
Exclusive = Literal["refuse", "fence"]
Compression = Literal["none", "gzip", "snappy", "lz4", "zstd"]

_ACKS_ON_THE_WIRE: Final[dict[Acks, int]] = {"all": -1, 0: 0, 1: 1}


class ProducerSettings(TypedDict, total=False):
    """The settings of `ProducerConfig`, as keywords of `Client.producer`."""

    acks: Acks
    linger_ms: float
    batch_bytes: int
    buffer_bytes: int
    compression: Compression
    idempotent: bool | None
    delivery_timeout_ms: int
    request_timeout_ms: int
    exclusive: Exclusive | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerConfig:
    """How a producer gathers and delivers."""

    acks: Acks = "all"
    """Who must have a message before it is acknowledged: `"all"` in-sync replicas, the leader
    (1), or nobody (0: then nothing is confirmed, retried or ordered after a failure)."""

    linger_ms: float = 5
    """How long a batch waits for company. 0 sends at once what one turn of the loop brought."""

    batch_bytes: int = 512 * KIB
    """A batch leaves when it has this size. A larger message travels alone."""

    buffer_bytes: int = 64 * MIB
    """What may be queued or unacknowledged; beyond it `send` waits."""

    compression: Compression = "none"
    """How batches are compressed, by the client; brokers and consumers take any."""

    idempotent: bool | None = None
    """A retry makes no duplicate. The default: yes, unless acks is 0, where it cannot be had."""

    delivery_timeout_ms: int = 120_000
    """A message that is not acknowledged this long after it was sent has failed."""

    request_timeout_ms: int = 30_000
    """A batch that is not answered for this long is sent again."""

    exclusive: Exclusive | None = None
    """Have each topic for this producer alone, from its first message on: `"refuse"` fails with
    TopicClaimed while another producer has it and lives, `"fence"` takes it from that one, which
    fails from then on. For topics with `exclusive_producer=yes`."""

    def __post_init__(self) -> None:
        if self.exclusive not in (None, "refuse", "fence"):
            raise InvalidConfig(
                f'exclusive is {self.exclusive!r}: it can be "refuse" or "fence", or None.'
            )
        if self.acks not in _ACKS_ON_THE_WIRE:
            raise InvalidConfig(f'acks is {self.acks!r}: it can be "all", 1 or 0.')
        if self.compression.upper() not in Codec.__members__:
            names = ", ".join(name.lower() for name in Codec.__members__)
            raise InvalidConfig(f"compression is {self.compression!r}: it can be {names}.")
        if self.idempotent and self.acks == 0:
            raise InvalidConfig("idempotent needs acks 1 or all: with acks=0 nothing is retried.")
        check_range("linger_ms", self.linger_ms, 0)
        check_range("batch_bytes", self.batch_bytes, KIB, BATCH_BYTES_MAX)
        if self.buffer_bytes < self.batch_bytes:
            raise InvalidConfig(
                f"buffer_bytes is {self.buffer_bytes}: it must hold a batch of {self.batch_bytes}."
            )
        check_range("delivery_timeout_ms", self.delivery_timeout_ms, 1)
        check_range("request_timeout_ms", self.request_timeout_ms, 1)


class Producer:
    """Made by `Client.producer`; use it in an `async with`, which ends with a flush."""

    def __init__(
        self,
        routes: Routes,
        config: ClientConfig,
        settings: ProducerConfig,
        on_end: Callable[[Producer], None],
    ) -> None:
        self._routes = routes
        self._on_end = on_end
        self._exclusivity: Exclusivity | None = None
        if settings.exclusive is not None:
            is_fencing = settings.exclusive == "fence"
            self._exclusivity = Exclusivity(
                routes, config.client_name, is_fencing=is_fencing, on_lost=self._lose
            )
        idempotent = settings.acks != 0 if settings.idempotent is None else settings.idempotent
        self._sender = Sender(
            routes=routes,
            acks=_ACKS_ON_THE_WIRE[settings.acks],
            idempotent=idempotent,
            request_timeout_s=settings.request_timeout_ms / 1000,
            backoff=config.backoff,
            seal=lambda lane: self._accumulator.seal(lane),
            release=lambda batch: self._accumulator.release(batch),
            claim_of=lambda topic: self._exclusivity.number(topic) if self._exclusivity else 0,
            on_claimed=self._on_claimed,
        )
        self._accumulator = Accumulator(
            batch_bytes=settings.batch_bytes,
            buffer_bytes=settings.buffer_bytes,
            linger_ms=settings.linger_ms,
            delivery_timeout_ms=settings.delivery_timeout_ms,
            codec=Codec[settings.compression.upper()],
            make_lane=self._sender.make_lane,
            on_ready=self._sender.pump,
        )
        self._try_append = self._accumulator.try_append
        # Awaiting an ended future costs nothing and leaves nothing: all sends share this one.
        self._done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._done.set_result(None)
        self._is_ended = False
        routes.listen(self._on_route)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is None:
            await self.close()
        elif isinstance(error, Exception):
            # The caller's own error is the one to report; what was sent before it still goes.
            try:
                await self.close()
            except DeliveryFailed as failed:
                logger.warning("Beside the error that ended the producer: %s", failed)
        else:
            await self.abort()

    @property
    def errors(self) -> Sequence[PenstockError]:
        """With acks=0: the latest errors that came back although no answer was asked for."""
        return tuple(self._sender.reports.unacknowledged)

    async def claim(self, *topics: str) -> None:
        """Have the topics for this producer alone, before it sends anything: when this returns, no
        message of another producer is accepted any more. TopicClaimed names who has one already."""
        if self._exclusivity is None:
            raise InvalidRequest(
                'This producer claims nothing: make it with exclusive="refuse" or "fence".'
            )
        for topic in topics:
            await self._exclusivity.claim(topic)

    def send(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None = None,
        *,
        headers: Headers | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        tag: str | None = None,
        ttl_s: float | None = None,
        priority: int | None = None,
    ) -> Awaitable[None]:
        """Queue a message. Await the result: it waits only while the buffer is full.

        The message is in the queue, in order, when this returns or its awaitable ends; whether it
        was delivered is told by `flush`. A value of None marks the key as deleted. tag: of what
        sort the message is, for filters. ttl_s: after so long it is not delivered any more.
        priority: 0 to 9, for shared groups; 4 unless given.
        """
        # The options (`MessageOptions`) are spelt out: as `**options` they would cost a dictionary
        # for each message.
        if tag is not None or ttl_s is not None or priority is not None:
            headers = with_queue_headers(headers, tag, ttl_s, priority)
        if timestamp_ms is None:
            timestamp_ms = time_ns() // 1_000_000
        try:
            if self._try_append(topic, key, value, headers, partition, timestamp_ms):
                return self._done
            message = Outgoing(topic, key, value, headers, partition, timestamp_ms)
            if self._accumulator.place(message) is not None:
                return TURN
        except (TypeError, ValueError) as error:
            raise explained(error, key, value, headers) from None
        return self.enqueue(message)

    async def submit(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None = None,
        *,
        timestamp_ms: int | None = None,
        headers: Headers | None = None,
        partition: int | None = None,
        **queue: Unpack[QueueOptions],
    ) -> asyncio.Future[Receipt]:
        """Queue a message and get a future for its receipt. Waits only while the buffer is full.

        The options are those of `send`.
        """
        if queue:
            headers = with_queue_headers(headers, **queue)
        if timestamp_ms is None:
            timestamp_ms = time_ns() // 1_000_000
        message = Outgoing(topic, key, value, headers, partition, timestamp_ms)
        try:
            placed = self._accumulator.place(message) or await self._place_later(message)
        except (TypeError, ValueError) as error:
            raise explained(error, key, value, headers) from None
        batch, index = placed
        return batch.receipt(index, timestamp_ms)

    async def publish(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None = None,
        *,
        timestamp_ms: int | None = None,
        **options: Unpack[MessageOptions],
    ) -> Receipt:
        """Send a message and wait until it is acknowledged. Raises the reason if it is not.

        The options are those of `send`.
        """
        future = await self.submit(topic, value, key, timestamp_ms=timestamp_ms, **options)
        return await future

    async def send_batches(self, topic: str, batches: Iterable[EncodedBatch]) -> None:
        """Queue finished batches, as `records.encode_columns` makes them, each behind all messages
        sent to its partition before. Waits only while the buffer is full; `flush` tells of their
        delivery. The batches are given away: they are numbered in place.
        """
        for batch in batches:
            while not self._accumulator.place_batch(topic, batch):
                if self._accumulator.knows(topic):
                    await self._accumulator.place_batch_with_room(topic, batch)
                    break
                await self._learn(topic)

    async def flush(self) -> None:
        """Wait until everything queued so far is acknowledged.

        Raises DeliveryFailed for whatever was not, since the last flush; messages that a receipt
        was asked for are told of by its future.
        """
        with self._sender.reports.flush():
            self._accumulator.make_due()
            unsettled = [
                batch.finished() for lane in self._accumulator.lanes() for batch in lane.batches()
            ]
            if unsettled:
                await asyncio.wait(unsettled)

    async def close(self) -> None:
        """Take no more messages, flush, and end. Raises DeliveryFailed as `flush` does."""
        self._accumulator.close()
        try:
            await self.flush()
        finally:
            await self.abort()

    async def abort(self) -> None:
        """End at once: what is not acknowledged fails with ClientClosed."""
        if self._is_ended:
            return
        self._is_ended = True
        self._routes.unlisten(self._on_route)
        self._accumulator.close()
        await self._sender.close(list(self._accumulator.lanes()))
        if self._exclusivity is not None:
            await self._exclusivity.close()
        self._on_end(self)

    async def enqueue(self, message: Outgoing) -> None:
        """Queue a message, for a facade that appends from another thread: under its lock."""
        try:
            if self._accumulator.place(message) is None:
                await self._place_later(message)
        except (TypeError, ValueError) as error:
            raise explained(error, message.key, message.value, message.headers) from None

    @property
    def accumulator(self) -> Accumulator:
        """Where messages go, for a facade that appends from another thread."""
        return self._accumulator

    async def _place_later(self, message: Outgoing) -> tuple[Batch, int]:
        """Wait for what a message needs, the topic's route or room, and place it."""
        placed = None
        while placed is None:
            if not self._accumulator.knows(message.topic):
                await self._learn(message.topic)
                placed = self._accumulator.place(message)
            else:
                placed = await self._accumulator.place_with_room(message)
        return placed

    async def _learn(self, topic: str) -> None:
        if self._exclusivity is not None:
            # Before the topic is looked for, which may make it.
            await self._exclusivity.claim(topic)
        route = await self._routes.topic(topic, create=self._exclusivity is None)
        self._accumulator.know_topic(route.topic, route.partition_count)

    def _on_claimed(self, error: PenstockError) -> None:
        if self._exclusivity is not None:
            self._lose(error)

    def _lose(self, error: PenstockError) -> None:
        """Another producer has what this one had for itself, which ends it."""
        logger.warning("The producer ends: %s", error)
        self._sender.lose(error)
        self._accumulator.close(error)

    def _on_route(self, route: TopicRoute) -> None:
        if self._accumulator.knows(route.topic):
            self._accumulator.know_topic(route.topic, route.partition_count)


def explained(error: Exception, key: object, value: object, headers: object) -> Exception:
    """The error that says what to do, where a message is made of the wrong things."""
    for name, content in (("key", key), ("value", value)):
        if isinstance(content, str):
            return TypeError(f"The {name} is a str: encode it, as in {name}.encode().")
    if isinstance(headers, dict):
        return TypeError("The headers are a dict: give pairs, as in list(headers.items()).")
    return error
