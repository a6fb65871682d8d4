"""The sparse index: floors, cuts, files."""

from __future__ import annotations

import pytest

from penstock.storage.segments.index import (
    NO_TIMESTAMP,
    IndexDamage,
    SegmentIndex,
    check_index_file,
    read_index,
    read_max_timestamp,
    write_index,
)
from tests.kit.simulated_disk import SimulatedDisk

STEM = "00000000000000000000-00000000000000000009"


def filled() -> SegmentIndex:
    """Ten batches of 100 bytes, an entry every 200; times go up and down; terms 1, 1, 2, …"""
    index = SegmentIndex()
    times = [5, 9, 3, 3, 20, 1, 1, 30, 2, 2]
    for number, time in enumerate(times):
        index.add(number, number * 100, time, 1 if number < 2 else 2, interval_bytes=200)
    return index


def test_an_entry_after_every_interval() -> None:
    """R-STO-2: sparse, and each entry is the boundary of a batch."""
    index = filled()
    assert list(index.offsets) == [2, 4, 6, 8]
    assert list(index.positions) == [200, 400, 600, 800]
    assert list(index.timestamps) == [9, 9, 20, 30]
    assert list(zip(index.term_offsets, index.terms, strict=True)) == [(0, 1), (2, 2)]
    assert index.max_timestamp_ms == 30


def test_floors() -> None:
    index = filled()
    assert index.floor(0) == index.floor(1) == (0, 0)
    assert index.floor(2) == index.floor(3) == (2, 200)
    assert index.floor(100) == (8, 800)
    assert index.floor_position(199) == (0, 0)
    assert index.floor_position(400) == (4, 400)
    # Before the entry everything is older than asked.
    assert index.floor_time(9) == (0, 0)
    assert index.floor_time(10) == (4, 400)
    assert index.floor_time(1000) == (8, 800)
    assert SegmentIndex().floor(7) == (0, 0)


def test_cut_forgets_what_is_behind() -> None:
    index = filled()
    index.cut(2, 200, 9)
    assert list(index.positions) == []
    assert list(index.terms) == [1]
    assert index.max_timestamp_ms == 9
    index.cut(0, 0, NO_TIMESTAMP)
    assert list(index.terms) == []


def test_the_files_bring_it_back() -> None:
    root = SimulatedDisk().root
    for index in (filled(), SegmentIndex()):
        write_index(root, STEM, index, 1000, flush=True)
        found = read_index(root, STEM, 1000)
        for column in SegmentIndex.__slots__:
            assert getattr(found, column) == getattr(index, column)
        assert read_max_timestamp(root, STEM, 1000) == index.max_timestamp_ms


def test_another_size_of_the_log_is_damage() -> None:
    root = SimulatedDisk().root
    write_index(root, STEM, filled(), 1000, flush=False)
    with pytest.raises(IndexDamage, match="log of 1000 bytes, there are 900"):
        read_index(root, STEM, 900)


def test_each_file_is_damaged_on_its_own() -> None:
    root = SimulatedDisk().root
    write_index(root, STEM, filled(), 1000, flush=False)
    root.open(STEM + ".time").truncate(40)
    check_index_file(root, STEM + ".index", 1000)
    with pytest.raises(IndexDamage, match="wrong checksum"):
        check_index_file(root, STEM + ".time", 1000)
    assert read_max_timestamp(root, STEM, 1000) == 30
    root.remove(STEM + ".index")
    with pytest.raises(IndexDamage, match="missing"):
        read_index(root, STEM, 1000)


def test_two_files_that_do_not_belong_together_are_damage() -> None:
    root = SimulatedDisk().root
    write_index(root, STEM, filled(), 1000, flush=False)
    write_index(root, "other", SegmentIndex(), 1000, flush=False)
    root.rename("other.time", STEM + ".time")
    with pytest.raises(IndexDamage, match="has 0 entries"):
        read_index(root, STEM, 1000)
    root.rename("other.index", STEM + ".time")
    with pytest.raises(IndexDamage, match="does not begin like"):
        read_index(root, STEM, 1000)
