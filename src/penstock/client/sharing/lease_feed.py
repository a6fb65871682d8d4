"""Messages of one partition that are leased to this member: asked for or pushed, and decoded.

Not what becomes of them. The invariants: no more is asked for, or promised room, than the reader
has room for, since every message that waits here is kept from others; what was asked for is waited
for, since it may be leased already; and what is this member's no longer, by a park or the end of a
connection, is not handed over.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection
from typing import Any, Final

from penstock.client.reading.supply import Credit, Question, Source, Stream, Supply
from penstock.client.sharing.buffer import Hold, LeaseBuffer
from penstock.client.sharing.settings import SharedConsumerConfig
from penstock.model.errors import BatchError, ConnectionLost, PenstockError
from penstock.model.ids import TopicPartition
from penstock.protocol import penstock_pb2 as pb
from penstock.protocol.calls import LEASE, parse
from penstock.records import Message, decode_messages

logger = logging.getLogger(__name__)

# For the way of the question and the answer; a broker that is silent for longer hangs.
_ANSWER_S_MAX: Final = 5.0


class LeaseFeed:
    """Of one member in one partition."""

    def __init__(
        self,
        partition: TopicPartition,
        member_id: str,
        settings: SharedConsumerConfig,
        source: Source,
        buffer: LeaseBuffer,
        ledger: Any,
        on_failure: Callable[[PenstockError], None],
    ) -> None:
        """ledger: whom messages tell what became of them. on_failure: is told why no more
        can come."""
        self.supply = Supply(partition, self, source, buffer)
        self._partition = partition
        self._member_id = member_id
        self._settings = settings
        self._buffer = buffer
        self._ledger = ledger
        self._on_failure = on_failure
        self._is_over = False
        self._asked_at_s = 0.0
        self._loop = asyncio.get_running_loop()
        # Deliveries that came late, until it is known that they are still this member's.
        self._late: list[tuple[Hold, memoryview]] = []

    def leave(self) -> None:
        """Lease no more. What was asked for still comes: the broker may have leased it by now, and
        nobody would have it in hand until the lease is over. What it has pushed and was not
        answered it takes back."""
        self._is_over = True
        self._late.clear()
        self.supply.source.stop(self.supply)

    def close(self) -> None:
        """Take nothing more, whatever comes."""
        self.leave()
        self.supply.begin_anew()

    # --- supply.Feed ---------------------------------------------------------------------------

    @property
    def is_wanted(self) -> bool:
        return not self._is_over

    @property
    def needs_position(self) -> bool:
        return False

    async def find_position(self) -> None:
        """The broker knows what is leased next."""

    def fail(self, error: PenstockError) -> None:
        if not self._is_over:  # else it may be gone, or another broker's: it is left anyway
            self._is_over = True
            self._on_failure(error)

    def on_error(self, error: PenstockError) -> None:
        if isinstance(error, BatchError) or not error.retriable:
            self.fail(error)
        elif not self._is_over:
            logger.info("Messages of %s cannot be leased now: %s", self._partition, error)
            # Where a topic is gone the reader is told so when it says something next: there is a
            # moment for what it is about to say of messages in its hands.
            self.supply.try_again(at_once=False)

    def question(self) -> Question:
        request = pb.LeaseRequest(
            group=self._settings.group,
            member_id=self._member_id,
            topic=self._partition.topic,
            partition=self._partition.partition,
            messages_max=min(self._buffer.room, self._buffer.share),
            max_wait_ms=self._settings.max_wait_ms,
            bytes_max=self._settings.buffer_bytes,
        )
        # A lease begins at the earliest now: what fails is asked for anew.
        self._asked_at_s = self._loop.time()
        timeout_s = self._settings.max_wait_ms / 1000 + _ANSWER_S_MAX
        return Question(LEASE.number, request.SerializeToString(), timeout_s)

    def on_answer(self, envelope: memoryview, payload: memoryview) -> bool:
        answer = parse(pb.LeaseResponse, envelope)
        if answer.leases:
            leased_s = self._asked_at_s + answer.waited_ms / 1000
            hold = Hold(self._partition, answer.leases, leased_s, answer.lease_ms / 1000)
            self._buffer.add_leased(hold, self._decode(payload))
        return True

    def opening(self) -> pb.OpenPushRequest:
        return pb.OpenPushRequest(
            topic=self._partition.topic,
            partition=self._partition.partition,
            shared=True,
            credit_messages=self._buffer.share,
            credit_bytes=self._settings.buffer_bytes,
        )

    def on_delivery(self, request: pb.DeliverRequest, payload: memoryview, credit: Credit) -> None:
        now_s = self._loop.time()
        # It may have waited for this process, or for the network, longer than the lease is.
        leased_s = min(request.leased_at_ms / 1000, now_s) if request.leased_at_ms else now_s
        lease_s = request.lease_ms / 1000
        hold = Hold(self._partition, request.leases, leased_s, lease_s, credit, request.delivery)
        # The broker may have given up waiting for its answer.
        is_late = request.timeout_ms and now_s - leased_s >= request.timeout_ms / 1000
        if not self._late and not is_late:
            self._arrived(hold, payload)
            return
        # That it was withdrawn may be on its way behind it: what the broker answers to a question
        # comes behind that too. It is asked behind the delivery's answer, which ends the time in
        # which it can be withdrawn.
        if not self._late:
            self._loop.call_soon(credit.stream.ping, self._late_are_ours)
        self._late.append((hold, payload))

    def on_withdrawn(self, stream: Stream, deliveries: Collection[int]) -> None:
        self._buffer.withdraw(lambda hold: hold.came_by(stream) and hold.delivery in deliveries)
        for hold, _ in self._late:
            if hold.delivery in deliveries and hold.credit is not None:
                hold.credit.give_back()
        self._late = [one for one in self._late if one[0].delivery not in deliveries]

    def on_stream_end(self, stream: Stream, error: PenstockError) -> None:
        self._late.clear()
        if isinstance(error, ConnectionLost):
            # All that this member held went back with the connection.
            self._buffer.withdraw(lambda hold: hold.came_by(stream))

    def on_parked(self, error: PenstockError) -> None:
        self._on_failure(error)

    # --- helpers -------------------------------------------------------------------------------

    def _late_are_ours(self) -> None:
        late, self._late = self._late, []
        for hold, payload in late:
            self._arrived(hold, payload)

    def _arrived(self, hold: Hold, payload: memoryview) -> None:
        # Not when the stream was opened: one that ends at once, again and again, needs its waits.
        self.supply.failures = 0
        self._buffer.add_leased(hold, self._decode(payload))

    def _decode(self, payload: memoryview) -> list[Message]:
        return decode_messages(payload, *self._partition, 0, self._ledger)
