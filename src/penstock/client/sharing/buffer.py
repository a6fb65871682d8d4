"""Messages that were leased and wait for the reader: which do, for how long, and which no longer.

Not how they come: `lease_feed` brings them. The invariants: what waits is kept from others, so
nothing is asked for beyond `prefetch`, and nothing handed over when its lease is over; what a
delivery took of its stream's credit is given back once.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence, Sized
from typing import Final

from penstock.client.reading.buffer import Buffer
from penstock.client.reading.supply import Credit, Stream
from penstock.model.ids import TopicPartition
from penstock.protocol import penstock_pb2 as pb
from penstock.records import Message

logger = logging.getLogger(__name__)

# Off the end of a lease, for the way of the outcome.
_MARGIN: Final = 0.9


class Hold:
    """Messages that were leased together, and what they took of a stream's credit."""

    __slots__ = ("attempts", "credit", "delivery", "lease_s", "leased_at_s", "partition")

    def __init__(
        self,
        partition: TopicPartition,
        leases: Sequence[pb.LeasedRange],
        leased_at_s: float,
        lease_s: float,
        credit: Credit | None = None,
        delivery: int = -1,
    ) -> None:
        """leased_at_s: by the loop's time, or earlier. credit and delivery: if they were pushed."""
        self.partition = partition
        self.leased_at_s = leased_at_s
        self.lease_s = lease_s
        self.delivery = delivery
        # Only of those that are not handed out for the first time.
        self.attempts = {
            offset: lease.attempt
            for lease in leases
            if lease.attempt > 1
            for offset in range(lease.first, lease.last + 1)
        }
        self.credit = credit

    @property
    def expires_at_s(self) -> float:
        """From then on its messages may be another's."""
        return self.leased_at_s + self.lease_s * _MARGIN

    def came_by(self, stream: Stream) -> bool:
        return self.credit is not None and self.credit.stream is stream


Leased = tuple[Hold, Message]


class LeaseBuffer(Buffer[Leased]):
    """Of one consumer."""

    def __init__(self, prefetch: int, feeds: Sized) -> None:
        super().__init__(prefetch, feeds)
        self.lease_s = 0.0
        """How long leases are, when one has come."""
        self.has_leased = asyncio.Event()

    def add_leased(self, hold: Hold, messages: Sequence[Message]) -> None:
        """These wait for the reader from now on."""
        if hold.credit is not None:
            hold.credit.arrived(len(messages))
        self.lease_s = hold.lease_s
        self.has_leased.set()
        self.add([(hold, message) for message in messages])

    def take_leased(self) -> Leased | None:
        """The next one whose lease still runs, if there is one."""
        now_s = self._loop.time()
        while (taken := self.take()) is not None:
            hold = taken[0]
            if hold.credit is not None:
                hold.credit.one_left()
            if now_s < hold.expires_at_s:
                return taken
            logger.warning("A lease ran out before its message was taken: lower prefetch.")
        return None

    def withdraw(self, is_gone: Callable[[Hold], bool]) -> list[Message]:
        """Hand over nothing of the holds of which this is true: what waited of them."""
        withdrawn = self.drop(lambda leased: is_gone(leased[0]))
        for hold, _ in withdrawn:
            if hold.credit is not None:
                hold.credit.one_left()
        return [message for _, message in withdrawn]
