"""What has to be done now and then: old segments deleted, silent producers forgotten, files that
nobody reads closed, producer snapshots written.

Every so often it goes over all partitions, a few at a time, so that thousands of them do not hold
up a request.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from penstock.broker.partitions.partition import Partition
from penstock.broker.partitions.partitions import Partitions
from penstock.broker.turns.rounds import Rounds
from penstock.model.errors import StorageError
from penstock.net.clock import Clock
from penstock.replication.disk.flusher import Flusher
from penstock.storage.log import retention

logger = logging.getLogger(__name__)

_PARTITIONS_AT_ONCE: Final = 50


class Housekeeping:
    """Of all partitions of a broker."""

    def __init__(
        self,
        partitions: Partitions,
        flusher: Flusher,
        clock: Clock,
        interval_s: float,
    ) -> None:
        self._partitions = partitions
        self._flusher = flusher
        self._clock = clock
        self._interval_s = interval_s
        self.rounds = Rounds("Housekeeping", self._go_round, interval_s)

    async def _go_round(self) -> float:
        await self.one_round()
        return self._interval_s

    async def one_round(self) -> None:
        for number, partition in enumerate(self._partitions.all()):
            if number % _PARTITIONS_AT_ONCE == 0:
                await asyncio.sleep(0)
            if not partition.is_open:
                continue
            try:
                self._tidy(partition)
            except StorageError as error:
                logger.error("%s could not be tidied: %s", partition.name, error)
            except Exception:
                # A bug of ours must not end the tidying of all the others.
                logger.exception("%s could not be tidied", partition.name)

    def _tidy(self, partition: Partition) -> None:
        replica = partition.replica
        log = replica.log
        now_ms = self._clock.now_ms()
        partition.producers.expire(now_ms)
        log.chain.drop_idle_files()
        if replica.failure is not None:
            return
        try:
            if log.writer.is_roll_due(now_ms):
                replica.roll()
        except StorageError as error:
            # Where there is no room for a new segment, deleting old ones may make some.
            logger.warning("%s could not begin a new segment: %s", partition.name, error)
        outlived = self._outlived(partition, now_ms)
        # What lies before the log's start can go in any case: its records were deleted.
        delete_offset = log.start_offset
        if outlived:
            delete_offset = max(outlived[-1].end_offset, delete_offset)
        must_save = delete_offset > max(log.first_offset, partition.saved_producers.offset)
        if must_save:
            # What retention takes away must not be all that is known of a producer.
            self._partitions.save_producers(partition)
        delete_offset = min(delete_offset, partition.saved_producers.offset)
        if delete_offset > log.first_offset:
            self._delete(partition, delete_offset, outlived, now_ms)
        if partition.saved_producers.rolls != log.writer.rolls:
            # Once for each segment that is sealed, and again where there was no room for it.
            self._partitions.save_producers(partition)

    def _outlived(self, partition: Partition, now_ms: int) -> list[retention.Outlived]:
        if not partition.config.has_retention:
            return []
        return retention.choose(
            partition.replica.log.segments(),
            now_ms=now_ms,
            retention_ms=partition.config.retention_ms,
            retention_bytes=partition.config.retention_bytes,
        )

    def _delete(
        self,
        partition: Partition,
        delete_offset: int,
        outlived: list[retention.Outlived],
        now_ms: int,
    ) -> None:
        replica = partition.replica
        start_offset = replica.log.start_offset
        jobs = replica.log.cutter.delete_before(delete_offset)
        # Before the files are unlinked, which takes a while: a crash should not find them gone and
        # nobody to say why.
        replica.deletions.explain(
            retention.removals(
                outlived,
                start_offset,
                replica.log.start_offset,
                now_ms=now_ms,
                retention_ms=partition.config.retention_ms,
                retention_bytes=partition.config.retention_bytes,
            )
        )
        for job in jobs:
            self._flusher.submit(job, lambda: None)
