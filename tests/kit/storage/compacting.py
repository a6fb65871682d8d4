"""What tests of compaction share: keyed batches, a log of them, compactions to their end."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from penstock.records import BatchBuilder, Headers, decode_batch
from penstock.records.header import check_batch
from penstock.storage.compaction.cleaning import Pace
from penstock.storage.compaction.compaction import Choice, Compaction, CompactionConfig, choose
from penstock.storage.log.log import Log
from tests.kit.storage.logs import NOW_MS, split

DELETE_RETENTION_MS = 10_000
TIRELESS = Pace(lambda: True, rest=lambda _: None)
ALWAYS = CompactionConfig(
    min_cleanable_dirty_ratio=0.0,
    min_compaction_lag_ms=0,
    max_compaction_lag_ms=2**63 - 1,
    delete_retention_ms=DELETE_RETENTION_MS,
)


class Entry(NamedTuple):
    """A record as a reader finds it."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers


def keyed_batch(
    records: Iterable[tuple[bytes | None, bytes | None]],
    *,
    timestamp_ms: int = NOW_MS,
    codec: int = 0,
    headers: Sequence[tuple[str, bytes | None]] = (),
    producer: tuple[int, int, int] = (-1, -1, -1),
) -> bytes:
    """A batch of keys and values, a millisecond apart."""
    builder = BatchBuilder(1 << 24, codec)
    for number, (key, value) in enumerate(records):
        builder.append(timestamp_ms + number, key, value, headers)
    producer_id, producer_epoch, base_sequence = producer
    return bytes(
        builder.build(
            producer_id=producer_id, producer_epoch=producer_epoch, base_sequence=base_sequence
        )
    )


def put(log: Log, *batches: bytes, term: int = 0) -> list[Entry]:
    """Append the batches; what is in them."""
    entries = []
    for batch in batches:
        view = memoryview(bytearray(batch))
        log.writer.stage(check_batch(view), view, term)
        entries += entries_of(bytes(view))
    log.writer.write_staged(NOW_MS)
    return entries


def seal(log: Log) -> None:
    """Let everything so far be in sealed segments."""
    log.writer.roll()
    job = log.writer.flush_job(include_active=True)
    if job is not None:
        job.run()
        log.writer.finish_flush(job)


def entries_of(payload: bytes) -> list[Entry]:
    return [
        Entry(message.offset, message.timestamp_ms, message.key, message.value, message.headers)
        for header, batch in split(payload)
        for message in decode_batch(header, memoryview(batch), 1 << 24)
    ]


def entries(log: Log, offset: int | None = None, max_bytes: int = 700) -> list[Entry]:
    """Every record from the offset on, read the way a consumer does."""
    found: list[Entry] = []
    offset = log.start_offset if offset is None else offset
    while payload := log.read(offset, max_bytes, log.written_offset).read():
        start = offset
        for header, batch in split(payload):
            assert header.next_offset > offset, (header, offset)
            offset = header.next_offset
            found += [entry for entry in entries_of(batch) if entry.offset >= start]
    return found


def due(log: Log, *, cleaned_offset: int = 0, config: CompactionConfig = ALWAYS) -> Choice | None:
    return choose(
        log,
        cleaned_offset=cleaned_offset,
        limit_offset=log.written_offset,
        now_ms=NOW_MS,
        config=config,
    )


def begin(
    log: Log,
    *,
    cleaned_offset: int = 0,
    now_ms: int = NOW_MS,
    producer_offsets: Iterable[int] = (),
    keys_max: int = 1000,
) -> Compaction:
    choice = due(log, cleaned_offset=cleaned_offset)
    assert choice is not None, "nothing to compact"
    return Compaction(
        log,
        choice,
        now_ms=now_ms,
        delete_retention_ms=DELETE_RETENTION_MS,
        producer_offsets=frozenset(producer_offsets),
        pace=TIRELESS,
        keys_max=keys_max,
    )


def finish(compaction: Compaction) -> Compaction:
    while (job := compaction.next_job()) is not None:
        job.run()
    return compaction


def compact(
    log: Log,
    *,
    cleaned_offset: int = 0,
    now_ms: int = NOW_MS,
    producer_offsets: Iterable[int] = (),
    keys_max: int = 1000,
) -> Compaction:
    """Compact all that is sealed."""
    return finish(
        begin(
            log,
            cleaned_offset=cleaned_offset,
            now_ms=now_ms,
            producer_offsets=producer_offsets,
            keys_max=keys_max,
        )
    )
