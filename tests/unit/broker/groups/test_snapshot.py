"""A snapshot of the groups as a file: written whole, believed only where it belongs (R-STO-7)."""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeVar

import pytest

from penstock.broker.groups import snapshot as group_snapshot
from penstock.broker.groups.snapshot import SnapshotJob, build_batches, read_log, read_snapshot
from penstock.coordination.group.offsets import CommittedOffset
from penstock.coordination.group.shared.states import KeptState
from penstock.coordination.group.table import Checkpoint
from penstock.model.errors import CorruptLog
from penstock.records.view import batches
from penstock.storage.files.journal import write_journal
from tests.kit.broker.groups import Life, living
from tests.kit.simulated_disk import SimulatedDisk

Read = TypeVar("Read")

NOW_MS = 1_700_000_000_000
CHECKPOINT = Checkpoint(
    [
        ("g", [(b"key", b"value")], []),
        ("h", [], [CommittedOffset(topic="t", topic_id="id", partition=0, offset=5)]),
    ],
    [("s", KeptState(topic="t", topic_id="id", partition=0, leader_term=1, state=b"state"))],
)


class Applied(list[tuple[bytes, bytes | None]]):
    """What was read."""

    def apply(self, key: bytes, value: bytes | None, timestamp_ms: int) -> None:
        del timestamp_ms
        self.append((key, value))


async def save(life: Life, offset: int = 1) -> None:
    partition = life.partitions.find("__offsets", 0)
    folder = life.partitions.folder(partition.name)
    SnapshotJob(partition, folder, CHECKPOINT, offset, NOW_MS).run()


def read(life: Life, now_ms: int = NOW_MS) -> tuple[int | None, Applied]:
    partition = life.partitions.find("__offsets", 0)
    applied = Applied()
    folder = life.partitions.folder(partition.name)
    return result(read_snapshot(partition, folder, applied.apply, now_ms)), applied


def result(reading: Generator[None, None, Read]) -> Read:
    """What it comes to, without a turn for anybody else."""
    while True:
        try:
            next(reading)
        except StopIteration as over:
            return over.value  # type: ignore[no-any-return]


async def test_it_comes_back_as_it_was() -> None:
    async with living(SimulatedDisk()) as life:
        await life.commit("g", 1)
        assert read(life) == (None, [])
        await save(life)
        offset, applied = read(life)
        assert offset == 1
        assert applied == list(CHECKPOINT.records())


async def test_one_that_the_log_does_not_reach_is_not_believed() -> None:
    async with living(SimulatedDisk()) as life:
        await life.commit("g", 1)
        await save(life, offset=2)
        assert read(life) == (None, [])


async def test_one_of_another_topic_of_the_name_is_not_believed() -> None:
    async with living(SimulatedDisk()) as life:
        await life.commit("g", 1)
        await save(life)
        life.partitions.find("__offsets", 0).topic_id = life.registry.image.topic("orders").id
        assert read(life) == (None, [])


async def test_one_that_is_too_old_is_not_believed() -> None:
    async with living(SimulatedDisk()) as life:
        await life.commit("g", 1)
        await save(life)
        # An hour less than tombstones stay: the clocks of two brokers may differ.
        kept_ms = 23 * 60 * 60 * 1000
        assert read(life, NOW_MS + kept_ms - 1)[0] == 1
        assert read(life, NOW_MS + kept_ms) == (None, [])


async def test_one_of_records_that_were_cut_off_is_not_believed() -> None:
    """R-REP-2: the log reaches as far again, but another leader wrote what stands there now."""
    async with living(SimulatedDisk()) as life:
        await life.commit("g", 1)
        await save(life)
        assert read(life)[0] == 1
        life.partitions.find("__offsets", 0).replica.term += 1
        assert read(life) == (None, [])


async def test_one_from_before_the_log_begins_is_not_believed() -> None:
    """Nobody can say any more whether it was of this log."""
    async with living(SimulatedDisk()) as life:
        for offset in range(3):
            await life.commit("g", offset)
        await save(life)
        raft = life.partitions.find("__offsets", 0).replica.consensus.raft
        raft.state.terms.extend(raft.state.term, 3)
        raft.state.terms.drop_before(2)
        assert read(life) == (None, [])


async def test_one_whose_records_make_no_sense_is_damage() -> None:
    async with living(SimulatedDisk()) as life:
        await life.commit("g", 1)
        partition = life.partitions.find("__offsets", 0)
        folder = life.partitions.folder(partition.name)
        term = partition.replica.term.to_bytes(8)
        header = partition.topic_id.encode() + (1).to_bytes(8) + term + NOW_MS.to_bytes(8)
        write_journal(folder, "groups.journal", header + b"no batch")
        with pytest.raises(CorruptLog):
            read(life)
        write_journal(folder, "groups.journal", b"short")
        assert read(life) == (None, [])


async def test_the_log_is_read_from_an_offset_on() -> None:
    async with living(SimulatedDisk()) as life:
        for offset in range(5):
            await life.commit("g", offset)
        applied = Applied()
        assert result(read_log(life.partitions.find("__offsets", 0), 3, applied.apply)) == 2
        assert [
            b'"offset": %d,' % offset in (value or b"")
            for offset, (_, value) in zip((3, 4), applied, strict=True)
        ] == [True, True]


async def test_what_leaders_write_of_their_own_is_passed_over() -> None:
    async with living(SimulatedDisk()) as life:
        await life.commit("g", 1)
        await life.commit_elsewhere("h", 2)
        applied = Applied()
        assert result(read_log(life.partitions.find("__offsets", 0), 0, applied.apply)) == 2
        assert [b'"group": "h"' in key for key, _ in applied] == [False, True]


async def test_others_have_a_turn_while_much_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_snapshot, "_SLICE_RECORDS", 2)
    async with living(SimulatedDisk()) as life:
        for offset in range(5):
            await life.commit("g", offset)
        reading = read_log(life.partitions.find("__offsets", 0), 0, Applied().apply)
        assert len(list(reading)) == 2


def test_many_records_make_several_batches_and_a_large_one_its_own() -> None:
    large = bytes(3_000_000)
    records = [(b"%d" % number, bytes(100_000)) for number in range(12)]
    built = build_batches([*records, (b"large", large), (b"tombstone", None)], 7)
    found = [
        (record.key, record.value)
        for part in built
        for batch in batches(part)
        for record in batch.records()
    ]
    assert found == [*records, (b"large", large), (b"tombstone", None)]
    assert len(built) > 3
    assert build_batches([], 7) == []
