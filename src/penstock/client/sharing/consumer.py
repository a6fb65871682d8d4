"""Reads topics together with others, message by message: a member of a shared group (R-DEL-3).

Each message is leased to one member, which says what became of it: dealt with, given back, failed,
or never to be dealt with. Order is given up, or kept for each key (R-DEL-11). Membership is
`membership`'s, leases come by `lease_feed` and are `keeper`'s, what is said of them is `ledger`'s.
The invariant: a message is handed out while its lease runs.
"""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from typing import Any

from penstock.client.concurrency.tasks import TaskScope
from penstock.client.config import ClientConfig
from penstock.client.connection.deliveries import Deliveries
from penstock.client.connection.routes import Routes
from penstock.client.reading.any_consumer import AnyConsumer, check_count
from penstock.client.reading.missing_topics import MissingTopics
from penstock.client.reading.pushed import make_source
from penstock.client.sharing.buffer import LeaseBuffer
from penstock.client.sharing.keeper import LeaseKeeper
from penstock.client.sharing.lease_feed import LeaseFeed
from penstock.client.sharing.ledger import LeaseLedger
from penstock.client.sharing.membership import SharedGroupMembership
from penstock.client.sharing.settings import SharedConsumerConfig
from penstock.model.errors import PenstockError
from penstock.model.ids import TopicPartition
from penstock.protocol import penstock_pb2 as pb
from penstock.records import Message


class SharedConsumer(AnyConsumer):
    """Made by `Client.share`; begins when it is entered or first read. Closed, it gives back what
    it holds: what the reader has taken and not settled was an attempt, the rest was none."""

    def __init__(
        self,
        routes: Routes,
        config: ClientConfig,
        topics: Collection[str],
        settings: SharedConsumerConfig,
        *,
        facade: Callable[[LeaseLedger], Any] | None,
        on_end: Callable[[AnyConsumer], None],
        deliveries: Deliveries,
    ) -> None:
        """facade: of the ledger, which messages have instead of it."""
        super().__init__(on_end)
        self._settings = settings
        self._topics = tuple(dict.fromkeys(topics))
        member_id = f"{config.client_name}-{uuid.uuid4()}"
        self._membership = SharedGroupMembership(
            routes,
            config.backoff,
            pb.GroupHeartbeatRequest(
                group=settings.group,
                member_id=member_id,
                shared=True,
                topics=self._topics,
                settings=settings.of_group(),
                client_name=config.client_name,
                is_full=True,
            ),
            self._assigned,
        )
        self._missing = MissingTopics(
            routes, config.backoff, settings.on_missing_topic, self._membership.look_at_once
        )
        self._scope = TaskScope()
        self._source = make_source(routes, config, deliveries, settings, settings.group, member_id)
        self._feeds: dict[tuple[str, int], LeaseFeed] = {}
        self._buffer = LeaseBuffer(settings.prefetch, self._feeds)
        self.ledger = LeaseLedger(settings.group, member_id, routes, config.backoff, self._scope)
        self._message_ledger = self.ledger if facade is None else facade(self.ledger)
        self._keeper = LeaseKeeper(
            self._buffer, self.ledger.held, self.ledger.settle, extends=settings.auto_extend
        )

    # --- reading -------------------------------------------------------------------------------

    async def __aiter__(self) -> AsyncIterator[Message]:
        """Every message that is leased to this member, for ever."""
        while True:
            yield await self._next()

    async def fetch(
        self, max_messages: int | None = None, timeout_s: float | None = None
    ) -> list[Message]:
        """The next messages: at least one, unless the time is over first."""
        check_count(max_messages)
        first = await self._in_time(timeout_s, self._next)
        if first is None:
            return []
        messages = [first]
        while max_messages is None or len(messages) < max_messages:
            message = self._take()
            if message is None:
                break
            messages.append(message)
        return messages

    async def next_hand(self) -> list[Message]:
        """The next message, alone: what is not taken is not the reader's. For `serve`."""
        return [await self._next()]

    @property
    def partitions(self) -> list[TopicPartition]:
        """What is being leased from."""
        return [TopicPartition(*partition) for partition in self._feeds]

    def resume(self) -> None:
        """Go on where a broker has parked what it pushes, whoever had it do so."""
        self._source.resume(feed.supply for feed in self._feeds.values())

    # --- what was said of messages -------------------------------------------------------------

    async def commit(self) -> None:
        """Returns when the broker has all that was said."""
        await self.ledger.told()

    @property
    def member_id(self) -> str:
        """Whom the group knows this as."""
        return self.ledger.member_id

    @property
    def lost_count(self) -> int:
        """Messages whose lease had run out when their outcome was told: others got them too."""
        return self.ledger.lost_count

    # --- helpers -------------------------------------------------------------------------------

    async def _begin(self) -> None:
        await self._missing.look(self._topics)
        wait_s = await self._membership.join()
        self._scope.start(
            self._membership.run(wait_s, self._fail), name=f"member of {self._settings.group}"
        )
        self._scope.start(self._keeper.run(), name=f"keeping of {self._settings.group}")

    async def _end(self) -> None:
        for feed in self._feeds.values():
            feed.close()
        self._keeper.give_back(lambda _: True)
        try:
            await self.ledger.close()
        finally:
            await self._missing.close()
            await self._source.close()
            await self._scope.close()
            if self._is_started:
                await self._membership.leave()

    async def _next(self) -> Message:
        await self.start()
        while True:
            message = self._take()
            if message is not None:
                return message
            self.ledger.raise_failure()
            await self._buffer.wait()

    def _take(self) -> Message | None:
        taken = self._buffer.take_leased()
        if taken is None:
            return None
        hold, message = taken
        self.ledger.held[message.topic, message.partition, message.offset] = hold
        return message

    def _assigned(self, partitions: Sequence[TopicPartition]) -> None:
        for partition in [one for one in self._feeds if one not in partitions]:
            self._feeds.pop(partition).leave()
        added = [partition for partition in partitions if partition not in self._feeds]
        for partition in added:
            self.ledger.open(partition)
            self._feeds[partition] = LeaseFeed(
                partition,
                self.member_id,
                self._settings,
                self._source,
                self._buffer,
                self._message_ledger,
                self._fail,
            )
        for partition in added:
            self._feeds[partition].supply.go_on()

    def _fail(self, error: PenstockError) -> None:
        self.ledger.failure = error
        self._buffer.wake()
