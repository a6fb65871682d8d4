"""What the storage tests share: batches to append, and a log driven the way a replica does."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from penstock.model.errors import CorruptBatch
from penstock.records.builder import BatchBuilder
from penstock.records.header import BatchHeader, check_batch
from penstock.storage.files.files import Directory, remove_if_there
from penstock.storage.files.journal import write_journal
from penstock.storage.log.compacted import COMPACTION_JOURNAL
from penstock.storage.log.log import Log, LogConfig
from penstock.storage.segments.scan import walk
from penstock.storage.segments.segment import LOG_SUFFIX, Segment, keep_index, sealed_stem

NOW_MS = 1_700_000_000_000
CONFIG = LogConfig(segment_bytes=1500, segment_ms=60_000, index_interval_bytes=256)


def make_batch(value: bytes = b"value", *, records: int = 1, timestamp_ms: int = NOW_MS) -> bytes:
    """A batch of records a millisecond apart."""
    builder = BatchBuilder(bytes_max=1 << 24)
    for number in range(records):
        builder.append(timestamp_ms + number, None, value)
    return bytes(builder.build())


def stage(log: Log, batch: bytes, term: int = 0) -> int:
    view = memoryview(bytearray(batch))
    return log.writer.stage(check_batch(view), view, term)


def append(log: Log, *batches: bytes, now_ms: int = NOW_MS) -> list[int]:
    offsets = [stage(log, batch) for batch in batches]
    log.writer.write_staged(now_ms)
    return offsets


def flush(log: Log, *, include_active: bool = True) -> int | None:
    """Run a flush job to its end, if there is one; the durable offset."""
    job = log.writer.flush_job(include_active)
    if job is None:
        return None
    job.run()
    return log.writer.finish_flush(job)


def open_log(directory: Directory, config: LogConfig = CONFIG) -> Log:
    return Log.open(directory, config)


def split(payload: bytes) -> Iterator[tuple[BatchHeader, bytes]]:
    """The checked batches of a slice."""
    view = memoryview(payload)
    while view:
        header = check_batch(view)
        yield header, bytes(view[: header.length])
        view = view[header.length :]


def read_all(log: Log, max_bytes: int = 700) -> list[tuple[BatchHeader, bytes]]:
    """Every batch, read and checked the way a consumer does: checksums, and no gap of offsets
    unless the log is compacted."""
    batches: list[tuple[BatchHeader, bytes]] = []
    offset = log.start_offset
    while offset < log.written_offset:
        part = list(split(log.read(offset, max_bytes, log.written_offset).read()))
        assert part, f"nothing at offset {offset}"
        for header, _ in part:
            # The log may begin inside a batch.
            follows = header.base_offset == offset or (
                offset == log.start_offset and header.base_offset < offset < header.next_offset
            )
            if not follows and not (log.is_compacted and header.base_offset > offset):
                raise CorruptBatch(f"offset {header.base_offset} came after {offset - 1}")
            offset = header.next_offset
        batches += part
    assert offset == log.written_offset
    return batches


def delete_records(log: Log, offset: int) -> None:
    """Let the log begin at the offset, the way a replica does."""
    job = log.cutter.start_offset_job(offset)
    job.run()
    log.cutter.finish_start_offset(job)


def thin_out(log: Log, segments: Sequence[Segment], keep: Callable[[BatchHeader], bool]) -> Segment:
    """What compaction does to sealed segments, by whole batches and without its crash safety. The
    last batch stays in any case."""
    directory = segments[0].directory
    write_journal(directory, COMPACTION_JOURNAL, b"")
    assert log.cutter.hold(segments)
    first_offset, next_offset = segments[0].first_offset, segments[-1].next_offset
    kept = [
        segment.file.read_at(position, header.length)
        for segment in segments
        for position, header in walk(segment.file, 0, segment.size_bytes, None)
        if keep(header) or header.next_offset == next_offset
    ]
    for segment in segments:
        for name in segment.file_names():
            remove_if_there(directory, name)
    file = directory.open(sealed_stem(first_offset, next_offset) + LOG_SUFFIX, create=True)
    file.append(kept)
    file.flush()
    directory.flush()
    thinned = Segment(
        directory,
        first_offset=first_offset,
        next_offset=next_offset,
        size_bytes=sum(map(len, kept)),
        sealed=True,
        interval_bytes=segments[0].interval_bytes,
    )
    log.cutter.replace(segments, thinned)
    keep_index(thinned, thinned.index)
    return thinned
