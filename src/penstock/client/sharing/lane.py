"""Leases messages of one partition ahead of the reader: asks, decodes, hands over.

Not what becomes of them. The invariants: it asks for no more than there is room for, since every
message it holds is kept from others; a lease that has run out before the reader took the message
is not handed over; and what was asked for is waited for, since it may be leased already.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

from penstock.client.concurrency.backoff import Backoff
from penstock.client.connection.routes import Routes
from penstock.model.errors import BatchError, PenstockError
from penstock.model.ids import TopicPartition
from penstock.protocol import penstock_pb2 as pb
from penstock.protocol.calls import LEASE
from penstock.records import Message, decode_messages

logger = logging.getLogger(__name__)

# Off the end of a lease, for the way of the outcome.
_MARGIN: Final = 0.9
# For the way of the question and the answer; a broker that is silent for longer hangs.
_ANSWER_S_MAX: Final = 5.0


class Hold:
    """Messages that were leased together."""

    __slots__ = ("attempts", "lease_s", "leased_at_s", "partition")

    def __init__(
        self,
        partition: TopicPartition,
        leases: Sequence[pb.LeasedRange],
        now_s: float,
        lease_s: float,
    ) -> None:
        """now_s: when it was leased, or earlier, by the loop's time."""
        self.partition = partition
        self.leased_at_s = now_s
        self.lease_s = lease_s
        # Only of those that are not handed out for the first time.
        self.attempts = {
            offset: lease.attempt
            for lease in leases
            if lease.attempt > 1
            for offset in range(lease.first, lease.last + 1)
        }

    @property
    def expires_at_s(self) -> float:
        """From then on its messages may be another's."""
        return self.leased_at_s + self.lease_s * _MARGIN

    def left(self) -> None:
        """One of its messages waits no longer for the reader: it was taken, or given back."""


class Buffer(Protocol):
    """Where messages wait for the reader: a `LeaseBuffer`."""

    has_room: asyncio.Event
    source: Any
    fail: Callable[[PenstockError], None]

    def room(self) -> int: ...
    def add(self, hold: Hold, messages: list[Message]) -> None: ...


class LeaseLane:
    """Of one member in one partition."""

    def __init__(
        self,
        group: str,
        member_id: str,
        partition: TopicPartition,
        routes: Routes,
        backoff: Backoff,
        *,
        max_wait_ms: int,
        bytes_max: int,
    ) -> None:
        self._request = pb.LeaseRequest(
            group=group,
            member_id=member_id,
            topic=partition.topic,
            partition=partition.partition,
            max_wait_ms=max_wait_ms,
            bytes_max=bytes_max,
        )
        self._partition = partition
        self._routes = routes
        self._backoff = backoff
        self._loop = asyncio.get_running_loop()
        self._stopped = asyncio.Event()

    def stop(self) -> None:
        """Ask no more. What was asked for still comes: the broker may have leased it by now, and
        nobody would have it in hand until the lease is over."""
        self._stopped.set()

    async def run(self, buffer: Buffer) -> None:
        """Lease while there is room; runs until it is stopped or cancelled, or cannot go on."""
        failures = 0
        while True:
            while (messages_max := buffer.room()) <= 0:
                buffer.has_room.clear()
                await buffer.has_room.wait()
            if self._stopped.is_set():
                return
            self._request.messages_max = messages_max
            try:
                await self._lease(buffer, is_refreshed=failures > 0)
                failures = 0
            except PenstockError as error:
                if self._stopped.is_set():
                    return  # the partition may be gone, or another broker's: it is left anyway
                if isinstance(error, BatchError) or not error.retriable:
                    buffer.fail(error)
                    return
                failures += 1
                logger.info("Messages of %s cannot be leased now: %s", self._partition, error)
                await asyncio.sleep(self._backoff.wait_s(failures))

    async def _lease(self, buffer: Buffer, *, is_refreshed: bool) -> None:
        # Not by a call that is made again by itself: when this one was made is when a lease begins.
        leader = await self._routes.leader(*self._partition, refresh=is_refreshed)
        asked_s = self._loop.time()
        answer, payload = await leader.call(
            LEASE, self._request, timeout_s=self._request.max_wait_ms / 1000 + _ANSWER_S_MAX
        )
        if not answer.leases:
            return
        leased_s = asked_s + answer.waited_ms / 1000
        messages = decode_messages(
            payload, self._partition.topic, self._partition.partition, 0, buffer.source
        )
        hold = Hold(self._partition, answer.leases, leased_s, answer.lease_ms / 1000)
        buffer.add(hold, messages)
