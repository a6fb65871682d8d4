"""A crash at the disk operations of a broker while tasks stage and a driver commits and aborts.

After each crash the broker recovers and the driver does what drivers do: it commits again what it
does not know to be committed; or it runs the epoch again, with its rows cut and ordered otherwise,
and commits that. The checkers, each by its name below: an epoch's rows are those of exactly one run
of it, each once and in order; before the driver comes back there is nothing of an epoch that is not
decided; what was acknowledged is there; later epochs come after earlier ones; and all of it is
still so after another restart and a third commit.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from penstock.broker.staging import copy as staged_copy
from penstock.broker.staging import log as staging_log
from penstock.model.errors import StagedBatchesMissing
from penstock.protocol import calls
from penstock.protocol import penstock_pb2 as pb
from tests.kit.broker.running import (
    RawClient,
    allow_small_segments,
    batch,
    running,
)
from tests.kit.crashes import (
    WAYS,
    Workload,
    count_operations,
    crash_everywhere,
    crashed,
    found_after,
    live_until_crash,
    noting,
)
from tests.kit.simulated_disk import SimulatedDisk

pytestmark = pytest.mark.usefixtures("quiet")

WRITE = "query"
TOPICS = {"orders": 2, "bills": 1}
PLACES = [(topic, number) for topic, count in TOPICS.items() for number in range(count)]
Place = tuple[str, int]


@dataclass(frozen=True)
class Attempt:
    """What one task stages: batches of values, each for a partition, in this order."""

    name: str
    batches: tuple[tuple[Place, tuple[bytes, ...]], ...]


@dataclass(frozen=True)
class Run:
    """One run of an epoch: the attempts that its commit names."""

    epoch: int
    number: int
    attempts: tuple[Attempt, ...]

    def rows(self, place: Place) -> list[bytes]:
        """What the partition gets of it."""
        return [
            value
            for attempt in self.attempts
            for where, values in attempt.batches
            for value in values
            if where == place
        ]


def first_run(epoch: int) -> Run:
    """Two tasks, three partitions; one gets more batches than it remembers of a producer."""
    return make_run(epoch, 1, (11, 1, 2), (3, 2, 0))


def second_run(epoch: int) -> Run:
    """The same epoch again, cut otherwise, and in three tasks."""
    return make_run(epoch, 2, (1, 0, 1), (9, 2, 0), (4, 1, 1))


def make_run(epoch: int, number: int, *counts: tuple[int, ...]) -> Run:
    """Each task has so many rows for each partition, two in a batch."""
    attempts = []
    for task, per_place in enumerate(counts):
        batches = []
        for place, count in zip(PLACES, per_place, strict=True):
            values = [b"%d/%d/%d/%d" % (epoch, number, task, row) for row in range(count)]
            batches += [(place, tuple(values[at : at + 2])) for at in range(0, count, 2)]
        attempts.append(Attempt(f"{epoch}-{number}-{task}", tuple(batches)))
    return Run(epoch, number, tuple(attempts))


@dataclass
class Facts:
    """What the broker has promised, and what it was asked for."""

    topics_exist: bool = False
    acknowledged: dict[int, int] = field(default_factory=dict)
    """The run of each epoch whose commit was acknowledged."""
    committing: Run | None = None


class LifeStory(Workload):
    """Two lives of a broker, and what it was asked for in them."""

    def __init__(self, disk: SimulatedDisk) -> None:
        super().__init__(disk)
        self.facts = Facts()

    async def check(self) -> None:
        async with client_on(self.disk) as client:
            check_acknowledged(self.facts, await Found.read(client))

    async def live(self) -> None:
        async with client_on(self.disk) as client:
            for topic, count in TOPICS.items():
                await client.create(topic, count)
            self.facts.topics_exist = True
            await self._epoch(client, 0)
            await self._epoch(client, 1)
        async with client_on(self.disk) as client:
            await self._epoch(client, 2)

    async def _epoch(self, client: RawClient, epoch: int) -> None:
        """A task that fails, one that nobody names, those that count, and their commit."""
        failed = Attempt(f"{epoch}-failed", ((PLACES[0], (b"aborted",)),))
        zombie = Attempt(f"{epoch}-zombie", ((PLACES[1], (b"zombie",)),))
        run = first_run(epoch)
        await asyncio.gather(
            *(stage(client, epoch, attempt) for attempt in (failed, zombie, *run.attempts))
        )
        await abort(client, epoch, failed)
        self.facts.committing = run
        answer = await commit(client, run)
        assert not answer.already
        self.facts.acknowledged[epoch] = run.number
        self.facts.committing = None


@contextlib.asynccontextmanager
async def client_on(disk: SimulatedDisk) -> AsyncIterator[RawClient]:
    async with running(disk.root, shutdown_timeout_ms=10) as (_, client):
        yield client


async def stage(client: RawClient, epoch: int, attempt: Attempt) -> None:
    """All batches at once, as a client that does not wait for each answer."""

    async def one(sequence: int, place: Place, values: tuple[bytes, ...]) -> None:
        request = pb.StageRequest(
            write=WRITE,
            epoch=epoch,
            attempt=attempt.name,
            sequence=sequence,
            topic=place[0],
            partition=place[1],
        )
        await client.channel.call(calls.STAGE, request, [batch(values)])

    await asyncio.gather(*(one(at, *staged) for at, staged in enumerate(attempt.batches)))


async def commit(client: RawClient, run: Run) -> Any:
    request = pb.CommitStagedRequest(write=WRITE, epoch=run.epoch, max_wait_ms=10_000)
    for attempt in run.attempts:
        request.attempts.add(attempt=attempt.name, batches=len(attempt.batches))
    answer, _ = await client.channel.call(calls.COMMIT_STAGED, request)
    assert answer.readable
    return answer


async def abort(client: RawClient, epoch: int, attempt: Attempt) -> None:
    request = pb.AbortStagedRequest(write=WRITE, epoch=epoch, attempts=[attempt.name])
    await client.channel.call(calls.ABORT_STAGED, request)


async def committed_epoch(client: RawClient) -> int:
    request = pb.CommittedEpochRequest(write=WRITE)
    answer, _ = await client.channel.call(calls.COMMITTED_EPOCH, request)
    return answer.epoch if answer.HasField("epoch") else -1


# --- the checkers ------------------------------------------------------------------------------


class Found:
    """What a reader sees in every partition."""

    def __init__(self, rows: dict[Place, list[bytes]]) -> None:
        self.rows = rows

    @classmethod
    async def read(cls, client: RawClient) -> Found:
        rows = {}
        for topic, number in PLACES:
            values = await client.values(topic, number)
            rows[topic, number] = [value for value in values if value is not None]
        return cls(rows)

    def of_epoch(self, epoch: int) -> dict[Place, list[bytes]]:
        return {
            place: [value for value in values if value.split(b"/")[0] == b"%d" % epoch]
            for place, values in self.rows.items()
        }

    def check_one_run_each_row_once(self, epoch: int, *runs: Run) -> int:
        """All of one run, in its order, and nothing else: the number of that run."""
        found = self.of_epoch(epoch)
        matching = [
            run.number for run in runs if all(found[place] == run.rows(place) for place in PLACES)
        ]
        assert len(matching) == 1, (epoch, found)
        return matching[0]

    def check_nothing_of(self, epoch: int) -> None:
        assert not any(self.of_epoch(epoch).values()), self.of_epoch(epoch)

    def check_order_of_epochs(self) -> None:
        for values in self.rows.values():
            epochs = [int(value.split(b"/")[0]) for value in values]
            assert epochs == sorted(epochs), values

    def check_no_aborted_rows(self) -> None:
        for values in self.rows.values():
            assert b"aborted" not in values
            assert b"zombie" not in values


def check_acknowledged(facts: Facts, found: Found) -> None:
    for epoch, number in facts.acknowledged.items():
        run = found.check_one_run_each_row_once(epoch, first_run(epoch), second_run(epoch))
        assert run == number, epoch
    found.check_order_of_epochs()
    found.check_no_aborted_rows()


async def check_all_or_nothing(client: RawClient, facts: Facts, epoch: int) -> None:
    """Of what was under way: nothing, unless it is decided."""
    decided = await committed_epoch(client)
    assert decided in (epoch - 1, epoch), decided
    found = await Found.read(client)
    if decided < epoch:
        found.check_nothing_of(epoch)
    check_acknowledged(facts, found)


# --- the driver comes back ---------------------------------------------------------------------


async def go_on(client: RawClient, facts: Facts, *, commits_again: bool) -> None:
    """Finish the epoch that was under way, and run two more."""
    epoch = max(facts.acknowledged, default=-1) + 1
    await check_all_or_nothing(client, facts, epoch)
    await finish(client, facts, epoch, commits_again=commits_again)
    for later in (epoch + 1, epoch + 2):
        run = first_run(later)
        await asyncio.gather(*(stage(client, later, attempt) for attempt in run.attempts))
        assert not (await commit(client, run)).already
        facts.acknowledged[later] = run.number
    check_acknowledged(facts, await Found.read(client))


async def finish(client: RawClient, facts: Facts, epoch: int, *, commits_again: bool) -> None:
    if commits_again and facts.committing is not None:
        # Its attempts were flushed before it was committed, so they are there.
        await commit(client, facts.committing)
    else:
        run = second_run(epoch)
        await asyncio.gather(*(stage(client, epoch, attempt) for attempt in run.attempts))
        await commit(client, run)
    found = await Found.read(client)
    facts.acknowledged[epoch] = found.check_one_run_each_row_once(
        epoch, first_run(epoch), second_run(epoch)
    )


async def commit_all_again(client: RawClient, facts: Facts) -> None:
    """A driver that is far behind: nothing changes, whatever it names."""
    for epoch in facts.acknowledged:
        assert (await commit(client, second_run(epoch))).already
    check_acknowledged(facts, await Found.read(client))


# --- the crashes -------------------------------------------------------------------------------


@pytest.fixture
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that what was staged is let go of on the way, decisions are in several files, and a copy
    is many writes."""
    allow_small_segments(monkeypatch)
    for settings in (staging_log._STAGED_SETTINGS, staging_log._WRITES_SETTINGS):
        monkeypatch.setitem(settings, "segment_bytes", "1024")
    monkeypatch.setattr(staged_copy, "_CHUNK_BYTES", 1)


