"""The client for code without an event loop: the same verbs, each waiting for its result.

A facade: everything happens in the asyncio client, on a loop in one background thread. Verbs that
are the same stand here by their names (`facade`); those that differ are written out. The invariant:
the thread and all that ran in it have ended when the `with` has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any, Self, Unpack

from penstock.client.blocking.admin import (
    BlockingAdmin,
    BlockingClientAdmin,
    BlockingClusterAdmin,
    BlockingDeadLetters,
    BlockingDelayed,
    BlockingGroupAdmin,
    BlockingSchedules,
)
from penstock.client.blocking.consuming import (
    BlockingConsumer,
    BlockingLeaseLedger,
    BlockingPlaceLedger,
    BlockingSharedConsumer,
)
from penstock.client.blocking.facade import Facade, waits
from penstock.client.blocking.producing import BlockingProducer, BlockingStagedWrite
from penstock.client.blocking.serving import serve_in_threads
from penstock.client.client import BOOTSTRAP_DEFAULT, Client, connect
from penstock.client.concurrency.loop_thread import LoopThread
from penstock.client.config import ClientSettings
from penstock.client.consuming.range_reader import RangeOptions
from penstock.client.consuming.settings import ConsumerSettings
from penstock.client.producing.producer import ProducerSettings
from penstock.client.serving.handlers import check_handler
from penstock.client.serving.serving import ServeSettings, split_settings
from penstock.client.sharing.settings import SharedConsumerSettings
from penstock.model.errors import ClientClosed, InvalidRequest
from penstock.records import Columns, Message


def connect_blocking(
    bootstrap: str | Sequence[str] = BOOTSTRAP_DEFAULT, **settings: Unpack[ClientSettings]
) -> BlockingClient:
    """Like `connect`, for code without an event loop. Use it in a `with`."""
    return BlockingClient(connect(bootstrap, **settings))


class BlockingClient(Facade[Client]):
    """Publishes, subscribes, administers. Made by `connect_blocking`."""

    def __init__(self, client: Client) -> None:
        super().__init__(LoopThread(), client)
        self._endings = ExitStack()
        self._is_open = False

    def __enter__(self) -> Self:
        with ExitStack() as endings:
            endings.enter_context(self._thread)
            self._thread.run(self._asked.__aenter__())
            self._endings = endings.pop_all()
        self._is_open = True
        return self

    def __exit__(self, *left: Any) -> None:
        self._is_open = False
        with self._endings:
            self._thread.run(self._asked.__aexit__(*left))

    # --- what can be looked at and changed -----------------------------------------------------

    @property
    def admin(self) -> BlockingAdmin:
        """Topics and groups: create, describe, alter, list."""
        return BlockingAdmin(self._open_thread(), self._asked.admin)

    @property
    def groups(self) -> BlockingGroupAdmin:
        """Groups of consumers: described with their lag, moved, deleted."""
        return BlockingGroupAdmin(self._open_thread(), self._asked.groups)

    @property
    def clients(self) -> BlockingClientAdmin:
        """Who is connected: listed, and what is pushed to them parked and resumed."""
        return BlockingClientAdmin(self._open_thread(), self._asked.clients)

    @property
    def cluster(self) -> BlockingClusterAdmin:
        """Brokers, and where copies of partitions are: described, moved, spread."""
        return BlockingClusterAdmin(self._open_thread(), self._asked.cluster)

    @property
    def delayed(self) -> BlockingDelayed:
        """Messages that wait until they are due: many at once, cancelled, described."""
        return BlockingDelayed(self._open_thread(), self._asked.delayed)

    @property
    def dead_letters(self) -> BlockingDeadLetters:
        """Messages that nobody could deal with: listed, put back, dropped."""
        return BlockingDeadLetters(self._open_thread(), self._asked.dead_letters)

    @property
    def schedules(self) -> BlockingSchedules:
        """Messages that are published again and again, at the times of a cron expression."""
        return BlockingSchedules(self._open_thread(), self._asked.schedules)

    # --- verbs ---------------------------------------------------------------------------------

    publish = waits(Client.publish)
    request = waits(Client.request)
    partition_count = waits(Client.partition_count)
    commit_staged = waits(Client.commit_staged)
    abort_staged = waits(Client.abort_staged)
    committed_epoch = waits(Client.committed_epoch)

    def producer(self, **settings: Unpack[ProducerSettings]) -> BlockingProducer:
        """A producer that gathers messages into batches; use it in a `with`."""
        thread = self._open_thread()
        return BlockingProducer(thread, thread.call(lambda: self._asked.producer(**settings)))

    def consumer(self, *topics: str, **settings: Unpack[ConsumerSettings]) -> BlockingConsumer:
        """A consumer of all partitions of the topics, or of those it is assigned later, as
        `Client.consumer` makes them; callbacks run in the client's own thread."""
        thread = self._open_thread()
        facade = partial(BlockingPlaceLedger, thread)
        consumer = thread.call(lambda: self._asked.consumer(*topics, facade=facade, **settings))
        return BlockingConsumer(thread, consumer)

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
        thread = self._open_thread()
        facade = partial(BlockingLeaseLedger, thread)
        consumer = thread.call(lambda: self._asked.share(*topics, facade=facade, **settings))
        return BlockingSharedConsumer(thread, consumer)

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
        consumer: BlockingConsumer | BlockingSharedConsumer
        if shared is not None:
            consumer = self.share(*topics, **shared)
        else:
            assert exclusive is not None
            consumer = self.subscribe(*topics, **exclusive)
        serve_in_threads(thread, consumer.asked, handler, config)

    def read_range(
        self, topic: str, partition: int, start: int, end: int, **options: Unpack[RangeOptions]
    ) -> Iterator[Columns]:
        """See `Client.read_range`. Messages are decoded in the caller's thread, while the next are
        being fetched."""
        thread = self._open_thread()
        reader = thread.call(
            lambda: self._asked.range_reader(topic, partition, start, end, **options)
        )
        return reader.blocking_columns(thread)

    def staged_write(
        self, write: str, epoch: int, attempt: str | None = None
    ) -> BlockingStagedWrite:
        """A part of a write that appears all at once, and exactly once, when `commit_staged`
        names it. Use it in a `with`."""
        thread = self._open_thread()
        staged = thread.call(lambda: self._asked.staged_write(write, epoch, attempt))
        return BlockingStagedWrite(thread, staged)

    def _open_thread(self) -> LoopThread:
        if not self._is_open:
            raise ClientClosed("The client is not connected: use it inside its `with`.")
        return self._thread
