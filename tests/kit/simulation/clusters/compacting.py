"""Compaction of a simulated broker's partition: production's, with its jobs on the simulated disk.

What `broker.partitions.compaction` does on the event loop, without the waiting. The invariant is
the same: while a compaction is at work in a partition's folder the partition is not closed.
"""

from __future__ import annotations

from collections.abc import Callable

from penstock.model.errors import StorageError
from penstock.replication.disk.flusher import Flusher
from penstock.storage.compaction.cleaning import Pace, Stopped
from penstock.storage.compaction.compaction import (
    Compaction,
    CompactionConfig,
    choose,
    read_cleaned_offset,
)
from penstock.storage.files.files import Directory
from tests.kit.simulation.clusters.served import Served


def compact(
    served: Served,
    folder: Directory,
    flusher: Flusher,
    now_ms: int,
    *,
    is_wanted: Callable[[], bool],
    save_producers: Callable[[], None],
) -> bool:
    """Go over the partition, if it is worth it and nobody does. Whether it was begun."""
    partition, log = served.partition, served.replica.log
    config = partition.config
    if served.is_compacting or not config.is_compacted or log.failed:
        return False
    try:
        choice = choose(
            log,
            cleaned_offset=read_cleaned_offset(folder, log.next_offset),
            limit_offset=served.replica.high_watermark,
            now_ms=now_ms,
            config=CompactionConfig(
                min_cleanable_dirty_ratio=config.min_cleanable_dirty_ratio,
                min_compaction_lag_ms=config.min_compaction_lag_ms,
                max_compaction_lag_ms=config.max_compaction_lag_ms,
                delete_retention_ms=config.delete_retention_ms,
            ),
        )
    except StorageError:
        return False
    if choice is None:
        return False
    if partition.saved_producers.offset < choice.end_offset:
        save_producers()
        return False
    compaction = Compaction(
        log,
        choice,
        now_ms=now_ms,
        delete_retention_ms=config.delete_retention_ms,
        producer_offsets=partition.producers.remembered_offsets(),
        pace=Pace(is_wanted, rest=lambda _: None),
    )
    served.is_compacting = True

    def go_on() -> None:
        job = None
        try:
            job = compaction.next_job()
        except Stopped:
            pass
        except StorageError as error:
            if log.failed:
                served.replica.fail(error)
        if job is None:
            served.is_compacting = False
        else:
            flusher.submit(job, go_on)

    go_on()
    return True
