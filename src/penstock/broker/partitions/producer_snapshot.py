"""Who produces to a partition, written down now and then, and found again after a crash.

The log itself tells it; a snapshot saves reading the log from its beginning, and lets retention
delete what came before. The invariant: a snapshot says only what is committed, and one that the log
does not reach, or that is of another topic of the same name, is never believed.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Set
from typing import Final, NamedTuple

from penstock.broker.partitions.partition import Partition
from penstock.coordination.producers.state import ProducerState
from penstock.model.errors import CorruptLog, PenstockError, StorageError
from penstock.model.ids import TopicId
from penstock.replication.disk.flusher import Flusher
from penstock.replication.replica.saved_state import read_reset
from penstock.storage.files.files import Directory
from penstock.storage.files.journal import read_journal, remove_journal, write_journal
from penstock.storage.log.log import Log

logger = logging.getLogger(__name__)

_JOURNAL: Final = "producers.journal"
# Of which topic, and up to which offset.
_HEADER: Final = struct.Struct(">32sq")


def save(partition: Partition, folder: Directory, flusher: Flusher) -> None:
    """Write a snapshot once all it says is committed. `SavedProducers.offset` of the partition
    tells how far one was tried: a disk without room for it must not keep retention from making
    some; it is tried again the next time. But what tells of a producer that must not be forgotten
    has to stay then."""
    saved = partition.saved_producers
    if saved.is_saving:
        return
    saved.is_saving = True
    end_offset = partition.replica.log.next_offset
    rolls = partition.replica.log.writer.rolls
    header = _HEADER.pack(partition.topic_id.encode(), end_offset)
    job = _Write(partition, folder, header + partition.producers.encode())

    def tried() -> None:
        saved.is_saving = False
        needed_offset = None if job.is_written else partition.producers.kept_offset()
        if needed_offset is None:
            saved.offset = end_offset
        else:
            saved.offset = min(max(saved.offset, needed_offset), end_offset)
        if job.is_written:
            saved.rolls = rolls

    def committed(error: PenstockError | None) -> None:
        if error is None:
            flusher.submit(job, tried)
        else:
            saved.is_saving = False

    partition.replica.when_committed(end_offset, committed)


def take(partition: Partition) -> bytes | None:
    """What is committed, for a copy that begins anew where this one starts: it will get what comes
    after that, but not what came before. None if it cannot be told now."""
    end_offset = partition.replica.high_watermark
    producers = partition.producers.before(end_offset)
    if producers is None:
        return None
    return _HEADER.pack(partition.topic_id.encode(), end_offset) + producers.encode()


def recover(
    folder: Directory, topic_id: TopicId, log: Log, now_ms: int, kept: Set[int]
) -> ProducerState:
    """Who produced to the log: from the snapshot and the batches after it, or from all batches."""
    producers, known_offset = ProducerState(kept), _NONE.offset
    for read in (_read_own, _read_leaders):
        try:
            snapshot = read(folder, topic_id, log)
            if snapshot.offset > known_offset:
                producers = ProducerState.decode(snapshot.encoded, kept)
                known_offset = snapshot.offset
        except CorruptLog as error:
            logger.warning("A producer snapshot is unusable, so more of the log is read: %s", error)
    for header in log.headers(min(known_offset, log.next_offset)):
        if header.producer_id >= 0:
            producers.record_copy(header, header.base_offset, now_ms)
    return producers


def _read_own(folder: Directory, topic_id: TopicId, log: Log) -> _Snapshot:
    snapshot = _taken_apart(read_journal(folder, _JOURNAL), topic_id)
    if snapshot.offset > log.next_offset:
        snapshot = _NONE
    if snapshot is _NONE:
        # It must not be believed when the log has grown that far again.
        remove_journal(folder, _JOURNAL)
    return snapshot


def _read_leaders(folder: Directory, topic_id: TopicId, log: Log) -> _Snapshot:
    """What the leader sent when this copy began anew. It may tell of more than the log has by now:
    that is committed, and will be copied before this copy can lead."""
    reset = read_reset(folder)
    if reset is None or reset[0] > log.first_offset:
        return _NONE
    snapshot = _taken_apart(reset[1], topic_id)
    # Of what was deleted here since then, and came after it, it tells nothing.
    return snapshot if snapshot.offset >= log.first_offset else _NONE


def _taken_apart(payload: bytes | None, topic_id: TopicId) -> _Snapshot:
    if payload is None or len(payload) < _HEADER.size:
        return _NONE
    topic, offset = _HEADER.unpack_from(payload)
    return _Snapshot(offset, payload[_HEADER.size :]) if topic == topic_id.encode() else _NONE


class _Snapshot(NamedTuple):
    """Up to which offset, and what."""

    offset: int
    encoded: bytes


_NONE: Final = _Snapshot(-1, b"")


class _Write:
    """A snapshot on its way to disk, on a flusher's thread."""

    def __init__(self, partition: Partition, folder: Directory, snapshot: bytes) -> None:
        self._partition = partition
        self._folder = folder
        self._snapshot = snapshot
        self.is_written = False

    def run(self) -> None:
        if not self._partition.is_open:
            return
        try:
            write_journal(self._folder, _JOURNAL, self._snapshot)
            self.is_written = True
        except StorageError as error:
            # Recovery then reads further back, and may find less, of those that may be forgotten.
            logger.warning("A producer snapshot could not be written: %s", error)
