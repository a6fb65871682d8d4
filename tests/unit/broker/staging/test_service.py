"""Staging, deciding, dropping: durable before it is told, refused with what to do, bounded."""

from __future__ import annotations

import asyncio

import pytest

from penstock.broker.staging import service as staging_module
from penstock.coordination.staging.records import NamedAttempt
from penstock.model.errors import (
    BatchTooLarge,
    Busy,
    CorruptBatch,
    DiskFull,
    InvalidBatch,
    InvalidRequest,
    InvalidTimestamp,
    InvalidTopic,
    NotEnoughReplicas,
    ShuttingDown,
    StagedBatchesMissing,
    StorageFailed,
    UnknownTopic,
)
from penstock.model.limits import STAGED_SILENCE_MS_MAX, WRITE_SILENCE_MS_MAX
from tests.kit.broker.running import ManualClock, batch
from tests.kit.broker.staging import living
from tests.kit.simulated_disk import SimulatedDisk


async def test_what_is_staged_is_seen_when_it_is_committed_and_not_before() -> None:
    async with living(SimulatedDisk()) as life:
        named = await life.stage("a", [b"a", b"b"])
        assert life.values() == []
        assert life.staging.committed_epoch("w") is None
        committed = await life.commit(named)
        assert (committed.already, committed.records) == (False, 2)
        assert life.values() == [b"a", b"b"]
        assert life.staging.committed_epoch("w") == 0


async def test_a_repeated_batch_is_answered_like_the_first() -> None:
    """After a lost connection a client sends again what was not answered."""
    async with living(SimulatedDisk()) as life:
        first = life.start_stage("a", 0, [b"a"])
        again = life.start_stage("a", 0, [b"a"])
        await asyncio.sleep(0)
        assert not first.done()
        assert not again.done(), "not before it is durable"
        life.driver.end_turn()
        assert not any(await asyncio.gather(first, again))
        assert not await life.start_stage("a", 0, [b"a"])
        await life.commit(NamedAttempt("a", 1))
        assert life.values() == [b"a"]


async def test_a_drop_that_cannot_be_noted_is_an_error() -> None:
    disk = SimulatedDisk()
    async with living(disk) as life:
        await life.stage("a", [b"a"])
        disk.capacity_bytes = sum(map(len, disk.files().values())) + 20
        with pytest.raises(DiskFull):
            await life.staging.abort("w", 0, ["a"])


# --- refused -----------------------------------------------------------------------------------


async def test_the_destination_says_what_it_takes() -> None:
    """R-PRO-1: so that a commit cannot fail by what it has to write."""
    async with living(SimulatedDisk()) as life:
        await life.topics.create("keyed", 1, {"cleanup_policy": "compact"})
        await life.topics.create("small", 1, {"batch_bytes_max": "1024"})
        await life.topics.create("safe", 1, {"min_insync_replicas": "2"})
        damaged = batch([b"abc"])
        damaged[-1] ^= 1
        for error, topic, partition, payload in (
            (UnknownTopic, "nowhere", 0, batch([b"a"])),
            (UnknownTopic, "orders", 9, batch([b"a"])),
            (InvalidTopic, "__offsets", 0, batch([b"a"])),
            (InvalidBatch, "keyed", 0, batch([b"a"])),
            (BatchTooLarge, "small", 0, batch([b"a" * 2000])),
            (NotEnoughReplicas, "safe", 0, batch([b"a"])),
            (InvalidTimestamp, "orders", 0, batch([b"a"], timestamp_ms=2**45)),
            (CorruptBatch, "orders", 0, damaged),
            (InvalidBatch, "orders", 0, batch([b"a"]) + batch([b"b"])),
            (InvalidBatch, "orders", 0, bytearray(b"nonsense")),
            (InvalidBatch, "orders", 0, bytearray()),
        ):
            await life.commit(write="make the topics")
            with pytest.raises(error):
                life.start_stage("a", 0, [], topic=topic, partition=partition, payload=payload)
        await life.stage("a", [b"fits"])


async def test_no_batch_becomes_too_large_by_being_staged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staging_module, "_BATCH_BYTES_MAX", 1000)
    async with living(SimulatedDisk()) as life:
        await life.stage("a", [b"x" * 800])
        with pytest.raises(BatchTooLarge, match="can be staged"):
            life.start_stage("a", 1, [b"x" * 1000])


