"""The client for code without an event loop: the same verbs, each waiting for its result.

A facade: everything happens in the asyncio client, on a loop in one background thread. The
invariant: a message costs the caller no change of thread. A producer appends to the open batch
under a lock and changes threads once per batch; a consumer once per fetched list.
"""

from __future__ import annotations

from collections.abc import (
    Awaitable,
    Callable,
    Collection,
    Coroutine,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import ExitStack
from datetime import datetime
from time import time_ns
from types import TracebackType
from typing import Any, Self, Unpack

from penstock.client.blocking.admin import (
    BlockingAdmin,
    BlockingClientAdmin,
    BlockingClusterAdmin,
)
from penstock.client.blocking.dead_letters import BlockingDeadLetters
from penstock.client.blocking.delayed import BlockingDelayed, BlockingSchedules
from penstock.client.blocking.groups import BlockingGroupAdmin
from penstock.client.blocking.shared import BlockingSharedConsumer, serve_in_threads
from penstock.client.blocking.staged_write import BlockingStagedWrite
from penstock.client.client import BOOTSTRAP_DEFAULT, Client, connect
from penstock.client.concurrency.loop_thread import LoopThread
from penstock.client.config import ClientSettings
from penstock.client.consuming.consumer import ConsumerSettings
from penstock.client.consuming.ledger import NotLeased
from penstock.client.consuming.reader import PartitionColumns
from penstock.client.consuming.starts import Start
from penstock.client.producing.accumulator import Headers, Outgoing
from penstock.client.producing.producer import Producer, ProducerSettings, explained
from penstock.client.producing.queue_headers import with_queue_headers
from penstock.client.producing.receipts import Receipt
from penstock.client.producing.staged_write import CommittedWrite, StagedAttempt
from penstock.client.serving.handlers import check_handler
from penstock.client.serving.serving import ServeSettings, split_settings
from penstock.client.sharing.settings import SharedConsumerSettings
from penstock.model.errors import ClientClosed, InvalidRequest
from penstock.model.ids import TopicPartition
from penstock.records import Columns, EncodedBatch, Message


def connect_blocking(
    bootstrap: str | Sequence[str] = BOOTSTRAP_DEFAULT, **settings: Unpack[ClientSettings]
) -> BlockingClient:
    """Like `connect`, for code without an event loop. Use it in a `with`."""
    return BlockingClient(connect(bootstrap, **settings))


class BlockingClient:
    """Publishes, subscribes, administers. Made by `connect_blocking`."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._thread = LoopThread()
        self._endings = ExitStack()
        self._is_open = False

    def __enter__(self) -> Self:
        with ExitStack() as endings:
            endings.enter_context(self._thread)
            self._thread.run(self._client.__aenter__())
            self._endings = endings.pop_all()
        self._is_open = True
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._is_open = False
        with self._endings:
            self._thread.run(self._client.__aexit__(kind, error, traceback))

    @property
    def admin(self) -> BlockingAdmin:
        """Topics and groups: create, describe, alter, list."""
        return BlockingAdmin(self._open_thread(), self._client)

    @property
    def groups(self) -> BlockingGroupAdmin:
        """Groups of consumers: described with their lag, moved, deleted."""
        return BlockingGroupAdmin(self._open_thread(), self._client)

    @property
    def clients(self) -> BlockingClientAdmin:
        """Who is connected: listed, and what is pushed to them parked and resumed."""
        return BlockingClientAdmin(self._open_thread(), self._client)

    @property
    def cluster(self) -> BlockingClusterAdmin:
        """Brokers, and where copies of partitions are: described, moved, spread."""
        return BlockingClusterAdmin(self._open_thread(), self._client)

    def publish(
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
        delay_s: float | None = None,
        deliver_at: datetime | None = None,
        ordered: bool = False,
    ) -> Receipt:
        """Publish one message and wait until it is acknowledged by all in-sync replicas."""
        thread = self._open_thread()
        publishing = self._client.publish(
            topic,
            value,
            key,
            headers=headers,
            partition=partition,
            timestamp_ms=timestamp_ms,
            tag=tag,
            ttl_s=ttl_s,
            priority=priority,
            delay_s=delay_s,
            deliver_at=deliver_at,
            ordered=ordered,
        )
        return thread.run(publishing)

    @property
    def delayed(self) -> BlockingDelayed:
        """Messages that wait until they are due: many at once, cancelled, described."""
        return BlockingDelayed(self._open_thread(), self._client)

    @property
    def dead_letters(self) -> BlockingDeadLetters:
        """Messages that nobody could deal with: listed, put back, dropped."""
        return BlockingDeadLetters(self._open_thread(), self._client)

    @property
    def schedules(self) -> BlockingSchedules:
        """Messages that are published again and again, at the times of a cron expression."""
        return BlockingSchedules(self._open_thread(), self._client)

    def request(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None = None,
        *,
        headers: Headers | None = None,
        partition: int | None = None,
        timeout: float = 5.0,
    ) -> Message:
        """Publish one message and wait for the reply of whoever reads it."""
        thread = self._open_thread()
        asking = self._client.request(
            topic, value, key, headers=headers, partition=partition, timeout=timeout
        )
        return thread.run(asking)

    def producer(self, **settings: Unpack[ProducerSettings]) -> BlockingProducer:
        """A producer that gathers messages into batches; use it in a `with`. Its settings are
        those of `Client.producer`."""
        thread = self._open_thread()
        return BlockingProducer(thread, thread.call(lambda: self._client.producer(**settings)))

    def consumer(self, *topics: str, **settings: Unpack[ConsumerSettings]) -> BlockingConsumer:
        """A consumer of all partitions of the topics, or of those it is assigned later, as
        `Client.consumer` makes them; callbacks run in the client's own thread."""
        return BlockingConsumer(self._open_thread(), self._client, topics, settings)

    def subscribe(self, *topics: str, **settings: Unpack[ConsumerSettings]) -> BlockingConsumer:
        """Read topics: `for message in mq.subscribe("orders", group="billing")`."""
        if not topics:
            raise InvalidRequest("There is no topic to subscribe to: name at least one.")
        return self.consumer(*topics, **settings)

    def share(
        self, *topics: str, **settings: Unpack[SharedConsumerSettings]
    ) -> BlockingSharedConsumer:
        """Share topics with the others of a group, message by message. See `Client.share`."""
        if not topics:
            raise InvalidRequest("There is no topic to share: name at least one.")
        return BlockingSharedConsumer(self._open_thread(), self._client, topics, settings)

    def serve(
        self,
        handler: Callable[[Message], object],
        *topics: str,
        **settings: Unpack[ServeSettings],
    ) -> None:
        """Call the handler with every message, in threads: eight at a time unless `concurrency`
        says otherwise. Returns at SIGTERM; an interrupt ends it too. See `Client.serve`."""
        check_handler(handler)
        thread = self._open_thread()
        config, exclusive, shared = split_settings(settings)
        if shared is not None:
            sharing = self.share(*topics, **shared)
            serve_in_threads(thread, sharing.consumer, handler, config)
        else:
            assert exclusive is not None
            consuming = self.subscribe(*topics, **exclusive)
            serve_in_threads(thread, consuming.consumer, handler, config)

    def read_range(
        self,
        topic: str,
        partition: int,
        start: int,
        end: int,
        *,
        include_headers: bool = False,
        producer_times: bool = False,
    ) -> Iterator[Columns]:
        """See `Client.read_range`. Messages are decoded in the caller's thread, while the next are
        being fetched."""
        thread = self._open_thread()
        reader = thread.call(
            lambda: self._client.range_reader(
                topic,
                partition,
                start,
                end,
                include_headers=include_headers,
                producer_times=producer_times,
            )
        )
        return reader.blocking_columns(thread)

    def partition_count(self, topic: str, *, create: bool = False) -> int:
        """How many partitions the topic has now. create: let the broker make it if it may."""
        return self._open_thread().run(self._client.partition_count(topic, create=create))

    def staged_write(
        self, write: str, epoch: int, attempt: str | None = None
    ) -> BlockingStagedWrite:
        """A part of a write that appears all at once, and exactly once, when `commit_staged`
        names it. Use it in a `with`."""
        thread = self._open_thread()
        staged = thread.call(lambda: self._client.staged_write(write, epoch, attempt))
        return BlockingStagedWrite(thread, staged)

    def commit_staged(
        self, write: str, epoch: int, attempts: Sequence[StagedAttempt], *, last: bool = False
    ) -> CommittedWrite:
        """Let what these attempts staged appear; returns when it is readable."""
        thread = self._open_thread()
        return thread.run(self._client.commit_staged(write, epoch, attempts, last=last))

    def abort_staged(self, write: str, epoch: int, attempts: Sequence[StagedAttempt]) -> None:
        """Drop what these attempts staged, unless it was committed."""
        self._open_thread().run(self._client.abort_staged(write, epoch, attempts))

    def committed_epoch(self, write: str) -> int | None:
        """The last epoch committed under this name; None if there is none."""
        return self._open_thread().run(self._client.committed_epoch(write))

    def _open_thread(self) -> LoopThread:
        if not self._is_open:
            raise ClientClosed("The client is not connected: use it inside its `with`.")
        return self._thread


class BlockingProducer:
    """See `Producer`. Several threads may use one."""

    def __init__(self, thread: LoopThread, producer: Producer) -> None:
        self._thread = thread
        self._producer = producer
        self._lock = producer.accumulator.lock
        self._try_append = producer.accumulator.try_append

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._thread.run(self._producer.__aexit__(kind, error, traceback))

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
    ) -> None:
        """Queue a message; waits only while the buffer is full. `flush` tells of its delivery."""
        if tag is not None or ttl_s is not None or priority is not None:
            headers = with_queue_headers(headers, tag, ttl_s, priority)
        if timestamp_ms is None:
            timestamp_ms = time_ns() // 1_000_000
        try:
            with self._lock:
                is_queued = self._try_append(topic, key, value, headers, partition, timestamp_ms)
        except (TypeError, ValueError) as error:
            raise explained(error, key, value, headers) from None
        if not is_queued:
            message = Outgoing(topic, key, value, headers, partition, timestamp_ms)
            self._thread.run(self._producer.enqueue(message))

    def publish(
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
    ) -> Receipt:
        """Send a message and wait until it is acknowledged. Raises the reason if it is not."""
        publishing = self._producer.publish(
            topic,
            value,
            key,
            headers=headers,
            partition=partition,
            timestamp_ms=timestamp_ms,
            tag=tag,
            ttl_s=ttl_s,
            priority=priority,
        )
        return self._thread.run(publishing)

    def send_batches(self, topic: str, batches: Iterable[EncodedBatch]) -> None:
        """Queue finished batches; waits only while the buffer is full. See `Producer`."""
        self._thread.run(self._producer.send_batches(topic, batches))

    def claim(self, *topics: str) -> None:
        """Have the topics for this producer alone, before it sends anything. See `Producer`."""
        self._thread.run(self._producer.claim(*topics))

    def flush(self) -> None:
        """Wait until everything queued is acknowledged; DeliveryFailed for what was not."""
        self._thread.run(self._producer.flush())

    def close(self) -> None:
        """Take no more messages, flush, and end."""
        self._thread.run(self._producer.close())


