"""One lane's messages on their way into its partition, one batch after another.

They are handed over when they are due (`deliverer`); where that went wrong, or this broker has just
begun to lead, they are looked for in the index instead, from where the lane is known to stand,
until it has caught up. The invariants: messages come in the order of the index, each once, whatever
was lost on the way; what counts as arrived is committed; and a partition that cannot be reached
holds up nobody else and keeps nothing in memory.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from penstock.broker.delay.catch_up import CatchUp
from penstock.broker.delay.destination import EPOCH_SEQUENCES, DueDestinations, Stand
from penstock.broker.delay.store import DelayedStore
from penstock.broker.delay.writer import DelayedWriter
from penstock.broker.producers.ids import draw_producer_id
from penstock.broker.turns.handler_tasks import note_bug
from penstock.coordination.delay.records import (
    DECIDED,
    LANE,
    Arrived,
    Decided,
    Due,
    LaneRecord,
    encode_decided,
    encode_lane,
)
from penstock.coordination.delay.table import Lane
from penstock.model.errors import OffsetOutOfRange, PenstockError, TimedOut
from penstock.model.limits import KIB
from penstock.net.clock import Clock
from penstock.records import BatchBuilder
from penstock.records.compression import Codec
from penstock.storage.due.run import Entry

logger = logging.getLogger(__name__)

_BATCH_MESSAGES: Final = 1_000
_BATCH_BYTES: Final = 256 * KIB
# Messages that are read before others have a turn: each may be a read of its own.
_READ_PER_TURN: Final = 100
# Handed over and not sent: a partition that does not answer must not use up what all lanes may
# have on their way. The rest it finds itself.
_QUEUE_MAX: Final = 6_000
_ANSWER_S: Final = 5.0
_BACKOFF_S: Final = 0.1
_BACKOFF_S_MAX: Final = 5.0


class Surroundings(Protocol):
    """What runs share."""

    store: DelayedStore
    writer: DelayedWriter
    destinations: DueDestinations
    catch_up: CatchUp
    clock: Clock

    def codec(self, lane: Lane) -> Codec:
        """What the lane's topic wants batches to be compressed with."""
        ...

    def damaged(self) -> None:
        """The index is of no use."""
        ...

    def handed(self, entries: int) -> None:
        """So many more are on their way; or, below 0, fewer."""
        ...

    def arrived(self, entries: Sequence[Entry]) -> None:
        """These are in their partition."""
        ...


