"""From what a crash left to a log: names, orders, and what is refused."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from penstock.model.errors import CorruptLog, DiskFull
from penstock.storage.files.journal import write_journal
from penstock.storage.log.compacted import COMPACTION_JOURNAL
from penstock.storage.log.log import CleanEnd, Log, LogConfig
from penstock.storage.segments.recovery import CLEANED_NAME, log_files
from penstock.storage.segments.segment import LOG_SUFFIX, open_stem, sealed_stem
from tests.kit.simulated_disk import SimulatedDirectory, SimulatedDisk
from tests.kit.storage.logs import (
    CONFIG,
    NOW_MS,
    append,
    flush,
    make_batch,
    open_log,
    read_all,
)

BATCH = make_batch(b"x" * 600)
LARGE = LogConfig(segment_bytes=1 << 20, segment_ms=1 << 40, index_interval_bytes=4096)


def filled(*, flushes: int = 4) -> SimulatedDisk:
    """Segments of two batches: 0-1, 2-3, 4-5, and 6 active. Sealed as far as they were flushed."""
    disk = SimulatedDisk()
    log = open_log(disk.root)
    for number in range(7):
        append(log, BATCH)
        if number // 2 < flushes:
            flush(log)
    assert log.segment_count == 4
    return disk


def offsets(disk: SimulatedDisk) -> list[int]:
    return [header.base_offset for header, _ in read_all(open_log(disk.root))]


def test_the_folder_walk_alone_rebuilds_the_map() -> None:
    """R-STO-1."""
    disk = filled()
    log = open_log(disk.root)
    assert (log.start_offset, log.next_offset, log.segment_count) == (0, 7, 4)
    names = [file.name for file in log_files(disk.root.names())]
    assert names == sorted(names)
    assert names[0] == sealed_stem(0, 2) + LOG_SUFFIX


def test_other_files_are_left_alone() -> None:
    disk = filled()
    disk.root.open("raft.journal", create=True)
    disk.root.open("notes.log", create=True)
    open_log(disk.root)
    assert {"raft.journal", "notes.log"} <= set(disk.root.names())


@pytest.mark.parametrize("flushes", [0, 1, 2])
def test_unsealed_segments_are_sealed(flushes: int) -> None:
    """R-STO-6: a crash before, between and after sealing."""
    disk = filled(flushes=flushes)
    log = open_log(disk.root)
    assert [segment.sealed for segment in log.segments()] == [True, True, True, False]
    assert sealed_stem(2, 4) + LOG_SUFFIX in disk.root.names()
    assert offsets(disk) == list(range(7))


def test_a_tear_takes_the_unsealed_segments_behind_it(caplog: pytest.LogCaptureFixture) -> None:
    """R-STO-6: nothing behind an unsealed segment was acknowledged as durable."""
    disk = filled(flushes=1)
    disk.root.open(open_stem(2) + LOG_SUFFIX).truncate(len(BATCH) + 5)
    assert offsets(disk) == [0, 1, 2]
    assert f"{open_stem(2)}{LOG_SUFFIX} was torn by a crash at position {len(BATCH)}" in caplog.text
    assert f"{open_stem(4)}{LOG_SUFFIX} was written after" in caplog.text
    assert open_stem(4) + LOG_SUFFIX not in disk.root.names()


def test_a_lost_end_at_a_boundary_takes_them_too() -> None:
    disk = filled(flushes=1)
    disk.root.open(open_stem(2) + LOG_SUFFIX).truncate(0)
    assert offsets(disk) == [0, 1]
    log = open_log(disk.root)
    assert append(log, BATCH) == [2]


# --- what was cut ------------------------------------------------------------------------------


def cut(disk: SimulatedDisk) -> list[tuple[int, int, str]]:
    """What a log tells of its recovery, at first and for good."""
    log = open_log(disk.root)
    log.explain_cut(NOW_MS)
    told = [(one.first_offset, one.end_offset, one.detail) for one in log.removals.latest()]
    again = open_log(disk.after_crash("lost").root)
    again.explain_cut(NOW_MS + 1)
    assert again.removals.latest() == log.removals.latest()
    assert all(one.cause == "truncated" for one in log.removals.latest())
    return told


def test_a_torn_end_is_remembered_as_far_as_it_shows() -> None:
    """R-SPK-3: a batch whose header is left; its records ran past the end."""
    disk = filled()
    name = open_stem(6) + LOG_SUFFIX
    disk.root.open(name).truncate(len(BATCH) - 1)
    reason = "there is no whole batch"
    expected = f"a crash tore the end of the log, {reason}: {len(BATCH) - 1} bytes were cut"
    assert cut(disk) == [(6, 7, expected)]


def test_a_torn_end_without_a_header_tells_nothing() -> None:
    disk = filled()
    disk.root.open(open_stem(6) + LOG_SUFFIX).truncate(40)
    assert cut(disk) == []


def test_whole_batches_behind_a_tear_are_counted() -> None:
    """The disk kept later sectors and lost earlier ones."""
    disk = SimulatedDisk()
    log = open_log(disk.root, LARGE)
    append(log, *[BATCH] * 4)
    flush(log)
    file = disk.root.open(open_stem(0) + LOG_SUFFIX)
    data = file.read_at(0, 10_000)
    torn = bytearray(data)
    torn[len(BATCH) : len(BATCH) + 512] = bytes(512)
    file.truncate(0)
    file.append([torn])
    ((first, end, detail),) = cut(disk)
    assert (first, end) == (1, 4)
    assert f"{3 * len(BATCH)} bytes were cut" in detail


def test_segments_that_go_with_a_tear_are_counted() -> None:
    disk = filled(flushes=1)
    disk.root.open(open_stem(2) + LOG_SUFFIX).truncate(len(BATCH) + 5)
    ((first, end, detail),) = cut(disk)
    assert (first, end) == (3, 7)
    assert f"{3 * len(BATCH) + 5} bytes were cut" in detail
    disk = filled(flushes=1)
    disk.root.open(open_stem(2) + LOG_SUFFIX).truncate(0)
    disk.root.open(open_stem(6) + LOG_SUFFIX).truncate(0)
    expected = "a crash tore the end of the log, its last batches are missing: "
    assert cut(disk) == [(2, 6, f"{expected}{2 * len(BATCH)} bytes were cut")]


def test_an_orderly_end_tells_nothing() -> None:
    assert cut(filled(flushes=0)) == []
    assert cut(filled()) == []
    assert cut(SimulatedDisk()) == []


def tear_before_sealed(root: SimulatedDirectory) -> None:
    root.rename(sealed_stem(2, 4) + LOG_SUFFIX, open_stem(2) + LOG_SUFFIX)
    root.open(open_stem(2) + LOG_SUFFIX).truncate(10)


def overlap(root: SimulatedDirectory) -> None:
    root.rename(sealed_stem(2, 4) + LOG_SUFFIX, open_stem(2) + LOG_SUFFIX)
    root.rename(sealed_stem(4, 6) + LOG_SUFFIX, open_stem(3) + LOG_SUFFIX)
    root.remove(open_stem(6) + LOG_SUFFIX)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (
            lambda root: root.remove(sealed_stem(2, 4) + LOG_SUFFIX),
            r"4-0+5\.log does not follow 0+-0+1\.log",
        ),
        (lambda root: root.open(open_stem(4) + LOG_SUFFIX, create=True), "does not follow"),
        (lambda root: root.open(open_stem(1) + LOG_SUFFIX, create=True), "does not follow"),
        (
            lambda root: root.rename(
                sealed_stem(0, 2) + LOG_SUFFIX, sealed_stem(9, 4) + LOG_SUFFIX
            ),
            "ends before it begins",
        ),
        (lambda root: root.open(sealed_stem(2, 4) + LOG_SUFFIX).truncate(0), "it is empty"),
        (tear_before_sealed, "ends before offset 2, but .* begins at 4"),
        (overlap, "ends before offset 4, but .* begins at 3"),
    ],
)
def test_what_no_crash_leaves_is_refused(
    damage: Callable[[SimulatedDirectory], None], message: str
) -> None:
    """R-STO-6: sealed data is never cut."""
    disk = filled()
    damage(disk.root)
    with pytest.raises(CorruptLog, match=message):
        open_log(disk.root)


def test_decay_in_an_unsealed_segment_is_refused_and_left_as_it_is() -> None:
    disk = filled()
    name = open_stem(6) + LOG_SUFFIX
    disk.flip_bit(name, 300, 1)
    before = disk.files()
    with pytest.raises(CorruptLog, match=rf"{name} is damaged at position 0: the checksum"):
        open_log(disk.root)
    assert disk.files() == before


def test_a_deletion_under_way_is_finished_from_the_oldest_on() -> None:
    """The rename of the second segment was kept by the disk, that of the first was not."""
    disk = filled()
    name = sealed_stem(2, 4) + LOG_SUFFIX
    disk.root.rename(name, name + ".deleted")
    log = open_log(disk.root)
    assert (log.start_offset, log.next_offset) == (4, 7)
    assert not [name for name in disk.root.names() if name.startswith(sealed_stem(0, 2))]
    assert not [name for name in disk.root.names() if name.startswith(sealed_stem(2, 4))]


@pytest.mark.parametrize("seed", range(20))
def test_a_deletion_that_was_finished_at_a_start_stays_so_when_the_machine_crashes(
    seed: int,
) -> None:
    """The broker stopped before the names that say "deleted" were durable; the next one removes
    the files, and then only some of all that reaches the platter."""
    disk = filled()
    log = open_log(disk.root)
    clean_end = log.close()
    assert clean_end is not None
    for file in log_files(disk.root.names())[:3]:
        disk.root.rename(file.name, file.name + ".deleted")
    assert Log.open(disk.root, CONFIG, clean_end=clean_end).first_offset == 6
    assert offsets(disk.after_crash(seed))[-1:] == [6]


def test_indexes_without_their_log_are_removed() -> None:
    disk = filled()
    orphan = sealed_stem(70, 80) + ".index"
    disk.root.open(orphan, create=True)
    open_log(disk.root)
    assert orphan not in disk.root.names()


def test_all_sealed_goes_on_behind_the_last() -> None:
    disk = filled()
    disk.root.remove(open_stem(6) + LOG_SUFFIX)
    log = open_log(disk.root)
    assert (log.next_offset, log.segments()[-1].first_offset) == (6, 6)


def test_after_an_orderly_shutdown_nothing_is_read() -> None:
    disk = filled()
    clean_end = open_log(disk.root).close()
    # Damage that only a scan could see.
    disk.flip_bit(open_stem(6) + LOG_SUFFIX, 300, 1)
    operations = len(disk.operations)
    log = Log.open(disk.root, CONFIG, clean_end=clean_end)
    assert (log.start_offset, log.next_offset) == (0, 7)
    assert len(disk.operations) == operations


@pytest.mark.parametrize("field", ["first_offset", "size_bytes"])
def test_a_clean_end_that_does_not_fit_is_not_believed(field: str) -> None:
    disk = filled()
    clean_end = open_log(disk.root).close()
    assert clean_end is not None
    facts = {name: getattr(clean_end, name) for name in CleanEnd.__slots__}
    wrong = CleanEnd(**{**facts, field: facts[field] + 1, "next_offset": 99})
    assert Log.open(disk.root, CONFIG, clean_end=wrong).next_offset == 7


def test_what_an_unfinished_compaction_wrote_is_removed() -> None:
    """R-STO-6: the old segments count until the new one has its name."""
    disk = filled()
    disk.root.open(CLEANED_NAME, create=True).append([BATCH])
    assert offsets(disk) == list(range(7))
    assert CLEANED_NAME not in disk.files()


@pytest.mark.parametrize("left", [[(0, 2)], [(2, 4)], [(0, 2), (2, 4)], []])
def test_what_a_compacted_segment_was_made_of_is_removed(left: list[tuple[int, int]]) -> None:
    """R-STO-6: whichever of them a crash has left, with or without their indexes."""
    disk = filled()
    write_journal(disk.root, COMPACTION_JOURNAL, b"")
    directory = disk.root
    compacted = directory.open(sealed_stem(0, 4) + LOG_SUFFIX, create=True)
    compacted.append([directory.open(sealed_stem(2, 4) + LOG_SUFFIX).read_at(0, 10_000)])
    for first_offset, next_offset in ((0, 2), (2, 4)):
        if (first_offset, next_offset) not in left:
            directory.remove(sealed_stem(first_offset, next_offset) + LOG_SUFFIX)
    assert offsets(disk) == list(range(2, 7))
    stems = {name.split(".")[0] for name in disk.files() if "-" in name}
    assert stems == {sealed_stem(0, 4), sealed_stem(4, 6)}


def test_a_write_that_could_not_be_undone_leaves_no_gap() -> None:
    """R-STO-6: the disk had no room for a new segment, and did not remove it again either; then
    what nobody was told of goes, the newest first."""
    disk = filled(flushes=2)
    log = open_log(disk.root)
    append(log, BATCH)
    disk.capacity_bytes = sum(map(len, disk.files().values())) + 100
    disk.fail_next("remove")
    with pytest.raises(DiskFull):
        append(log, BATCH)
    assert log.failed
    log.cutter.abandon(6)
    disk.mend()
    assert offsets(disk) == list(range(6))
