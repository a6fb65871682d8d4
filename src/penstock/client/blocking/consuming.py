"""Consumers for code without an event loop, of partitions and of shared groups; and their ledgers.

See `Consumer` and `SharedConsumer`. The invariant: any thread may say what became of a message; it
is in the hands of the consumer when the call returns. A consumer changes threads once per fetched
list; one of a shared group for each message, to take it and to settle it: what waits here would be
kept from others.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterator
from typing import ClassVar

from penstock.client.blocking.facade import (
    Facade,
    ScopeFacade,
    calls,
    iterates,
    passes,
    tells,
    waits,
    waits_unless_on_loop,
)
from penstock.client.consuming.consumer import Consumer
from penstock.client.consuming.ledger import NotLeased, PlaceLedger
from penstock.client.sharing.consumer import SharedConsumer
from penstock.client.sharing.ledger import LeaseLedger
from penstock.model.ids import TopicPartition
from penstock.records import Message


class BlockingConsumer(ScopeFacade[Consumer]):
    """See `Consumer`; use it in a `with`. One thread reads; any may acknowledge."""

    start = waits(Consumer.start)
    close = waits(Consumer.close)

    # --- reading -------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[Message]:
        """Every message, one by one, for ever."""
        while True:
            yield from self._thread.run(self._asked.next_hand())

    batches = iterates(Consumer.batches)
    fetch = waits(Consumer.fetch)
    fetch_columns = waits(Consumer.fetch_columns)

    # --- where to read -------------------------------------------------------------------------

    @property
    def partitions(self) -> list[TopicPartition]:
        """What is being read."""
        return self._thread.call(lambda: self._asked.partitions)

    @property
    def expired_count(self) -> int:
        """Messages whose time to live was over before they could be handed out."""
        return self._asked.expired_count

    assign = waits(Consumer.assign)
    position = calls(Consumer.position)
    seek = waits(Consumer.seek)
    seek_to_time = waits(Consumer.seek_to_time)
    pause = calls(Consumer.pause)
    resume = calls(Consumer.resume)
    commit = waits(Consumer.commit)
    committed = waits(Consumer.committed)


class BlockingPlaceLedger(Facade[PlaceLedger], NotLeased):
    """What messages of a `BlockingConsumer` call, in any thread."""

    def acknowledge(self, message: Message) -> Awaitable[None] | None:
        """What `message.ack()` calls: the message is dealt with. Returns at once."""
        if self._thread.is_current:  # `serve` does it there
            return self._asked.acknowledge(message)
        committer = self._asked.committer
        committer.raise_failure()
        if committer.post(message):
            self._thread.post(committer.wake)
        return None

    def fail(self, message: Message, reason: str = "") -> Awaitable[None] | None:
        """What `message.fail()` calls: count an attempt. Returns at once."""
        counted = self._asked.fail(message, reason)
        return counted if self._thread.is_current else None

    attempt = passes(PlaceLedger.attempt)
    reject = waits_unless_on_loop(PlaceLedger.reject)
    reply = waits_unless_on_loop(PlaceLedger.reply)


class BlockingSharedConsumer(ScopeFacade[SharedConsumer]):
    """See `SharedConsumer`; use it in a `with`. One thread reads; any may settle."""

    def __iter__(self) -> Iterator[Message]:
        """Every message that is leased to this member, for ever."""
        while True:
            yield from self.fetch(1)

    @property
    def partitions(self) -> list[TopicPartition]:
        """What is being leased from."""
        return self._thread.call(lambda: self._asked.partitions)

    @property
    def member_id(self) -> str:
        """Whom the group knows this as."""
        return self._asked.member_id

    @property
    def lost_count(self) -> int:
        """Messages whose lease had run out when their outcome was told: others got them too."""
        return self._thread.call(lambda: self._asked.lost_count)

    start = waits(SharedConsumer.start)
    close = waits(SharedConsumer.close)
    fetch = waits(SharedConsumer.fetch)
    resume = calls(SharedConsumer.resume)
    commit = waits(SharedConsumer.commit)


class BlockingLeaseLedger(Facade[LeaseLedger]):
    """What messages of a `BlockingSharedConsumer` call, in any thread."""

    group_counts_attempts: ClassVar = True

    attempt = passes(LeaseLedger.attempt)
    acknowledge = tells(LeaseLedger.acknowledge)
    release = tells(LeaseLedger.release)
    fail = tells(LeaseLedger.fail)
    reject = tells(LeaseLedger.reject)
    extend = waits_unless_on_loop(LeaseLedger.extend)
    reply = waits_unless_on_loop(LeaseLedger.reply)
