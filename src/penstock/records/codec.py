# mypy: disallow-untyped-decorators=False, warn-return-any=False
# ruff: noqa: SLF001 - messages are made here, field by field
"""Records out of batches, as messages: the loop of a consumer.

One source, two ways to run (docs/decisions/0002): as it stands, or compiled by Cython to
`penstock.records._codec`. Import from `penstock.records`, which picks. Records are parsed by
`records.cursor`, columns made by `records.column_decoder`; writing is in `records.builder`, by
whose means records that are handed on are numbered anew here.

Compiled, `data` below is a C pointer; interpreted, it is the bytes themselves. Both are indexed
and sliced alike.
"""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterator
from typing import Any, Literal
from weakref import ref

import cython

from penstock.model.errors import ClientClosed
from penstock.model.limits import RECORD_HEADERS_MAX
from penstock.model.message_headers import EXPIRES_MS, TAG, read_number
from penstock.records.columns import Headers
from penstock.records.header import HEADER_BYTES, RECORD_BYTES_MIN, BatchHeader, Buffer

if cython.compiled:
    from cython.cimports.penstock.records._builder import put_bytes, put_varint, varint_size
    from cython.cimports.penstock.records._cursor import Cursor, address

    from penstock.records._cursor import (  # type: ignore[import-not-found]
        cursors,
        open_batch,
    )
else:
    from penstock.records.builder import put_bytes, put_varint, varint_size
    from penstock.records.cursor import Cursor, address, cursors, open_batch


_EXPIRES_LENGTH = cython.declare(cython.longlong, len(EXPIRES_MS))
# Records and headers that are taken out before other threads may run: some tenths of a millisecond.
# Interpreted, they may at any time.
_WALKED_MAX = cython.declare(cython.longlong, 1_000)


class Lifetimes:
    """Which messages have outlived their time, and whether others may soon."""

    def __init__(self, now_ms: int) -> None:
        self._now_ms = now_ms
        self.expired_count = 0
        self.is_any_limited = False
        """Whether a message that was kept has a time to live."""

    def is_over(self, headers: Headers) -> bool:
        expires_ms = expiry_ms(headers)
        if expires_ms is None:
            return False
        if expires_ms <= self._now_ms:
            self.expired_count += 1
            return True
        self.is_any_limited = True
        return False


def expiry_ms(headers: Headers) -> int | None:
    """From when on a message with these headers is not delivered; None: there is no such time."""
    expires_ms: int | None = None
    for name, value in headers:
        if name == EXPIRES_MS:
            expires_ms = read_number(value)  # the last counts, as for shared groups
    return expires_ms


# The garbage collector would take a sixth of the time that decoding and reading a message takes. It
# need not look: nothing a message holds leads back to it, as its reference to the source is weak.
@cython.no_gc
@cython.final
@cython.cclass
class Message:
    """One message as a consumer gets it."""

    __slots__ = (
        "_headers",
        "_is_append_time",
        "_key",
        "_offset",
        "_partition",
        "_source",
        "_timestamp_ms",
        "_topic",
        "_value",
    )
    _topic: Any
    _partition: cython.int
    _offset: cython.longlong
    _timestamp_ms: cython.longlong
    _is_append_time: cython.bint
    _key: Any
    _value: Any
    _headers: Any
    _source: Any

    @property
    def topic(self) -> str:
        return self._topic

    @property
    def partition(self) -> int:
        return self._partition

    @property
    def offset(self) -> int:
        """The message's place in its partition."""
        return self._offset

    @property
    def timestamp_ms(self) -> int:
        """Milliseconds since 1970; `timestamp_type` says whose clock."""
        return self._timestamp_ms

    @property
    def timestamp_type(self) -> Literal["create", "append"]:
        """`create`: the producer's time; `append`: the broker's."""
        return "append" if self._is_append_time else "create"

    @property
    def key(self) -> bytes | None:
        return self._key

    @property
    def value(self) -> bytes | None:
        return self._value

    @property
    def headers(self) -> Headers:
        """Pairs of name and value, in the producer's order; names may repeat."""
        return self._headers

    @property
    def source(self) -> Any:
        """Whoever delivered the message and takes its acknowledgement; None if there is none."""
        return self._source and self._source()

    @property
    def tag(self) -> str | None:
        """Of what sort the message is, if its producer said so."""
        for name, value in self._headers:
            if name == TAG and value is not None:
                return value.decode(errors="replace")
        return None

    @property
    def attempt(self) -> int:
        """How often it was handed out, this time included: 1 unless it failed or was given back."""
        return self._holder().attempt(self)

    # What became of it. Await what these return.

    def ack(self) -> Any:
        """Say that this message has been dealt with."""
        return self._holder().acknowledge(self)

    def release(self, delay_s: float = 0.0) -> Any:
        """Give it back, for any member of the group: now, or after some time."""
        return self._holder().release(self, delay_s)

    def fail(self, reason: str = "") -> Any:
        """It could not be dealt with: try again later, or bury it after the last attempt."""
        return self._holder().fail(self, reason)

    def reject(self, reason: str = "") -> Any:
        """It never can be dealt with: to the dead letters, with the reason."""
        return self._holder().reject(self, reason)

    def extend(self) -> Any:
        """Keep it for a whole lease more."""
        return self._holder().extend(self)

    def reply(self, value: bytes | None, headers: Headers = ()) -> Any:
        """Answer the request that this message is."""
        return self._holder().reply(self, value, headers)

    def _holder(self) -> Any:
        source = self.source
        if source is None:
            raise ClientClosed("The consumer of this message is gone: keep it to acknowledge.")
        return source

    def __repr__(self) -> str:
        return (
            f"Message({self.topic!r}, {self.partition}, offset={self.offset}, key={self.key!r}, "
            f"value={self.value!r}, timestamp_ms={self.timestamp_ms}, headers={self.headers!r})"
        )


