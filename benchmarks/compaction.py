"""How fast is a log compacted, and how long does the event loop wait for it meanwhile?

In one process: a log of batches as producers send them, keys written over several times, compacted
on a thread while an event loop does nothing but ask for the time. The loop's wait is what a
request would wait at most, beside its own work.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import time
from pathlib import Path
from typing import Final, NamedTuple

from benchmarks import servers
from benchmarks.report import Row
from penstock.model.limits import MIB
from penstock.records import BatchBuilder
from penstock.records.header import check_batch
from penstock.replication.disk.flusher import ThreadFlusher
from penstock.storage.compaction.cleaning import Pace
from penstock.storage.compaction.compaction import Compaction, CompactionConfig, choose
from penstock.storage.files.os_files import OsDirectory
from penstock.storage.log.log import Log, LogConfig

_NOW_MS: Final = 1_700_000_000_000
_TICK_S: Final = 0.0005
_WRITES_PER_KEY: Final = 4
_LOG: Final = LogConfig(segment_bytes=64 * MIB, segment_ms=2**62, index_interval_bytes=4096)
_ALWAYS: Final = CompactionConfig(
    min_cleanable_dirty_ratio=0.0,
    min_compaction_lag_ms=0,
    max_compaction_lag_ms=2**62,
    delete_retention_ms=0,
)


class _Case(NamedTuple):
    name: str
    record_bytes: int
    batch_bytes: int
    codec: int = 0
    key: bytes = b"key-%d"


_CASES: Final = (
    _Case("100 B, batches of 16 kB", 100, 16_000),
    _Case("100 B, batches of 1 MB", 100, 1_000_000),
    _Case("100 B, keys of 40 B", 100, 16_000, key=b"a key that is as long as an identifier %d"),
    _Case("1 kB, batches of 100 kB", 1000, 100_000),
    _Case("1 kB, batches of 100 kB, zstd", 1000, 100_000, codec=4),
)


def run(*, quick: bool = False, peers: bool = False) -> list[Row]:  # noqa: ARG001
    """Nobody else's compaction can be run on its own, so there is no peer."""
    total_bytes = 5_000_000 if quick else 200_000_000
    rows = []
    for case in _CASES:
        with servers.scratch_folder() as folder:
            log = _filled(folder, case, total_bytes)
            rate, waits_ms = asyncio.run(_compact(log))
        rows += [
            Row("compaction", case.name, rate, "MB/s", "of log gone over"),
            Row("compaction", f"{case.name}: loop waits, p99", _at(waits_ms, 0.99), "ms"),
            Row("compaction", f"{case.name}: loop waits, longest", waits_ms[-1], "ms"),
        ]
    return rows


def _filled(folder: Path, case: _Case, total_bytes: int) -> Log:
    chance = random.Random(1)
    keys = total_bytes // case.record_bytes // _WRITES_PER_KEY
    # Half of it compresses, as text does.
    noise = b"".join(chance.randbytes(50) + bytes(50) for _ in range(2000))
    log = Log.open(OsDirectory(str(folder)), _LOG)
    while log.size_bytes < total_bytes:
        builder = BatchBuilder(case.batch_bytes, case.codec)
        index = 0
        while index >= 0:
            key = case.key % chance.randrange(keys)
            start = chance.randrange(100_000)
            value = noise[start : start + case.record_bytes - len(key)]
            index = builder.append(_NOW_MS, key, value)
        batch = memoryview(builder.build())
        log.writer.stage(check_batch(batch), batch, 0)
        log.writer.write_staged(_NOW_MS)
    log.writer.roll()
    job = log.writer.flush_job(include_active=True)
    assert job is not None
    job.run()
    log.writer.finish_flush(job)
    return log


async def _compact(log: Log) -> tuple[float, list[float]]:
    """Megabytes a second, and how long the loop waited each time, sorted, in milliseconds."""
    choice = choose(
        log,
        cleaned_offset=0,
        limit_offset=log.written_offset,
        now_ms=_NOW_MS,
        config=_ALWAYS,
    )
    assert choice is not None
    compaction = Compaction(
        log,
        choice,
        now_ms=_NOW_MS,
        delete_retention_ms=0,
        producer_offsets=frozenset(),
        pace=Pace(lambda: True),
    )
    waits_ms: list[float] = []
    thread = ThreadFlusher(asyncio.get_running_loop(), 1)
    thread.start()
    watching = asyncio.create_task(_watch(waits_ms))
    begun_s = time.perf_counter()
    while (job := compaction.next_job()) is not None:
        over = asyncio.Event()
        thread.submit(job, over.set)
        await over.wait()
        assert job.error is None, job.error
    elapsed_s = time.perf_counter() - begun_s
    watching.cancel()
    thread.stop()
    return compaction.bytes_before / 1e6 / elapsed_s, sorted(waits_ms)


async def _watch(waits_ms: list[float]) -> None:
    for _ in itertools.count():
        asked_s = time.perf_counter()
        await asyncio.sleep(_TICK_S)
        waits_ms.append(max(time.perf_counter() - asked_s - _TICK_S, 0.0) * 1000)


def _at(sorted_values: list[float], share: float) -> float:
    return sorted_values[int(share * (len(sorted_values) - 1))]
