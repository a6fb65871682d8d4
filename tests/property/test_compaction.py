"""A log under any sequence of writes, compactions, restarts and crashes, held against a list.

The checkers: every record found is one that was written, at its offset, with its timestamp and
headers; of each key the latest is found, or it is a tombstone whose time has come; reading from any
offset gives exactly what is found from there on; compacting again right away changes nothing.
"""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from penstock.storage.compaction.compaction import Compaction, choose, read_cleaned_offset
from penstock.storage.log.log import Log
from penstock.storage.log.verify import verify
from tests.kit.simulated_disk import Persistence, SimulatedDisk
from tests.kit.storage.compacting import (
    ALWAYS,
    DELETE_RETENTION_MS,
    TIRELESS,
    Entry,
    entries,
    finish,
    keyed_batch,
    put,
    seal,
)
from tests.kit.storage.logs import CONFIG, NOW_MS

KEYS = st.one_of(
    st.none(),
    st.integers(0, 6).map(lambda number: b"%d" % number),
    # Longer than a digest: these are told apart by theirs.
    st.integers(0, 6).map(lambda number: b"a key that is rather long %d" % number),
)
VALUES = st.one_of(st.none(), st.binary(max_size=120))
RECORDS = st.lists(st.tuples(KEYS, VALUES), min_size=1, max_size=8)
HEADERS = st.lists(st.tuples(st.text(max_size=3), st.none() | st.binary(max_size=3)), max_size=2)
PERSISTENCE = st.one_of(st.sampled_from(["lost", "kept"]), st.integers(0, 1000))


class CompactedLogAgainstList(RuleBasedStateMachine):
    """The model is the list of all records that were ever written and are durable."""

    def __init__(self) -> None:
        super().__init__()
        self.disk = SimulatedDisk()
        self.log = Log.open(self.disk.root, CONFIG)
        self.now_ms = NOW_MS
        self.written: list[Entry] = []
        self.cleaned_offset = 0
        # Compacted tombstones were seen before this, so some of them may be gone.
        self.first_seen_ms: int | None = None

    @rule(records=RECORDS, codec=st.sampled_from([0, 0, 1, 2, 3, 4]), headers=HEADERS)
    def write(
        self,
        records: list[tuple[bytes | None, bytes | None]],
        codec: int,
        headers: list[tuple[str, bytes | None]],
    ) -> None:
        batch = keyed_batch(records, timestamp_ms=self.now_ms, codec=codec, headers=headers)
        self.written += put(self.log, batch)

    @rule()
    def seal(self) -> None:
        seal(self.log)

    @rule(passed_ms=st.integers(0, DELETE_RETENTION_MS))
    def wait(self, passed_ms: int) -> None:
        self.now_ms += passed_ms

    def _compaction(self, keys_max: int) -> Compaction | None:
        choice = choose(
            self.log,
            cleaned_offset=self.cleaned_offset,
            limit_offset=self.log.written_offset,
            now_ms=self.now_ms,
            config=ALWAYS,
        )
        if choice is None:
            return None
        if self.first_seen_ms is None:
            self.first_seen_ms = self.now_ms
        return Compaction(
            self.log,
            choice,
            now_ms=self.now_ms,
            delete_retention_ms=DELETE_RETENTION_MS,
            producer_offsets=frozenset(),
            pace=TIRELESS,
            keys_max=keys_max,
        )

    @rule(keys_max=st.sampled_from([3, 1000]))
    def compact(self, keys_max: int) -> None:
        compaction = self._compaction(keys_max)
        if compaction is None:
            return
        finish(compaction)
        self.cleaned_offset = compaction.cleaned_offset
        assert self.cleaned_offset == read_cleaned_offset(self.disk.root, self.log.next_offset)
        latest = {entry.key: entry.offset for entry in self._sealed_entries()}
        for entry in entries(self.log):
            if entry.offset < self.cleaned_offset:
                assert entry.key is not None
                assert entry.offset == latest[entry.key] or latest[entry.key] >= self.cleaned_offset

    def _sealed_entries(self) -> list[Entry]:
        end_offset = self.log.sealed_segments()[-1].next_offset
        return [entry for entry in self.written if entry.offset < end_offset]

    @rule(steps=st.integers(0, 8), persistence=PERSISTENCE)
    def crash_while_compacting(self, steps: int, persistence: Persistence) -> None:
        seal(self.log)
        compaction = self._compaction(1000)
        if compaction is None:
            return
        for _ in range(steps):
            job = compaction.next_job()
            if job is None:
                break
            job.run()
        self._restart(self.disk.after_crash(persistence))

    @precondition(lambda self: self.log.segment_count > 1)
    @rule()
    def restart(self) -> None:
        self.log.close()
        self._restart(self.disk)

    def _restart(self, disk: SimulatedDisk) -> None:
        self.disk = disk
        self.log = Log.open(disk.root, CONFIG)
        self.cleaned_offset = read_cleaned_offset(disk.root, self.log.next_offset)

    @rule(data=st.data(), max_bytes=st.integers(1, 2000))
    def read(self, data: st.DataObject, max_bytes: int) -> None:
        offset = data.draw(st.integers(self.log.start_offset, self.log.written_offset))
        everything = entries(self.log)
        assert entries(self.log, offset, max_bytes) == [
            entry for entry in everything if entry.offset >= offset
        ]

    @invariant()
    def nothing_is_made_up_and_nothing_latest_is_lost(self) -> None:
        found = entries(self.log)
        assert [entry.offset for entry in found] == sorted({entry.offset for entry in found})
        assert set(found) <= set(self.written)
        latest = {entry.key: entry for entry in self.written if entry.key is not None}
        found_offsets = {entry.offset for entry in found}
        for entry in latest.values():
            gone = entry.offset not in found_offsets
            if gone:
                assert entry.value is None, entry
                assert self.first_seen_ms is not None
                assert self.now_ms >= self.first_seen_ms + DELETE_RETENTION_MS, entry
                assert entry.key not in {other.key for other in found}, "a deleted key came back"

    @invariant()
    def every_byte_is_sound(self) -> None:
        # Not the indexes: a crash may take them, and they are made again.
        findings = [finding for finding in verify(self.disk.root) if finding.path.endswith(".log")]
        assert not [finding for finding in findings if finding.problem]
        assert "compaction.cleaned" not in self.disk.files()


CompactedLogAgainstList.TestCase.settings = settings(
    max_examples=60, stateful_step_count=25, deadline=None, derandomize=True, database=None
)
TestCompactedLogAgainstList = CompactedLogAgainstList.TestCase