def decode_messages(
    payload: Buffer, topic: str, partition: int, start_offset: int, source: Any = None
) -> list[Message]:
    """Every message from the offset on, out of whole batches end to end; control batches are
    skipped. CorruptBatch if a checksum is wrong, InvalidBatch if what it covers makes no sense."""
    reference = None if source is None else ref(source)
    messages: list[Message] = []
    for cursor in cursors(payload, start_offset):
        _take_messages(cursor, messages, topic, partition, start_offset, reference, True, None)
    return messages


def decode_unexpired(
    payload: Buffer, topic: str, partition: int, start_offset: int, source: Any, now_ms: int
) -> tuple[list[Message], Lifetimes]:
    """Like `decode_messages`, without those whose time to live is over. Only messages with a header
    as long as that one's name are looked at, so that others cost nothing."""
    reference = None if source is None else ref(source)
    messages: list[Message] = []
    lifetimes = Lifetimes(now_ms)
    for cursor in cursors(payload, start_offset):
        _take_messages(cursor, messages, topic, partition, start_offset, reference, True, lifetimes)
    return messages, lifetimes


def decode_batch(
    header: BatchHeader, batch: memoryview, bytes_max: int, include_headers: bool = True
) -> list[Message]:
    """The records of one checked batch, control or not, as messages of no topic: to inspect it."""
    messages: list[Message] = []
    cursor: Cursor = open_batch(header, batch, bytes_max)
    _take_messages(cursor, messages, "", -1, 0, None, include_headers, None)
    return messages


def count_keys(header: BatchHeader, batch: memoryview, bytes_max: int) -> int:
    """How many records of one checked batch have a key; all of them are found sound on the way, and
    none with more than RECORD_HEADERS_MAX headers. Other threads run meanwhile."""
    cursor: Cursor = open_batch(header, batch, bytes_max, RECORD_HEADERS_MAX)
    keys: cython.longlong = 0
    with cython.nogil:
        while cursor.advance():
            cursor.skip_headers()
            keys += cursor.key_length >= 0
    return keys


def count_headers(header: BatchHeader, batch: memoryview, bytes_max: int) -> int:
    """How many headers the records of one checked batch have together; else as `count_keys`."""
    cursor: Cursor = open_batch(header, batch, bytes_max, RECORD_HEADERS_MAX)
    headers: cython.longlong = 0
    with cython.nogil:
        while cursor.advance():
            headers += cursor.headers_left
            cursor.skip_headers()
    return headers


