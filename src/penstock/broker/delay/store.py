"""What a copy of `__delayed` says, as far as it is committed: the table, and the index of what is
due.

Kept up to date on every broker that has a copy, by reading the log; nobody else changes either. Not
what is to be done about it. The invariant: both are what the log says up to `applied`, whether they
were read from its beginning, or saved before and read on from there.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator
from typing import Final

from penstock.broker.groups.snapshot import NO_TERM, term_before
from penstock.broker.partitions.partition import Partition
from penstock.broker.staging.batch import find_first_key
from penstock.broker.turns.in_turns import InTurns
from penstock.coordination.delay.records import (
    CANCELLED,
    DELAYED_TOPIC,
    HEAD,
    Head,
    decode_cancelled,
    decode_head,
    key_hash,
)
from penstock.coordination.delay.table import DelayedTable
from penstock.model.errors import BatchError, CorruptLog, PenstockError, StorageError
from penstock.model.limits import DECOMPRESSED_BYTES_MAX, KIB, MIB
from penstock.records import Message, decode_batch
from penstock.records.header import check_batch
from penstock.records.varint import read_varint
from penstock.records.view import BatchView, batches
from penstock.replication.disk.flusher import Flusher
from penstock.storage.due.index import DueIndex, SaveJob, discard
from penstock.storage.files.files import Directory

logger = logging.getLogger(__name__)

_FOLDER: Final = "due"
_READ_BYTES: Final = 256 * KIB
# Batches after which all is saved, so that a start has no more than these to read.
_BATCHES_PER_SAVE: Final = 50_000
_BYTES_PER_SAVE: Final = 64 * MIB
# Batches whose messages are at hand: neighbours are often due together.
_DECODED_MAX: Final = 32
_DECODED_BYTES_MAX: Final = 8 * MIB


class DelayedStore:
    """One for each time that the copy is opened. All calls come from the event loop."""

    def __init__(self, partition: Partition, folder: Directory, flusher: Flusher) -> None:
        """StorageError if the folder cannot be used."""
        self.partition = partition
        self._replica = partition.replica
        self._folder = folder.subdirectory(_FOLDER)
        self._flusher = flusher
        self.table = DelayedTable()
        self.index = DueIndex(self._folder)
        self.applied = 0
        self._begin()
        self._batches_since_save = 0
        self._bytes_since_save = 0
        self._is_saving = False
        self._merging: InTurns[None] | None = None
        self._decoded: dict[int, tuple[int, list[Message]]] = {}
        self._decoded_bytes = 0

    def _begin(self) -> None:
        """From what was saved, if the log still says the same; else from where the log begins."""
        log = self._replica.log
        found = DueIndex.open(self._folder)
        topic_id = self.partition.topic_id.encode()
        if (
            found is not None
            and found.state.startswith(topic_id)
            and log.start_offset <= found.offset <= log.next_offset
            and NO_TERM != found.term == term_before(self._replica, found.offset)
        ):
            self.table.load(found.state[len(topic_id) :])
            self.index, self.applied = found.index, found.offset
            return
        discard(self._folder)
        self.applied = log.start_offset
        self.table.is_whole = log.start_offset == 0

    @property
    def is_behind(self) -> bool:
        return self.applied < self._replica.high_watermark

    @property
    def is_void(self) -> bool:
        """Whether the log begins anew behind what was read: what is missing is not to be had."""
        return self.applied < self._replica.log.start_offset

    def discard(self) -> None:
        """Close it, and forget what was saved: the index is damaged. StorageError."""
        self.close()
        discard(self._folder)

    def close(self) -> None:
        if self._merging is not None:
            self._merging.cancel()

    # --- following the log ---------------------------------------------------------------------

    def follow(self) -> Generator[None, None, None]:
        """Read what is committed; others have a turn now and then. StorageError."""
        while self.is_behind:
            self._read_some()
            yield

    def catch_up(self) -> None:
        """The same, at once: for who has just written it."""
        while self.is_behind:
            self._read_some()

    def _read_some(self) -> None:
        part = self._replica.read(self.applied, _READ_BYTES).read()
        try:
            for batch in batches(part):
                if not batch.header.is_control:
                    self._apply(batch)
                self.applied = batch.header.next_offset
                self._batches_since_save += 1
                self._bytes_since_save += batch.header.length
        except BatchError as error:
            raise CorruptLog(f"{DELAYED_TOPIC} cannot be read: {error}") from error
        assert self.applied <= self._replica.high_watermark, self.applied
        self._save_if_due()

    def _apply(self, batch: BatchView) -> None:
        kind, value = first_record(batch.view)
        base_offset = batch.header.base_offset
        if kind != HEAD:
            self.table.apply(kind, value, base_offset)
            if kind == CANCELLED:
                for cancelled in decode_cancelled(value):
                    self.index.cancel(*cancelled.due, base_offset)
            return
        head = decode_head(value)
        if self.table.is_whole and head.lane >= self.table.next_lane:
            logger.error(
                "%s has %d messages at offset %d for a partition that it does not tell: they "
                "cannot be delivered",
                DELAYED_TOPIC,
                len(head.sizes),
                base_offset,
            )
        self.table.apply_head(head, base_offset, self._ordered_keys(head, batch))
        put, lane = self.index.put, head.lane
        offset = base_offset
        for due, size in zip(head.dues(base_offset), head.sizes, strict=True):
            offset += 1
            put(due.due_ms, due.number, offset, lane, size)

    def _ordered_keys(self, head: Head, batch: BatchView) -> list[bytes]:
        if not head.is_ordered or head.lane not in self.table.lanes:
            return []
        _, *messages = decode_batch(batch.header, batch.view, DECOMPRESSED_BYTES_MAX)
        return [key_hash(head.lane, message.key or b"") for message in messages]

    # --- reading messages ----------------------------------------------------------------------

    def message(self, offset: int) -> Message:
        """The message there, which is committed. CorruptLog if there is none."""
        for base_offset, (end_offset, messages) in reversed(self._decoded.items()):
            if base_offset < offset < end_offset:
                return messages[offset - base_offset]
        part = memoryview(self._replica.read(offset, 1).read())
        try:
            header = check_batch(part)
            messages = decode_batch(header, part, DECOMPRESSED_BYTES_MAX)
        except BatchError as error:
            raise CorruptLog(f"Offset {offset} of {DELAYED_TOPIC} is damaged: {error}") from error
        base_offset = header.base_offset
        if header.is_control or not base_offset < offset < header.next_offset:
            raise CorruptLog(f"There is no delayed message at offset {offset}.")
        self._decoded_bytes += header.length
        if len(self._decoded) >= _DECODED_MAX or self._decoded_bytes > _DECODED_BYTES_MAX:
            self._decoded.clear()
            self._decoded_bytes = header.length
        self._decoded[base_offset] = header.next_offset, messages
        return messages[offset - base_offset]

    def request_heads(self, token: bytes) -> list[tuple[int, Head]]:
        """The heads of what a request brought, which is known, each with its offset. CorruptLog;
        OffsetOutOfRange if that is gone by now."""
        heads: list[tuple[int, Head]] = []
        offsets = iter(self.table.tokens[token])
        for first_offset, end_offset in zip(offsets, offsets, strict=True):
            offset = first_offset
            while offset < end_offset:
                found, offset = self._heads_at(offset, end_offset)
                heads += [(at, head) for at, head in found if head.token == token]
        return heads

    def _heads_at(self, offset: int, end_offset: int) -> tuple[list[tuple[int, Head]], int]:
        """Some of the heads from there on, and where the rest begins, which is further on."""
        heads = []
        begin_offset = offset
        for batch in batches(self._replica.read(offset, _READ_BYTES).read()):
            if batch.header.base_offset >= end_offset:
                break
            offset = batch.header.next_offset
            if not batch.header.is_control:
                kind, value = first_record(batch.view)
                if kind == HEAD:
                    heads.append((batch.header.base_offset, decode_head(value)))
        if offset == begin_offset:
            raise CorruptLog(f"{DELAYED_TOPIC} has nothing at offset {offset}, which was applied.")
        return heads, offset

    # --- saving --------------------------------------------------------------------------------

    def _save_if_due(self) -> None:
        index = self.index
        is_long_ago = (
            self._batches_since_save >= _BATCHES_PER_SAVE
            or self._bytes_since_save >= _BYTES_PER_SAVE
        )
        if index.is_full:
            index.prune(self.table.floor)
        elif not is_long_ago:
            return
        if index.is_half_full or is_long_ago:
            self.save(lambda: None)

    def save(self, over: Callable[[], None]) -> bool:
        """Keep what is known, so that the next start need not read it again; `over` is called when
        that is done, or has failed. False if there is nothing to do, or it is under way."""
        if self._is_saving or not self.table.is_whole or not self._batches_since_save:
            return False
        state = self.partition.topic_id.encode() + self.table.encode()
        term = term_before(self._replica, self.applied)
        try:
            job = self.index.save(self.applied, term, state, self.table.floor)
        except StorageError as error:
            # It grows until there is room; so does the log, which then takes nothing more.
            logger.warning("The index of delayed messages could not be saved: %s", error)
            return False
        if job is None:
            return False
        self._is_saving = True
        self._batches_since_save = self._bytes_since_save = 0
        self._flusher.submit(job, lambda: self._saved(job, over))
        return True

    def _saved(self, job: SaveJob, over: Callable[[], None]) -> None:
        self._is_saving = False
        over()
        try:
            self.index.saved(job)
        except StorageError as error:
            logger.warning("The index of delayed messages could not be saved: %s", error)
            return
        if self._merging is None or self._merging.ended.is_set():
            merge = self.index.merge(self.table.floor)
            self._merging = InTurns(merge, lambda _: None, _not_merged)


def _not_merged(error: PenstockError) -> None:
    logger.warning("Files of the index of delayed messages stay apart: %s", error)


def first_record(batch: memoryview) -> tuple[bytes, bytes]:
    """The key and the value of a batch's first record, which has both; it is not compressed."""
    try:
        start, end = find_first_key(batch)
        length, cursor = read_varint(batch, end)
        if length < 0 or cursor + length > len(batch):
            raise CorruptLog(f"A record of {DELAYED_TOPIC} has no value.")
    except (IndexError, BatchError) as error:
        raise CorruptLog(f"A record of {DELAYED_TOPIC} cannot be read: {error!r}.") from error
    return bytes(batch[start:end]), bytes(batch[cursor : cursor + length])
