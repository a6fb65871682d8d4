"""Staged writes on a real broker process that is killed, filled and asked for nonsense."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import pytest

import penstock
from penstock.client.client import Client
from penstock.client.producing.staged_write import StagedAttempt
from penstock.model.errors import InvalidRequest, PenstockError, StagedBatchesMissing
from penstock.records import build_batch
from tests.kit.processes.brokers import BrokerProcess

PARTITIONS = 3
WRITE = "spark/query"


async def read_everything(mq: Client, topic: str) -> dict[int, list[bytes]]:
    """Every value, by partition, in order."""
    found: dict[int, list[bytes]] = defaultdict(list)
    description = await mq.admin.describe_topic(topic)
    for partition in description.partitions:
        end = partition.high_watermark
        async for columns in mq.read_range(topic, partition.partition, 0, end):
            values = columns.values
            offsets = memoryview(values.offsets).cast("B").cast("i")
            data = bytes(values.data)
            found[partition.partition] += [
                data[offsets[row] : offsets[row + 1]] for row in range(len(offsets) - 1)
            ]
    return found


async def stage_task(
    mq: Client, epoch: int, values: Sequence[bytes], chance: random.Random
) -> StagedAttempt:
    """A task's rows, cut into batches as chance has it."""
    async with mq.staged_write(WRITE, epoch) as staged:
        left = list(values)
        while left:
            count = chance.randint(1, 40)
            part, left = left[:count], left[count:]
            by_partition = defaultdict(list)
            for value in part:
                by_partition[int(value.rsplit(b"/", 1)[1]) % PARTITIONS].append((None, value))
            for partition, records in by_partition.items():
                await staged.stage("orders", partition, bytearray(build_batch(records)))
        return await staged.flush()


class Driver:
    """Runs epoch after epoch, and an epoch again when it fails, as Spark does."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.runs: dict[int, list[int]] = defaultdict(list)
        """Every run that there was of each epoch."""
        self.epoch = 0
        self.stopping = False

    async def drive(self, address: str) -> None:
        run = 0
        async with penstock.connect(address, request_timeout_ms=2_000) as mq:
            while not self.stopping:
                self.runs[self.epoch].append(run)
                try:
                    await self._run_epoch(mq, run)
                    self.epoch += 1
                except PenstockError:
                    await asyncio.sleep(0.05)
                run += 1

    async def _run_epoch(self, mq: Client, run: int) -> None:
        tasks = [
            [b"%d/%d/%d" % (self.epoch, run, task * 200 + row) for row in range(200)]
            for task in range(3)
        ]
        zombie = [b"%d/%d/%d" % (self.epoch, 1_000_000 + run, row) for row in range(50)]
        attempts = await asyncio.gather(
            *(stage_task(mq, self.epoch, values, self.chance) for values in (*tasks, zombie))
        )
        await mq.commit_staged(WRITE, self.epoch, attempts[:3])


async def test_sigkill_while_tasks_stage_and_a_driver_commits(tmp_path: Path) -> None:
    """R-SPK-2, R-STO-6: killed again and again; every epoch is there once, all of one run of it,
    each partition's rows in the order of the tasks."""
    driver = Driver(seed=1)
    settings = (f"partitions_default={PARTITIONS}", "topic_defaults.segment_bytes=64KiB")
    with BrokerProcess(tmp_path, *settings) as broker:
        driving = asyncio.create_task(driver.drive(broker.address))
        for kill in range(1, 6):
            async with asyncio.timeout(60):
                while driver.epoch < 6 * kill:
                    await asyncio.sleep(0.003 * driver.chance.random())
            # Somewhere in an epoch: it takes some ten milliseconds.
            await asyncio.sleep(0.02 * driver.chance.random())
            await asyncio.to_thread(broker.kill)
            await asyncio.to_thread(broker.start)
        done = driver.epoch + 3
        async with asyncio.timeout(60):
            while driver.epoch < done:
                await asyncio.sleep(0.01)
        driver.stopping = True
        await driving
        async with penstock.connect(broker.address) as mq:
            found = await read_everything(mq, "orders")
            assert await mq.committed_epoch(WRITE) == driver.epoch - 1
    check_epochs(driver, found)


def check_epochs(driver: Driver, found: dict[int, list[bytes]]) -> None:
    rows = defaultdict(list)
    for partition, values in found.items():
        numbers = [tuple(map(int, value.split(b"/"))) for value in values]
        assert [number[0] for number in numbers] == sorted(number[0] for number in numbers)
        for epoch, run, row in numbers:
            assert row % PARTITIONS == partition
            rows[epoch, run].append(row)
            if len(rows[epoch, run]) > 1 and rows[epoch, run][-2] % PARTITIONS == partition:
                assert rows[epoch, run][-2] < row, "the order of the tasks, and in each its own"
    assert [epoch for epoch, _ in sorted(rows)] == list(range(driver.epoch)), "one run each"
    for (epoch, run), numbers_of_run in rows.items():
        assert run in driver.runs[epoch], "what nobody committed"
        assert sorted(numbers_of_run) == list(range(600))


def large_batch(number: int) -> bytearray:
    """About 1 MB, of which no two are the same."""
    return bytearray(
        build_batch([(None, b"%d/%d/" % (number, row) + b"x" * 1000) for row in range(1000)])
    )


