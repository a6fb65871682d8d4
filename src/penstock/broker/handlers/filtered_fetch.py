"""Fetch with a filter (R-DEL-12): a long poll that ends when a message passes.

Not the reading (`broker.delivery.filtered`), which takes its turns among others. The invariants: an
answer's `next_offset` is beyond all that was looked at, so nothing is looked at twice; and whoever
waits while others' messages pass by is told soon how far it has come, but not for each of them.
"""

from __future__ import annotations

from typing import Final

from penstock.broker.call import Call
from penstock.broker.context import Context
from penstock.broker.delivery.filtered import FilteredPart, filtered_read
from penstock.broker.handlers.gone import explained
from penstock.broker.turns.fair_turns import Work
from penstock.model.errors import OffsetOutOfRange, PenstockError
from penstock.model.limits import FETCH_WAIT_MS_MAX, FETCHES_WAITING_MAX
from penstock.protocol import penstock_pb2 as pb

# A client whose messages all are for others learns this often that its place has moved.
_SKIPPED_WAIT_S: Final = 0.25


def filtered_fetch(context: Context, call: Call[pb.FetchRequest], max_bytes: int) -> None:
    """Answer now or later. What this raises is the answer."""
    may_wait = call.session.waiting_count < FETCHES_WAITING_MAX
    _FilteredFetch(context, call, max_bytes, may_wait=may_wait).begin()


class _FilteredFetch:
    """One fetch under way: looking, or waiting for more to look at."""

    __slots__ = (
        "_call",
        "_compiled",
        "_context",
        "_deadline_s",
        "_max_bytes",
        "_offset",
        "_partition",
        "_work",
    )

    def __init__(
        self,
        context: Context,
        call: Call[pb.FetchRequest],
        max_bytes: int,
        *,
        may_wait: bool,
    ) -> None:
        request = call.request
        self._context = context
        self._call = call
        self._max_bytes = max_bytes
        self._compiled = context.delivery.filters.compiled(request.filter)
        self._partition = context.leaders.find(request.topic, request.partition)
        # All before it was looked at.
        self._offset = request.offset
        wait_s = min(request.max_wait_ms, FETCH_WAIT_MS_MAX) / 1000 if may_wait else 0.0
        self._deadline_s = context.loop.time() + wait_s
        self._work: Work[FilteredPart] | None = None

    def begin(self) -> None:
        self._call.session.on_close(self, self._forget)
        self._look()

    def _look(self) -> None:
        """There may be more, or the partition is no longer there."""
        request = self._call.request
        try:
            self._partition = self._context.leaders.find(request.topic, request.partition)
        except PenstockError as error:
            self._failed(error)
            return
        reading = filtered_read(self._partition, self._offset, self._max_bytes, self._compiled)
        self._work = self._context.delivery.fair_turns.begin(
            self._call.connection, reading, self._looked, self._failed
        )

    def _looked(self, part: FilteredPart) -> None:
        self._work = None
        now_s = self._context.loop.time()
        if part.next_offset > self._call.request.offset:
            self._deadline_s = min(self._deadline_s, now_s + _SKIPPED_WAIT_S)
        self._offset = part.next_offset
        is_behind = part.next_offset < self._partition.replica.high_watermark
        is_over = now_s >= self._deadline_s or self._context.partitions.is_closing
        if part.payload or is_behind or is_over or not self._partition.is_open:
            self._answer(part.payload)
            return
        self._partition.wait_for_more(self, self._look)
        wait_s = self._deadline_s - now_s
        self._call.session.wait(self, self._forget, wait_s, self._time_up)

    def _time_up(self) -> None:
        if self._work is None:  # else it is looking, and answers by itself
            self._answer([])

    def _answer(self, payload: list[bytes | bytearray | memoryview]) -> None:
        self._forget()
        replica = self._partition.replica
        response = pb.FetchResponse(
            high_watermark=replica.high_watermark,
            log_start_offset=replica.log.start_offset,
            compacted=replica.log.is_compacted,
            next_offset=self._offset,
        )
        self._call.answer(response, b"".join(payload))

    def _failed(self, error: PenstockError) -> None:
        self._forget()
        if isinstance(error, OffsetOutOfRange):
            error = explained(error, self._partition, self._offset)
        self._call.refuse(error)

    def _forget(self) -> None:
        if self._work is not None:
            self._work.cancel()
        self._partition.stop_waiting(self)
        self._call.session.forget(self)
