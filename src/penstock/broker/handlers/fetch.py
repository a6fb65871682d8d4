"""Fetch: record batches out of a partition, waiting for them if asked (R-DEL-6); and offsets by
time or position (R-DEL-10)."""

from __future__ import annotations

from typing import Final

from penstock.broker.call import Call
from penstock.broker.context import Context
from penstock.broker.handlers.filtered_fetch import filtered_fetch
from penstock.broker.handlers.gone import explained
from penstock.broker.partitions.partition import Partition
from penstock.model.errors import InvalidRequest, OffsetOutOfRange, PenstockError
from penstock.model.limits import FETCH_WAIT_MS_MAX, FETCHES_WAITING_MAX, KIB
from penstock.protocol import penstock_pb2 as pb
from penstock.storage.segments.slice import FileSlice

# Room in the answer's frame for its header and envelope.
_FRAME_OVERHEAD: Final = 1 * KIB


def fetch(context: Context, call: Call[pb.FetchRequest]) -> None:
    request = call.request
    if request.HasField("filter"):
        filtered_fetch(context, call, _max_bytes(context, request))
        return
    partition = context.leaders.find(request.topic, request.partition)
    part = _read(context, partition, request)
    if (
        not request.max_wait_ms
        or call.session.waiting_count >= FETCHES_WAITING_MAX
        or _is_enough(context, partition, request, part)
    ):
        _answer(call, partition, part)
    else:
        _WaitingFetch(context, call, partition).begin()


def find_offset(context: Context, call: Call[pb.FindOffsetRequest]) -> None:
    request = call.request
    replica = context.leaders.find(request.topic, request.partition).replica
    at = request.WhichOneof("at")
    timestamp_ms = -1
    if at == "earliest":
        offset = replica.log.start_offset
    elif at == "latest":
        offset = replica.high_watermark
    elif at == "timestamp_ms":
        found = replica.log.offset_for_time(request.timestamp_ms, replica.high_watermark)
        offset, timestamp_ms = found or (replica.high_watermark, -1)
    else:
        raise InvalidRequest("FindOffset names no place: set earliest, latest or timestamp_ms.")
    response = pb.FindOffsetResponse(offset=offset, timestamp_ms=timestamp_ms)
    call.answer(response)


class _WaitingFetch:
    """A long poll: answered when there is enough, when its time is up, or when the partition goes
    away; forgotten when its client does."""

    __slots__ = ("_call", "_context", "_partition")

    def __init__(self, context: Context, call: Call[pb.FetchRequest], partition: Partition) -> None:
        self._context = context
        self._call = call
        self._partition = partition

    def begin(self) -> None:
        self._partition.wait_for_more(self, self._look)
        wait_ms = min(self._call.request.max_wait_ms, FETCH_WAIT_MS_MAX)
        self._call.session.wait(self, self._forget, wait_ms / 1000, self._time_up)

    def _look(self) -> None:
        """There is more, or the partition is no longer there."""
        request = self._call.request
        try:
            partition = self._context.leaders.find(request.topic, request.partition)
            part = _read(self._context, partition, request)
            if _is_enough(self._context, partition, request, part):
                self._forget()
                _answer(self._call, partition, part)
            else:
                self._partition = partition
                partition.wait_for_more(self, self._look)
        except PenstockError as error:
            self._forget()
            self._call.refuse(error)

    def _time_up(self) -> None:
        """Answer with what there is."""
        partition = self._partition
        self._forget()
        try:
            part = _read(self._context, partition, self._call.request)
            _answer(self._call, partition, part)
        except PenstockError as error:
            self._call.refuse(error)

    def _forget(self) -> None:
        self._partition.stop_waiting(self)
        self._call.session.forget(self)


def _max_bytes(context: Context, request: pb.FetchRequest) -> int:
    return min(request.max_bytes, context.config.frame_bytes_max - _FRAME_OVERHEAD)


def _read(context: Context, partition: Partition, request: pb.FetchRequest) -> FileSlice:
    try:
        return partition.read(request.offset, _max_bytes(context, request))
    except OffsetOutOfRange as error:
        raise explained(error, partition, request.offset) from None


def _is_enough(
    context: Context, partition: Partition, request: pb.FetchRequest, part: FileSlice
) -> bool:
    """Whether the fetch need not wait for more."""
    if part.length >= request.min_bytes or context.partitions.is_closing:
        return True
    if not part.length:
        return False
    # A slice ends with its segment: what lies behind counts as well.
    replica = partition.replica
    return replica.log.bytes_between(request.offset, replica.high_watermark) >= request.min_bytes


def _answer(call: Call[pb.FetchRequest], partition: Partition, part: FileSlice) -> None:
    replica = partition.replica
    log = replica.log
    response = pb.FetchResponse(
        high_watermark=replica.high_watermark,
        log_start_offset=log.start_offset,
        compacted=log.is_compacted,
    )
    call.answer_slice(response, part)
