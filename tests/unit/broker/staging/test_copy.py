"""From the staged batches to the partitions: in order, numbered, once, beside everybody else."""

from __future__ import annotations

import asyncio

import pytest

from penstock.broker.carrier import destination as staged_destination
from penstock.broker.partitions.partition import Append
from penstock.broker.staging import copy as staged_copy
from penstock.coordination.staging.records import Decision, NamedAttempt
from penstock.model.errors import Busy, PenstockError, UnknownTopic
from penstock.model.limits import COPY_PRODUCER_ID_MIN
from tests.kit.broker.running import batch
from tests.kit.broker.staging import Life, living
from tests.kit.simulated_disk import SimulatedDisk


class Nobody(Append):
    """Who is told nothing."""

    __slots__ = ()

    def finished(self, error: PenstockError | None) -> None:
        assert error is None


async def test_attempts_in_the_order_they_are_named_and_batches_as_they_were_staged() -> None:
    async with living(SimulatedDisk()) as life:
        told = [
            life.start_stage("a", 0, [b"a0", b"a1"]),
            life.start_stage("b", 0, [b"b0"]),
            life.start_stage("a", 1, [b"x"], partition=1),
            life.start_stage("a", 2, [b"a2"]),
            life.start_stage("b", 1, [b"y"], partition=1),
        ]
        life.driver.end_turn()
        await asyncio.gather(*told)
        committed = await life.commit(NamedAttempt("b", 2), NamedAttempt("a", 3))
        assert (committed.already, committed.records, committed.readable) == (False, 6, True)
        assert life.values() == [b"b0", b"a0", b"a1", b"a2"]
        assert life.values(partition=1) == [b"y", b"x"]


async def test_the_batches_of_a_decision_are_one_producers() -> None:
    """R-PRO-2: numbered without a gap, so that a partition can tell what it has."""
    async with living(SimulatedDisk()) as life:
        named = await life.stage("a", [b"a", b"b", b"c"], [b"d"], [b"e", b"f"])
        await life.commit(named)
        headers = [view.header for view in life.batches()]
        assert [header.base_sequence for header in headers] == [0, 3, 4]
        assert {header.producer_epoch for header in headers} == {0}
        [producer_id] = {header.producer_id for header in headers}
        await life.commit(await life.stage("a", [b"g"], epoch=1), epoch=1)
        assert life.batches()[-1].header.producer_id != producer_id


async def test_rows_are_not_taken_for_those_of_a_client_that_counts_as_the_broker_does() -> None:
    """R-SPK-2: whatever ids are in a partition, made up by a client or of another registry."""
    async with living(SimulatedDisk()) as life:
        partition = life.partitions.find("orders", 0)
        for producer_id in range(20):
            one = batch([b"other"], producer=(producer_id, 0, 0))
            partition.append(memoryview(one), Nobody())
        life.driver.end_turn()
        await life.commit(await life.stage("a", [b"a"]))
        assert life.values() == [b"other"] * 20 + [b"a"]


async def test_what_is_staged_is_written_also_when_the_registry_was_lost() -> None:
    """R-SPK-2: the next start takes in the folders, and counts producers from 0 again."""
    disk = SimulatedDisk()
    async with living(disk) as life:
        await life.commit(await life.stage("a", [b"a"]))
        await life.until_noted()
        crashed = disk.after_crash("kept")
    crashed.root.remove("registry.journal")
    async with living(crashed) as life:
        await life.commit(await life.stage("b", [b"b"], epoch=1), epoch=1)
        assert life.values() == [b"a", b"b"]


async def test_a_topic_deleted_under_a_copy_is_passed_over_by_the_next_try() -> None:
    """Whoever committed is told to wait, and not that its write was wrong."""
    async with living(SimulatedDisk()) as life:
        await life.stage("a", [b"a"])
        copy = staged_copy.Copy(
            Decision(
                write="w",
                epoch=0,
                producer_id=COPY_PRODUCER_ID_MIN,
                attempts=(NamedAttempt("a", 1),),
                records=1,
                decided_ms=0,
                is_last=False,
                is_done=False,
            ),
            [[0]],
            source=life.log.staged,
            parts=life.parts,
            term=life.log.term,
            ready=lambda _: None,
        )
        assert not copy.go_on()
        copy._landed(7, UnknownTopic("It was deleted."))
        with pytest.raises(Busy, match="It was deleted"):
            copy.go_on()


async def test_numbers_that_end_begin_again_in_another_epoch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(staged_destination, "_SEQUENCE_MAX", 4)
    monkeypatch.setattr(staged_copy, "_CHUNK_BYTES", 1)
    disk = SimulatedDisk()
    async with living(disk) as life:
        named = await life.stage("a", *[[b"%d" % number] * 2 for number in range(7)])
        await life.commit(named)
        places = [(one.header.producer_epoch, one.header.base_sequence) for one in life.batches()]
        assert places == [(0, 0), (0, 2), (1, 0), (1, 2), (2, 0), (2, 2), (3, 0)]


