"""Fetch: record batches out of several partitions, waiting for them if asked (R-DEL-6).

The batches go from the file to the socket as they are. A fetch that waits is woken by the
partitions it asks for, and looks only at the one that woke it until there is enough.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from penstock.broker.context import Context
from penstock.broker.kafka.call import Call
from penstock.broker.kafka.fetch_sessions import Interest, Opened
from penstock.broker.kafka.lookup import NO_EPOCH, find_partition
from penstock.broker.partitions.partition import Partition
from penstock.model.errors import PenstockError
from penstock.model.limits import FETCH_WAIT_MS_MAX, MIB
from penstock.protocol.kafka.errors import ErrorCode, code_of
from penstock.protocol.kafka.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)

_READ_COMMITTED: Final = 1
_NO_RECORDS: Final = memoryview(b"")
# As Kafka's fetch.max.bytes of a broker: the batches of one answer.
_RESPONSE_BYTES_MAX: Final = 55 * MIB


def fetch(context: Context, call: Call) -> FetchResponse | None:
    request: FetchRequest = call.request
    opened = call.session.fetch_sessions.open(request, call.version)
    if isinstance(opened, ErrorCode):
        return FetchResponse(error_code=opened)
    _Fetch(context, call, opened).begin()
    return None


class _Found(NamedTuple):
    """What the partitions have for the answer."""

    parts: list[tuple[Interest, PartitionData, int]]
    """With how many bytes of batches there are in it. Nothing of those without news."""
    length: int
    has_error: bool


class _Fetch:
    """One request: answered when there is enough, when its time is up, or when a partition cannot
    be read; forgotten when its client is gone."""

    __slots__ = ("_available", "_call", "_context", "_opened", "_request", "_watches")

    def __init__(self, context: Context, call: Call, opened: Opened) -> None:
        self._context = context
        self._call = call
        self._request: FetchRequest = call.request
        self._opened = opened
        self._watches: list[_Watch] = []
        self._available = 0

    def begin(self) -> None:
        request = self._request
        found = self._read()
        if (
            found.length >= request.min_bytes
            or found.has_error
            or request.max_wait_ms <= 0
            or not self._opened.interests
            or self._context.partitions.is_closing
        ):
            self._answer(found)
            return
        # A read ends with its segment, so there may be more than it found.
        try:
            for interest in self._opened.interests:
                watch = _Watch(self, self._find(interest), interest)
                self._available += watch.measure()
                self._watches.append(watch)
        except PenstockError:
            self._answer(found)
            return
        if self._available >= request.min_bytes:
            self._answer(found)
            return
        for watch in self._watches:
            watch.partition.wait_for_more(watch, watch.wake)
        wait_s = min(request.max_wait_ms, FETCH_WAIT_MS_MAX) / 1000
        self._call.session.wait(self, self._forget, wait_s, self.finish)

    def woken(self, watch: _Watch) -> None:
        """One of the partitions has more, or is going away."""
        before = watch.available
        try:
            self._available += watch.measure() - before
        except PenstockError:
            self.finish()  # the answer will say why
            return
        if (
            self._available >= self._request.min_bytes
            or not watch.partition.is_open
            or self._context.partitions.is_closing
        ):
            self.finish()
        else:
            watch.partition.wait_for_more(watch, watch.wake)

    def finish(self) -> None:
        self._forget()
        self._answer(self._read())

    def _forget(self) -> None:
        for watch in self._watches:
            watch.partition.stop_waiting(watch)
        self._call.session.forget(self)

    def _answer(self, found: _Found) -> None:
        session = self._opened.session
        topics: dict[str | bytes, list[PartitionData]] = {}
        for interest, data, length in found.parts:
            topics.setdefault(interest.topic, []).append(data)
            interest.told_high_watermark = data.high_watermark
            interest.told_start_offset = data.log_start_offset
            if length and session is not None:
                session.move_to_end((interest.topic, interest.partition))
        responses = [
            FetchableTopicResponse(topic_id=topic, partitions=partitions)
            if isinstance(topic, bytes)
            else FetchableTopicResponse(topic, partitions=partitions)
            for topic, partitions in topics.items()
        ]
        self._call.answer(FetchResponse(session_id=self._opened.session_id, responses=responses))

    def _read(self) -> _Found:
        """What there is now, within the bytes that the client wants."""
        left_bytes = min(self._request.max_bytes, _RESPONSE_BYTES_MAX)
        # Null: the client did not ask which transactions were aborted. There are none.
        aborted = () if self._request.isolation_level == _READ_COMMITTED else None
        is_incremental = self._opened.is_incremental
        parts: list[tuple[Interest, PartitionData, int]] = []
        total_bytes = 0
        has_error = False
        for interest in self._opened.interests:
            data = PartitionData(
                interest.partition, aborted_transactions=aborted, records=_NO_RECORDS
            )
            length = 0
            try:
                partition = self._find(interest)
                # One batch comes whatever its size, but only one (KIP-74).
                if left_bytes > 0 or not total_bytes:
                    bytes_max = min(interest.max_bytes, left_bytes)
                    found = partition.read(interest.offset, bytes_max)
                    if found.length and (found.length <= bytes_max or not total_bytes):
                        data.records = found
                        length = found.length
                # Without transactions everything below the high watermark is stable.
                data.high_watermark = data.last_stable_offset = partition.replica.high_watermark
                data.log_start_offset = partition.replica.log.start_offset
            except PenstockError as error:
                data.error_code = code_of(error)
                data.high_watermark = -1
                data.aborted_transactions = None
                has_error = True
            if length:
                total_bytes += length
                left_bytes -= length
            elif (
                is_incremental
                and data.error_code == ErrorCode.NONE
                and data.high_watermark == interest.told_high_watermark
                and data.log_start_offset == interest.told_start_offset
            ):
                continue  # in a session only news is told
            parts.append((interest, data, length))
        return _Found(parts, total_bytes, has_error)

    def _find(self, interest: Interest) -> Partition:
        # Any negative epoch says none here, and only here.
        leader_epoch = max(interest.leader_epoch, NO_EPOCH)
        return find_partition(self._context, interest.topic, interest.partition, leader_epoch)


class _Watch:
    """A partition that a waiting fetch looks at, and how much of it could be sent."""

    __slots__ = ("_fetch", "_interest", "available", "partition")

    def __init__(self, fetch: _Fetch, partition: Partition, interest: Interest) -> None:
        self._fetch = fetch
        self._interest = interest
        self.partition = partition
        self.available = 0

    def measure(self) -> int:
        replica = self.partition.replica
        offset = self._interest.offset
        if offset < replica.log.start_offset:
            self.partition.read(offset, 1)  # raises what is wrong with it
        self.available = replica.log.bytes_between(offset, replica.high_watermark)
        return self.available

    def wake(self) -> None:
        self._fetch.woken(self)
