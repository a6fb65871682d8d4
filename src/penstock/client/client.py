"""`connect` and what it gives: the client, which owns the connections and all that uses them.

The invariant: whatever a client made (producers, consumers, tasks, sockets) has ended when its
`async with` has.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack
from datetime import datetime
from typing import Any, Final, Self, TypeVar, Unpack

from penstock.client.admin.administration import Administration
from penstock.client.admin.dead_letters import DeadLetters
from penstock.client.admin.delayed import DelayedMessage
from penstock.client.concurrency.tasks import TaskScope
from penstock.client.config import ClientConfig, ClientSettings
from penstock.client.connection.deliveries import Deliveries
from penstock.client.connection.links import Links
from penstock.client.connection.routes import Routes
from penstock.client.consuming.consumer import Consumer
from penstock.client.consuming.ledger import PlaceLedger
from penstock.client.consuming.range_reader import RangeOptions, RangeReader
from penstock.client.consuming.settings import ConsumerConfig, ConsumerSettings
from penstock.client.producing.accumulator import Headers
from penstock.client.producing.options import MessageOptions
from penstock.client.producing.producer import Producer, ProducerConfig, ProducerSettings
from penstock.client.producing.receipts import Receipt
from penstock.client.producing.staged_write import (
    CommittedWrite,
    StagedAttempt,
    StagedWrite,
    abort_staged,
    commit_request,
    commit_staged,
    committed_epoch,
)
from penstock.client.reading.any_consumer import AnyConsumer
from penstock.client.requests.requests import Requests
from penstock.client.serving.handlers import FromThreads, MessageHandler, check_handler, is_plain
from penstock.client.serving.serving import ServeSettings, serve, split_settings
from penstock.client.sharing.consumer import SharedConsumer
from penstock.client.sharing.ledger import LeaseLedger
from penstock.client.sharing.settings import SharedConsumerConfig, SharedConsumerSettings
from penstock.model.errors import ClientClosed, InvalidConfig, InvalidRequest
from penstock.model.ids import TopicPartition
from penstock.model.limits import NAMES_PER_CALL_MAX
from penstock.net.address import Address, parse_address
from penstock.records import Columns, Message

MemberT = TypeVar("MemberT", bound=Producer | AnyConsumer | StagedWrite)

BOOTSTRAP_DEFAULT: Final = "127.0.0.1:9092"


def connect(
    bootstrap: str | Sequence[str] = BOOTSTRAP_DEFAULT, **settings: Unpack[ClientSettings]
) -> Client:
    """A client of the cluster that these brokers belong to. Use it in an `async with`.

    bootstrap: one or more addresses, in a list or separated by commas; one that answers is enough.
    """
    return Client(parse_bootstrap(bootstrap), ClientConfig(**settings))


class Client(Administration):
    """Publishes, subscribes, administers. Made by `connect`."""

    def __init__(self, bootstrap: Sequence[Address], config: ClientConfig) -> None:
        self._bootstrap = bootstrap
        self._config = config
        # In the order they were made.
        self._members: dict[Producer | AnyConsumer | StagedWrite, None] = {}
        self._publisher: Producer | None = None
        self._connected: _Connected | None = None

    async def __aenter__(self) -> Self:
        if self._connected is not None:
            raise InvalidRequest("The client is connected already: connect() makes another one.")
        connected = _Connected(self._bootstrap, self._config)
        try:
            await connected.links.any_broker()
        except BaseException:
            await connected.close()
            raise
        connected.scope.start(connected.routes.refresh_on_timer(), name="refresh of routes")
        self._connected = connected
        return self

    async def __aexit__(self, *left: Any) -> None:
        connected = self._connection()
        self._connected = self._publisher = None
        # Consumers and producers end in the reverse order of their making, then the connections,
        # whatever goes wrong with one of them. Each as if it had been left by the same error.
        async with AsyncExitStack() as endings:
            endings.push_async_callback(connected.close)
            for member in self._members:
                endings.push_async_callback(member.__aexit__, *left)

    @property
    def dead_letters(self) -> DeadLetters:
        """Messages that nobody could deal with, by group: listed, put back, dropped."""
        connected = self._connection()
        return DeadLetters(connected.routes, connected.scope, lambda: self.producer(linger_ms=0))

    async def publish(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None = None,
        *,
        timestamp_ms: int | None = None,
        delay_s: float | None = None,
        deliver_at: datetime | None = None,
        ordered: bool = False,
        **options: Unpack[MessageOptions],
    ) -> Receipt:
        """Publish one message and wait until it is acknowledged by all in-sync replicas.

        For many messages make a `producer`: it does not wait for each. headers: pairs of a name and
        bytes. partition: there, and not where its key goes. tag: of what sort the message is, for
        filters. ttl_s: so long after it is published, or due, it is not delivered any more.
        priority: 0 to 9, higher ones first in shared groups; 4 unless given. With `delay_s` or
        `deliver_at` the message waits on the broker's disk, and appears when it is due; see
        `Delayed` for what else can be done with such messages, and for `ordered`.
        """
        if delay_s is not None or deliver_at is not None:
            if timestamp_ms is not None:
                raise InvalidRequest("A delayed message has the time at which it is due.")
            waiting = DelayedMessage(value, key, delay_s, deliver_at, **options)
            return (await self.delayed.publish_many(topic, [waiting], ordered=ordered))[0]
        if ordered:
            raise InvalidRequest(
                "`ordered` is for delayed messages: give delay_s or deliver_at as well."
            )
        if self._publisher is None:
            self._publisher = self.producer(linger_ms=0)
        return await self._publisher.publish(
            topic, value, key, timestamp_ms=timestamp_ms, **options
        )

    async def request(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None = None,
        *,
        headers: Headers | None = None,
        partition: int | None = None,
        timeout: float = 5.0,
    ) -> Message:
        """Publish one message and wait for the reply of whoever reads it (`message.reply`).

        timeout: seconds, for all of it; TimedOut if no reply came.
        """
        return await self._connection().requests.request(
            topic,
            headers,
            timeout,
            lambda named: self.publish(topic, value, key, headers=named, partition=partition),
        )

    def producer(self, **settings: Unpack[ProducerSettings]) -> Producer:
        """A producer that gathers messages into batches; use it in an `async with`."""
        connected = self._connection()
        return self._kept(
            Producer(connected.routes, self._config, ProducerConfig(**settings), self._forget)
        )

    def consumer(
        self,
        *topics: str,
        facade: Callable[[PlaceLedger], Any] | None = None,
        **settings: Unpack[ConsumerSettings],
    ) -> Consumer:
        """A consumer of all partitions of the topics, or of those it is assigned later. With a
        group it is a member of it, and reads what the group gives it.

        facade: makes what takes `message.ack()` instead of the ledger that it is given, for code
        outside of the loop.
        """
        if "shared" in settings:
            raise InvalidConfig(
                "shared is not a setting of this consumer, which reads whole partitions: "
                "mq.share('orders', group='workers') shares topics message by message."
            )
        _check_topics(topics)
        connected = self._connection()
        consumer = Consumer(
            connected.routes,
            self._config,
            topics,
            ConsumerConfig(**settings),
            facade=facade,
            on_end=self._forget,
            deliveries=connected.deliveries,
        )
        return self._kept(consumer)

    def subscribe(self, *topics: str, **settings: Unpack[ConsumerSettings]) -> Consumer:
        """Read topics: `async for message in mq.subscribe("orders", group="billing")`."""
        if not topics:
            raise InvalidRequest("There is no topic to subscribe to: name at least one.")
        return self.consumer(*topics, **settings)

    def share(
        self,
        *topics: str,
        facade: Callable[[LeaseLedger], Any] | None = None,
        **settings: Unpack[SharedConsumerSettings],
    ) -> SharedConsumer:
        """Share topics with the others of a group, message by message: more members than there are
        partitions, each message leased to one of them.

            async for message in mq.share("orders", group="workers"):
                await message.ack()  # or .fail(reason), .release(), .reject(reason), .extend()

        facade: makes what messages tell what became of them, instead of the ledger that it is
        given, for code outside of the loop.
        """
        if not topics:
            raise InvalidRequest("There is no topic to share: name at least one.")
        _check_topics(topics)
        connected = self._connection()
        consumer = SharedConsumer(
            connected.routes,
            self._config,
            topics,
            SharedConsumerConfig(**settings),
            facade=facade,
            on_end=self._forget,
            deliveries=connected.deliveries,
        )
        return self._kept(consumer)

    async def serve(
        self, handler: MessageHandler, *topics: str, **settings: Unpack[ServeSettings]
    ) -> None:
        """Call the handler with every message, eight at a time unless `concurrency` says otherwise,
        until this is cancelled, or SIGTERM or SIGINT comes: what is under way is finished then.

            await mq.serve(handle, "orders", group="billing")

        A plain function runs in a thread. A message is acknowledged when its handler has returned.
        One that fails is tried again after growing waits, and goes to the group's dead letters
        after the last of its `attempts`; where all fail, with pauses, and no attempt is counted.
        With `shared=True` members share messages and not partitions, as by `share`: the group
        counts attempts, and leases are extended while a handler works.
        """
        check_handler(handler)
        config, exclusive, shared = split_settings(settings)
        facade = FromThreads if is_plain(handler) else None
        consumer: AnyConsumer
        if shared is not None:
            consumer = self.share(*topics, facade=facade, **shared)
        elif not topics:
            raise InvalidRequest("There is no topic to serve: name at least one.")
        else:
            assert exclusive is not None
            consumer = self.consumer(*topics, facade=facade, **exclusive)
        await serve(consumer, handler, config)

    def read_range(
        self, topic: str, partition: int, start: int, end: int, **options: Unpack[RangeOptions]
    ) -> AsyncIterator[Columns]:
        """Exactly the messages from offset `start` to before `end` that exist, in order, as
        columns: `async for columns in mq.read_range("orders", 0, 0, 1_000_000)`.

        OffsetOutOfRange if some of them are gone, or not there yet. producer_times: see
        `records.decode_columns`.
        """
        return self.range_reader(topic, partition, start, end, **options).columns()

    def range_reader(
        self, topic: str, partition: int, start: int, end: int, **options: Unpack[RangeOptions]
    ) -> RangeReader:
        """What `read_range` reads with, for a facade that decodes in another thread."""
        connected = self._connection()
        place = TopicPartition(topic, partition)
        return RangeReader(connected.routes, connected.scope, place, start, end, **options)

    async def partition_count(self, topic: str, *, create: bool = False) -> int:
        """How many partitions the topic has now. create: let the broker make it if it may."""
        routes = self._connection().routes
        return (await routes.topic(topic, refresh=True, create=create)).partition_count

    def staged_write(self, write: str, epoch: int, attempt: str | None = None) -> StagedWrite:
        """A part of a write whose messages appear all at once, and exactly once, when
        `commit_staged` names it. Use it in an `async with`.

        write: the name under which epochs follow one another. attempt: unique to one try of one
        task; a fresh one unless given.
        """
        staged = StagedWrite(
            self._connection().routes,
            self._config,
            write=write,
            epoch=epoch,
            attempt=attempt,
            on_end=self._forget,
        )
        return self._kept(staged)

    async def commit_staged(
        self, write: str, epoch: int, attempts: Sequence[StagedAttempt], *, last: bool = False
    ) -> CommittedWrite:
        """Let what these attempts staged appear, in this order; returns when it is readable. An
        epoch is committed once: what a second commit of it names does not count.

        last: the name of the write is not used again, so the broker may forget it after a day.
        """
        routes = self._connection().routes
        request = commit_request(write, epoch, attempts, last=last)
        return await commit_staged(routes, self._config, request)

    async def abort_staged(self, write: str, epoch: int, attempts: Sequence[StagedAttempt]) -> None:
        """Drop what these attempts staged, unless it was committed."""
        names = [attempt.attempt for attempt in attempts]
        await abort_staged(self._connection().routes, write, epoch, names)

    async def committed_epoch(self, write: str) -> int | None:
        """The last epoch committed under this name; None if there is none."""
        return await committed_epoch(self._connection().routes, write)

    def _routes(self) -> Routes:
        return self._connection().routes

    def _connection(self) -> _Connected:
        if self._connected is None:
            raise ClientClosed("The client is not connected: use it inside its `async with`.")
        return self._connected

    def _kept(self, member: MemberT) -> MemberT:
        self._members[member] = None
        return member

    def _forget(self, member: Producer | AnyConsumer | StagedWrite) -> None:
        self._members.pop(member, None)


class _Connected:
    """What exists only between the beginning and the end of the `async with`."""

    def __init__(self, bootstrap: Sequence[Address], config: ClientConfig) -> None:
        self.links = Links(bootstrap, config)
        self.deliveries = Deliveries(self.links)
        self.routes = Routes(self.links, config)
        self.requests = Requests(self.links)
        self.scope = TaskScope()

    async def close(self) -> None:
        await self.scope.close()
        self.deliveries.end()
        await self.routes.close()
        await self.links.close()


def _check_topics(topics: Sequence[str]) -> None:
    """The broker refuses too many, but only when those that were missing have been made."""
    for topic in topics:
        if not isinstance(topic, str):
            raise InvalidRequest(f"{topic!r} is no name of a topic: give names, one by one.")
    if len(topics) > NAMES_PER_CALL_MAX:
        raise InvalidRequest(
            f"{len(topics)} topics are subscribed to: one consumer can have {NAMES_PER_CALL_MAX}."
        )


def parse_bootstrap(bootstrap: str | Sequence[str]) -> list[Address]:
    """The addresses, or InvalidConfig that says what is wrong with them."""
    texts = bootstrap.split(",") if isinstance(bootstrap, str) else bootstrap
    addresses = [parse_address(text) for text in texts if text.strip()]
    if not addresses:
        raise InvalidConfig(f"No broker is named in {bootstrap!r}: give one, as 127.0.0.1:9092.")
    return addresses
