"""The internal topics of staged writes: what is read of them, and what they give back."""

from __future__ import annotations

import asyncio

import pytest

from penstock.broker.staging import log as staging_log
from penstock.coordination.staging.records import STAGED_TOPIC, StagedBatch
from tests.kit.broker.running import allow_small_segments
from tests.kit.broker.staging import Life, living
from tests.kit.simulated_disk import SimulatedDisk


@pytest.fixture
def small_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    allow_small_segments(monkeypatch)
    monkeypatch.setitem(staging_log._STAGED_SETTINGS, "segment_bytes", "2000")


def staged_files(disk: SimulatedDisk) -> int:
    return sum(name.endswith(".log") and STAGED_TOPIC in name for name in disk.files())


async def until_trimmed(life: Life) -> None:
    async with asyncio.timeout(5):
        while life.log._is_trimming:
            await asyncio.sleep(0)


@pytest.mark.usefixtures("small_segments")
async def test_room_is_given_back_as_writes_end() -> None:
    disk = SimulatedDisk()
    async with living(disk) as life:
        for epoch in range(20):
            named = await life.stage("a", [b"x" * 500], [b"y" * 500], epoch=epoch)
            await life.commit(named, epoch=epoch)
            await life.until_noted()
            await until_trimmed(life)
        log = life.log.staged.replica.log
        assert log.start_offset >= 36
        assert log.first_offset >= 36
    assert staged_files(disk) <= 3


@pytest.mark.usefixtures("small_segments")
async def test_what_is_needed_stays() -> None:
    disk = SimulatedDisk()
    async with living(disk) as life:
        kept = await life.stage("a", [b"kept"], write="slow")
        for epoch in range(5):
            named = await life.stage("a", [b"x" * 500], [b"y" * 500], epoch=epoch)
            await life.commit(named, epoch=epoch)
        await life.until_noted()
        life.staging.one_round(is_expiry_due=True)
        await until_trimmed(life)
        assert life.log.staged.replica.log.start_offset == 0
        await life.commit(kept, write="slow")
        assert life.values()[-1] == b"kept"
        await life.until_noted()
        await until_trimmed(life)
        assert life.log.staged.replica.log.start_offset == 11


async def test_the_start_moves_from_time_to_time_also_within_a_file() -> None:
    disk = SimulatedDisk()
    async with living(disk) as life:
        await life.commit(await life.stage("a", [b"a"]))
        await life.until_noted()
        assert life.log.staged.replica.log.start_offset == 0
        life.staging.one_round(is_expiry_due=True)
        await until_trimmed(life)
        assert life.log.staged.replica.log.start_offset == 1
    async with living(disk) as life:
        assert life.log.staged.replica.log.start_offset == 1


async def test_room_that_cannot_be_given_back_is_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    disk = SimulatedDisk()
    async with living(disk) as life:
        await life.commit(await life.stage("a", [b"a"]))
        await life.until_noted()
        disk.fail_next("create")
        life.staging.one_round(is_expiry_due=True)
        await until_trimmed(life)
        assert "keeps what nobody needs" in caplog.text
        life.staging.one_round(is_expiry_due=True)
        await until_trimmed(life)
        assert life.log.staged.replica.log.start_offset == 1


@pytest.mark.parametrize("read_bytes", [1, 300, 100_000])
async def test_every_record_is_read_whatever_its_size(
    read_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of large ones only the beginning."""
    monkeypatch.setattr(staging_log, "_READ_BYTES", read_bytes)
    sizes = [1, 10_000, 2, 3, 50_000, 4]
    async with living(SimulatedDisk()) as life:
        await life.stage("a", *[[b"x" * size] for size in sizes])
        await life.staging.abort("w", 0, ["a"])
        found: list[tuple[StagedBatch, int, int]] = []
        list(life.log.read_staged(lambda *record: found.append(record)))
        assert [staged.sequence for staged, _, _ in found] == [0, 1, 2, 3, 4, 5, -1]
        assert [offset for _, offset, _ in found] == list(range(7))
        assert {time_ms for _, _, time_ms in found} == {life.clock.time_ms}


async def test_topics_are_made_when_they_are_needed() -> None:
    disk = SimulatedDisk()
    async with living(disk) as life:
        assert not life.log.is_made
        assert life.log.failure is None
        life.log.trim(None, is_due=True)
        assert list(life.log.read_staged(lambda *_: None)) == []
        await life.stage("a", [b"a"])
        assert life.log.is_made


async def test_settings_of_an_earlier_version_are_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = SimulatedDisk()
    async with living(disk) as life:
        await life.stage("a", [b"a"])
    monkeypatch.setitem(staging_log._STAGED_SETTINGS, "segment_ms", "12345")
    async with living(disk) as life:
        assert life.log.staged.config.segment_ms == 12345
        assert not life.log.staged.config.has_retention