async def test_a_staged_batch_is_never_taken_for_one_of_the_log() -> None:
    """Recovery looks behind damage for whole batches that may follow: one inside another must not
    pass for that, whatever offset a client gave it."""
    async with living(SimulatedDisk()) as life:
        payload = batch([b"a"])
        payload[:8] = (1).to_bytes(8)
        await life.commit(write="make the topics")
        told = life.start_stage("a", 0, [], payload=payload)
        life.driver.end_turn()
        await told
        [view] = life.batches("__staged")
        [record] = view.records()
        assert record.value is not None
        assert record.value[:8] == bytes(8)


async def test_names_and_numbers_are_checked() -> None:
    async with living(SimulatedDisk()) as life:
        for write, epoch in (("", 0), ("x" * 256, 0), ("a\n", 0), ("w", -1)):
            with pytest.raises(InvalidRequest):
                await life.commit(write=write, epoch=epoch)
            with pytest.raises(InvalidRequest):
                await life.staging.abort(write, epoch, [])
        with pytest.raises(InvalidRequest):
            life.staging.committed_epoch("")
        await life.commit(write="make the topics")
        with pytest.raises(InvalidRequest):
            life.start_stage("", 0, [b"a"])
        with pytest.raises(InvalidRequest, match="100000 attempts"):
            await life.staging.abort("w", 0, ["a"] * 100_000)


# --- dropped -----------------------------------------------------------------------------------


async def test_what_is_aborted_is_gone_also_after_a_restart() -> None:
    disk = SimulatedDisk()
    async with living(disk) as life:
        await life.stage("a", [b"a"])
        kept = await life.stage("b", [b"b"])
        await life.staging.abort("w", 0, ["a", "unknown"])
        await life.staging.abort("w", 0, ["a"])
        await life.staging.abort("nobody", 0, ["a"])
    async with living(disk.after_crash("lost")) as life:
        with pytest.raises(StagedBatchesMissing):
            await life.commit(NamedAttempt("a", 1))
        again = await life.stage("a", [b"another"])
        await life.commit(kept, again)
        assert life.values() == [b"b", b"another"]


async def test_many_are_dropped_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staging_module, "_RECORDS_AT_ONCE", 3)
    disk = SimulatedDisk()
    async with living(disk) as life:
        for number in range(10):
            await life.stage(f"a{number}", [b"a"])
        await life.staging.abort("w", 0, [f"a{number}" for number in range(10)])
        assert life.table.low_offset() is None
    async with living(disk.after_crash("lost")) as life:
        assert life.table.low_offset() is None