async def test_times_are_stamped_when_the_rows_appear() -> None:
    async with living(SimulatedDisk()) as life:
        await life.topics.create("stamped", 1, {"timestamp_type": "append"})
        named = await life.stage("a", [b"a"], topic="stamped")
        life.clock.time_ms += 5000
        await life.commit(named)
        [message] = life.messages("stamped")
        assert (message.timestamp_type, message.timestamp_ms) == ("append", life.clock.time_ms)


async def test_settings_that_changed_since_do_not_hold_it_up() -> None:
    async with living(SimulatedDisk()) as life:
        named = await life.stage("a", [b"x" * 5000])
        await life.topics.alter(
            "orders", {"batch_bytes_max": "1024", "cleanup_policy": "compact"}, ()
        )
        await life.commit(named)
        assert life.values() == [b"x" * 5000]


async def test_what_a_topic_wants_otherwise_is_changed_when_it_is_staged() -> None:
    async with living(SimulatedDisk()) as life:
        await life.topics.create("packed", 1, {"compression_type": "zstd"})
        await life.commit(await life.stage("a", [b"x" * 5000], topic="packed"))
        assert life.values("packed") == [b"x" * 5000]
        assert life.batches("packed")[0].header.codec == 4


@pytest.mark.parametrize("makes_anew", [False, True])
async def test_rows_of_a_topic_that_was_deleted_are_dropped(
    makes_anew: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """Like rows that were there before; a topic of the same name is another one."""
    async with living(SimulatedDisk()) as life:
        await life.topics.create("doomed", 1, {})
        told = [
            life.start_stage("a", 0, [b"a"], topic="doomed"),
            life.start_stage("a", 1, [b"b"]),
            life.start_stage("a", 2, [b"c"], topic="doomed"),
        ]
        life.driver.end_turn()
        await asyncio.gather(*told)
        await life.topics.delete("doomed")
        if makes_anew:
            await life.topics.create("doomed", 1, {})
        assert (await life.commit(NamedAttempt("a", 3))).readable
        assert life.values() == [b"b"]
        if makes_anew:
            assert life.values("doomed") == []
        assert caplog.text.count("was deleted") == 1


async def test_a_batch_that_is_there_is_not_written_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """More of them than a partition remembers of any producer. The copy ends once, though all of it
    is there as soon as it begins."""
    disk = SimulatedDisk()
    async with living(disk) as life:
        keep_undone(life, monkeypatch)
        named = await life.stage("a", *[[b"%d" % number] for number in range(20)])
        await life.commit(named)
    async with living(disk.after_crash("kept")) as life:
        await life.until_noted()
        assert life.values() == [b"%d" % number for number in range(20)]
        assert caplog.text == ""


async def test_others_have_their_turn_between_two_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """However much there is to copy, and however many copies run."""
    monkeypatch.setattr(staged_copy, "_CHUNK_BATCHES", 2)
    async with living(SimulatedDisk()) as life:
        parts = [[b"%d" % number] for number in range(40)]
        named = [await life.stage("a", *parts, write=write) for write in "xy"]
        chunks: list[int] = []
        real_copy_chunk = staged_copy.Copy._copy_chunk
        turns = 0

        def copy_chunk(copy: staged_copy.Copy, offset: int, end: int) -> int:
            chunks.append(turns)
            return real_copy_chunk(copy, offset, end)

        async def another() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        monkeypatch.setattr(staged_copy.Copy, "_copy_chunk", copy_chunk)
        task = asyncio.create_task(another())
        commits = (life.commit(one, write=write) for one, write in zip(named, "xy", strict=True))
        await asyncio.gather(*commits)
        task.cancel()
        assert len(chunks) == 40
        assert len(set(chunks)) == 40, "two chunks in one turn of the loop"


def keep_undone(life: Life, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is copied is not noted as done, as if a crash came before."""
    monkeypatch.setattr(life.staging._copies, "note", lambda: None)


async def test_the_partition_counts_on_for_other_producers() -> None:
    async with living(SimulatedDisk()) as life:
        await life.commit(await life.stage("a", [b"a", b"b"]))
        replica = life.partitions.find("orders", 0).replica
        assert replica.high_watermark == 2
        told = life.start_stage("b", 0, [], epoch=1, payload=batch([b"c"], producer=(7, 0, 99)))
        life.driver.end_turn()
        await told
        await life.commit(NamedAttempt("b", 1), epoch=1)
        assert life.values() == [b"a", b"b", b"c"]
        assert life.batches()[-1].header.base_sequence == 0, "whoever built the batch"