async def stage_large(mq: Client, count: int) -> StagedAttempt:
    async with mq.staged_write(WRITE, 0) as staged:
        for number in range(count):
            await staged.stage("orders", number % PARTITIONS, large_batch(number))
        return await staged.flush()


def check_large(found: dict[int, list[bytes]], count: int) -> None:
    for partition in range(PARTITIONS):
        numbers = range(partition, count, PARTITIONS)
        expected = [b"%d/%d/" % (number, row) for number in numbers for row in range(1000)]
        assert [value[: value.index(b"x")] for value in found[partition]] == expected


@pytest.mark.parametrize("durability", ["fsync", "os"])
async def test_others_go_on_while_much_is_copied(tmp_path: Path, durability: str) -> None:
    """R-NET-5: 200 MB appear at once, while another client has its round trips; the broker's memory
    does not grow with it, and the disk gets its room back."""
    count = 200
    settings = (f"partitions_default={PARTITIONS}", f"topic_defaults.durability={durability}")
    with BrokerProcess(tmp_path, *settings) as broker:
        async with penstock.connect(broker.address) as mq, penstock.connect(broker.address) as two:
            attempt = await stage_large(mq, count)
            before = broker.resident_bytes()
            round_trips = 0

            async def other() -> None:
                nonlocal round_trips
                while True:
                    await two.publish("others", b"x")
                    round_trips += 1

            await two.publish("others", b"first")
            trips = asyncio.create_task(other())
            committed = await mq.commit_staged(WRITE, 0, [attempt])
            trips.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await trips
            assert (committed.already, committed.records) == (False, count * 1000)
            assert round_trips > 10
            assert broker.resident_bytes() - before < 100 * 1024 * 1024
            check_large(await read_everything(mq, "orders"), count)
            async with asyncio.timeout(20):
                while (
                    sum(
                        path.stat().st_size
                        for path in (tmp_path / "topics/__staged/0").glob("*.log*")
                    )
                    > 2 * 64 * 1024 * 1024
                ):
                    await asyncio.sleep(0.05)


async def test_sigkill_in_the_middle_of_a_copy(tmp_path: Path) -> None:
    """R-SPK-2: decided is decided. The next start goes on where the copy stopped, with nobody
    asking for it."""
    count = 60
    with BrokerProcess(tmp_path, f"partitions_default={PARTITIONS}") as broker:
        async with penstock.connect(broker.address) as mq:
            attempt = await stage_large(mq, count)
            committing = asyncio.create_task(mq.commit_staged(WRITE, 0, [attempt]))
            while (await mq.admin.describe_topic("orders")).partitions[0].high_watermark < 1:
                await asyncio.sleep(0)
            await asyncio.to_thread(broker.kill)
            await asyncio.to_thread(broker.start)
            await committing
        async with penstock.connect(broker.address) as mq:
            check_large(await read_everything(mq, "orders"), count)
        await asyncio.to_thread(broker.kill)
        await asyncio.to_thread(broker.start)
        async with penstock.connect(broker.address) as mq:
            assert (await mq.commit_staged(WRITE, 0, [])).already
            check_large(await read_everything(mq, "orders"), count)


async def test_foreign_epochs_and_a_hundred_thousand_attempts(tmp_path: Path) -> None:
    """R-NET-5: bounded, refused with a sentence, and everybody else goes on."""
    with BrokerProcess(tmp_path) as broker:
        async with penstock.connect(broker.address) as mq:
            async with mq.staged_write(WRITE, 5) as staged:
                await staged.stage("orders", 0, bytearray(build_batch([(None, b"a")])))
                attempt = await staged.flush()
            for write, epoch in ((WRITE, 4), (WRITE, 6), ("another", 5)):
                with pytest.raises(StagedBatchesMissing, match=attempt.attempt):
                    await mq.commit_staged(write, epoch, [attempt])
            many = [StagedAttempt(f"attempt {number}", 1, 1) for number in range(100_000)]
            with pytest.raises(InvalidRequest, match="100000 attempts"):
                await mq.commit_staged(WRITE, 5, many)
            with pytest.raises(StagedBatchesMissing):
                await mq.commit_staged(WRITE, 5, many[:20_000])
            committed = await mq.commit_staged(WRITE, 5, [attempt])
            assert (committed.already, committed.records) == (False, 1)


async def test_as_many_tasks_as_a_commit_takes(tmp_path: Path) -> None:
    """20,000 attempts, of which all but a few wrote nothing."""
    with BrokerProcess(tmp_path) as broker:
        async with penstock.connect(broker.address) as mq:
            attempts = [StagedAttempt(f"idle {number}", 0, 0) for number in range(19_990)]
            for number in range(10):
                async with mq.staged_write(WRITE, 0) as staged:
                    payload = bytearray(build_batch([(None, b"%d" % number)]))
                    await staged.stage("orders", 0, payload)
                    attempts.append(await staged.flush())
            committed = await mq.commit_staged(WRITE, 0, attempts, last=True)
            assert (committed.already, committed.records) == (False, 10)
            found = await read_everything(mq, "orders")
            assert found[0] == [b"%d" % number for number in range(10)]
