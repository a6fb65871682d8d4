"""A partition's log as one shared group sees it: what there is to hand out, and its bytes.

Not who gets what. A batch is opened only where that is needed: to order by key, to filter, and
where a header of the queue's own may stand in it. Filtering may take long, and is work in turns
(`broker.delivery.filtered`) between two feeds; so is opening what was too much for this turn. The
invariants: every offset up to where it was read is told once, as there or as nothing to hand out; a
payload has the leased messages and no others. A batch that is damaged, or cannot be opened, is told
as one message, which is found `unreadable` when it is leased.
"""

from __future__ import annotations

import logging
import sys
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Final, NamedTuple

from penstock.broker.delivery.filtered import filtered_read
from penstock.broker.partitions.partition import Partition
from penstock.broker.partitions.unopened import TurnBudget, Unopened
from penstock.broker.turns.fair_turns import Pieces
from penstock.coordination.delivery.shared_partition import SharePartition
from penstock.coordination.delivery.shared_settings import Lease
from penstock.coordination.delivery.window.message_details import MessageDetails, details_of
from penstock.coordination.filter.filters import CompiledFilter
from penstock.model.errors import BatchError, CorruptLog, InvalidBatch
from penstock.model.limits import KIB, MIB, OPENED_BATCH_BYTES_MAX
from penstock.model.message_headers import EXPIRES_MS, PREFIX, PRIORITY
from penstock.records import walk_records
from penstock.records.header import HEADER_BYTES, BatchHeader, Buffer, check_batch, read_header
from penstock.records.plain import PlainBatch
from penstock.records.slicing import SliceableBatch

logger = logging.getLogger(__name__)

# Read of the log in one go, and in one turn of the loop.
_CHUNK_BYTES: Final = 256 * KIB
# Of what was read, and is leased next; there may be thousands of shared groups.
_KEPT_BYTES_MAX: Final = 32 * KIB
_TURN_BYTES: Final = 1 * MIB
# Opened batches that are kept for the next who leases a part of them, and their bytes, if there is
# more than one.
_OPENED_MAX: Final = 4
_OPENED_BYTES_MAX: Final = 8 * MIB
_PREFIX: Final = PREFIX.encode()
# What was found in a batch, kept for its next part: no more than a few megabytes.
_FOUND_MAX: Final = 20_000
# Of what passed a filter, so much is opened between two pauses: about a millisecond.
_AT_ONCE_MESSAGES_MAX: Final = 1_000
# The headers that `details_of` looks at.
_NAMES: Final = frozenset((EXPIRES_MS.encode(), PRIORITY.encode()))


class _Found(NamedTuple):
    """What a batch, or some of them, have for the group. A window that is full takes a part at a
    time: each batch is looked into once, and not once for each part."""

    base_offset: int
    next_offset: int
    skipped: list[tuple[int, int]]
    details: list[MessageDetails]


_Record = tuple[int, bytes | None, list[tuple[str, bytes | None]]]
"""Offset, key and headers."""
_Stored = tuple[int, BatchHeader, memoryview]
"""Of a batch: the offset behind it, its header, and all of it."""


class _TakesLong(Exception):
    """A batch has much in it, or much was opened in this turn."""


class Payload:
    """What there is of leased messages."""

    __slots__ = ("firsts", "gone", "leases", "pieces", "too_many", "unreadable")

    def __init__(self) -> None:
        self.leases: list[Lease] = []
        self.pieces: list[Buffer] = []
        self.firsts: list[int] = []
        """Of each piece: the first offset that is meant."""
        self.gone: list[tuple[int, int]] = []
        """From the log, since it was read: first and last."""
        self.too_many: list[tuple[int, int]] = []
        """That would have been too many bytes: first and last."""
        self.unreadable: list[tuple[int, int, str]] = []
        """In batches that are damaged, or cannot be opened: first and last, and why."""

    def add(self, offsets: Sequence[int], lease: Lease, first: int, end: int) -> None:
        """Of the lease, the messages from `first` to `end`, of which these are there."""
        low, high = bisect_left(offsets, first), bisect_left(offsets, end)
        if high - low == end - first:
            self._add_lease(lease, first, end - 1)
            return
        expected = first
        for offset in offsets[low:high]:
            if expected < offset:
                self.gone.append((expected, offset - 1))
            self._add_lease(lease, offset, offset)
            expected = offset + 1
        if expected < end:
            self.gone.append((expected, end - 1))

    def _add_lease(self, lease: Lease, first: int, last: int) -> None:
        if self.leases and self.leases[-1][1:] == (first - 1, lease.attempt):
            self.leases[-1] = self.leases[-1]._replace(last=last)
        else:
            self.leases.append(lease._replace(first=first, last=last))


