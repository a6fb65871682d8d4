"""The jobs of a compaction: batches read and checked, paces kept, files swapped."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from penstock.model.errors import CorruptLog
from penstock.model.limits import MIB
from penstock.records import build_batch, decode_batch
from penstock.records.header import HEADER_BYTES, check_batch, write_header
from penstock.storage.compaction import cleaning
from penstock.storage.compaction.cleaning import Pace, Rules, Source, Stopped, SwapJob, read_batches
from penstock.storage.compaction.key_map import KeyMap
from penstock.storage.log.log import Log, LogConfig
from tests.kit.simulated_disk import SimulatedDisk
from tests.kit.storage.compacting import (
    DELETE_RETENTION_MS,
    TIRELESS,
    begin,
    entries,
    finish,
    keyed_batch,
    put,
    seal,
)
from tests.kit.storage.logs import CONFIG, NOW_MS

LARGE = LogConfig(segment_bytes=64 * MIB, segment_ms=60_000, index_interval_bytes=4096)


def read(disk: SimulatedDisk, source: Source) -> list[tuple[int, int]]:
    file = disk.root.open(source.stem + ".log")
    return [
        (position, header.base_offset)
        for position, header, batch in read_batches(file, source, TIRELESS)
        if header.length == len(batch)
    ]


def sealed(sizes: Sequence[int]) -> tuple[SimulatedDisk, Source]:
    disk = SimulatedDisk()
    log = Log.open(disk.root, LARGE)
    put(log, *(keyed_batch([(b"a", bytes(size))]) for size in sizes))
    seal(log)
    return disk, Source.of(log.sealed_segments()[0])


@pytest.mark.parametrize(
    "sizes", [[1], [10] * 20, [MIB - 200, 300, 10], [3 * MIB], [10, 2 * MIB, 10, 3 * MIB], [0, MIB]]
)
def test_batches_of_any_size_are_read(sizes: list[int]) -> None:
    disk, source = sealed(sizes)
    assert [offset for _, offset in read(disk, source)] == list(range(len(sizes)))


@pytest.mark.parametrize("position", [0, 7, 8, 11, 16, 20, 61, 80, 600_000])
def test_a_wrong_byte_is_found(position: int) -> None:
    """Also in the fields that no checksum covers, but for the term."""
    disk, source = sealed([10, MIB])
    for bit in range(0, 8, 3):
        disk.flip_bit(source.stem + ".log", position, bit)
        with pytest.raises(CorruptLog):
            read(disk, source)
        disk.flip_bit(source.stem + ".log", position, bit)
    read(disk, source)


@pytest.mark.parametrize("cut_bytes", [1, 30, 61, 90, 100_000])
def test_a_missing_end_is_found(cut_bytes: int) -> None:
    disk, source = sealed([10, MIB, 10])
    disk.root.open(source.stem + ".log").truncate(source.size_bytes - cut_bytes)
    with pytest.raises(CorruptLog):
        read(disk, source)
    # Where whole batches are missing the name still tells.
    with pytest.raises(CorruptLog):
        read(disk, source._replace(size_bytes=source.size_bytes - cut_bytes))


RULES = Rules(
    key_map=KeyMap(lambda: None),
    end_offset=1 << 40,
    now_ms=NOW_MS,
    horizon_ms=NOW_MS + DELETE_RETENTION_MS,
    producer_offsets=frozenset(),
)


def test_times_too_far_from_a_horizon_leave_a_batch_without_one() -> None:
    """A difference that no reader accepts would end the reading of the whole log."""
    early = b"\0" + bytes.fromhex("ffffffffffffffff7f") + b"\0\x02k\x01\0"
    record = bytes([len(early) * 2]) + early
    batch = bytearray(HEADER_BYTES) + record
    write_header(batch, check_batch(memoryview(build_batch([(b"k", None)], timestamp_ms=NOW_MS))))
    (message,) = decode_batch(check_batch(memoryview(batch)), memoryview(batch), 1 << 20)
    assert message.timestamp_ms == NOW_MS - 2**62
    kept = RULES.apply(check_batch(memoryview(batch)), memoryview(batch))
    assert kept == batch


def test_a_batch_does_not_outgrow_the_largest_that_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    """A horizon makes its differences of time longer. Without one, the tombstones just stay."""
    batch = memoryview(bytearray(keyed_batch([(b"%d" % number, None) for number in range(100)])))
    header = check_batch(batch)
    grown = RULES.apply(header, batch)
    assert grown is not None
    assert len(grown) > len(batch)
    monkeypatch.setattr(cleaning, "BATCH_BYTES_MAX", len(batch))
    assert RULES.apply(header, batch) == batch


def test_the_pace_rests_and_stops() -> None:
    wanted = True
    rests: list[float] = []
    pace = Pace(lambda: wanted, rest=rests.append)
    pace.check()
    for _ in range(1000):
        pace.breathe()
    assert 1 <= len(rests) < 1000
    wanted = False
    with pytest.raises(Stopped):
        pace.check()


def test_a_segment_that_keeps_its_size_loses_its_old_index() -> None:
    """An index is taken for a log's by its size: the old one must be gone before the new log."""
    disk = SimulatedDisk()
    log = Log.open(disk.root, CONFIG)
    # Eight bytes go with the first `k`; the time of each tombstone takes two more.
    put(
        log,
        keyed_batch([(b"k", b""), (b"x", b"")]),
        keyed_batch([(b"y", bytes(1000)), (b"k", b"")]),
        *(keyed_batch([(b"t%d" % number, None)]) for number in range(4)),
    )
    seal(log)
    segment = log.sealed_segments()[0]
    size_bytes = segment.size_bytes
    compaction = begin(log)
    while not isinstance(job := compaction.next_job(), SwapJob):
        assert job is not None
        job.run()
    disk.operations.clear()
    job.run()
    removed, flushed = f"remove disk/{segment.stem}.index", "flush folder disk"
    renamed = "rename disk/compaction.cleaned"
    steps = [disk.operations.index(operation) for operation in (removed, flushed, renamed)]
    assert steps == sorted(steps)
    finish(compaction)
    assert log.sealed_segments()[0].size_bytes == size_bytes
    assert [entry.offset for entry in entries(log)] == list(range(1, 8))
    assert entries(log)[0].timestamp_ms == NOW_MS + 1
