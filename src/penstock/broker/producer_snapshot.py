"""Who produces to a partition, written down now and then, and found again after a crash.

The log itself tells it; a snapshot saves reading the log from its beginning, and lets retention
delete what came before. The invariant: a snapshot says only what is committed, and one that the log
does not reach, or that is of another topic of the same name, is never believed.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Set
from typing import Final

from penstock.broker.partition import Partition
from penstock.coordination.producer_state import ProducerState
from penstock.model.errors import CorruptLog, PenstockError, StorageError
from penstock.model.ids import TopicId
from penstock.replication.flusher import Flusher
from penstock.storage.files import Directory
from penstock.storage.journal import read_journal, remove_journal, write_journal
from penstock.storage.log import Log

logger = logging.getLogger(__name__)

_JOURNAL: Final = "producers.journal"
# Of which topic, and up to which offset.
_HEADER: Final = struct.Struct(">32sq")


def save(partition: Partition, folder: Directory, flusher: Flusher) -> None:
    """Write a snapshot once all it says is committed. `producers_saved_offset` of the partition
    tells how far one was tried: a disk without room for it must not keep retention from making
    some. But what tells of a producer that must not be forgotten has to stay then."""
    if partition.is_saving_producers:
        return
    partition.is_saving_producers = True
    end_offset = partition.replica.log.next_offset
    rolls = partition.replica.log.rolls
    header = _HEADER.pack(partition.topic_id.encode(), end_offset)
    job = _Write(partition, folder, header + partition.producers.encode())

    def tried() -> None:
        partition.is_saving_producers = False
        needed_offset = None if job.is_written else partition.producers.kept_offset()
        if needed_offset is None:
            partition.producers_saved_offset = end_offset
        else:
            saved_offset = max(partition.producers_saved_offset, needed_offset)
            partition.producers_saved_offset = min(saved_offset, end_offset)
        partition.rolls_saved = rolls

    def committed(error: PenstockError | None) -> None:
        if error is None:
            flusher.submit(job, tried)
        else:
            partition.is_saving_producers = False

    partition.replica.when_committed(end_offset, committed)


def recover(
    folder: Directory, topic_id: TopicId, log: Log, now_ms: int, kept: Set[int]
) -> ProducerState:
    """Who produced to the log: from the snapshot and the batches after it, or from all batches."""
    producers, offset = ProducerState(kept), log.first_offset
    try:
        snapshot = read_journal(folder, _JOURNAL)
        if snapshot is not None and len(snapshot) >= _HEADER.size:
            snapshot_topic, snapshot_offset = _HEADER.unpack_from(snapshot)
            if snapshot_topic != topic_id.encode() or snapshot_offset > log.next_offset:
                # It must not be believed when the log has grown that far again.
                remove_journal(folder, _JOURNAL)
            else:
                producers = ProducerState.decode(snapshot[_HEADER.size :], kept)
                offset = max(offset, snapshot_offset)
    except CorruptLog as error:
        logger.warning("A producer snapshot is unusable, so the whole log is read: %s", error)
    for header in log.headers(offset):
        if header.producer_id >= 0:
            producers.record(header, header.base_offset, now_ms)
    return producers


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
