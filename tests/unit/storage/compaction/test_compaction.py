"""Compaction of a log: what is due, what stays, and what happens when it is disturbed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest

from penstock.model.errors import CorruptLog, StorageFailed
from penstock.records import Codec, control_batch
from penstock.records.header import read_header, write_header
from penstock.records.rewrite import delete_horizon_ms
from penstock.storage.compaction.cleaning import (
    CleaningJob,
    DiscardingJob,
    MappingJob,
    Pace,
    Stopped,
)
from penstock.storage.compaction.compaction import Compaction, choose, read_cleaned_offset
from penstock.storage.files.journal import write_journal
from penstock.storage.log.compacted import COMPACTION_JOURNAL
from penstock.storage.log.log import Log
from penstock.storage.segments.recovery import CLEANED_NAME
from tests.kit.simulated_disk import SimulatedDisk
from tests.kit.storage.compacting import (
    ALWAYS,
    DELETE_RETENTION_MS,
    begin,
    compact,
    due,
    entries,
    finish,
    keyed_batch,
    put,
    seal,
)
from tests.kit.storage.logs import CONFIG, NOW_MS, append, flush, make_batch

Pairs = Iterable[tuple[bytes | None, bytes | None]]


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk()


@pytest.fixture
def log(disk: SimulatedDisk) -> Log:
    return Log.open(disk.root, CONFIG)


def put_sealed(log: Log, *batches: Pairs) -> None:
    put(log, *(keyed_batch(pairs) for pairs in batches))
    seal(log)


def kept(log: Log) -> list[tuple[int, bytes | None, bytes | None]]:
    return [(entry.offset, entry.key, entry.value) for entry in entries(log)]


def headers(log: Log) -> list[tuple[int, int, int]]:
    return [
        (header.base_offset, header.next_offset, header.record_count) for header in log.headers(0)
    ]


# --- what is due -------------------------------------------------------------------------------


def test_nothing_is_due_without_a_sealed_segment(log: Log) -> None:
    put(log, keyed_batch([(b"a", b"1")]))
    assert due(log) is None


def test_only_what_is_committed_is_due(log: Log) -> None:
    put_sealed(log, [(b"a", b"1")])
    put_sealed(log, [(b"a", b"2")])
    choice = due(log)
    assert choice is not None
    assert choice.end_offset == 2
    below = choose(log, cleaned_offset=0, limit_offset=1, now_ms=NOW_MS, config=ALWAYS)
    assert below is not None
    assert below.end_offset == 1


def test_it_is_due_when_enough_is_new(log: Log) -> None:
    for number in range(4):
        put_sealed(log, [(b"%d" % number, b"1")])
    for cleaned_offset, ratio, is_due in ((0, 1.0, True), (2, 0.5, True), (3, 0.5, False)):
        config = replace(ALWAYS, min_cleanable_dirty_ratio=ratio)
        choice = due(log, cleaned_offset=cleaned_offset, config=config)
        assert (choice is not None) == is_due
    assert due(log, cleaned_offset=4) is None


def test_a_young_message_is_left_alone(log: Log) -> None:
    put(log, keyed_batch([(b"a", b"1")], timestamp_ms=NOW_MS - 100))
    seal(log)
    put_sealed(log, [(b"a", b"2")])
    choice = due(log, config=replace(ALWAYS, min_compaction_lag_ms=50))
    assert choice is not None
    assert choice.end_offset == 1
    assert due(log, config=replace(ALWAYS, min_compaction_lag_ms=101)) is None


def test_an_old_message_does_not_wait_for_the_ratio(log: Log) -> None:
    put_sealed(log, [(b"a", bytes(400))], [(b"b", bytes(400))])
    put(log, keyed_batch([(b"c", b"1")], timestamp_ms=NOW_MS - 1000))
    seal(log)
    for lag_ms, is_due in ((1000, True), (1001, False), (2**63 - 1, False)):
        config = replace(ALWAYS, min_cleanable_dirty_ratio=0.9, max_compaction_lag_ms=lag_ms)
        assert (due(log, cleaned_offset=2, config=config) is not None) == is_due


# --- what stays --------------------------------------------------------------------------------


def test_the_latest_of_each_key_stays_at_its_offset(log: Log) -> None:
    """And neighbouring segments become one, as far as there is room."""
    put_sealed(log, [(b"a", b"1"), (b"b", b"1")], [(b"a", b"2")])
    put_sealed(log, [(b"c", b"1"), (b"a", b"3")])
    put(log, keyed_batch([(b"c", b"2")]))
    compaction = compact(log)
    # The last `c` is not sealed yet, so the one before it stays.
    expected = [(1, b"b", b"1"), (3, b"c", b"1"), (4, b"a", b"3"), (5, b"c", b"2")]
    assert kept(log) == expected
    assert headers(log) == [(0, 2, 1), (3, 5, 2), (5, 6, 1)]
    assert [segment.first_offset for segment in log.segments()] == [0, 5]
    assert compaction.cleaned_offset == 5
    assert compaction.bytes_after < compaction.bytes_before
    assert kept(Log.open(log.sealed_segments()[0].directory, CONFIG)) == expected


def test_results_are_merged_only_up_to_the_size_of_a_segment(log: Log) -> None:
    for number in range(6):
        put_sealed(log, [(b"%d" % number, bytes(500))])
    compact(log)
    assert [segment.first_offset for segment in log.segments()] == [0, 2, 4, 6]


def test_many_small_segments_are_merged_a_few_at_a_time(log: Log) -> None:
    for number in range(70):
        put_sealed(log, [(b"%d" % (number % 2), b"")])
    compact(log)
    assert [segment.first_offset for segment in log.segments()] == [0, 64, 70]
    assert kept(log) == [(68, b"0", b""), (69, b"1", b"")]


def test_a_segment_without_a_change_is_not_written(disk: SimulatedDisk, log: Log) -> None:
    for number in range(2):
        put_sealed(log, [(b"%d" % number, bytes(1000))])
    before = disk.files()
    compact(log)
    after = disk.files()
    del after[COMPACTION_JOURNAL]
    assert before == after
    assert not any("cleaned" in operation for operation in disk.operations)


@pytest.mark.parametrize("codec", list(Codec))
def test_any_codec_is_opened_and_kept(log: Log, codec: Codec) -> None:
    values = [(b"%d" % number, b"value " * 30) for number in range(4)]
    put(log, keyed_batch(values, codec=codec), keyed_batch([(b"0", b"new")]))
    seal(log)
    compact(log)
    assert [entry.key for entry in entries(log)] == [b"1", b"2", b"3", b"0"]
    assert next(log.headers(0)).codec == codec


def test_a_record_without_a_key_goes(log: Log) -> None:
    put_sealed(log, [(None, b"1"), (b"a", b"1")], [(b"b", b"1")])
    compact(log)
    assert [entry.offset for entry in entries(log)] == [1, 2]


def test_a_tombstone_stays_for_its_time(log: Log) -> None:
    """KIP-534: the time runs from the compaction that first meets it, not from when it was sent."""
    put_sealed(log, [(b"a", b"1")], [(b"a", None), (b"b", b"1")])
    compact(log)
    assert kept(log) == [(1, b"a", None), (2, b"b", b"1")]
    (header,) = log.headers(0)
    assert delete_horizon_ms(header) == NOW_MS + DELETE_RETENTION_MS
    put_sealed(log, [(b"c", b"1")])
    compact(log, cleaned_offset=3, now_ms=NOW_MS + DELETE_RETENTION_MS - 1)
    assert kept(log)[0] == (1, b"a", None)
    put_sealed(log, [(b"d", b"1")])
    compact(log, cleaned_offset=4, now_ms=NOW_MS + DELETE_RETENTION_MS)
    assert kept(log) == [(2, b"b", b"1"), (3, b"c", b"1"), (4, b"d", b"1")]


def test_control_batches_stay(log: Log) -> None:
    marker = bytes(control_batch(2, b"", timestamp_ms=NOW_MS))
    append(log, keyed_batch([(b"a", b"1")]), marker, marker, keyed_batch([(b"a", b"2")]))
    seal(log)
    compact(log)
    assert [header.is_control for header in log.headers(0)] == [True, True, False]


def test_the_last_batch_of_a_producer_stays_empty(log: Log) -> None:
    """R-PRO-2: so that the sequences can be told from the log alone."""
    for sequence in range(3):
        put(log, keyed_batch([(b"a", b"%d" % sequence)], producer=(7, 0, sequence)))
    put_sealed(log, [(b"a", b"last")])
    compact(log, producer_offsets=[2])
    assert headers(log) == [(2, 3, 0), (3, 4, 1)]
    (header, _) = log.headers(0)
    assert (header.producer_id, header.last_sequence) == (7, 2)
    # When it is not the last any more, or forgotten, it goes.
    put_sealed(log, [(b"b", b"")])
    compact(log, cleaned_offset=4)
    assert headers(log) == [(3, 4, 1), (4, 5, 1)]


def test_a_segment_ends_with_the_batch_its_name_says(log: Log) -> None:
    put_sealed(log, [(b"a", bytes(1400))], [(b"b", b"")], [(b"c", b"")])
    put_sealed(log, [(b"c", bytes(1400))])
    compact(log)
    assert headers(log)[:3] == [(0, 1, 1), (1, 2, 1), (2, 3, 0)]
    put_sealed(log, [(b"a", b""), (b"b", b"")])
    compact(log, cleaned_offset=4)
    # In the middle of the segment that they are now merged into, there is no use in it.
    assert headers(log) == [(3, 4, 1), (4, 6, 2)]
    assert kept(Log.open(log.sealed_segments()[0].directory, CONFIG)) == kept(log)


def test_a_batch_that_cannot_be_opened_stays(log: Log, caplog: pytest.LogCaptureFixture) -> None:
    garbled = bytearray(keyed_batch([(b"a", b"1")]))
    garbled[61:] = bytes(len(garbled) - 61)
    write_header(garbled, read_header(garbled))
    append(log, bytes(garbled), keyed_batch([(b"a", b"2")]), keyed_batch([(b"a", b"3")]))
    seal(log)
    compact(log)
    assert headers(log) == [(0, 1, 1), (2, 3, 1)]
    assert "stays as it is" in caplog.text


def test_too_many_keys_are_for_the_next_time(log: Log) -> None:
    batches = [[(b"%d" % (number % 4), b"%d" % number)] for number in range(8)]
    put_sealed(log, *batches)
    compaction = compact(log, keys_max=2)
    assert compaction.cleaned_offset == 2
    assert [entry.offset for entry in entries(log)] == list(range(8))
    rounds = 0
    while compaction.cleaned_offset < 8:
        compaction = compact(log, cleaned_offset=compaction.cleaned_offset, keys_max=2)
        rounds += 1
    assert rounds == 3
    assert [entry.offset for entry in entries(log)] == [4, 5, 6, 7]


def test_a_tombstone_that_came_too_late_for_the_map_gets_no_horizon(log: Log) -> None:
    """What it deletes may still be there when its time is over."""
    put_sealed(log, [(b"a", b"1")], [(b"b", b"1")], [(b"a", None)])
    compact(log, keys_max=1)
    assert [delete_horizon_ms(header) for header in log.headers(0)] == [None, None, None]
    assert len(entries(log)) == 3


# --- disturbed ---------------------------------------------------------------------------------


def steps(compaction: Compaction, until: type) -> None:
    """Run the jobs up to the first of the kind, and that too."""
    while True:
        job = compaction.next_job()
        assert job is not None
        job.run()
        assert job.error is None
        if isinstance(job, until):
            return


def test_readers_go_on_while_files_are_swapped(log: Log) -> None:
    put_sealed(log, [(b"a", b"1")], [(b"a", b"2")])
    before = kept(log)
    held = log.read(0, 1000, log.written_offset)
    compaction = begin(log)
    while (job := compaction.next_job()) is not None:
        during = kept(log)
        job.run()
        log.chain.drop_idle_files()
        assert kept(log) == during
    assert kept(log) == before[1:]
    assert len(held.read()) > 0


def test_segments_deleted_meanwhile_make_it_void(disk: SimulatedDisk, log: Log) -> None:
    put_sealed(log, [(b"a", b"1")])
    put_sealed(log, [(b"a", b"2")])
    compaction = begin(log)
    steps(compaction, CleaningJob)
    for job in log.cutter.delete_before(1):
        job.run()
    with pytest.raises(Stopped, match="gone"):
        finish(compaction)
    assert kept(log) == [(1, b"a", b"2")]
    assert CLEANED_NAME not in disk.files()


@pytest.mark.parametrize("missed_by", [MappingJob, CleaningJob])
def test_segments_deleted_before_they_were_read_make_it_void(log: Log, missed_by: type) -> None:
    """Retention is no failure of the disk."""
    put_sealed(log, [(b"a", b"1")])
    put_sealed(log, [(b"a", b"2")])
    compaction = begin(log)
    while not isinstance(job := compaction.next_job(), missed_by):
        assert job is not None, "the job never came"
        job.run()
    for removal in log.cutter.delete_before(1):
        removal.run()
    assert job is not None
    job.run()
    assert isinstance(job.error, StorageFailed)
    with pytest.raises(Stopped, match="gone"):
        finish(compaction)
    assert kept(log) == [(1, b"a", b"2")]


def test_a_log_that_was_closed_meanwhile_is_left_alone(disk: SimulatedDisk, log: Log) -> None:
    put_sealed(log, [(b"a", b"1")], [(b"a", b"2")])
    files = disk.files()
    compaction = begin(log)
    steps(compaction, CleaningJob)
    log.discard()
    with pytest.raises(Stopped):
        finish(compaction)
    left = disk.files()
    del left[COMPACTION_JOURNAL]
    assert left == files


@pytest.mark.parametrize("until", [MappingJob, CleaningJob])
def test_it_stops_when_it_is_not_wanted(disk: SimulatedDisk, log: Log, until: type) -> None:
    put_sealed(log, [(b"a", b"1")], [(b"a", b"2")])
    choice = due(log)
    assert choice is not None
    wanted = True
    compaction = Compaction(
        log,
        choice,
        now_ms=NOW_MS,
        delete_retention_ms=0,
        producer_offsets=frozenset(),
        pace=Pace(lambda: wanted, rest=lambda _: None),
    )
    steps(compaction, until)
    wanted = False
    with pytest.raises(Stopped, match="stop"):
        finish(compaction)
    assert [entry.offset for entry in entries(log)] == [0, 1]
    assert CLEANED_NAME not in disk.files()


def test_a_damaged_segment_is_not_compacted(disk: SimulatedDisk, log: Log) -> None:
    """A wrong byte must not get a right checksum."""
    put_sealed(log, [(b"a", b"1")], [(b"a", b"2")])
    name = log.sealed_segments()[0].stem + ".log"
    disk.flip_bit(name, 100, 3)
    damaged = disk.files()[name]
    with pytest.raises(CorruptLog, match="position 70"):
        compact(log)
    assert disk.files()[name] == damaged
    assert CLEANED_NAME not in disk.files()


def test_a_swap_that_may_not_be_durable_makes_the_log_read_only(
    disk: SimulatedDisk, log: Log
) -> None:
    put_sealed(log, [(b"a", b"1")])
    put_sealed(log, [(b"a", b"2")])
    compaction = begin(log)
    steps(compaction, CleaningJob)
    swap = compaction.next_job()
    assert swap is not None
    assert not isinstance(swap, DiscardingJob)
    disk.fail_next("flush folder")
    swap.run()
    with pytest.raises(Exception, match="disk failed"):
        finish(compaction)
    assert log.failed
    assert kept(log) == [(1, b"a", b"2")]
    assert kept(Log.open(disk.root, CONFIG)) == [(1, b"a", b"2")]


def test_a_swap_that_came_to_nothing_holds_nothing_up(disk: SimulatedDisk, log: Log) -> None:
    put_sealed(log, [(b"a", b"1")])
    put_sealed(log, [(b"a", b"2")])
    compaction = begin(log)
    steps(compaction, CleaningJob)
    swap = compaction.next_job()
    assert swap is not None
    disk.fail_next("rename")
    swap.run()
    with pytest.raises(StorageFailed):
        finish(compaction)
    assert not log.failed
    assert len(log.cutter.delete_before(1)) == 1
    assert kept(log) == [(1, b"a", b"2")]


# --- the journal -------------------------------------------------------------------------------


def test_how_far_it_came_is_remembered(disk: SimulatedDisk, log: Log) -> None:
    assert read_cleaned_offset(disk.root, 0) == 0
    put_sealed(log, [(b"a", b"1")], [(b"a", b"2")])
    compact(log)
    assert read_cleaned_offset(disk.root, log.next_offset) == 2
    assert due(log, cleaned_offset=2) is None


def test_a_journal_that_cannot_be_right_is_not_believed(disk: SimulatedDisk, log: Log) -> None:
    put_sealed(log, [(b"a", b"1")], [(b"a", b"2")])
    compact(log)
    assert read_cleaned_offset(disk.root, 1) == 0
    disk.flip_bit(COMPACTION_JOURNAL, 19, 0)
    assert read_cleaned_offset(disk.root, 2) == 0
    write_journal(disk.root, COMPACTION_JOURNAL, b"")
    assert read_cleaned_offset(disk.root, 2) == 0


def test_it_can_be_done_again_from_the_beginning(log: Log) -> None:
    put_sealed(log, [(b"a", b"1")], [(b"b", None)], [(b"a", b"2")])
    compact(log)
    before = headers(log)
    compact(log)
    assert headers(log) == before


def test_the_mark_of_gaps_is_there_before_the_first_gap(disk: SimulatedDisk, log: Log) -> None:
    put_sealed(log, [(b"a", b"1")], [(b"a", b"2")])
    append(log, make_batch())
    flush(log)
    compaction = begin(log)
    job = compaction.next_job()
    assert job is not None
    job.run()
    assert COMPACTION_JOURNAL in disk.after_crash("lost").files()
    assert len(entries(log)) == 3
