"""What `penstock inspect` learns of a partition's folder without a broker."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.model.errors import StorageFailed
from penstock.storage.files.journal import write_journal
from penstock.storage.files.os_files import OsDirectory
from penstock.storage.log.compacted import COMPACTION_JOURNAL
from penstock.storage.log.verify import verify
from penstock.storage.segments.segment import LOG_SUFFIX, sealed_stem
from tests.kit.simulated_disk import SimulatedDisk
from tests.kit.storage.logs import append, flush, make_batch, open_log, thin_out


def filled() -> SimulatedDisk:
    """Three segments of two batches, three records each, closed in order."""
    disk = SimulatedDisk()
    log = open_log(disk.root)
    for _ in range(6):
        append(log, make_batch(b"x" * 200, records=3))
    log.close()
    write_journal(disk.root, "producers.journal", b"facts")
    return disk


def problems(disk: SimulatedDisk) -> dict[str, str]:
    return {
        finding.path.removeprefix("disk/"): f"{finding.position}: {finding.problem}"
        for finding in verify(disk.root)
        if finding.problem
    }


def test_a_sound_folder(tmp_path: Path) -> None:
    disk = filled()
    findings = list(verify(disk.root))
    assert [finding.problem for finding in findings] == [None] * 10
    logs = [finding for finding in findings if finding.path.endswith(".log")]
    assert [(finding.first_offset, finding.last_offset) for finding in logs] == [
        (0, 5),
        (6, 11),
        (12, 17),
    ]
    assert [(finding.batches, finding.records) for finding in logs] == [(2, 6)] * 3
    for name, data in disk.files().items():
        (tmp_path / name).write_bytes(data)
    on_disk = list(verify(OsDirectory(str(tmp_path))))
    assert [finding.records for finding in on_disk] == [finding.records for finding in findings]


def test_nothing_is_changed() -> None:
    disk = filled()
    disk.root.open("00000000000000000012.open.log").truncate(100)
    before = disk.files()
    operations = len(disk.operations)
    assert problems(disk)
    assert disk.files() == before
    assert len(disk.operations) == operations


def test_a_torn_tail_is_told_from_decay() -> None:
    disk = filled()
    name = "00000000000000000012.open.log"
    size = disk.root.size(name)
    disk.flip_bit(name, size - 10, 0)
    assert problems(disk)[name] == f"{size // 2}: the checksum is wrong"
    disk.root.open(name).truncate(size - 10)
    assert problems(disk)[name].startswith(f"{size // 2}: torn by a crash, {size // 2 - 10} bytes")


def test_missing_and_misnamed_files_are_found() -> None:
    disk = filled()
    first = sealed_stem(0, 6) + LOG_SUFFIX
    disk.root.rename(first, sealed_stem(0, 5) + LOG_SUFFIX)
    found = problems(disk)
    assert "it ends before offset 6" in found[sealed_stem(0, 5) + LOG_SUFFIX]
    assert "ends before offset 5" in found[sealed_stem(6, 12) + LOG_SUFFIX]
    assert "missing" in found[sealed_stem(0, 5) + ".index"]


def with_gaps() -> SimulatedDisk:
    """Segments 0-11, compacted, of which the batches 3-5 and 9-11 are left, and 12-17."""
    disk = SimulatedDisk()
    log = open_log(disk.root)
    for _ in range(6):
        append(log, make_batch(b"x" * 200, records=3))
    flush(log)
    thin_out(log, log.sealed_segments(), lambda header: header.base_offset == 3)
    log.close()
    return disk


def test_gaps_of_a_compacted_log_are_counted() -> None:
    disk = with_gaps()
    assert problems(disk) == {}
    logs = [finding for finding in verify(disk.root) if finding.path.endswith(".log")]
    assert [(finding.gaps, finding.batches) for finding in logs] == [(2, 2), (0, 2)]
    assert [(finding.first_offset, finding.last_offset) for finding in logs] == [(0, 11), (12, 17)]


def test_what_a_compaction_left_over_is_told_from_damage() -> None:
    """A crash may come between the name of the new segment and the removal of the old ones."""
    disk = with_gaps()
    old = sealed_stem(6, 12)
    disk.root.open(old + LOG_SUFFIX, create=True).append([make_batch()])
    disk.root.open(old + ".index", create=True)
    (problem,) = problems(disk).items()
    assert problem[0] == old + LOG_SUFFIX
    assert "left over by a compaction" in problem[1]
    open_log(disk.root)
    assert problems(disk) == {}


def test_gaps_without_the_mark_are_damage() -> None:
    disk = with_gaps()
    disk.root.remove(COMPACTION_JOURNAL)
    assert problems(disk) == {sealed_stem(0, 12) + LOG_SUFFIX: "0: the batch has offset 3, not 0"}


def test_an_end_that_is_missing_shows_in_a_compacted_log_too() -> None:
    disk = with_gaps()
    name = sealed_stem(0, 12) + LOG_SUFFIX
    size = disk.root.size(name)
    disk.root.open(name).truncate(size // 2)
    assert problems(disk)[name] == f"{size // 2}: it ends before offset 6"
    disk = with_gaps()
    disk.flip_bit(name, size // 2 + 4, 0)
    assert problems(disk)[name] == f"{size}: it ends before offset {12 + 2**24}"


def test_gaps_in_an_unsealed_segment_are_damage() -> None:
    disk = with_gaps()
    name = "00000000000000000012.open.log"
    disk.flip_bit(name, 7, 4)
    assert problems(disk)[name] == "0: the batch has offset 28, not 12"


def test_an_index_with_right_checksums_and_wrong_entries_is_found() -> None:
    disk = SimulatedDisk()
    log = open_log(disk.root)
    for _ in range(4):
        append(log, make_batch(b"x" * 200))
    flush(log)
    log.chain.segments[-1].index.offsets[0] += 1
    log.close()
    assert "entry 0 says" in problems(disk)["00000000000000000000.open.index"]


def test_an_unreadable_folder_is_a_typed_error(tmp_path: Path) -> None:
    with pytest.raises(StorageFailed, match="No such file or directory"):
        list(verify(OsDirectory(str(tmp_path / "absent"))))