class LaneRun:
    """All calls come from the event loop."""

    def __init__(
        self,
        lane: Lane,
        around: Surroundings,
        on_end: Callable[[LaneRun], None],
        *,
        due: int = 0,
    ) -> None:
        """due: of what the lane has on its way, so much is handed over next."""
        self.number = lane.number
        self._around = around
        self._on_end = on_end
        self._producer_id = lane.producer_id
        # All up to here has arrived, and is so many messages of this producer.
        self._done = lane.done if lane.due else around.store.table.frontier
        self._sequence = lane.sequence
        # All up to here was handed over, or looked for.
        self.seen = self._done
        # Whether it must be asked first what of it is there.
        self._is_aligned = lane.due == due
        self._is_behind = not self._is_aligned
        self._to_skip = 0
        self._queue: deque[Entry] = deque()
        self._news = asyncio.Event()
        self._unread: PenstockError | None = None
        self._failures = 0
        # Arrived, and not written down yet.
        self._messages = 0
        self._size_bytes = 0
        self.task = asyncio.get_running_loop().create_task(self._run())
        self.task.add_done_callback(note_bug)

    # --- what the deliverer says and asks --------------------------------------------------------

    def feed(self, entries: Sequence[Entry]) -> None:
        """These are due, and decided to be."""
        if self._is_behind:
            return  # it finds them itself
        fresh = [entry for entry in entries if _due(entry) > self.seen]
        if len(self._queue) + len(fresh) > _QUEUE_MAX:
            self._is_behind = True
            self._news.set()
        elif fresh:
            self.seen = _due(fresh[-1])
            self._queue += fresh
            self._around.handed(len(fresh))
            self._news.set()

    def take_arrived(self) -> Arrived | None:
        """What is to be written down."""
        if not self._messages:
            return None
        arrived = Arrived(
            self.number,
            self._messages,
            self._size_bytes,
            self._producer_id,
            self._sequence,
            self._done,
        )
        self._messages = self._size_bytes = 0
        return arrived

    @property
    def unnoted(self) -> tuple[int, int]:
        """How many messages of how many bytes have arrived, and are not written down."""
        return self._messages, self._size_bytes

    def look_again(self) -> None:
        """Something may not have been handed over."""
        self._is_behind = True
        self._news.set()

    @property
    def is_idle(self) -> bool:
        is_waiting = self._queue or self._is_behind or self._messages
        return not is_waiting and not self._news.is_set()

    def end(self) -> None:
        self.task.cancel()
        self._around.catch_up.forget(self)
        self._release()

    # --- delay.catch_up.Seeker -------------------------------------------------------------------

    def found(self, entries: Sequence[Entry], seen: Due, is_at_end: bool) -> None:
        self.seen = seen
        skipped, fresh = entries[: self._to_skip], entries[self._to_skip :]
        if skipped:
            self._to_skip -= len(skipped)
            self._count(skipped)
        self._queue += fresh
        self._around.handed(len(fresh))
        if is_at_end:
            self._is_behind = False
        if entries or is_at_end:
            self._news.set()

    def failed(self, error: PenstockError) -> None:
        self._unread = error
        self._news.set()

    # --- its work --------------------------------------------------------------------------------

    async def _run(self) -> None:
        while True:
            lane = self._around.store.table.lanes.get(self.number)
            if lane is None:
                self._release()
                self._on_end(self)
                return
            try:
                if not self._is_aligned:
                    await self._align(lane)
                entries = await self._next()
                if entries:
                    await self._send(lane, entries)
                self._failures = 0
            except PenstockError as error:
                if self._around.store.index.is_damaged:
                    self._around.damaged()
                    return
                await self._fall_behind(lane, error)

    async def _fall_behind(self, lane: Lane, error: PenstockError) -> None:
        if self._failures == 0:
            logger.warning(
                "Delayed messages for %s-%d have to wait: %s", lane.topic, lane.partition, error
            )
        self._release()
        self._is_behind, self._is_aligned = True, False
        self.seen = self._done
        wait_s = min(_BACKOFF_S * 2**self._failures, _BACKOFF_S_MAX)
        self._failures = min(self._failures + 1, 10)
        await asyncio.sleep(wait_s)

    def _release(self) -> None:
        self._around.handed(-len(self._queue))
        self._queue.clear()

    async def _next(self) -> list[Entry]:
        """The next ones, to go in one batch."""
        while not self._queue:
            if self._is_behind:
                self._around.catch_up.seek(self)
            self._news.clear()
            await self._news.wait()
            if self._unread is not None:
                error, self._unread = self._unread, None
                raise error
        entries: list[Entry] = []
        size_bytes = 0
        room = EPOCH_SEQUENCES - self._sequence % EPOCH_SEQUENCES
        while self._queue and len(entries) < min(_BATCH_MESSAGES, room):
            size_bytes += self._queue[0].size
            if entries and size_bytes > _BATCH_BYTES:
                break
            entries.append(self._queue.popleft())
        self._around.handed(-len(entries))
        return entries

    async def _align(self, lane: Lane) -> None:
        """Find out what is there, and look for the rest from where that ends."""
        stand = await self._append(lane, None)
        ahead = stand.messages - self._sequence
        if (not stand.is_known and self._sequence) or ahead < 0:
            # It was silent for so long that the partition has forgotten it, or that has lost what
            # it had: from here on under another name.
            await self._begin_anew(lane)
            ahead = 0
        self._to_skip = max(ahead, 0)
        self.seen = self._done
        self._is_aligned = self._is_behind = True

    async def _begin_anew(self, lane: Lane) -> None:
        writer = self._around.writer
        record = LaneRecord(
            lane=lane.number,
            topic=lane.topic,
            topic_id=lane.topic_id,
            partition=lane.partition,
            producer_id=draw_producer_id(),
        )
        await writer.freed()
        records = [(LANE, encode_lane(record))]
        arrived = self.take_arrived()
        if arrived is not None:
            # First, or what came under the old name would be said to come under the new one.
            decided = Decided(frontier=self._around.store.table.frontier, arrived=(arrived,))
            records.insert(0, (DECIDED, encode_decided(decided)))
        error = await writer.write(*records)
        if error is not None:
            raise error
        self._producer_id, self._sequence = record.producer_id, 0

    async def _send(self, lane: Lane, entries: Sequence[Entry]) -> None:
        epoch, sequence = divmod(self._sequence, EPOCH_SEQUENCES)
        assert sequence + len(entries) <= EPOCH_SEQUENCES, (sequence, len(entries))
        builder = BatchBuilder(2**31 - 1, self._around.codec(lane))
        now_ms = self._around.clock.now_ms()
        for number, entry in enumerate(entries, 1):
            try:
                message = self._around.store.message(entry.offset)
            except OffsetOutOfRange:
                # It was moved since it was handed over.
                self._release()
                self.seen, self._is_behind = self._done, True
                return
            # A consumer sees when it was to come, and retention reckons from then; unless the
            # clock was put back since.
            due_ms = min(entry.due_ms, now_ms)
            builder.append(due_ms, message.key, message.value, message.headers or None)
            if number % _READ_PER_TURN == 0:
                await asyncio.sleep(0)
        batch = builder.build(
            producer_id=self._producer_id, producer_epoch=epoch, base_sequence=sequence
        )
        stand = await self._append(lane, batch)
        if stand != (True, self._sequence + len(entries)):
            # Something else is there, of a coordinator before this one, or is there no more.
            self._is_aligned, self._is_behind = False, True
            self._release()
            return
        self._count(entries)
        self._around.arrived(entries)

    def _count(self, entries: Sequence[Entry]) -> None:
        """They have arrived; those that were skipped, some time ago."""
        assert _due(entries[0]) > self._done, (entries[0], self._done)
        self._sequence += len(entries)
        self._done = _due(entries[-1])
        self._messages += len(entries)
        self._size_bytes += sum([entry.size for entry in entries])

    async def _append(self, lane: Lane, batch: bytearray | None) -> Stand:
        around = self._around
        answer: asyncio.Future[Stand] = asyncio.get_running_loop().create_future()

        def told(error: PenstockError | None, stand: Stand) -> None:
            if answer.done():
                return  # it took too long
            if error is not None:
                answer.set_exception(error)
            else:
                answer.set_result(stand)

        around.destinations.append(lane, self._producer_id, around.writer.term, batch, told)
        try:
            async with asyncio.timeout(_ANSWER_S):
                return await answer
        except TimeoutError:
            raise TimedOut(
                f"{lane.topic}-{lane.partition} did not answer within {_ANSWER_S:g} s."
            ) from None


def _due(entry: Entry) -> Due:
    return Due(entry.due_ms, entry.number)
