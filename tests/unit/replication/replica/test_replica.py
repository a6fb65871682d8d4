"""The replica: committed means durable, answers come in order, failures are never hidden."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from penstock.model.errors import (
    DiskFull,
    OffsetOutOfRange,
    PenstockError,
    StorageError,
    StorageFailed,
    UnknownTopic,
)
from penstock.model.ids import PartitionId, TopicId
from penstock.model.topic_config import Durability
from penstock.raft.membership import Membership
from penstock.records import BatchBuilder, decode_messages
from penstock.records.header import BatchHeader, read_header
from penstock.replication.disk.driver import Driver
from penstock.replication.disk.flusher import Job
from penstock.replication.replica.replica import Replica
from penstock.storage.log.log import Log, LogConfig
from tests.kit.broker.running import alone
from tests.kit.simulated_disk import SimulatedDisk

CONFIG = LogConfig(segment_bytes=1 << 20, segment_ms=1 << 40, index_interval_bytes=4096)


class FixedClock:
    def now_ms(self) -> int:
        return 1_000

    def monotonic(self) -> float:
        return 1.0


class ManualFlusher:
    """Runs jobs when the test says so."""

    def __init__(self) -> None:
        self.jobs: list[tuple[Job, Callable[[], None]]] = []

    def submit(self, job: Job, finished: Callable[[], None]) -> None:
        self.jobs.append((job, finished))

    def run_one(self) -> None:
        job, finished = self.jobs.pop(0)
        job.run()
        finished()

    def run_all(self) -> None:
        while self.jobs:
            self.run_one()


class Listener:
    def __init__(self) -> None:
        self.written: list[StorageError | None] = []
        self.advances = 0
        self.leaderships: list[bool] = []

    def on_leadership(self, is_leader: bool) -> None:
        self.leaderships.append(is_leader)

    def on_replicated(self, headers: Sequence[BatchHeader]) -> None:
        raise AssertionError(headers)

    def on_truncated(self, offset: int) -> None:
        raise AssertionError(offset)

    def on_written(self, error: StorageError | None) -> None:
        self.written.append(error)

    def on_high_watermark(self) -> None:
        self.advances += 1


class Setup:
    """A replica on a simulated disk, with a flusher and turns in the test's hands."""

    def __init__(self, durability: Durability) -> None:
        self.disk = SimulatedDisk()
        self.flusher = ManualFlusher()
        self.driver = Driver()
        self.listener = Listener()
        self.outcomes: list[tuple[str, PenstockError | None]] = []
        self.log = Log.open(self.disk.root, CONFIG)
        around = alone(self.driver, self.flusher, FixedClock())
        self.replica = Replica(
            "orders-0",
            PartitionId(TopicId("a" * 32), 0),
            self.log,
            self.disk.root,
            initial=Membership(frozenset({around.me})),
            durability=durability,
            around=around,
        )
        self.replica.listener = self.listener
        self.replica.start()

    def propose(self, name: str, records: int = 2) -> int:
        builder = BatchBuilder(1 << 16)
        for _ in range(records):
            builder.append(5, None, name.encode())
        batch = memoryview(bytearray(builder.build()))
        return self.replica.propose(
            read_header(batch), batch, lambda error: self.outcomes.append((name, error))
        )

    def delete_before(self, offset: int) -> None:
        self.replica.delete_before(
            offset, lambda error: self.outcomes.append((f"before {offset}", error))
        )

    def fill_disk(self, leaving_bytes: int) -> None:
        used_bytes = sum(map(len, self.disk.files().values()))
        self.disk.capacity_bytes = used_bytes + leaving_bytes

    def names(self) -> list[str]:
        return [name for name, _ in self.outcomes]

    def values(self) -> list[bytes | None]:
        part = self.replica.read(0, 1 << 20).read()
        return [message.value for message in decode_messages(part, "t", 0, 0)]


async def test_with_os_durability_a_batch_is_committed_when_written() -> None:
    setup = Setup("os")
    assert setup.propose("a") == 0
    assert setup.propose("b") == 2
    assert setup.replica.high_watermark == 0
    assert setup.outcomes == []
    setup.driver.end_turn()
    assert setup.outcomes == [("a", None), ("b", None)]
    assert setup.replica.high_watermark == 4
    assert setup.values() == [b"a", b"a", b"b", b"b"]
    assert setup.listener.advances == 1


async def test_with_fsync_a_batch_is_committed_when_flushed() -> None:
    """R-PRO-1: acknowledged means on disk."""
    setup = Setup("fsync")
    setup.propose("a")
    setup.driver.end_turn()
    assert setup.outcomes == []
    assert setup.replica.high_watermark == 0
    assert setup.values() == [], "what is not durable is not readable"
    setup.flusher.run_one()
    assert setup.outcomes == [("a", None)]
    assert setup.values() == [b"a", b"a"]


