"""All groups at one offset of the internal topic, in a file beside its log (R-STO-7).

The log itself tells it; a snapshot saves reading the log from its beginning. The invariants: a
snapshot says only what is committed; and one that the log does not reach, that is of another topic
of the same name, or that is so old that tombstones after it may be gone, is never believed.

    topic id, 32 bytes | offset, i64 | when it was made, ms, i64 | record batches    (big endian)
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Callable, Iterable
from typing import Final

from penstock.broker.partition import Partition
from penstock.coordination.group.table import Checkpoint
from penstock.model.errors import BatchError, CorruptLog, StorageError
from penstock.model.limits import MIB
from penstock.records import BatchBuilder, Codec
from penstock.records.view import BatchView, batches
from penstock.storage.files import Directory
from penstock.storage.journal import read_journal, write_journal

logger = logging.getLogger(__name__)

_JOURNAL: Final = "groups.journal"
_HEADER: Final = struct.Struct(">32sqq")
_BATCH_BYTES: Final = MIB // 2
_READ_BYTES: Final = 4 * MIB

KeyAndValue = tuple[bytes, bytes | None]
Apply = Callable[[bytes, bytes | None, int], None]
"""Takes in the key, the value and the time of one record."""


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
        self._now_ms = now_ms

    def run(self) -> None:
        if not self._partition.is_open:
            return
        header = _HEADER.pack(self._partition.topic_id.encode(), self._offset, self._now_ms)
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
) -> int | None:
    """Apply the records of the snapshot; the offset up to which it counts. None: there is none to
    be believed. CorruptLog where some may have been applied and the rest cannot be read."""
    try:
        snapshot = read_journal(folder, _JOURNAL)
    except StorageError as error:
        logger.warning("A snapshot of the groups is unusable, so the log is read: %s", error)
        return None
    if snapshot is None or len(snapshot) < _HEADER.size:
        return None
    topic_id, offset, made_ms = _HEADER.unpack_from(snapshot)
    age_ms = now_ms - made_ms
    if (
        topic_id != partition.topic_id.encode()
        or offset > partition.replica.log.next_offset
        or not 0 <= age_ms < partition.config.delete_retention_ms
    ):
        return None
    try:
        for batch in batches(memoryview(snapshot)[_HEADER.size :]):
            _apply(batch, apply)
    except BatchError as error:
        raise CorruptLog(f"A snapshot of the groups cannot be read: {error}") from error
    return int(offset)


def read_log(
    partition: Partition,
    offset: int,
    apply: Apply,
) -> int:
    """Apply what is committed in the log from the offset on. Returns how many records it was."""
    replica = partition.replica
    offset = max(offset, replica.log.start_offset)
    count = 0
    while offset < replica.high_watermark:
        part = replica.read(offset, _READ_BYTES).read()
        if not part:
            break  # compaction left nothing up to the end
        for batch in batches(part):
            offset = batch.header.next_offset
            count += batch.header.record_count
            _apply(batch, apply)
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


def _apply(batch: BatchView, apply: Apply) -> None:
    for record in batch.records():
        if record.key is not None:
            apply(record.key, record.value, record.timestamp_ms)
