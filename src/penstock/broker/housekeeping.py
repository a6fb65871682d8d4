"""What has to be done now and then: old segments deleted, silent producers forgotten, files that
nobody reads closed, producer snapshots written.

Every so often it goes over all partitions, a few at a time, so that thousands of them do not hold
up a request.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from penstock.broker.group_offsets import GroupOffsetsStore
from penstock.broker.partition import Partition
from penstock.broker.partitions import Partitions
from penstock.coordination.group_offsets import OFFSETS_TOPIC
from penstock.model.errors import StorageError
from penstock.net.clock import Clock
from penstock.replication.flusher import Flusher
from penstock.storage import retention

logger = logging.getLogger(__name__)

_PARTITIONS_AT_ONCE: Final = 50


class Housekeeping:
    """`run` is a task of the broker's."""

    def __init__(
        self,
        partitions: Partitions,
        group_offsets: GroupOffsetsStore,
        flusher: Flusher,
        clock: Clock,
        interval_s: float,
    ) -> None:
        self._partitions = partitions
        self._group_offsets = group_offsets
        self._flusher = flusher
        self._clock = clock
        self._interval_s = interval_s
        # The active segment a partition had when its producers were last written down.
        self._saved: dict[Partition, int] = {}

    async def run(self) -> None:
        while True:
            await asyncio.sleep(self._interval_s)
            await self.one_round()

    def _save_producers(self, partition: Partition, active_offset: int, segments: int) -> None:
        """Once for each segment that is sealed: recovery then reads no further back than that."""
        saved_at = self._saved.get(partition)
        if saved_at is None:
            # As it was found: what an earlier life left is good enough until the next roll.
            self._saved[partition] = active_offset
            is_due = segments > 1 and not self._partitions.has_saved_producers(partition)
        else:
            is_due = saved_at != active_offset
        if is_due:
            self._saved[partition] = active_offset
            self._partitions.save_producers(partition)

    async def one_round(self) -> None:
        partitions = self._partitions.all()
        self._saved = {
            partition: offset for partition, offset in self._saved.items() if partition.is_open
        }
        for number, partition in enumerate(partitions):
            if number % _PARTITIONS_AT_ONCE == 0:
                await asyncio.sleep(0)
            try:
                self._tidy(partition)
            except StorageError as error:
                logger.error("%s could not be tidied: %s", partition.name, error)

    def _tidy(self, partition: Partition) -> None:
        replica = partition.replica
        log = replica.log
        now_ms = self._clock.now_ms()
        partition.producers.expire(now_ms)
        log.drop_idle_files()
        if replica.failure is not None or not partition.is_open:
            return
        if log.is_roll_due(now_ms):
            replica.roll()
        segments = log.segments()
        self._save_producers(partition, segments[-1].first_offset, len(segments))
        if partition.name.topic == OFFSETS_TOPIC:
            delete_offset = self._group_offsets.checkpoint_offset
        else:
            delete_offset = retention.choose(
                segments,
                now_ms=now_ms,
                retention_ms=partition.config.retention_ms,
                retention_bytes=partition.config.retention_bytes,
            )
        for job in log.delete_before(delete_offset):
            self._flusher.submit(job, lambda: None)
