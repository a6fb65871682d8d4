"""Compaction of a simulated broker's partition: production's, with its jobs on the simulated disk.

What `broker.compaction` does on the event loop, without the waiting. The invariant is the same:
while a compaction is at work in a partition's folder the partition is not closed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.model.errors import StorageError
from penstock.replication.flusher import Flusher
from penstock.storage.cleaning import Pace, Stopped
from penstock.storage.compaction import Compaction, CompactionConfig, choose, read_cleaned_offset

if TYPE_CHECKING:
    from penstock.testing.simulation.process import Process, Served


def compact(process: Process, served: Served, flusher: Flusher) -> None:
    """Go over the partition, if it is worth it and nobody does."""
    partition, log = served.partition, served.replica.log
    config = partition.config
    if served.is_compacting or not config.is_compacted or log.failed:
        return
    folder = process.machine.disk.root.subdirectory(served.plan.folder)
    try:
        choice = choose(
            log,
            cleaned_offset=read_cleaned_offset(folder, log.next_offset),
            limit_offset=served.replica.high_watermark,
            now_ms=process.machine.clock.now_ms(),
            config=CompactionConfig(
                min_cleanable_dirty_ratio=config.min_cleanable_dirty_ratio,
                min_compaction_lag_ms=config.min_compaction_lag_ms,
                max_compaction_lag_ms=config.max_compaction_lag_ms,
                delete_retention_ms=config.delete_retention_ms,
            ),
        )
    except StorageError:
        return
    if choice is None:
        return
    if partition.producers_saved_offset < choice.end_offset:
        process.save_producers(partition)
        return
    compaction = Compaction(
        log,
        choice,
        now_ms=process.machine.clock.now_ms(),
        delete_retention_ms=config.delete_retention_ms,
        producer_offsets=frozenset(
            entry.window[-1].base_offset for _, entry in partition.producers.producers()
        ),
        pace=Pace(lambda: not process.is_stopping, rest=lambda _: None),
    )
    served.is_compacting = True
    process.machine.cluster.counts["compaction"] += 1

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