def locate_records(
    header: BatchHeader, batch: memoryview, bytes_max: int
) -> tuple[array[int], array[int]]:
    """The offset of each record of one checked batch, and where in the decompressed records it
    ends: the next begins there. Else as `count_keys`."""
    cursor: Cursor = open_batch(header, batch, bytes_max, RECORD_HEADERS_MAX)
    # Eight bytes for each, and not for more than there can be.
    count = min(header.record_count, cursor.end // RECORD_BYTES_MIN)
    offsets = array("q", bytes(8 * count))
    ends = array("q", bytes(8 * count))
    offset_at: cython.longlong[::1] = offsets
    end_at: cython.longlong[::1] = ends
    index: cython.Py_ssize_t = 0
    with cython.nogil:
        while cursor.advance():
            cursor.skip_headers()
            offset_at[index] = cursor.offset
            end_at[index] = cursor.record_end
            index += 1
    return offsets, ends


def walk_records(
    header: BatchHeader, batch: memoryview, bytes_max: int, names: Collection[bytes]
) -> Iterator[tuple[int, bytes | None, list[tuple[str, bytes | None]]]]:
    """Offset, key and the headers of these names of each record of one checked batch; nothing else
    is taken out. None may have more than RECORD_HEADERS_MAX headers."""
    cursor: Cursor = open_batch(header, batch, bytes_max, RECORD_HEADERS_MAX)
    lengths: cython.ulonglong = 0
    one: cython.ulonglong = 1
    for name in names:
        assert len(name) < 64, name
        lengths |= one << len(name)
    while cursor.advance():
        pairs: list[Any] = []
        while cursor.next_header():
            # Most names differ in length already.
            if cursor.name_length > 63 or not (lengths >> cursor.name_length) & 1:
                continue
            start: cython.Py_ssize_t = cursor.name_position
            found: bytes = cursor.data[start : start + cursor.name_length]
            if found in names:
                value = _slice(cursor.data, cursor.content_position, cursor.content_length)
                pairs.append((found.decode(), value))
        yield cursor.offset, _slice(cursor.data, cursor.key_position, cursor.key_length), pairs


def renumber_records(header: BatchHeader, records: Buffer, shift: int) -> bytearray:
    """Records that were found sound, with offset deltas that are less by `shift`, behind room for
    their header; all else of them is as it was. header: the one that they get."""
    cursor: Cursor = Cursor(header, records)
    # Neither a smaller number nor the length of a record with one takes more bytes than before.
    batch = bytearray(HEADER_BYTES + len(records))
    data: cython.p_uchar = address(batch)
    position: cython.Py_ssize_t = HEADER_BYTES
    less: cython.longlong = shift
    while cursor.position < cursor.end:
        length: cython.longlong = cursor.length(cursor.end)
        start: cython.Py_ssize_t = cursor.position
        record_end: cython.Py_ssize_t = start + length
        cursor.position += 1  # the record's attributes
        cursor.varint(10)
        delta_start: cython.Py_ssize_t = cursor.position
        delta: cython.longlong = cursor.varint(5) - less
        saved: cython.longlong = cursor.position - delta_start - varint_size(delta)
        position = put_varint(data, position, length - saved)
        before: bytes = cursor.data[start:delta_start]
        position = put_bytes(data, position, before, len(before))
        position = put_varint(data, position, delta)
        behind: bytes = cursor.data[cursor.position : record_end]
        position = put_bytes(data, position, behind, len(behind))
        cursor.position = record_end
    del batch[position:]
    return batch


@cython.cfunc
def _take_messages(
    cursor: Cursor,
    messages: list[Message],
    topic: object,
    partition: cython.int,
    start_offset: cython.longlong,
    source: object,
    include_headers: cython.bint,
    lifetimes: Any,
) -> cython.void:
    walked: cython.longlong = 0
    while cursor.advance():
        walked += 1 + cursor.headers_left
        if walked > _WALKED_MAX:
            walked = 0
            with cython.nogil:
                pass
        headers: object = ()
        may_expire: cython.bint = False
        if cursor.headers_left == 0:
            pass
        elif include_headers:
            pairs: list[Any] = []
            may_expire = _take_headers(cursor, pairs)
            headers = tuple(pairs)
        else:
            with cython.nogil:
                cursor.skip_headers()
        if cursor.offset < start_offset:
            continue
        if may_expire and lifetimes is not None and lifetimes.is_over(headers):
            continue
        message: Message = Message.__new__(Message)
        message._topic = topic
        message._partition = partition
        message._offset = cursor.offset
        message._timestamp_ms = cursor.timestamp_ms
        message._is_append_time = cursor.is_append_time
        message._key = _slice(cursor.data, cursor.key_position, cursor.key_length)
        message._value = _slice(cursor.data, cursor.value_position, cursor.value_length)
        message._headers = headers
        message._source = source
        messages.append(message)


@cython.cfunc
def _take_headers(cursor: Cursor, headers: list[Any]) -> cython.bint:
    """Whether one of them may say when the message expires."""
    may_expire: cython.bint = False
    while cursor.next_header():
        if cursor.name_length == _EXPIRES_LENGTH:
            may_expire = True
        name: bytes = cursor.data[cursor.name_position : cursor.name_position + cursor.name_length]
        # Java's client reads a name that is no UTF-8 with replacements, and so do we: one careless
        # producer must not stop every consumer.
        value = _slice(cursor.data, cursor.content_position, cursor.content_length)
        headers.append((name.decode("utf-8", "replace"), value))
    return may_expire


@cython.cfunc
@cython.inline
def _slice(data: cython.p_uchar, position: cython.Py_ssize_t, length: cython.longlong) -> object:
    return None if length < 0 else data[position : position + length]
