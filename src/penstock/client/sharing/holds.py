"""Messages that were leased together: for how long, and what they took of a stream's credit.

Not where they wait, nor what becomes of them. The invariant: what a delivery took of its stream's
credit is given back once, with the last of its messages that waits no longer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from penstock.client.reading.supply import Stream
from penstock.model.ids import TopicPartition
from penstock.protocol import penstock_pb2 as pb

# Off the end of a lease, for the way of the outcome.
_MARGIN: Final = 0.9


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


class PushedHold(Hold):
    """Messages that were pushed together, and the credit that they took."""

    __slots__ = ("_credit_messages", "_size_bytes", "_waiting", "delivery", "stream")

    def __init__(
        self,
        partition: TopicPartition,
        stream: Stream,
        request: pb.DeliverRequest,
        size_bytes: int,
        now_s: float,
    ) -> None:
        # It may have waited for this process, or for the network, longer than the lease is.
        leased_s = min(request.leased_at_ms / 1000, now_s) if request.leased_at_ms else now_s
        super().__init__(partition, request.leases, leased_s, request.lease_ms / 1000)
        self.stream = stream
        self.delivery = request.delivery
        self._credit_messages = request.messages
        self._size_bytes = size_bytes
        self._waiting = 0

    def is_late(self, timeout_ms: int, now_s: float) -> bool:
        """Whether the broker may have given up waiting for its answer."""
        return bool(timeout_ms) and now_s - self.leased_at_s >= timeout_ms / 1000

    def arrived(self, messages: int) -> None:
        """So many wait for the reader."""
        self._waiting = messages
        if not messages:
            self.stream.give_back(self._credit_messages, self._size_bytes)

    def left(self) -> None:
        self._waiting -= 1
        if self._waiting:
            self._credit_messages -= 1
            self.stream.give_back(1, 0)
        else:
            # With the last one its bytes, and what was paid for messages that are not there.
            self.stream.give_back(self._credit_messages, self._size_bytes)
