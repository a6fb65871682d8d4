"""Committing: an epoch is decided once, in its turn, and durably before anybody is told."""

from __future__ import annotations

import asyncio

import pytest

from penstock.coordination.staging.records import NamedAttempt
from penstock.model.errors import Busy, StagedBatchesMissing, StorageFailed
from penstock.model.limits import STAGED_SILENCE_MS_MAX
from tests.kit.broker.staging import living
from tests.kit.simulated_disk import SimulatedDisk
from tests.unit.broker.staging.test_copies import fail_flushes_of


async def test_an_epoch_is_committed_once() -> None:
    """R-SPK-2: whatever a second commit names."""
    async with living(SimulatedDisk()) as life:
        first = await life.stage("a", [b"a"], epoch=3)
        second = await life.stage("b", [b"b"], epoch=3)
        await life.commit(first, epoch=3)
        for named in (first, second):
            again = await life.commit(named, epoch=3)
            assert (again.already, again.records, again.readable) == (True, 1, True)
        earlier = await life.commit(second, epoch=2)
        assert (earlier.already, earlier.records) == (True, 0)
        assert await life.start_stage("late", 0, [b"late"], epoch=3), "it need not go on"
        assert life.values() == [b"a"]


async def test_two_drivers_at_once() -> None:
    async with living(SimulatedDisk()) as life:
        attempts = [await life.stage(name, [name.encode()]) for name in ("a", "b", "c")]
        outcomes = await asyncio.gather(*(life.commit(one) for one in attempts))
        assert [outcome.already for outcome in outcomes] == [False, True, True]
        assert life.values() == [b"a"]


async def test_the_epochs_of_a_write_follow_one_another() -> None:
    async with living(SimulatedDisk()) as life:
        attempts = [await life.stage("a", [b"%d" % epoch], epoch=epoch) for epoch in range(4)]
        await asyncio.gather(
            *(life.commit(named, epoch=epoch) for epoch, named in enumerate(attempts))
        )
        assert life.values() == [b"0", b"1", b"2", b"3"]


async def test_a_later_epoch_does_not_wait_for_ever() -> None:
    async with living(SimulatedDisk()) as life:
        named = await life.stage("a", [b"a"])
        life.hold_copies()
        await life.commit(named, max_wait_s=0)
        with pytest.raises(Busy, match="Epoch 0 of 'w' is not written yet"):
            await life.commit(epoch=1, max_wait_s=0.01)
        life.release_copies()
        assert not (await life.commit(epoch=1)).already


async def test_an_empty_epoch_costs_one_record() -> None:
    async with living(SimulatedDisk()) as life:
        committed = await life.commit(NamedAttempt("idle", 0))
        assert (committed.already, committed.records, committed.readable) == (False, 0, True)
        assert life.table.unfinished() == []
        assert (await life.commit()).already


async def test_what_is_not_durable_is_not_decided() -> None:
    """A decision must not outlive what it names."""
    async with living(SimulatedDisk()) as life:
        await life.stage("first", [b"x"])
        told = life.start_stage("a", 0, [b"a"])
        with pytest.raises(StagedBatchesMissing, match="not flushed"):
            await life.commit(NamedAttempt("a", 1))
        life.driver.end_turn()
        await told
        assert not (await life.commit(NamedAttempt("a", 1))).already


async def test_a_commit_of_what_is_not_there_commits_nothing() -> None:
    async with living(SimulatedDisk()) as life:
        named = await life.stage("a", [b"a"])
        with pytest.raises(StagedBatchesMissing, match="Attempt b "):
            await life.commit(named, NamedAttempt("b", 1))
        assert life.values() == []
        assert life.staging.committed_epoch("w") is None
        assert not (await life.commit(named)).already


async def test_a_decision_of_unknown_fate_ends_in_one_way_or_the_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """After a failed flush nobody knows what a restart will find: until then nothing is promised,
    and nothing is dropped that a decision may name."""
    disk = SimulatedDisk()
    async with living(disk) as life:
        await life.commit(write="make the topics")
        named = await life.stage("a", [b"a"])
        fail_flushes_of("/__writes/", monkeypatch)
        with pytest.raises(StorageFailed):
            await life.commit(named)
        for refused in (
            life.commit(named),
            life.commit(epoch=1),
            life.staging.abort("w", 0, ["a"]),
        ):
            with pytest.raises(StorageFailed):
                await refused
        with pytest.raises(StorageFailed):
            life.start_stage("b", 0, [b"b"])
        with pytest.raises(StorageFailed):
            life.staging.committed_epoch("w")
        life.clock.time_ms += STAGED_SILENCE_MS_MAX + 1
        life.staging.one_round(is_expiry_due=True)
        assert life.table.low_offset() == 0
        assert life.values() == []
        monkeypatch.undo()
    for persistence in ("lost", "kept"):
        async with living(disk.after_crash(persistence)) as life:
            await life.commit(named)
            assert life.values() == [b"a"]
