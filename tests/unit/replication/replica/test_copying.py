"""Batches from log to log: end to end without a gap, and nothing unchecked is taken."""

from __future__ import annotations

import pytest

from penstock.model.errors import BatchError
from penstock.raft.membership import Membership, Node
from penstock.raft.messages import BatchPlace
from penstock.raft.terms import TermHistory, TermStart
from penstock.records import build_batch
from penstock.records.header import read_header, stamp
from penstock.replication.replica.control import membership_batch
from penstock.replication.replica.copying import read_batches, split
from penstock.storage.compaction.cleaning import Pace
from penstock.storage.compaction.compaction import Compaction, CompactionConfig, choose
from penstock.storage.log.log import Log, LogConfig
from tests.kit.simulated_disk import SimulatedDisk

CONFIG = LogConfig(segment_bytes=300, segment_ms=1 << 40, index_interval_bytes=128)


def batch(base_offset: int, records: int, term: int = 1, key: bytes = b"k") -> bytearray:
    made = build_batch([(key, b"%d" % base_offset)] * records)
    stamp(memoryview(made), base_offset, term)
    return made


def test_places_are_what_the_batches_say() -> None:
    change = membership_batch(Membership(frozenset({Node(1, 1)})), 5)
    stamp(memoryview(change), 9, 2)
    payload = bytes(batch(5, 3) + batch(8, 1) + change)
    received, places = split(memoryview(payload), 5)
    assert [(place.base_offset, place.end_offset, place.term) for place in places] == [
        (5, 8, 1),
        (8, 9, 1),
        (9, 10, 2),
    ]
    assert [place.membership is None for place in places] == [True, True, False]
    assert b"".join(bytes(one.batch) for one in received) == payload


def test_nothing_is_no_batch() -> None:
    assert split(memoryview(b""), 5) == ([], ())


def test_a_flipped_bit_is_noticed() -> None:
    """R-STO-1: a follower keeps nothing that was damaged on the way. The term is outside of the
    checksum; Raft holds it against the request."""
    whole = batch(5, 1)
    for position in {*range(len(whole))} - {*range(12, 16)}:
        payload = bytearray(whole)
        payload[position] ^= 0x20
        with pytest.raises(BatchError):
            split(memoryview(payload), 5)


@pytest.mark.parametrize("cut", [1, 40, 60])
def test_half_a_batch_is_refused(cut: int) -> None:
    payload = bytes(batch(5, 3) + batch(8, 1))[:-cut]
    with pytest.raises(BatchError):
        split(memoryview(payload), 5)


def test_a_gap_is_refused() -> None:
    with pytest.raises(BatchError, match="where 8 follows"):
        split(memoryview(bytes(batch(5, 3) + batch(9, 1))), 5)


def written(keys: str) -> Log:
    """One batch of two records for each key."""
    log = Log.open(SimulatedDisk().root, CONFIG)
    for key in keys:
        made = memoryview(batch(0, 2, key=key.encode()))
        log.writer.stage(read_header(made), made, 1 if log.next_offset < 10 else 4)
        log.writer.write_staged(0)
    job = log.writer.flush_job(include_active=True)
    assert job is not None
    job.run()
    log.writer.finish_flush(job)
    return log


def test_a_log_is_read_in_pieces() -> None:
    log = written("abcdefgh")
    terms = TermHistory.found((TermStart(1, 0), TermStart(4, 10)), 0, 16)
    offset, copied = 0, b""
    while offset < 16:
        piece, end_offset = read_batches(log, terms, offset, 16, 200)
        split(memoryview(piece), offset)
        copied += piece
        offset = end_offset
    assert len(split(memoryview(copied), 0)[1]) == 8
    assert len(read_batches(log, terms, 4, 6, 1 << 20)[0]) == len(batch(0, 2)), "to the end asked"


def test_what_compaction_took_is_made_up_for() -> None:
    """A follower's log has no gaps where its leader's has: empty batches stand for them."""
    log = written("aaaaaaaaaaaab")
    choice = choose(
        log,
        cleaned_offset=0,
        limit_offset=log.written_offset,
        now_ms=1,
        config=CompactionConfig(
            min_cleanable_dirty_ratio=0.0,
            min_compaction_lag_ms=0,
            max_compaction_lag_ms=1 << 40,
            delete_retention_ms=0,
        ),
    )
    assert choice is not None
    compaction = Compaction(
        log,
        choice,
        now_ms=1,
        delete_retention_ms=0,
        producer_offsets=frozenset(),
        pace=Pace(lambda: True, lambda _: None),
    )
    while (job := compaction.next_job()) is not None:
        job.run()
    assert log.is_compacted
    assert len(list(log.headers(0))) < 13
    terms = TermHistory.found((TermStart(1, 0), TermStart(4, 10)), 0, 26)
    offset = 0
    found: list[BatchPlace] = []
    while offset < 26:
        piece, end_offset = read_batches(log, terms, offset, 26, 200)
        _, places = split(memoryview(piece), offset)
        found += places
        assert places[-1].end_offset == end_offset
        offset = end_offset
    history = TermHistory()
    for place in found:
        history.extend(place.term, place.end_offset)
    assert history.begun == terms.begun, "the terms of what is gone are told too"