async def test_what_is_left_alone_for_too_long_is_dropped(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = ManualClock()
    disk = SimulatedDisk()
    async with living(disk, clock) as life:
        named = await life.stage("a", [b"a"])
        clock.time_ms += STAGED_SILENCE_MS_MAX + 1
        assert life.staging.one_round(is_expiry_due=True), "perhaps there is more"
        assert not life.staging.one_round(is_expiry_due=True)
        assert "1 attempts of staged writes are dropped" in caplog.text
        with pytest.raises(StagedBatchesMissing):
            await life.commit(named)
        await life.stage("b", [b"b"])
    async with living(disk, clock) as life:
        with pytest.raises(StagedBatchesMissing):
            await life.commit(named)


async def test_what_expired_while_the_broker_was_down_is_dropped() -> None:
    clock = ManualClock()
    disk = SimulatedDisk()
    async with living(disk, clock) as life:
        named = await life.stage("a", [b"a"])
    clock.time_ms += STAGED_SILENCE_MS_MAX + 1
    async with living(disk, clock) as life:
        with pytest.raises(StagedBatchesMissing):
            await life.commit(named)


async def test_an_old_write_is_forgotten() -> None:
    clock = ManualClock()
    disk = SimulatedDisk()
    async with living(disk, clock) as life:
        await life.commit(await life.stage("a", [b"a"]))
        await life.until_noted()
        clock.time_ms += WRITE_SILENCE_MS_MAX + 1
        life.staging.one_round(is_expiry_due=True)
        async with asyncio.timeout(5):
            while life.staging.committed_epoch("w") is not None:
                await asyncio.sleep(0)
    async with living(disk, clock) as life:
        assert life.staging.committed_epoch("w") is None


# --- the disk fails ----------------------------------------------------------------------------


async def test_a_full_disk_keeps_nothing_half() -> None:
    disk = SimulatedDisk()
    async with living(disk) as life:
        await life.stage("a", [b"a"])
        room = sum(map(len, disk.files().values()))
        disk.capacity_bytes = room + 20
        told = [life.start_stage("a", number, [b"x"]) for number in (1, 2)]
        life.driver.end_turn()
        for one in told:
            with pytest.raises(DiskFull):
                await one
        with pytest.raises(StagedBatchesMissing):
            life.start_stage("a", 2, [b"x"])
        with pytest.raises(DiskFull):
            await life.commit(NamedAttempt("a", 1))
        assert life.staging.committed_epoch("w") is None
        disk.capacity_bytes = None
        told = [life.start_stage("a", 1, [b"b"])]
        life.driver.end_turn()
        await asyncio.gather(*told)
        assert not (await life.commit(NamedAttempt("a", 2))).already
        assert life.values() == [b"a", b"b"]


async def test_topics_that_cannot_be_made_are_an_answer() -> None:
    disk = SimulatedDisk()
    async with living(disk) as life:
        disk.fail_next("create")
        told = [life.start_stage("a", number, [b"a"]) for number in (0, 1)]
        for one in told:
            with pytest.raises(StorageFailed):
                await one
        await life.stage("a", [b"a"], [b"b"])
        await life.commit(NamedAttempt("a", 2))
        assert life.values() == [b"a", b"b"]


async def test_topics_that_are_left_half_made_are_an_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The disk was full when a topic was made, and when that was taken back: the registry has it,
    and it has no partition until a restart. Nobody waits for it, and nothing turns round and round
    for it."""
    disk = SimulatedDisk()
    async with living(disk) as life:

        def make(*_: object, **__: object) -> None:
            raise DiskFull

        async def begin_deletion(*_: object, **__: object) -> None:
            raise DiskFull

        monkeypatch.setattr(life.partitions.folders, "make", make)
        monkeypatch.setattr(life.topics._registry, "begin_deletion", begin_deletion)
        async with asyncio.timeout(5):
            with pytest.raises(DiskFull):
                await life.start_stage("a", 0, [b"a"])
            monkeypatch.undo()
            for _ in range(2):
                with pytest.raises(StorageFailed, match="offline"):
                    await life.start_stage("a", 0, [b"a"])
                with pytest.raises(StorageFailed, match="offline"):
                    await life.commit()
    async with living(disk) as life:
        await life.commit(await life.stage("a", [b"a"]))
        assert life.values() == [b"a"]


async def test_what_came_before_the_topics_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    async with living(SimulatedDisk()) as life:
        real_make = life.log.make

        async def make() -> None:
            await real_make()
            for _ in range(3):
                await asyncio.sleep(0)

        monkeypatch.setattr(life.log, "make", make)
        told = [life.start_stage("a", 0, [b"a"])]
        while not life.log.is_made:
            await asyncio.sleep(0)
        told.append(life.start_stage("a", 1, [b"b"]))
        await asyncio.gather(*told)
        await life.commit(NamedAttempt("a", 2))
        assert life.values() == [b"a", b"b"]


async def test_not_everything_waits_in_memory_for_the_topics(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(staging_module, "FRAME_BYTES_MAX", 300)
    async with living(SimulatedDisk()) as life:
        first = life.start_stage("a", 0, [b"a" * 100])
        with pytest.raises(Busy):
            life.start_stage("b", 0, [b"b" * 200])
        assert not await first


async def test_damage_is_told_and_not_hidden(caplog: pytest.LogCaptureFixture) -> None:
    disk = SimulatedDisk()
    async with living(disk) as life:
        await life.commit(await life.stage("a", [b"a"]))
        await life.until_noted()
    name = next(name for name in disk.files() if "/__writes/" in name and name.endswith(".log"))
    disk.flip_bit(name, 100, 3)
    async with living(disk.after_crash("kept")) as life:
        with pytest.raises(StorageFailed, match="cannot be served"):
            await life.commit()
        assert "Staged writes cannot be served" in caplog.text


async def test_nothing_is_taken_when_the_broker_stops() -> None:
    async with living(SimulatedDisk()) as life:
        named = await life.stage("a", [b"a"])
        await life.staging.stop()
        with pytest.raises(ShuttingDown):
            await life.commit(named)
        with pytest.raises(ShuttingDown):
            life.start_stage("a", 1, [b"b"])


# --- after a restart ---------------------------------------------------------------------------


async def test_what_was_staged_goes_on_after_a_crash() -> None:
    disk = SimulatedDisk()
    async with living(disk) as life:
        await life.stage("a", [b"a"], [b"b"])
    async with living(disk.after_crash("lost")) as life:
        assert not await life.start_stage("a", 1, [b"b"]), "it is there"
        told = life.start_stage("a", 2, [b"c"])
        life.driver.end_turn()
        await told
        await life.commit(NamedAttempt("a", 3))
        assert life.values() == [b"a", b"b", b"c"]
