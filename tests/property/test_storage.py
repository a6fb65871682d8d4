"""A log under any sequence of calls and crashes, held against a list of batches."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from penstock.records.header import check_batch
from penstock.storage.log.log import CleanEnd, Log
from tests.kit.simulated_disk import Persistence, SimulatedDisk
from tests.kit.storage.logs import CONFIG, NOW_MS, delete_records, make_batch, split

PERSISTENCE = st.one_of(st.sampled_from(["lost", "kept"]), st.integers(0, 1000))


class LogAgainstList(RuleBasedStateMachine):
    """The model is the list of batches that are written, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.disk = SimulatedDisk()
        self.log = Log.open(self.disk.root, CONFIG)
        self.now_ms = NOW_MS
        self.batches: list[tuple[int, int, bytes]] = []  # base offset, next offset, bytes
        self.durable_offset = 0
        # Records before it were deleted, though their batches may be there.
        self.deleted_offset = 0

    @rule(sizes=st.lists(st.integers(0, 900), min_size=1, max_size=6), records=st.integers(1, 5))
    def write(self, sizes: list[int], records: int) -> None:
        for size in sizes:
            value = bytes([len(self.batches) % 255 + 1]) * size
            batch = make_batch(value, records=records, timestamp_ms=self.now_ms)
            view = memoryview(bytearray(batch))
            offset = self.log.writer.stage(check_batch(view), view, 0)
            self.batches.append((offset, offset + records, bytes(view)))
        self.log.writer.write_staged(self.now_ms)

    @rule(include_active=st.booleans())
    def flush(self, include_active: bool) -> None:
        job = self.log.writer.flush_job(include_active)
        if job is not None:
            job.run()
            self.durable_offset = self.log.writer.finish_flush(job)

    @rule(passed_ms=st.integers(0, 2 * CONFIG.segment_ms))
    def roll(self, passed_ms: int) -> None:
        self.now_ms += passed_ms
        if self.log.writer.is_roll_due(self.now_ms):
            self.log.writer.roll()

    @rule(share=st.floats(0, 1))
    def delete(self, share: float) -> None:
        for job in self.log.cutter.delete_before(int(share * self.log.next_offset)):
            job.run()
        self._keep(self.log.first_offset, self.log.next_offset)

    @rule(share=st.floats(0, 1))
    def delete_records(self, share: float) -> None:
        start, end = self.log.start_offset, self.log.written_offset
        delete_records(self.log, start + int(share * (end - start)))
        self.deleted_offset = self.log.start_offset

    @precondition(lambda self: self.readable())
    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        bases = [batch[0] for batch in self.readable() if batch[0] >= self.log.start_offset]
        offset = data.draw(st.sampled_from([*bases, self.log.written_offset]))
        self.log.cutter.truncate(offset)
        self._keep(self.log.first_offset, offset)
        self.durable_offset = min(self.durable_offset, offset)

    @rule()
    def drop_idle_files(self) -> None:
        self.log.chain.drop_idle_files()

    @rule(believed=st.booleans())
    def restart(self, believed: bool) -> None:
        clean_end: CleanEnd | None = self.log.close()
        self.log = Log.open(self.disk.root, CONFIG, clean_end=clean_end if believed else None)
        self.durable_offset = self.log.next_offset

    @rule(persistence=PERSISTENCE)
    def crash(self, persistence: Persistence) -> None:
        self.disk = self.disk.after_crash(persistence)
        self.log = Log.open(self.disk.root, CONFIG)
        assert self.log.next_offset >= self.durable_offset
        self._keep(self.log.first_offset, self.log.next_offset)
        self.durable_offset = self.log.next_offset
        self.deleted_offset = min(self.deleted_offset, self.log.next_offset)

    def readable(self) -> list[tuple[int, int, bytes]]:
        return [batch for batch in self.batches if batch[1] > self.log.start_offset]

    def _keep(self, start: int, end: int) -> None:
        self.batches = [batch for batch in self.batches if start <= batch[0] < end]

    @precondition(lambda self: self.readable())
    @rule(data=st.data(), max_bytes=st.integers(1, 3000))
    def read(self, data: st.DataObject, max_bytes: int) -> None:
        batches = self.readable()
        first = data.draw(st.integers(0, len(batches) - 1))
        last = data.draw(st.integers(first, len(batches) - 1))
        lowest_offset = max(batches[first][0], self.log.start_offset)
        offset = data.draw(st.integers(lowest_offset, batches[first][1] - 1))
        limit_offset = batches[last][1]
        payload = self.log.read(offset, max_bytes, limit_offset).read()
        found = [batch for _, batch in split(payload)]
        assert found == [batch for _, _, batch in batches[first : first + len(found)]]
        assert 1 <= len(found) <= last - first + 1
        assert len(found) == 1 or len(payload) <= max_bytes

    @invariant()
    def offsets_agree(self) -> None:
        end = self.batches[-1][1] if self.batches else self.log.next_offset
        first = self.batches[0][0] if self.batches else self.log.first_offset
        assert (self.log.first_offset, self.log.next_offset) == (first, end)
        assert self.log.start_offset == max(first, self.deleted_offset)
        assert self.log.size_bytes == sum(len(batch) for _, _, batch in self.batches)


LogAgainstList.TestCase.settings = settings(
    max_examples=80, stateful_step_count=30, deadline=None, derandomize=True, database=None
)
TestLogAgainstList = LogAgainstList.TestCase
