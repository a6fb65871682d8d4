"""Leases messages of one partition ahead of the reader: asks, decodes, hands over.

Not what becomes of them. The invariants: it asks for no more than there is room for, since every
message it holds is kept from others; and a lease that has run out before the reader took the
message is not handed over.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Final

from penstock.client.backoff import Backoff
from penstock.client.routes import Routes
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

    __slots__ = ("attempts", "expires_at_s", "leased_s", "partition")

    def __init__(
        self, partition: TopicPartition, leased: pb.LeaseResponse, leased_s: float
    ) -> None:
        """leased_s: then or later, by the loop's time."""
        self.partition = partition
        self.leased_s = leased_s
        self.expires_at_s = leased_s + leased.lease_ms / 1000 * _MARGIN
        # Only of those that are not handed out for the first time.
        self.attempts = {
            offset: lease.attempt
            for lease in leased.leases
            if lease.attempt > 1
            for offset in range(lease.first, lease.last + 1)
        }


Take = Callable[[Hold, list[Message]], None]


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

    async def run(
        self,
        room: Callable[[], int],
        has_room: asyncio.Event,
        take: Take,
        source: Any,
        fail: Callable[[PenstockError], None],
    ) -> None:
        """Lease while there is room; runs until it is cancelled, or cannot go on.

        room: how many messages the reader has room for now. has_room: set when that grows.
        """
        failures = 0
        while True:
            while (messages_max := room()) <= 0:
                has_room.clear()
                await has_room.wait()
            self._request.messages_max = messages_max
            try:
                await self._lease(take, source, is_refreshed=failures > 0)
                failures = 0
            except BatchError as error:
                fail(error)
                return
            except PenstockError as error:
                if not error.retriable:
                    fail(error)
                    return
                failures += 1
                logger.info("Messages of %s cannot be leased now: %s", self._partition, error)
                await asyncio.sleep(self._backoff.wait_s(failures))

    async def _lease(self, take: Take, source: Any, *, is_refreshed: bool) -> None:
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
            payload, self._partition.topic, self._partition.partition, 0, source
        )
        take(Hold(self._partition, answer, leased_s), messages)