class BlockingConsumer(NotLeased):
    """See `Consumer`. One thread reads; any may acknowledge."""

    def __init__(
        self,
        thread: LoopThread,
        client: Client,
        topics: Collection[str],
        settings: ConsumerSettings,
    ) -> None:
        self._thread = thread
        self.consumer = thread.call(lambda: client.consumer(*topics, source=self, **settings))

    def __enter__(self) -> Self:
        self._thread.run(self.consumer.start())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Commit what was acknowledged and stop reading."""
        self._thread.run(self.consumer.close())

    def __iter__(self) -> Iterator[Message]:
        """Every message, one by one, for ever."""
        while True:
            yield from self._thread.run(self.consumer.next_hand())

    def batches(self) -> Iterator[list[Message]]:
        """Messages in lists, each of one partition, as they were fetched: the fastest way."""
        while True:
            yield self.fetch()

    def fetch(
        self, max_messages: int | None = None, timeout_s: float | None = None
    ) -> list[Message]:
        """The next messages, of one partition: at least one, unless the time is over first."""
        return self._thread.run(self.consumer.fetch(max_messages, timeout_s))

    def fetch_columns(
        self, timeout_s: float | None = None, *, include_headers: bool = False
    ) -> list[PartitionColumns]:
        """Everything fetched so far, decoded straight into columns; waits for the first of it."""
        fetching = self.consumer.fetch_columns(timeout_s, include_headers=include_headers)
        return self._thread.run(fetching)

    @property
    def partitions(self) -> list[TopicPartition]:
        """What is being read."""
        return self._thread.call(lambda: self.consumer.partitions)

    def assign(self, partitions: Iterable[tuple[str, int]]) -> None:
        """Read these partitions from now on, instead of those of the topics given at first."""
        self._thread.run(self.consumer.assign(partitions))

    def position(self, partition: tuple[str, int]) -> int:
        """The offset of the next message to be handed out."""
        return self._thread.call(lambda: self.consumer.position(partition))

    def seek(self, partition: tuple[str, int], to: Start) -> None:
        """Go on elsewhere: at an offset, "earliest", "latest", or a moment."""
        self._thread.run(self.consumer.seek(partition, to))

    def seek_to_time(self, moment: datetime) -> None:
        """Go on in every partition at the first message of this moment or later."""
        self._thread.run(self.consumer.seek_to_time(moment))

    def pause(self, *partitions: tuple[str, int]) -> None:
        """Hand out nothing of these partitions (none given: of all) until `resume`."""
        self._thread.call(lambda: self.consumer.pause(*partitions))

    def resume(self, *partitions: tuple[str, int]) -> None:
        """Go on in these partitions (none given: in all) where they were paused."""
        self._thread.call(lambda: self.consumer.resume(*partitions))

    def acknowledge(self, message: Message) -> Awaitable[None] | None:
        """What `message.ack()` calls: the message is dealt with. Returns at once."""
        if self._thread.is_current:  # `serve` does it there
            return self.consumer.acknowledge(message)
        committer = self.consumer.committer
        committer.raise_failure()
        if committer.post(message):
            self._thread.post(committer.wake)
        return None

    def attempt(self, message: Message) -> int:
        """What `message.attempt` asks for."""
        return self.consumer.attempt(message)

    def fail(self, message: Message, reason: str = "") -> Awaitable[None] | None:
        """What `message.fail()` calls: count an attempt. Returns at once."""
        counted = self.consumer.fail(message, reason)
        return counted if self._thread.is_current else None

    def reject(self, message: Message, reason: str = "") -> Coroutine[Any, Any, None] | None:
        """What `message.reject()` calls: to the dead letters, and acknowledged."""
        return self._thread.run_from_anywhere(self.consumer.reject(message, reason))

    @property
    def expired_count(self) -> int:
        """Messages whose time to live was over before they could be handed out."""
        return self.consumer.expired_count

    def reply(
        self, message: Message, value: bytes | None, headers: Headers = ()
    ) -> Coroutine[Any, Any, None] | None:
        """What `message.reply()` calls: answer the request that the message is."""
        return self._thread.run_from_anywhere(self.consumer.reply(message, value, headers))

    def commit(self, offsets: Mapping[tuple[str, int], int] | None = None) -> None:
        """Set the group's place: after everything handed out so far, or at the offsets given."""
        self._thread.run(self.consumer.commit(offsets))

    def committed(self, partition: tuple[str, int]) -> int | None:
        """The group's place in a partition, as the broker has it; None if it has none."""
        return self._thread.run(self.consumer.committed(partition))
