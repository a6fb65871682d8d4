"""Delivers sealed batches: in order, each once, retried until its time is over.

It does not gather messages (`accumulator`) nor know where leaders are (`routes`). What it keeps:

- The batches of a partition are written in the order in which they were sealed. After a failure
  nothing new leaves the lane until every answer is in; then the same bytes go again, in order.
- An idempotent batch keeps its producer id and sequence numbers for as long as it may be in the
  log (R-PRO-2). A lane gets a new identity only with nothing in flight, and a batch of unknown
  fate is never sent under another identity: it fails, because nobody could tell a duplicate.
- Without idempotence one batch is in flight per partition, so order holds; a retry may duplicate.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Final

from penstock.client.concurrency.backoff import Backoff
from penstock.client.concurrency.hindrance import Hindrance
from penstock.client.concurrency.tasks import TaskScope
from penstock.client.connection.routes import Routes
from penstock.client.producing.identity import Identities
from penstock.client.producing.lanes import Batch, Lane
from penstock.client.producing.reports import Reports
from penstock.model.errors import (
    BatchError,
    Busy,
    ClientClosed,
    ConnectionLost,
    DiskFull,
    InvalidRequest,
    MalformedFrame,
    OutOfOrderSequence,
    PenstockError,
    ProducerError,
    ProtocolError,
    TimedOut,
    TopicClaimed,
    TopicError,
    UnknownProducer,
    UnknownTopic,
)
from penstock.model.ids import TopicPartition
from penstock.model.limits import PRODUCER_WINDOW_BATCHES
from penstock.net.channel import Channel
from penstock.protocol import penstock_pb2 as pb
from penstock.protocol.calls import PRODUCE, parse
from penstock.records.header import NO_SEQUENCE

logger = logging.getLogger(__name__)

# Errors with which a broker says that it wrote nothing. After any other one, a leader that lost
# its place or a failed disk for example, the batch may be in the log.
_REFUSALS: Final = (
    BatchError,
    Busy,
    DiskFull,
    InvalidRequest,
    ProducerError,
    ProtocolError,
    TopicError,
)
# With acks=0 only an error is answered. One that comes later than this is not noticed, and what
# is remembered of batches that went well is bounded by what one sends in this time.
UNACKNOWLEDGED_ANSWER_S: Final = 1.0


class Sender:
    """Takes batches from lanes to leaders and settles them."""

    def __init__(
        self,
        *,
        routes: Routes,
        acks: int,
        idempotent: bool,
        request_timeout_s: float,
        backoff: Backoff,
        seal: Callable[[Lane], None],
        release: Callable[[Batch], None],
        claim_of: Callable[[str], int],
        on_claimed: Callable[[PenstockError], None],
    ) -> None:
        """claim_of: the claim by which this producer has a topic for itself, or 0. on_claimed: a
        broker says that somebody else has."""
        self._routes = routes
        self._acks = acks
        self._identities = Identities(request_timeout_s) if idempotent else None
        self._window = PRODUCER_WINDOW_BATCHES if idempotent else 1
        self._request_timeout_s = request_timeout_s
        self._backoff = backoff
        self._seal = seal
        self._release = release
        self._claim_of = claim_of
        self._on_claimed = on_claimed
        # Why nothing more is sent, for good.
        self._lost: PenstockError | None = None
        self._loop = asyncio.get_running_loop()
        self._scope = TaskScope()
        self.reports = Reports()
        self._closed = False

    def make_lane(self, topic: str, partition: int) -> Lane:
        request = pb.ProduceRequest(
            topic=topic, partition=partition, acks=self._acks, claim=self._claim_of(topic)
        )
        return Lane(topic, partition, request.SerializeToString())

    def pump(self, lane: Lane) -> None:
        """Send what the lane has ready, as far as its window allows."""
        if lane.recovering or lane.stalled or self._closed:
            return
        if self._lost is not None:
            self._fail_ready(lane, self._lost)
            return
        while lane.flying < self._window:
            if not lane.ready:
                if lane.open is None or not lane.due:
                    return
                self._seal(lane)
            if lane.channel is None or lane.channel.connection.is_closed:
                # With batches in flight their answers come first, even if it is only that they
                # are lost: they go again before anything new.
                if lane.flying == 0:
                    self._recover(lane)
                return
            if self._acks == 0 and not lane.channel.connection.is_writable:
                # Without answers the socket alone says how fast is too fast.
                lane.recovering = True
                self._scope.start(self._drain(lane, lane.channel), name=f"drain for {lane}")
                return
            self._send(lane, lane.ready.popleft())

    def lose(self, error: PenstockError) -> None:
        """Send nothing more: whatever is not acknowledged fails by this."""
        self._lost = error

    async def close(self, lanes: list[Lane]) -> None:
        """Stop, and fail what has not been delivered."""
        self._closed = True
        await self._scope.close()
        error = ClientClosed("The producer was closed before the message was acknowledged.")
        for lane in lanes:
            for batch in [*lane.sent, *lane.ready]:
                self._fail(lane, batch, error)
            lane.sent.clear()
            lane.ready.clear()

    def _send(self, lane: Lane, batch: Batch) -> None:
        assert lane.channel is not None, f"{lane} sends without a channel"
        payload = lane.stamp(batch, self._identities is not None)
        if self._acks == 0:
            self._send_unacknowledged(lane.channel, lane, batch, payload)
            return
        lane.sent.append(batch)
        lane.flying += 1
        # A broker that hangs must not keep a batch beyond its time.
        left_s = max(batch.deadline_s - self._loop.time(), 0.0)
        lane.channel.start_call(
            PRODUCE.number,
            lane.envelope,
            (payload,),
            partial(self._answered, lane, batch),
            min(self._request_timeout_s, left_s),
        )

    def _answered(
        self,
        lane: Lane,
        batch: Batch,
        error: PenstockError | None,
        envelope: memoryview,
        payload: memoryview,
    ) -> None:
        """The broker has answered, or will not: called once for every batch that was sent."""
        del payload
        if self._closed:
            return
        lane.flying -= 1
        if error is None:
            try:
                answer = parse(pb.ProduceResponse, envelope)
            except MalformedFrame as malformed:
                error = malformed
        if error is None:
            lane.sent.remove(batch)  # nearly always the first
            lane.failures = 0
            if lane.hindrance is not None:
                lane.hindrance.overcome()
                lane.hindrance = None
            batch.deliver(lane, answer.base_offset, answer.append_time_ms, answer.duplicate)
            self._release(batch)
        else:
            self._judge(lane, batch, error)
        if not lane.stalled:
            self.pump(lane)
        elif lane.flying == 0:
            self._settle(lane)
            self._recover(lane)

    def _send_unacknowledged(
        self, channel: Channel, lane: Lane, batch: Batch, payload: bytearray
    ) -> None:
        """Send with acks=0: the batch is done when it is handed over, for good or ill."""

        def on_answer(error: PenstockError | None, *_: memoryview) -> None:
            if error is not None and not isinstance(error, TimedOut):
                logger.warning("%s did not take a batch sent with acks=0: %s", lane, error)
                self.reports.unacknowledged.append(error)
            if isinstance(error, TopicClaimed):
                self._on_claimed(error)

        channel.start_call(
            PRODUCE.number, lane.envelope, (payload,), on_answer, UNACKNOWLEDGED_ANSWER_S
        )
        batch.deliver(lane, -1, -1, duplicate=False)
        self._release(batch)

    def _judge(self, lane: Lane, batch: Batch, error: PenstockError) -> None:
        """Decide what becomes of a batch that was not taken: again later, or failed."""
        lane.last_error = error
        if isinstance(error, OutOfOrderSequence | UnknownProducer):
            lane.stalled = True
            # Where one before it was not taken either, that one goes again first. Otherwise one
            # before it has failed for good, or the broker forgot this producer.
            if lane.sent[0] is batch:
                lane.identity_lost = True
        elif error.retriable or isinstance(error, UnknownTopic):
            lane.stalled = True
            if not isinstance(error, _REFUSALS):
                batch.uncertain = True
        else:
            lane.sent.remove(batch)
            self._fail(lane, batch, error)
            if not lane.sent and not lane.ready:
                lane.hindrance = None
            if isinstance(error, TopicClaimed):
                self._on_claimed(error)

    def _settle(self, lane: Lane) -> None:
        """Every answer is in: put what was not taken back in front, in its order."""
        lane.stalled = False
        lane.failures += 1
        lane.ready.extendleft(reversed(lane.sent))
        lane.sent.clear()
        if lane.identity_lost:
            self._drop_identity(lane)

    def _drop_identity(self, lane: Lane) -> None:
        """Let the lane begin again as another producer, with the batches that may."""
        logger.info("%s begins again with a new producer id: %s", lane, lane.last_error)
        if self._identities is not None:
            self._identities.drop(lane.identity)
        lane.identity_lost = False
        lane.identity = None
        lane.next_sequence = 0
        batches, lane.ready = lane.ready, deque()
        for batch in batches:
            if batch.uncertain:
                self._fail(lane, batch, _unprovable(lane))
            else:
                batch.sequence = NO_SEQUENCE
                lane.ready.append(batch)

    def _recover(self, lane: Lane) -> None:
        lane.recovering = True
        self._scope.start(self._recovery(lane), name=f"recovery of {lane}")

    async def _drain(self, lane: Lane, channel: Channel) -> None:
        with contextlib.suppress(ConnectionLost):  # then the lane looks for another channel
            await channel.connection.drain()
        lane.recovering = False
        self.pump(lane)

    async def _recovery(self, lane: Lane) -> None:
        """Find the lane a channel and an identity, until it has both or nothing left to send."""
        while True:
            # The first retry is at once, with a new route; from then on there are waits.
            await asyncio.sleep(self._backoff.wait_s(lane.failures - 1))
            self._expire(lane)
            self._tell(lane)
            if self._lost is not None:
                self._fail_ready(lane, self._lost)
            if not lane.ready:
                break
            try:
                async with asyncio.timeout_at(lane.ready[0].deadline_s):
                    await self._prepare(lane)
                break
            except TimeoutError:
                continue  # the first batch is due to expire
            except PenstockError as error:
                lane.failures += 1
                lane.last_error = error
                if not error.retriable:
                    self._fail_ready(lane, error)
        lane.recovering = False
        self.pump(lane)

    def _tell(self, lane: Lane) -> None:
        """Say once, after a while, what the lane waits for."""
        if not lane.ready:
            lane.hindrance = None  # what fails later is another story
        elif lane.failures:
            if lane.hindrance is None:
                lane.hindrance = Hindrance(logger, lane, "written")
            now_s = self._loop.time()
            lane.hindrance.met(now_s, lane.ready[0].deadline_s - now_s, lane.last_error)

    async def _prepare(self, lane: Lane) -> None:
        lane.channel = await self._routes.leader(
            lane.topic,
            lane.partition,
            refresh=lane.failures > 0,
            # A topic that was claimed has been there: whoever made it again would make it another.
            create=not self._claim_of(lane.topic),
        )
        if self._identities is not None and lane.identity is None:
            lane.identity = await self._identities.latest(lane.channel)

    def _expire(self, lane: Lane) -> None:
        """Fail the batches whose time is over. They are in the order in which they were opened."""
        if lane.open is not None and lane.due:
            self._seal(lane)
        now_s = self._loop.time()
        while lane.ready and lane.ready[0].deadline_s <= now_s:
            batch = lane.ready.popleft()
            reason = f" The last error was: {lane.last_error}" if lane.last_error else ""
            fate = "may or may not have been written" if batch.uncertain else "was not written"
            self._fail(
                lane,
                batch,
                TimedOut(
                    f"{lane} did not acknowledge the message within the delivery timeout; it "
                    f"{fate}.{reason}"
                ),
            )

    def _fail_ready(self, lane: Lane, error: PenstockError) -> None:
        while lane.ready:
            self._fail(lane, lane.ready.popleft(), error)

    def _fail(self, lane: Lane, batch: Batch, error: PenstockError) -> None:
        if batch.uncertain and isinstance(error, TopicClaimed):
            error = TopicClaimed(f"{error.message} The message may have been written before that.")
        if batch.silent_count:
            self.reports.add(TopicPartition(lane.topic, lane.partition), batch.silent_count, error)
        batch.fail(error)
        self._release(batch)


def _unprovable(lane: Lane) -> PenstockError:
    return UnknownProducer(
        f"Nobody can tell whether the message was written to {lane}: its answer was lost, and then "
        f"the broker no longer knew this producer ({lane.last_error}) Look at the end of the "
        f"partition before sending it again."
    )
