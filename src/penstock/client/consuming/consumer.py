"""Reads topics: message by message, in lists, or as columns.

The face of the consuming side; `fetcher` fetches ahead, `ledger` takes what is said of messages,
`progress` and `committer` keep a group's place, `membership` says which partitions the group gives.
The invariant: of every partition the reader gets each message from its position on once and in
order, until it seeks.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping
from datetime import datetime
from functools import partial
from typing import Any

from penstock.client.concurrency.callbacks import check_outside_callbacks
from penstock.client.concurrency.tasks import TaskScope, all_of
from penstock.client.config import ClientConfig
from penstock.client.connection.deliveries import Deliveries
from penstock.client.connection.routes import Routes
from penstock.client.consuming.batch_feed import find_offset
from penstock.client.consuming.committer import Committer
from penstock.client.consuming.fetcher import Fetcher
from penstock.client.consuming.ledger import PlaceLedger
from penstock.client.consuming.membership import GroupMembership
from penstock.client.consuming.partitions import OwnPartitions
from penstock.client.consuming.reader import Hand, PartitionColumns, Reader
from penstock.client.consuming.route_following import RouteFollowing
from penstock.client.consuming.settings import ConsumerConfig
from penstock.client.consuming.starts import Start, check_start
from penstock.client.reading.any_consumer import AnyConsumer, check_count
from penstock.client.reading.missing_topics import (
    MissingTopics,
)
from penstock.client.reading.pushed import PushedSource, make_source
from penstock.model.errors import ClientClosed
from penstock.model.ids import TopicPartition
from penstock.records import Message


class Consumer(AnyConsumer):
    """Made by `Client.consumer` or `Client.subscribe`; begins when it is entered or first read."""

    def __init__(
        self,
        routes: Routes,
        config: ClientConfig,
        topics: Collection[str],
        settings: ConsumerConfig,
        *,
        facade: Callable[[PlaceLedger], Any] | None,
        on_end: Callable[[AnyConsumer], None],
        deliveries: Deliveries,
    ) -> None:
        """facade: of the ledger, which messages have instead of it."""
        super().__init__(on_end)
        self._topics = tuple(dict.fromkeys(topics))
        self._settings = settings
        source = make_source(routes, config, deliveries, settings, settings.group or "")
        self._fetcher = fetcher = Fetcher(source, settings)
        committer = Committer(settings.group, routes, config.backoff) if settings.group else None
        self._committer = committer
        self.ledger = PlaceLedger(routes, committer)
        self._reader = Reader(
            fetcher,
            committer.progress if committer is not None else {},
            self.ledger if facade is None else facade(self.ledger),
            on_skipped=committer.wake if committer is not None else None,
        )
        self._scope = TaskScope()
        self._own = OwnPartitions(fetcher, committer)
        self._missing = MissingTopics(routes, config.backoff, settings.on_missing_topic)
        self._following = RouteFollowing(
            routes, config.backoff, self._own, self._changing, self._missing
        )
        # Groups may give nothing, and topics may come later.
        fetcher.may_be_idle = bool(self._topics)
        self._membership: GroupMembership | None = None
        if settings.group is not None and (self._topics or settings.partitions is not None):
            self._membership = GroupMembership(
                routes, config, self._topics, settings, self._own, self._changing, fetcher.fail
            )
            if isinstance(fetcher.source, PushedSource):
                fetcher.source.member_id = self._membership.member_id
            assert committer is not None
            committer.member = self._membership

    # --- reading -------------------------------------------------------------------------------

    async def __aiter__(self) -> AsyncIterator[Message]:
        """Every message, one by one, for ever."""
        while True:
            for message in await self.next_hand():
                yield message

    async def batches(self) -> AsyncIterator[list[Message]]:
        """Messages in lists, each of one partition, as they were fetched: the fastest way."""
        while True:
            yield (await self.next_hand()).take()

    async def fetch(
        self, max_messages: int | None = None, timeout_s: float | None = None
    ) -> list[Message]:
        """The next messages, of one partition: at least one, unless the time is over first.

        The first call also starts the consumer, whatever time that takes.
        """
        check_count(max_messages)
        hand = await self._in_time(timeout_s, self.next_hand)
        return [] if hand is None else hand.take(max_messages)

    async def next_hand(self) -> Hand:
        """The next messages of one partition, to be taken one by one or at once; for facades."""
        await self.start()
        return await self._reader.next_hand()

    async def fetch_columns(
        self, timeout_s: float | None = None, *, include_headers: bool = False
    ) -> list[PartitionColumns]:
        """Everything fetched so far, decoded straight into columns; waits for the first of it.

        Empty only if the time is over first. Several entries may be of one partition, in order.
        """
        columns = partial(self._reader.next_columns, include_headers=include_headers)
        return await self._in_time(timeout_s, columns) or []

    # --- where to read -------------------------------------------------------------------------

    @property
    def partitions(self) -> list[TopicPartition]:
        """What is being read."""
        return self._own.partitions

    @property
    def expired_count(self) -> int:
        """Messages whose time to live was over before they could be handed out."""
        return self._reader.expired_count

    async def assign(self, partitions: Iterable[tuple[str, int]]) -> None:
        """Read these partitions from now on, instead of those of the topics given at first, or of
        those that the group gave: a member leaves it, and a group with members takes no commits of
        who is none.

        The place of a group is committed before. Where that or the rest fails, nothing changes.
        """
        check_outside_callbacks(self._changing)
        wanted = [TopicPartition(*partition) for partition in partitions]
        await self.start()
        async with self._changing:
            if self._committer is not None:
                await self._committer.commit()
            await self._own.add(dict.fromkeys(wanted, self._settings.start))
            self._following.forget_topics()
            await self._missing.close()
            self._fetcher.may_be_idle = False
            if self._membership is not None and self._committer is not None:
                async with self._committer.standstill:
                    await self._membership.leave()
                    self._membership = self._committer.member = None
            self._own.remove(each for each in self.partitions if each not in wanted)

    def position(self, partition: tuple[str, int]) -> int:
        """The offset of the next message to be handed out."""
        return self._fetcher.feed(partition).position

    async def seek(self, partition: tuple[str, int], to: Start) -> None:
        """Go on elsewhere: at an offset, "earliest", "latest", or a moment."""
        self._fetcher.feed(partition)
        place = TopicPartition(*partition)
        position = await find_offset(self._fetcher.source.routes, place, check_start(to))
        # Asked for again: another task may have assigned other partitions meanwhile.
        self._fetcher.seek(self._fetcher.feed(partition), position)
        if self._committer is not None:
            self._committer.progress[partition].restart(position)

    async def seek_to_time(self, moment: datetime) -> None:
        """Go on in every partition at the first message of this moment or later."""
        await self.start()
        await all_of(self.seek(partition, moment) for partition in self.partitions)

    def pause(self, *partitions: tuple[str, int]) -> None:
        """Hand out nothing of these partitions (none given: of all) until `resume`."""
        for partition in partitions or self.partitions:
            self._fetcher.pause(self._fetcher.feed(partition))

    def resume(self, *partitions: tuple[str, int]) -> None:
        """Go on in these partitions (none given: in all) where they were paused, and where a broker
        has parked what it pushes of them, whoever had it do so."""
        self._fetcher.resume(
            [self._fetcher.feed(partition) for partition in partitions or self.partitions]
        )

    # --- a group's place -----------------------------------------------------------------------

    async def commit(self, offsets: Mapping[tuple[str, int], int] | None = None) -> None:
        """Set the group's place: after everything handed out so far, or at the offsets given.

        Returns when the broker has it. PartitionLost: the group has taken a partition away before.
        """
        committer = self.ledger.committer
        if offsets is not None:
            await committer.commit_at(offsets)
            return
        for partition, progress in committer.progress.items():
            progress.acknowledge_below(self._fetcher.feed(partition).position)
        await committer.commit_all()

    async def committed(self, partition: tuple[str, int]) -> int | None:
        """The group's place in a partition, as the broker has it; None if it has none."""
        places = await self.ledger.committer.committed([partition[0]])
        return places.get(TopicPartition(*partition))

    # --- helpers -------------------------------------------------------------------------------

    async def _begin(self) -> None:
        if self._membership is not None:
            await self._membership.start()
        else:
            await self._following.start(self._topics, self._settings.start)
        if self._is_closed:
            await self._stop_finding()
            raise ClientClosed("The consumer was closed before it had started.")
        if self._committer is not None:
            self._scope.start(self._committer.run(), name=f"commits of {self._settings.group}")

    async def _end(self) -> None:
        try:
            if self._committer is not None:
                await self._committer.close()
        finally:
            await self._stop_finding()
            await self._scope.close()
            await self._fetcher.close()

    async def _stop_finding(self) -> None:
        """Nothing more is found to be read, by the group or among the topics."""
        if self._membership is not None:
            await self._membership.leave()
        await self._missing.close()
        await self._following.close()