async def test_what_arrives_during_a_flush_shares_the_next() -> None:
    setup = Setup("fsync")
    setup.propose("a")
    setup.driver.end_turn()
    for name in ("b", "c", "d"):
        setup.propose(name)
        setup.driver.end_turn()
    assert len(setup.flusher.jobs) == 1
    setup.flusher.run_one()
    assert setup.names() == ["a"]
    assert len(setup.flusher.jobs) == 1
    setup.flusher.run_one()
    assert setup.names() == ["a", "b", "c", "d"]
    assert not setup.flusher.jobs


async def test_a_repetition_waits_for_the_first_to_be_durable() -> None:
    """R-PRO-2: a retry is not acknowledged before the batch it repeats is on disk."""
    setup = Setup("fsync")
    setup.propose("a")
    setup.driver.end_turn()
    outcomes: list[PenstockError | None] = []
    setup.replica.when_committed(2, outcomes.append)
    assert outcomes == []
    setup.flusher.run_one()
    assert outcomes == [None]
    setup.replica.when_committed(2, outcomes.append)
    assert outcomes == [None, None]


async def test_a_full_disk_undoes_the_turn_and_only_it() -> None:
    setup = Setup("fsync")
    setup.propose("a")
    setup.driver.end_turn()
    setup.fill_disk(leaving_bytes=10)
    assert setup.propose("b") == 2
    setup.propose("c")
    setup.driver.end_turn()
    assert setup.names() == ["b", "c"]
    assert all(isinstance(error, DiskFull) for _, error in setup.outcomes)
    assert isinstance(setup.listener.written[-1], DiskFull)
    setup.disk.capacity_bytes = None
    assert setup.propose("d") == 2, "the offsets of what failed are given again"
    setup.driver.end_turn()
    setup.flusher.run_one()
    setup.flusher.run_one()
    assert setup.names() == ["b", "c", "a", "d"]
    assert setup.values() == [b"a", b"a", b"d", b"d"]


async def test_a_repetition_of_an_undone_batch_fails_with_it() -> None:
    setup = Setup("fsync")
    setup.fill_disk(leaving_bytes=10)
    setup.propose("a")
    outcomes: list[PenstockError | None] = []
    setup.replica.when_committed(2, outcomes.append)
    setup.driver.end_turn()
    assert isinstance(outcomes[0], DiskFull)


async def test_a_failed_flush_makes_the_partition_read_only_for_ever() -> None:
    """R-STO-6: a flush that failed is never retried as a success."""
    setup = Setup("fsync")
    setup.propose("a")
    setup.driver.end_turn()
    setup.flusher.run_one()
    setup.disk.fail_next("flush")
    setup.propose("b")
    setup.driver.end_turn()
    setup.propose("c")
    setup.driver.end_turn()
    setup.flusher.run_one()
    assert setup.names() == ["a", "b", "c"]
    assert all(isinstance(error, StorageFailed) for _, error in setup.outcomes[1:])
    assert not setup.flusher.jobs
    with pytest.raises(StorageFailed):
        setup.propose("d")
    assert setup.values() == [b"a", b"a"], "what was committed can still be read"


async def test_close_makes_everything_durable() -> None:
    setup = Setup("os")
    setup.propose("a")
    setup.driver.end_turn()
    clean_end = setup.replica.close()
    assert clean_end is not None
    assert clean_end.next_offset == 2


@pytest.mark.parametrize("durability", ["os", "fsync"])
async def test_whoever_waits_hears_at_once_that_the_lone_copy_is_let_go(
    durability: Durability,
) -> None:
    setup = Setup(durability)
    setup.propose("written")
    setup.driver.end_turn()
    setup.propose("proposed")
    gone = UnknownTopic("It was deleted.")
    setup.replica.leave(gone)
    told = [("written", gone if durability == "fsync" else None), ("proposed", gone)]
    assert setup.outcomes == told
    setup.driver.end_turn()
    setup.flusher.run_all()
    assert setup.replica.close() is None
    assert setup.outcomes == told
    assert setup.listener.leaderships[-1] is False


async def test_idle_is_heard_after_the_running_flush() -> None:
    setup = Setup("fsync")
    heard: list[str] = []
    setup.replica.idleness.when(lambda: heard.append("now"))
    assert heard == ["now"]
    setup.propose("a")
    setup.driver.end_turn()
    setup.replica.idleness.when(lambda: heard.append("later"))
    assert heard == ["now"]
    setup.flusher.run_one()
    assert heard == ["now", "later"]


def committed(count: int) -> Setup:
    setup = Setup("os")
    for number in range(count):
        setup.propose(str(number))
    setup.driver.end_turn()
    setup.outcomes.clear()
    return setup


async def test_deleted_records_are_gone_when_that_is_durable() -> None:
    setup = committed(5)
    setup.delete_before(7)
    assert (setup.outcomes, setup.log.start_offset) == ([], 0)
    setup.flusher.run_one()
    assert setup.outcomes == [("before 7", None)]
    assert setup.log.start_offset == 7
    with pytest.raises(OffsetOutOfRange):
        setup.replica.read(6, 100)
    assert Log.open(setup.disk.after_crash("kept").root, CONFIG).start_offset == 7


