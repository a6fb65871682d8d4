"""All groups at one offset of the internal topic, in a file beside its log (R-STO-7).

The log itself tells it; a snapshot saves reading the log from its beginning. It is the broker's
own: whoever begins to lead has an old one, or none. The invariants: a snapshot says only what is
committed; and one that the log does not reach, whose last record was written in another term than
the log says, that is of another topic of the same name, or that is so old that tombstones after it
may be gone, is never believed.

    topic id, 32 bytes | offset, i64 | term of the record before it, i64
    | when it was made, ms, i64 | record batches    (big endian)
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Callable, Generator, Iterable
from typing import Final

from penstock.broker.partitions.partition import Partition
from penstock.coordination.group.table import Checkpoint
from penstock.model.errors import BatchError, CorruptLog, StorageError
from penstock.model.limits import MIB
from penstock.records import BatchBuilder, Codec
from penstock.records.view import batches
from penstock.replication.replica.replica import Replica
from penstock.storage.files.files import Directory
from penstock.storage.files.journal import read_journal, write_journal

logger = logging.getLogger(__name__)

_JOURNAL: Final = "groups.journal"
_HEADER: Final = struct.Struct(">32sqqq")
_BATCH_BYTES: Final = MIB // 2
_READ_BYTES: Final = 4 * MIB
# Some ten milliseconds: others have a turn before the next ones.
_SLICE_RECORDS: Final = 250
# By so much the clock of whoever deleted tombstones may differ from the one here.
_CLOCKS_APART_MS_MAX: Final = 60 * 60 * 1000
NO_TERM: Final = -1

KeyAndValue = tuple[bytes, bytes | None]
Apply = Callable[[bytes, bytes | None, int], None]
"""Takes in the key, the value and the time of one record."""
Counted = Generator[None, None, int]
"""Reads some, lets others have a turn, and tells at the end how many records it were."""


class SnapshotJob:
    """A snapshot on its way to disk, on a flusher's thread."""

    def __init__(
        self,
        partition: Partition,
        folder: Directory,
        checkpoint: Checkpoint,
        offset: int,
        now_ms: int,
    ) -> None:
        self._partition = partition
        self._folder = folder
        self._checkpoint = checkpoint
        self._offset = offset
        self._term = term_before(partition.replica, offset)
        self._now_ms = now_ms

    def run(self) -> None:
        if not self._partition.is_open:
            return
        topic_id = self._partition.topic_id.encode()
        header = _HEADER.pack(topic_id, self._offset, self._term, self._now_ms)
        # Thousands of names that resemble each other: a tenth of it is left when compressed.
        parts = build_batches(self._checkpoint.records(), self._now_ms, Codec.ZSTD)
        try:
            write_journal(self._folder, _JOURNAL, b"".join([header, *parts]))
        except StorageError as error:
            # The next start then reads more of the log, nothing worse.
            logger.warning("A snapshot of the groups could not be written: %s", error)


def read_snapshot(
    partition: Partition,
    folder: Directory,
    apply: Apply,
    now_ms: int,
) -> Generator[None, None, int | None]:
    """Apply the records of the snapshot; the offset up to which it counts. None: there is none to
    be believed. CorruptLog where some may have been applied and the rest cannot be read."""
    try:
        snapshot = read_journal(folder, _JOURNAL)
    except StorageError as error:
        logger.warning("A snapshot of the groups is unusable, so the log is read: %s", error)
        return None
    if snapshot is None or len(snapshot) < _HEADER.size:
        return None
    topic_id, offset, term, made_ms = _HEADER.unpack_from(snapshot)
    age_ms = now_ms - made_ms
    if (
        topic_id != partition.topic_id.encode()
        or term == NO_TERM
        or term != term_before(partition.replica, offset)
        or not 0 <= age_ms < partition.config.delete_retention_ms - _CLOCKS_APART_MS_MAX
    ):
        return None
    try:
        yield from _apply_all(memoryview(snapshot)[_HEADER.size :], apply)
    except BatchError as error:
        raise CorruptLog(f"A snapshot of the groups cannot be read: {error}") from error
    return int(offset)


def read_log(partition: Partition, offset: int, apply: Apply) -> Counted:
    """Apply what is committed in the log from the offset on."""
    replica = partition.replica
    offset = max(offset, replica.log.start_offset)
    count = 0
    while offset < replica.high_watermark:
        part = replica.read(offset, _READ_BYTES).read()
        if not part:
            break  # compaction left nothing up to the end
        read, offset = yield from _apply_all(memoryview(part), apply)
        count += read
    return count


def build_batches(
    records: Iterable[KeyAndValue], now_ms: int, codec: Codec = Codec.NONE
) -> list[bytearray]:
    """The records as batches, as many as it takes."""
    built = []
    builder = BatchBuilder(_BATCH_BYTES, codec)
    for key, value in records:
        if builder.append(now_ms, key, value) < 0:
            built.append(builder.build())
            builder = BatchBuilder(_BATCH_BYTES, codec)
            builder.append(now_ms, key, value)
    if builder.record_count:
        built.append(builder.build())
    return built


def _apply_all(part: memoryview, apply: Apply) -> Generator[None, None, tuple[int, int]]:
    """How many records there were, and the offset behind them. Those that a leader writes of its
    own are not of the groups."""
    count = offset = 0
    for batch in batches(part):
        offset = batch.header.next_offset
        if batch.header.is_control:
            continue
        for record in batch.records():
            if record.key is not None:
                apply(record.key, record.value, record.timestamp_ms)
            count += 1
            if count % _SLICE_RECORDS == 0:
                yield
    return count, offset


def term_before(replica: Replica, offset: int) -> int:
    """Of the record that ends at the offset; NO_TERM where the log does not tell."""
    terms = replica.consensus.raft.state.terms
    if terms.start_offset <= offset <= terms.end_offset:
        return terms.term_before(offset)
    # What it wrote since it is alone Raft is not told of: all of it in one term.
    is_own = replica.is_alone and terms.end_offset < offset <= replica.log.next_offset
    return replica.term if is_own else NO_TERM
