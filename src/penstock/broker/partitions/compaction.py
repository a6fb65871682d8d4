"""Compaction in the background: which log is due, one at a time, the dirtiest first.

How a log is compacted is `storage.compaction.compaction`'s. The invariant: while a compaction is at
work in a partition's folder the partition is neither closed nor deleted; either waits until it has
let go, which it does at its next batch.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
from typing import Final
from weakref import WeakKeyDictionary

from penstock.broker.partitions.partition import Partition
from penstock.broker.partitions.partitions import Partitions
from penstock.model.errors import CorruptLog, StorageError
from penstock.model.topic_config import TopicConfig
from penstock.net.clock import Clock
from penstock.replication.disk.flusher import Flusher
from penstock.storage.compaction.cleaning import Pace, Stopped
from penstock.storage.compaction.compaction import (
    Choice,
    Compaction,
    CompactionConfig,
    choose,
    read_cleaned_offset,
)

logger = logging.getLogger(__name__)

_PARTITIONS_AT_ONCE: Final = 50
# Until one that failed is tried again: it would read all of its log again, maybe for nothing.
_FAILURE_PAUSE_S: Final = 5 * 60.0


class Compactor:
    """`start` and `stop` belong to the broker's life. The flusher runs nothing else: a compaction
    takes its time, and acknowledgements wait for the other one's flushes."""

    def __init__(
        self, partitions: Partitions, flusher: Flusher, clock: Clock, interval_s: float
    ) -> None:
        self._partitions = partitions
        self._flusher = flusher
        self._clock = clock
        self._interval_s = interval_s
        self._cleaned_offsets: WeakKeyDictionary[Partition, int] = WeakKeyDictionary()
        # Those that failed, and when they are tried again.
        self._not_before_s: WeakKeyDictionary[Partition, float] = WeakKeyDictionary()
        self._stopping = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        """End the compaction under way; what it has done so far stays done."""
        self._stopping.set()
        if self._task is not None:
            await self._task

    async def _run(self) -> None:
        while not self._stopping.is_set():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), self._interval_s)
            await self.one_round()

    async def one_round(self) -> None:
        """Compact every log that is due by now."""
        due: list[tuple[float, Partition]] = []
        for number, partition in enumerate(self._partitions.all()):
            if number % _PARTITIONS_AT_ONCE == 0:
                await asyncio.sleep(0)
            choice = self._choose(partition)
            if choice is not None:
                due.append((choice.dirty_ratio, partition))
        due.sort(key=lambda one: one[0], reverse=True)
        for _, partition in due:
            # Again, since much may have happened while the others were compacted.
            choice = self._choose(partition)
            if choice is not None:
                await self._compact(partition, choice)

    def _choose(self, partition: Partition) -> Choice | None:
        """What of the partition is due, if anything is and nothing speaks against it."""
        replica, log = partition.replica, partition.replica.log
        if (
            not self._is_wanted(partition)
            or log.failed
            or self._clock.monotonic() < self._not_before_s.get(partition, 0.0)
        ):
            return None
        try:
            choice = choose(
                log,
                cleaned_offset=self._cleaned_offset(partition),
                limit_offset=replica.high_watermark,
                now_ms=self._clock.now_ms(),
                config=_compaction_config(partition.config),
            )
        except StorageError as error:
            self._failed(partition, error)
            return None
        if choice is not None and partition.saved_producers.offset < choice.end_offset:
            # What compaction takes away must not be all that is known of a producer.
            self._partitions.save_producers(partition)
            return None
        return choice

    def _is_wanted(self, partition: Partition) -> bool:
        """Asked from the thread that compacts too: its topic's settings may change meanwhile."""
        is_compacted = partition.is_open and partition.config.is_compacted
        return is_compacted and not self._stopping.is_set()

    def _cleaned_offset(self, partition: Partition) -> int:
        offset = self._cleaned_offsets.get(partition)
        if offset is None:
            folder = self._partitions.folder(partition.name)
            offset = read_cleaned_offset(folder, partition.replica.log.next_offset)
            self._cleaned_offsets[partition] = offset
        return offset

    async def _compact(self, partition: Partition, choice: Choice) -> None:
        logger.info(
            "%s is being compacted up to offset %d: %d%% of it is new.",
            partition.name,
            choice.end_offset,
            100 * choice.dirty_ratio,
        )
        begun_s = self._clock.monotonic()
        compaction = Compaction(
            partition.replica.log,
            choice,
            now_ms=self._clock.now_ms(),
            delete_retention_ms=partition.config.delete_retention_ms,
            producer_offsets=partition.producers.remembered_offsets(),
            pace=Pace(lambda: self._is_wanted(partition)),
        )
        partition.no_compaction.clear()
        try:
            await self._run_jobs(compaction)
        except Stopped as reason:
            logger.info("The compaction of %s is given up: %s.", partition.name, reason)
        except StorageError as error:
            self._failed(partition, error)
            if partition.replica.log.failed:
                partition.replica.fail(error)
        except Exception:
            # A bug of ours must not end the compaction of all the others.
            logger.exception("%s could not be compacted", partition.name)
            self._not_before_s[partition] = math.inf
        else:
            self._cleaned_offsets[partition] = compaction.cleaned_offset
            logger.info(
                "%s is compacted up to offset %d: %d bytes to %d, in %.1f s.",
                partition.name,
                compaction.cleaned_offset,
                compaction.bytes_before,
                compaction.bytes_after,
                self._clock.monotonic() - begun_s,
            )
        finally:
            partition.no_compaction.set()

    async def _run_jobs(self, compaction: Compaction) -> None:
        while (job := compaction.next_job()) is not None:
            over = asyncio.Event()
            self._flusher.submit(job, over.set)
            await over.wait()

    def _failed(self, partition: Partition, error: StorageError) -> None:
        logger.error("%s could not be compacted: %s", partition.name, error)
        # To read a damaged log again would not mend it.
        pause_s = math.inf if isinstance(error, CorruptLog) else _FAILURE_PAUSE_S
        self._not_before_s[partition] = self._clock.monotonic() + pause_s


def _compaction_config(config: TopicConfig) -> CompactionConfig:
    return CompactionConfig(
        min_cleanable_dirty_ratio=config.min_cleanable_dirty_ratio,
        min_compaction_lag_ms=config.min_compaction_lag_ms,
        max_compaction_lag_ms=config.max_compaction_lag_ms,
        delete_retention_ms=config.delete_retention_ms,
    )