async def test_deletions_that_wait_for_the_disk_share_the_next_write() -> None:
    setup = committed(5)
    for offset in (2, 8, 4, 1, 8):
        setup.delete_before(offset)
    assert len(setup.flusher.jobs) == 1
    setup.flusher.run_one()
    assert setup.names() == ["before 2", "before 1"]
    setup.flusher.run_one()
    assert setup.names() == ["before 2", "before 1", "before 8", "before 4", "before 8"]
    assert setup.log.start_offset == 8
    setup.flusher.run_all()
    setup.delete_before(3)
    assert setup.outcomes[-1] == ("before 3", None), "gone already"
    assert not setup.flusher.jobs


async def test_only_what_is_committed_can_be_deleted() -> None:
    setup = Setup("fsync")
    setup.propose("a")
    setup.driver.end_turn()
    for offset in (-1, 1, 2):
        with pytest.raises(OffsetOutOfRange, match="0 to 0"):
            setup.delete_before(offset)


async def test_a_deletion_that_the_disk_refuses_changes_nothing() -> None:
    setup = committed(5)
    setup.fill_disk(leaving_bytes=3)
    setup.delete_before(7)
    setup.delete_before(9)
    setup.flusher.run_one()
    assert [type(error) for _, error in setup.outcomes] == [DiskFull]
    assert setup.log.start_offset == 0
    assert setup.replica.failure is None
    setup.disk.capacity_bytes = None
    setup.flusher.run_one()
    assert setup.outcomes[1:] == [("before 9", None)]


async def test_a_failed_partition_deletes_nothing() -> None:
    setup = committed(5)
    setup.delete_before(3)
    setup.delete_before(5)
    setup.log.writer.failure = "The disk is gone."
    setup.flusher.run_one()
    assert setup.outcomes[0] == ("before 3", None)
    assert isinstance(setup.outcomes[1][1], StorageFailed)
    setup.replica.failure = StorageFailed("The disk is gone.")
    with pytest.raises(StorageFailed, match="gone"):
        setup.delete_before(5)


async def test_idle_is_heard_after_the_running_deletion() -> None:
    setup = committed(5)
    heard: list[str] = []
    setup.delete_before(3)
    setup.replica.idleness.when(lambda: heard.append("idle"))
    setup.flusher.run_one()
    assert heard == [], "why they are gone is not written yet"
    setup.flusher.run_one()
    assert heard == ["idle"]


# --- why offsets are gone ----------------------------------------------------------------------


def explained(log: Log) -> list[tuple[int, int, str]]:
    return [(one.first_offset, one.end_offset, one.cause) for one in log.removals.latest()]


async def test_a_deletion_is_explained_by_when_it_is_answered() -> None:
    setup = committed(5)
    setup.delete_before(3)
    assert explained(setup.log) == []
    setup.flusher.run_one()
    assert setup.outcomes == [("before 3", None)]
    assert explained(setup.log) == [(0, 3, "deleted")]
    assert setup.log.removals.latest()[0].at_ms == FixedClock().now_ms()
    setup.flusher.run_all()
    found = Log.open(setup.disk.after_crash("lost").root, CONFIG)
    assert (found.start_offset, explained(found)) == (0, []), "nothing was durable, so none is gone"
    setup.replica.close()
    found = Log.open(setup.disk.after_crash("lost").root, CONFIG)
    assert (found.start_offset, explained(found)) == (3, [(0, 3, "deleted")])


async def test_explanations_that_wait_for_the_disk_share_the_next_write() -> None:
    setup = committed(5)
    for offset in (2, 3, 5):
        setup.delete_before(offset)
        setup.flusher.jobs.insert(0, setup.flusher.jobs.pop())
        setup.flusher.run_one()
    assert len(setup.flusher.jobs) == 1
    setup.flusher.run_all()
    everything = [(0, 2, "deleted"), (2, 3, "deleted"), (3, 5, "deleted")]
    assert explained(Log.open(setup.disk.root, CONFIG)) == everything


async def test_a_deletion_that_failed_is_not_explained() -> None:
    setup = committed(5)
    setup.fill_disk(leaving_bytes=3)
    setup.delete_before(7)
    setup.flusher.run_all()
    assert explained(setup.log) == []


async def test_an_explanation_that_cannot_be_written_holds_up_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    setup = committed(5)
    setup.delete_before(3)
    setup.flusher.run_one()
    setup.fill_disk(leaving_bytes=3)
    setup.flusher.run_all()
    assert "are not written: The disk is full" in caplog.text
    assert setup.replica.failure is None
    setup.disk.capacity_bytes = None
    setup.delete_before(4)
    setup.flusher.run_all()
    assert explained(Log.open(setup.disk.root, CONFIG)) == [(0, 3, "deleted"), (3, 4, "deleted")]
