"""Has leased messages of one partition pushed ahead of the reader: opens a stream, decodes, hands
over, gives credit back.

Beside `lane`, which asks for them. The invariants: a broker has credit for no more messages
than the reader has room for, since every message that waits here is kept from others; and what is
this member's no longer, by a park or the end of a connection, is not handed over.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection
from typing import TypeGuard

from penstock.client.concurrency.backoff import Backoff
from penstock.client.connection.deliveries import Pushes, PushStream
from penstock.client.connection.routes import Routes
from penstock.client.sharing.buffer import LeaseBuffer
from penstock.client.sharing.lane import Hold
from penstock.model.errors import BatchError, ConnectionLost, Parked, PenstockError, UnknownStream
from penstock.model.ids import TopicPartition
from penstock.protocol import penstock_pb2 as pb
from penstock.protocol.calls import OPEN_PUSH, PING
from penstock.records import decode_messages

logger = logging.getLogger(__name__)


class PushLane:
    """Of one member in one partition."""

    def __init__(
        self,
        group: str,
        member_id: str,
        partition: TopicPartition,
        routes: Routes,
        backoff: Backoff,
        *,
        pushes: Pushes,
        buffer: LeaseBuffer,
        credit_bytes: int,
        resumes_itself: bool,
    ) -> None:
        """resumes_itself: go on after a park as soon as this side is alive, unless an operator has
        parked it; else the reader is told, and asks for it by `resume`."""
        self._request = pb.OpenPushRequest(
            group=group,
            member_id=member_id,
            topic=partition.topic,
            partition=partition.partition,
            shared=True,
            credit_bytes=credit_bytes,
        )
        self.partition = partition
        self.buffer = buffer
        self._routes = routes
        self._backoff = backoff
        self._pushes = pushes
        self._resumes_itself = resumes_itself
        self._stream: _LaneStream | None = None
        # Since the last delivery.
        self._failures = 0

    async def run(self) -> None:
        """Be pushed to, by whoever leads; until it is cancelled, or cannot go on."""
        while True:
            try:
                error = await self._push()
            except PenstockError as refused:
                error = refused
            if isinstance(error, BatchError) or not error.retriable:
                self.buffer.fail(error)
                return
            logger.info("Messages of %s are not pushed now: %s", self.partition, error)
            self._failures += 1
            # The first retry is at once, with a new route; from then on there are waits.
            await asyncio.sleep(self._backoff.wait_s(self._failures - 1))

    def resume(self) -> bool:
        """Let it go on, if it is parked, whoever had it so. Whether that was an operator."""
        stream = self._stream
        if stream is None or not stream.is_parked:
            return False
        stream.resume(is_automatic=False)
        return stream.is_parked_by_operator

    async def _push(self) -> PenstockError:
        """Have one stream, until it ends: by what it does."""
        request = self._request
        channel = await self._routes.leader(*self.partition, refresh=self._failures > 0)
        request.credit_messages = self.buffer.credit()
        stream = self._stream = _LaneStream(self, request.credit_messages, request.credit_bytes)
        stream.stream = self._pushes.open(channel, stream)
        request.stream = stream.stream.number
        request.now_ms = self._pushes.now_ms()
        try:
            await channel.call(OPEN_PUSH, request)
            return await stream.ended
        finally:
            self._stream = None
            self._pushes.close(stream.stream)

    # --- what streams tell ---------------------------------------------------------------------

    def delivered(self, hold: PushedHold, payload: memoryview) -> None:
        self._failures = 0
        topic, partition = self.partition
        messages = decode_messages(payload, topic, partition, 0, self.buffer.source)
        hold.arrived(len(messages))
        self.buffer.add(hold, messages)

    def parked(self, stream: _LaneStream, error: PenstockError, *, by_operator: bool) -> None:
        if by_operator:
            logger.warning("What is pushed of %s waits for a resume: %s", self.partition, error)
        elif self._resumes_itself:
            logger.info("%s is resumed: %s", self.partition, error)
            stream.resume(is_automatic=True)
        else:
            self.buffer.fail(error)


class PushedHold(Hold):
    """Messages that were pushed together, and the credit that they took."""

    __slots__ = ("_credit_messages", "_size_bytes", "_waiting", "delivery", "stream")

    def __init__(
        self, stream: _LaneStream, request: pb.DeliverRequest, size_bytes: int, now_s: float
    ) -> None:
        # It may have waited for this process, or for the network, longer than the lease is.
        leased_s = min(request.leased_at_ms / 1000, now_s) if request.leased_at_ms else now_s
        super().__init__(stream.lane.partition, request.leases, leased_s, request.lease_ms / 1000)
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
            self.stream.owe(self._credit_messages, self._size_bytes)

    def left(self) -> None:
        self._waiting -= 1
        if self._waiting:
            self._credit_messages -= 1
            self.stream.owe(1, 0)
        else:
            # With the last one its bytes, and what was paid for messages that are not there.
            self.stream.owe(self._credit_messages, self._size_bytes)


class _LaneStream:
    """One stream, and the credit that is to be given back."""

    __slots__ = (
        "_credit_bytes",
        "_credit_messages",
        "_late",
        "_loop",
        "_owed_bytes",
        "_owed_messages",
        "ended",
        "is_parked",
        "is_parked_by_operator",
        "lane",
        "stream",
    )

    stream: PushStream

    def __init__(self, lane: PushLane, credit_messages: int, credit_bytes: int) -> None:
        self.lane = lane
        self.is_parked = False
        self.is_parked_by_operator = False
        self._loop = asyncio.get_running_loop()
        self.ended: asyncio.Future[PenstockError] = self._loop.create_future()
        self._credit_messages = credit_messages
        self._credit_bytes = credit_bytes
        self._owed_messages = 0
        self._owed_bytes = 0
        # Deliveries that came late, until it is known that they are still this member's.
        self._late: list[tuple[PushedHold, memoryview]] = []

    def owe(self, messages: int, size_bytes: int) -> None:
        """Give credit back, in large pieces: half of it is always the broker's."""
        self._owed_messages += messages
        self._owed_bytes += size_bytes
        is_much = (
            self._owed_messages >= self._credit_messages / 2
            or self._owed_bytes >= self._credit_bytes / 2
        )
        if not is_much or self.ended.done() or self.stream.channel.connection.is_closed:
            return
        request = pb.GiveCreditRequest(
            stream=self.stream.number, messages=self._owed_messages, bytes=self._owed_bytes
        )
        self._owed_messages = self._owed_bytes = 0
        self.stream.channel.tell(pb.CALL_GIVE_CREDIT, request.SerializeToString())

    def resume(self, *, is_automatic: bool) -> None:
        """is_automatic: by the library itself, and not because somebody asked for it."""
        if self.stream.channel.connection.is_closed:
            return  # another is opened
        request = pb.ResumePushRequest(stream=self.stream.number, is_automatic=is_automatic)
        self.stream.channel.start_call(
            pb.CALL_RESUME_PUSH, request.SerializeToString(), (), self._resumed
        )

    def _resumed(self, error: PenstockError | None, *_: memoryview) -> None:
        if error is None:
            self.is_parked = False
        elif not isinstance(error, ConnectionLost | UnknownStream | Parked):
            self._end(error)  # not known whether it goes on: another stream does

    def _ask_about(self, hold: PushedHold, payload: memoryview) -> None:
        """That it was withdrawn may be on its way behind it: what the broker answers to a question
        comes behind that too. It is asked behind the delivery's answer, which ends the time in
        which it can be withdrawn."""
        if not self._late:
            self._loop.call_soon(self._ask)
        self._late.append((hold, payload))

    def _ask(self) -> None:
        if not self.stream.channel.connection.is_closed:  # else its end is told by itself
            self.stream.channel.start_call(PING.number, b"", (), self._answered)

    def _answered(self, error: PenstockError | None, *_: memoryview) -> None:
        late, self._late = self._late, []
        if self.ended.done():
            return
        try:
            if error is not None:
                raise error
            for hold, payload in late:
                self.lane.delivered(hold, payload)
        except PenstockError as problem:
            self._end(problem)

    def _end(self, error: PenstockError) -> None:
        if not self.ended.done():
            self.ended.set_result(error)

    # --- pushes.Receiver -----------------------------------------------------------------------

    def on_delivery(self, request: pb.DeliverRequest, payload: memoryview) -> None:
        if self.ended.done():
            return
        try:
            hold = PushedHold(self, request, len(payload), self._loop.time())
            if self._late or hold.is_late(request.timeout_ms, self._loop.time()):
                self._ask_about(hold, payload)
            else:
                self.lane.delivered(hold, payload)
        except PenstockError as error:
            self._end(error)

    def on_parked(
        self, error: PenstockError, *, by_operator: bool, withdrawn: Collection[int]
    ) -> None:
        self.is_parked = True
        self.is_parked_by_operator = by_operator
        self.lane.buffer.drop(lambda hold: self._has(hold) and hold.delivery in withdrawn)
        for hold, _ in self._late:
            if hold.delivery in withdrawn:
                hold.arrived(0)
        self._late = [one for one in self._late if one[0].delivery not in withdrawn]
        self.lane.parked(self, error, by_operator=by_operator)

    def on_ended(self, error: PenstockError) -> None:
        self._end(error)
        if isinstance(error, ConnectionLost):
            # All that this member held went back with the connection.
            self.lane.buffer.drop(self._has)

    def _has(self, hold: Hold) -> TypeGuard[PushedHold]:
        return isinstance(hold, PushedHold) and hold.stream is self