class ShareLog:
    """One per share."""

    def __init__(
        self,
        partition: Partition,
        budget: TurnBudget,
        *,
        is_ordered_by_key: bool,
        compiled: CompiledFilter | None,
    ) -> None:
        """compiled: which messages are for the group; None: all."""
        self._partition = partition
        self._budget = budget
        self._is_ordered_by_key = is_ordered_by_key
        self._compiled = compiled
        self._opened: deque[SliceableBatch] = deque()
        self._opened_bytes = 0
        # The chunk that was read last, and from where on: it is leased next.
        self._read: list[_Stored] = []
        self._read_from = 0
        self._found: _Found | None = None
        # A batch that `look` opens: before more is told, or before it is leased.
        self._to_tell: Unopened[_Found] | None = None
        self._to_lease: Unopened[SliceableBatch] | None = None
        # One that could not be opened: its base offset, and why.
        self._unreadable: tuple[int, InvalidBatch] | None = None
        # Why one could not be read, as it was told last: once, however many lease parts of it.
        self._told_why = ""

    def feed(self, machine: SharePartition, now_ms: int) -> bool:
        """Tell the machine what there is, as far as it wants to know, in one turn of the loop.
        True if there is more that it wants: then it is fed again, after `look` where it
        `must_look`."""
        replica = self._partition.replica
        machine.forget_before(replica.log.start_offset)
        left_bytes = _TURN_BYTES
        wanted = machine.wanted
        while wanted is not None and wanted < replica.high_watermark:
            found = self._found
            if found is not None and found.base_offset <= wanted < found.next_offset:
                wanted = self._tell(machine, wanted, found, now_ms)
                continue
            if left_bytes <= 0 or self._compiled is not None:
                return True
            begin, chunk = wanted, memoryview(self._partition.read(wanted, _CHUNK_BYTES).read())
            left_bytes -= len(chunk)
            batches = _batches(chunk)
            self._read, self._read_from = batches if len(chunk) <= _KEPT_BYTES_MAX else [], begin
            for place, (end, header, batch) in enumerate(batches):
                if _is_sound(batch):
                    found = self._find_out(header, batch, wanted)
                else:
                    found = self._damaged(batches[place : place + 2], wanted)
                if found is None:
                    return True  # it has to be opened in turn first
                wanted = self._tell(machine, wanted, found, now_ms)
                if wanted is None or wanted < end:
                    break  # the window is full, or has moved on within the batch
            if wanted == begin:
                return False  # nothing there that could be read: not again in this turn
        return False

    @property
    def is_filtered(self) -> bool:
        return self._compiled is not None

    @property
    def must_look(self) -> bool:
        """Whether something is found out by `look` alone."""
        return self.is_filtered or self._to_tell is not None or self.must_open

    @property
    def must_open(self) -> bool:
        """Whether what was to be leased is in a batch that `look` opens first."""
        return self._to_lease is not None

    def look(self, machine: SharePartition) -> Pieces[bool]:
        """Open a batch; or find out what passes the filter, from what the machine wants to
        know on. Whether there is something to tell it, or to lease."""
        if (to_lease := self._to_lease) is not None:
            self._to_lease = None
            try:
                self._keep((yield from to_lease.in_turn()))
            except InvalidBatch as error:
                self._unreadable = to_lease.header.base_offset, error
            return True
        if (to_tell := self._to_tell) is not None:
            self._to_tell = None
            wanted = machine.wanted
            try:
                self._found = yield from to_tell.in_turn()
            except InvalidBatch:
                header = to_tell.header
                first = header.base_offset if wanted is None else wanted
                self._found = _closed(header, first, header.next_offset)
            return True
        if self._compiled is None:
            return True
        machine.forget_before(self._partition.replica.log.start_offset)
        wanted = machine.wanted
        if wanted is None:
            return True
        try:
            part = yield from filtered_read(
                self._partition, wanted, _CHUNK_BYTES, self._compiled, _FOUND_MAX
            )
        except (CorruptLog, InvalidBatch):
            self._found = self._closed_at(wanted)
            return True
        found = partial(self._passed, part.payload, wanted, part.next_offset)
        is_short = part.message_count <= _AT_ONCE_MESSAGES_MAX
        if is_short and not any(read_header(batch).codec for batch in part.payload):
            self._found = found()
        else:
            self._found = yield found
        return part.next_offset > wanted

    def payload(self, leases: Sequence[Lease], bytes_max: int) -> Payload:
        """The batches of the leased messages, as far as they fit; at least those of one batch. What
        is in a batch that takes long to open is too much, until `look` has opened it."""
        found = Payload()
        size_bytes = 0
        for lease in leases:
            offset = lease.first
            while offset <= lease.last:
                try:
                    opened = self._batch_at(offset)
                except _TakesLong:
                    found.too_many.append((offset, lease.last))
                    break
                except BatchError as error:
                    header = self._header_at(offset)
                    last = max(offset, min(header.last_offset, lease.last))
                    found.unreadable.append((offset, last, self._why(header, error)))
                    offset = last + 1
                    continue
                if opened is None:
                    found.add((), lease, offset, lease.last + 1)
                    break
                piece = opened.between(offset, lease.last)
                if found.pieces and size_bytes + len(piece) > bytes_max:
                    found.too_many.append((offset, lease.last))
                    break
                end = min(opened.next_offset, lease.last + 1)
                if len(piece):
                    found.pieces.append(piece)
                    found.firsts.append(offset)
                    size_bytes += len(piece)
                found.add(opened.offsets, lease, offset, end)
                offset = end
        return found

    def _batch_at(self, offset: int) -> SliceableBatch | None:
        """The batch with this offset, or the next that there is. _TakesLong if it does, BatchError
        if it cannot be read."""
        for opened in self._opened:
            if opened.base_offset <= offset < opened.next_offset:
                return opened
        if self.must_open:
            raise _TakesLong  # no more of them at once: leases may be of many batches
        batch = self._stored(offset)
        if not batch:
            return None
        header = read_header(batch)
        if self._unreadable is not None and self._unreadable[0] == header.base_offset:
            raise self._unreadable[1]
        batch = batch[: header.length]
        unopened = Unopened(header, batch, partial(SliceableBatch, batch))
        sliceable = unopened.at_once(self._budget)
        if sliceable is None:
            self._to_lease = unopened
            raise _TakesLong
        self._keep(sliceable)
        return sliceable

    def _stored(self, offset: int) -> memoryview:
        """The same as it is in the log, perhaps with others behind it; empty if there is none.
        BatchError if it is damaged."""
        if offset >= self._read_from:
            place = bisect_left(self._read, (offset + 1,))
            if place < len(self._read):
                batch = bytes(self._read[place][2])  # without its neighbours, which are forgotten
                if place == len(self._read) - 1:
                    self._read = []
                return memoryview(batch)  # it was checked before it was told
        stored = memoryview(self._partition.read(offset, 1).read())
        if stored:
            check_batch(stored)
        return stored

    def _keep(self, opened: SliceableBatch) -> None:
        """For the next who leases a part of it."""
        self._opened.append(opened)
        self._opened_bytes += opened.size_bytes
        while len(self._opened) > _OPENED_MAX or (
            len(self._opened) > 1 and self._opened_bytes > _OPENED_BYTES_MAX
        ):
            self._opened_bytes -= self._opened.popleft().size_bytes

    def _header_at(self, offset: int) -> BatchHeader:
        return read_header(self._partition.read(offset, 1).read())

    def _why(self, header: BatchHeader, error: BatchError) -> str:
        """Why what is in the batch cannot be read: also told to whoever runs the broker."""
        why = (
            f"Offsets {header.base_offset} to {header.last_offset} of {self._partition.name} "
            f"cannot be read: {error}"
        )
        if why != self._told_why:
            self._told_why = why
            logger.warning(
                "%s A shared group goes on without them, and has a dead letter of it. Run "
                "`penstock inspect` on the data folder.",
                why,
            )
        return why

    def _closed_at(self, wanted: int) -> _Found:
        """The batch that cannot be opened, or is damaged, where a filter was to look on."""
        batches = _batches(memoryview(self._partition.read(wanted, _CHUNK_BYTES).read()))
        _, header, batch = batches[0]
        if _is_sound(batch):
            return _closed(header, wanted, header.next_offset)
        return self._damaged(batches[:2], wanted)

    def _damaged(self, batches: Sequence[_Stored], wanted: int) -> _Found:
        """The first of these, with the next if that was read. Its own word for where it ends may
        be what is damaged: CorruptLog if nothing else says so, since what is behind it, and would
        be passed over, may be sound."""
        self._read = []  # it is read anew when it is leased, and found damaged once more
        header = batches[0][1]
        if len(batches) > 1:
            end = batches[1][1].base_offset
        elif header.record_count == header.last_offset_delta + 1:
            end = header.next_offset
        else:
            end = wanted
        if not wanted < end <= self._partition.replica.high_watermark:
            raise CorruptLog(
                f"{self._partition.name} cannot be read on from offset {wanted}: the batch there "
                "is damaged, and where it ends cannot be told. Run `penstock inspect` on the "
                "broker's data folder."
            )
        return _closed(header, wanted, end)

    def _find_out(self, header: BatchHeader, batch: memoryview, wanted: int) -> _Found | None:
        """What is in a batch; None if it has to be opened in turn first."""
        first, end = header.base_offset, header.next_offset
        if header.is_control or not header.record_count:
            return _Found(first, end, [(first, end)], [])
        if self._is_plain(header, batch):
            return _Found(first, end, [], [])
        unopened = Unopened(header, batch, partial(self._found_in, wanted))
        try:
            found = unopened.at_once(self._budget)
        except InvalidBatch:
            return _closed(header, wanted, end)
        if found is None:
            self._to_tell = unopened
        return found

    def _tell(self, machine: SharePartition, first: int, found: _Found, now_ms: int) -> int | None:
        """As much of a batch as the machine wants to know, from where it wants to know it. What it
        wants to know next."""
        window_end = machine.start + machine.settings.window_max
        low = bisect_right(found.skipped, first, key=_end)
        skipped = found.skipped[low : bisect_left(found.skipped, (window_end,))]
        if first < found.base_offset:
            skipped.insert(0, (first, found.base_offset))  # compaction has taken whole batches
        low = bisect_left(found.details, (first,))
        details = found.details[low : bisect_left(found.details, (window_end,))]
        is_small = len(found.skipped) + len(found.details) <= _FOUND_MAX
        self._found = found if is_small else None
        return machine.offer(first, found.next_offset, now_ms, skipped=skipped, details=details)

    def _found_in(self, wanted: int, plain: PlainBatch) -> _Found:
        """What the batch has from the wanted offset on: all of it, or as much as is more than any
        window. InvalidBatch if these make no sense; the rest is found out when it is looked into,
        or leased."""
        header = plain.header
        found = _Found(max(wanted, header.base_offset), header.next_offset, [], [])
        records = walk_records(header, plain.batch, len(plain.batch), _NAMES)
        end_offset = self._look_into(
            (record for record in records if record[0] >= wanted), found, _FOUND_MAX - 1
        )
        return found._replace(next_offset=end_offset)

    def _passed(self, payload: Sequence[Buffer], first: int, next_offset: int) -> _Found:
        """What these batches have from the first offset on, and nothing else that is before the
        next."""
        found = _Found(first, next_offset, [], [])
        records = (
            record
            for batch in payload
            for record in walk_records(
                read_header(batch), memoryview(batch), OPENED_BATCH_BYTES_MAX, _NAMES
            )
            if record[0] >= first
        )
        self._look_into(records, found, sys.maxsize)
        return found

    def _look_into(self, records: Iterable[_Record], found: _Found, found_max: int) -> int:
        """Up to which offset it has looked, when so much was found."""
        expected = found.base_offset
        for offset, key, headers in records:
            if expected < offset:
                found.skipped.append((expected, offset))
            expected = offset + 1
            details = details_of(offset, key, headers, is_ordered_by_key=self._is_ordered_by_key)
            if details is not None:
                found.details.append(details)
            if len(found.skipped) + len(found.details) >= found_max:
                return expected
        if expected < found.next_offset:
            found.skipped.append((expected, found.next_offset))
        return found.next_offset

    def _is_plain(self, header: BatchHeader, batch: memoryview) -> bool:
        """Whether nothing in the records matters."""
        if self._is_ordered_by_key or header.codec:
            return False
        if header.record_count != header.last_offset_delta + 1:
            return False  # compaction has taken some
        return _PREFIX not in bytes(batch[HEADER_BYTES:])


def _closed(header: BatchHeader, wanted: int, end: int) -> _Found:
    """Of a batch that cannot be opened its first message stands for all: there may be billions, by
    what its header says."""
    first = max(header.base_offset, wanted)
    others = [(first + 1, end)] if first + 1 < end else []
    return _Found(first, end, others, [])


def _is_sound(batch: memoryview) -> bool:
    try:
        check_batch(batch)
    except BatchError:
        return False
    return True


def _end(skipped: tuple[int, int]) -> int:
    return skipped[1]


def _batches(chunk: memoryview) -> list[_Stored]:
    batches: list[_Stored] = []
    position = 0
    while position < len(chunk):
        header = read_header(chunk, position)
        end = position + header.length
        batches.append((header.next_offset, header, chunk[position:end]))
        position = end
    return batches