@pytest.mark.usefixtures("small_steps")
@pytest.mark.parametrize("turn", range(len(WAYS)))
async def test_a_crash_at_an_operation(turn: int) -> None:
    """R-SPK-2, R-STO-6: at any moment, and whatever the disk kept of what was not flushed. Each way
    to crash has its own sample of the operations; the driver commits again, or runs again."""

    async def recover(story: LifeStory, operation: int) -> None:
        found, facts = found_after(story.disk, turn, operation), story.facts
        if not facts.topics_exist:
            return
        async with client_on(found) as client:
            await go_on(client, facts, commits_again=operation // len(WAYS) % 2 == 0)
        async with client_on(found) as client:
            await commit_all_again(client, facts)

    await crash_everywhere(LifeStory, turn, recover)


@pytest.mark.usefixtures("small_steps")
async def test_a_second_crash_while_the_first_is_being_mended() -> None:
    """R-STO-6: the copy that goes on after a crash is cut short as well."""
    total = await count_operations(LifeStory)
    for operation in range(total // 2, total, 7):
        story = await crashed(LifeStory, operation)
        facts = story.facts
        for again in (4, 9, 14):
            disk = story.disk.after_crash("kept")
            disk.crash_at(len(disk.operations) + again)
            await live_until_crash(disk, go_on_a_while(disk))
            found = disk.after_crash(operation)
            with noting(f"operation {operation}, then {again}"):
                acknowledged = dict(facts.acknowledged)
                async with client_on(found) as client:
                    await go_on(client, facts, commits_again=True)
                facts.acknowledged = acknowledged


async def go_on_a_while(disk: SimulatedDisk) -> None:
    async with client_on(disk) as client:
        await committed_epoch(client)


async def test_what_is_missing_is_never_committed() -> None:
    """A commit that names more than is there commits nothing."""
    async with client_on(SimulatedDisk()) as client:
        for topic, count in TOPICS.items():
            await client.create(topic, count)
        run = first_run(0)
        await stage(client, 0, run.attempts[0])
        with pytest.raises(StagedBatchesMissing, match=run.attempts[1].name):
            await commit(client, run)
        (await Found.read(client)).check_nothing_of(0)
        assert await committed_epoch(client) == -1
        await stage(client, 0, run.attempts[1])
        await commit(client, run)
        (await Found.read(client)).check_one_run_each_row_once(0, run)
