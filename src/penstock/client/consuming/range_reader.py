"""Reads a range of a partition's offsets, as columns: for those who planned what to read.

No group, no position, no waiting for what is not written yet: `consumer` has these. One question
is under way while the caller works on the last answer. The invariant: what is handed out are the
records from `start` to before `end` that exist, each once, in order; where the broker no longer
has all that were there, it is an error and never a gap.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from typing import Final, TypedDict

from penstock.client.concurrency.loop_thread import LoopThread
from penstock.client.concurrency.tasks import TaskScope
from penstock.client.connection.routes import Routes
from penstock.client.consuming.batch_feed import find_offset
from penstock.client.consuming.damage import damaged, one_by_one, sound_part
from penstock.model.errors import (
    BatchError,
    ClientClosed,
    CorruptLog,
    InvalidRequest,
    OffsetOutOfRange,
    PenstockError,
)
from penstock.model.ids import TopicPartition
from penstock.model.limits import MIB
from penstock.protocol import penstock_pb2 as pb
from penstock.protocol.calls import FETCH
from penstock.records import Columns, decode_pieces

# One answer: about 40,000 rows of 100 bytes. Larger ones gain nothing and fall out of the caches.
RANGE_FETCH_BYTES: Final = 4 * MIB
# Small or well compressed messages come in several pieces: Arrow batches of 10,000 to 50,000 rows
# are what Spark takes fastest.
PIECE_ROWS_MAX: Final = 50_000
# Of what was compressed, a hundred times more may come out than was sent.
PIECE_BYTES_MAX: Final = 16 * MIB


class RangeOptions(TypedDict, total=False):
    """What columns have."""

    include_headers: bool
    producer_times: bool
    """See `records.decode_columns`."""


class RangeReader:
    """Fetches a range and decodes it piece by piece. Made by `Client.range_reader`."""

    def __init__(
        self,
        routes: Routes,
        scope: TaskScope,
        partition: TopicPartition,
        start: int,
        end: int,
        *,
        include_headers: bool = False,
        producer_times: bool = False,
    ) -> None:
        if not 0 <= start <= end:
            raise InvalidRequest(
                f"The range from {start} to {end} is none: give two offsets, the first of them not "
                f"after the second."
            )
        self._routes = routes
        self._scope = scope
        self._partition = partition
        self._start = start
        self._end = end
        self._include_headers = include_headers
        self._producer_times = producer_times
        # The next offset to ask for, and the question under way if there is one.
        self._position = start
        self._fetching: asyncio.Task[None] | None = None
        # What came of the last question, until it is taken.
        self._payload = memoryview(b"")
        self._failure: PenstockError | None = None

    async def columns(self) -> AsyncIterator[Columns]:
        """The records of the range, as they are fetched."""
        try:
            while (payload := await self.next_payload()) is not None:
                for columns in self.decode(payload):
                    yield columns
        finally:
            self.close()

    def blocking_columns(self, thread: LoopThread) -> Iterator[Columns]:
        """The same for another thread than the loop's, which decodes in its own time."""
        try:
            while (payload := thread.run(self.next_payload())) is not None:
                yield from self.decode(payload)
        finally:
            with contextlib.suppress(ClientClosed):
                thread.post(self.close)

    async def next_payload(self) -> memoryview | None:
        """Whole batches to decode, which may have no row of the range; None at its end."""
        if self._fetching is None:
            if self._position >= self._end:
                return None
            self._ask()
        assert self._fetching is not None
        # Who is cancelled here leaves the question under way: nothing is lost.
        await asyncio.wait([self._fetching])
        if self._fetching.cancelled():
            raise ClientClosed
        self._fetching = None
        if self._failure is not None:
            raise self._failure
        payload, self._payload = self._payload, memoryview(b"")
        if self._position < self._end:
            self._ask()
        return payload

    def decode(self, payload: memoryview) -> Iterator[Columns]:
        """The rows of the range that a payload has, in pieces. DamagedBatch after those before a
        batch that cannot be read."""
        next_offset = self._start
        try:
            for columns in self._pieces(payload, next_offset):
                next_offset = columns.offsets[-1] + 1
                yield columns
        except BatchError:
            yield from self._decode_one_by_one(payload, next_offset)

    def _decode_one_by_one(self, payload: memoryview, start_offset: int) -> Iterator[Columns]:
        for batch, _, _ in one_by_one(payload, start_offset, self._end):
            try:
                yield from self._pieces(batch, start_offset)
            except BatchError as error:
                raise damaged(self._partition, batch, error) from error

    def _pieces(self, payload: memoryview, start_offset: int) -> Iterator[Columns]:
        for columns in decode_pieces(
            payload,
            start_offset,
            self._include_headers,
            self._end,
            producer_times=self._producer_times,
            rows_max=PIECE_ROWS_MAX,
            bytes_max=PIECE_BYTES_MAX,
        ):
            if columns.record_count:
                yield columns

    def close(self) -> None:
        """Ask no more; an answer that is on its way is dropped."""
        if self._fetching is not None:
            self._fetching.cancel()

    def _ask(self) -> None:
        topic, partition = self._partition
        self._fetching = self._scope.start(self._fetch(), name=f"range of {topic}-{partition}")

    async def _fetch(self) -> None:
        """Get the next batches, or the error that `next_payload` is to raise."""
        topic, partition = self._partition
        request = pb.FetchRequest(
            topic=topic,
            partition=partition,
            offset=self._position,
            max_bytes=RANGE_FETCH_BYTES,
            min_bytes=1,
        )
        try:
            answer, payload = await self._routes.call_leader_for_payload(
                self._partition, FETCH, request
            )
            self._check_end(answer.high_watermark)
            if not payload:
                raise CorruptLog(
                    f"{topic}-{partition} cannot be read on: the broker has nothing at offset "
                    f"{self._position}, though it says that its log goes to "
                    f"{answer.high_watermark}. Run `penstock inspect` on the broker's data folder."
                )
            sound = sound_part(
                payload, self._position, str(self._partition), compacted=answer.compacted
            )
            if sound.error is not None and not sound.length:
                raise sound.error
            # What follows a sound part is asked for again, and then there is nothing before it.
            self._position = sound.next_offset
            self._payload = payload[: sound.length]
        except OffsetOutOfRange as error:
            self._failure = await self._with_range(error)
        except PenstockError as error:
            self._failure = error

    def _check_end(self, high_watermark: int) -> None:
        if self._end > high_watermark:
            topic, partition = self._partition
            raise OffsetOutOfRange(
                f"{topic}-{partition} has no offset {self._end - 1}: its next message will be at "
                f"{high_watermark}."
            )

    async def _with_range(self, error: OffsetOutOfRange) -> OffsetOutOfRange:
        """The error with the offsets that are there now, if the broker can be asked for them."""
        with contextlib.suppress(PenstockError):
            start = await find_offset(self._routes, self._partition, "earliest")
            end = await find_offset(self._routes, self._partition, "latest")
            error.log_start_offset, error.log_end_offset = start, end
        return error
