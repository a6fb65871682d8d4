"""The two internal topics of staged writes: made when first needed, written, read, shortened.

`__staged` keeps the batches, one a record and an offset; `__writes` keeps what was decided, by
name. Not what either means: that is `coordination.staging`. One broker leads both; as soon as it
does not, it writes to neither. The invariants: nothing is written by who has not read all that
others wrote to both, so in no other terms than those of the reading; whoever waits for a record is
told once, without an error only when it is durable.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Generator, Iterable
from typing import Final

from penstock.broker.carrier.parts import Parts
from penstock.broker.groups.snapshot import KeyAndValue, build_batches, read_log
from penstock.broker.partitions.partition import Partition
from penstock.broker.staging.batch import STAGED_HEAD_BYTES, read_key
from penstock.broker.topics.internal import UNMADE, OwnTopic
from penstock.broker.topics.topics import Topics
from penstock.broker.turns.handler_tasks import HandlerTasks
from penstock.coordination.staging.records import STAGED_TOPIC, WRITES_TOPIC, StagedBatch
from penstock.model.errors import (
    NotCoordinator,
    NotLeader,
    PenstockError,
    StorageError,
    StorageFailed,
)
from penstock.model.limits import KIB, MIB
from penstock.records.header import read_header
from penstock.replication.replica.replica import Done

logger = logging.getLogger(__name__)

_STAGED_SETTINGS: Final = {
    "durability": "fsync",
    # What may go is for the writes to say.
    "cleanup_policy": "none",
    # Room is given back by whole segments, and the last one is left.
    "segment_bytes": str(64 * MIB),
    "segment_ms": str(10 * 60 * 1000),
}
_WRITES_SETTINGS: Final = {
    "durability": "fsync",
    "cleanup_policy": "compact",
    "segment_bytes": str(16 * MIB),
}
# Topics that are being made are waited for when the broker stops, but not for ever.
_STOP_S: Final = 10.0

Told = Callable[[PenstockError | None], None]
"""Is told how an append ended."""
Reading = Generator[None, None, None]
"""Reads some, and lets others have a turn."""

# When they are read again: batches that are smaller are read together, of larger ones only the
# beginning; some milliseconds, and then others have a turn.
_READ_BYTES: Final = 64 * KIB


class StagingLog:
    """One for each time that the topics are read. All calls come from the event loop."""

    def __init__(self, parts: Parts) -> None:
        self._topics = parts.topics
        self._driver = parts.driver
        self._flusher = parts.flusher
        self.clock = parts.clock
        self._writes = OwnTopic(WRITES_TOPIC, parts.topics, parts.partitions)
        self._staged = OwnTopic(STAGED_TOPIC, parts.topics, parts.partitions)
        # In which this broker led the topics when they were read; None before that.
        self._writes_term: int | None = None
        self._staged_term: int | None = None
        self._loop = asyncio.get_running_loop()
        # Why nothing is kept or decided here, once it is not any more.
        self.refusal: PenstockError | None = None
        # What came while the topics were being made.
        self._early: list[Callable[[PenstockError | None], None]] = []
        self._tasks = HandlerTasks(self._loop)
        self._is_trimming = False

    # --- the topics ----------------------------------------------------------------------------

    @property
    def staged(self) -> Partition:
        return self._staged.partition

    @property
    def term(self) -> int:
        """In which the decisions are made."""
        assert self._writes_term is not None, "the topics were not read"
        return self._writes_term

    @property
    def is_made(self) -> bool:
        """Whether both topics are here, if perhaps damaged."""
        return self._staged.is_here and self._writes.is_here

    @property
    def is_ready(self) -> bool:
        """Whether it can be written to in this turn: both topics are here, nobody else can have
        written to them, nothing has failed, and nobody waits to come first. All there is to ask, in
        a few looks."""
        return (
            self.refusal is None
            and not self._early
            and UNMADE not in (self._writes_term, self._staged_term)
            and self._writes.is_read_in(self._writes_term)
            and self._staged.is_read_in(self._staged_term)
            and self._writes.partition.replica.failure is None
        )

    @property
    def is_making(self) -> bool:
        """Whether its topics are being made, for those who came early."""
        return bool(self._early)

    @property
    def is_current(self) -> bool:
        """Whether what was read is all there is, since nobody else can have written after it."""
        is_current = self._writes.is_read_in(self._writes_term)
        return is_current and self._staged.is_read_in(self._staged_term)

    @property
    def failure(self) -> StorageError | None:
        """Why nothing can be decided any more, if so."""
        return self._writes.failure

    def check_open(self) -> None:
        """Raise why there are no staged writes here, if so: when it is not ready."""
        if self.refusal is not None:
            raise self.refusal
        if self.failure is not None:
            # Nobody knows what of a decision that could not be made durable a restart will find:
            # until then nothing may be dropped that it may name.
            raise StorageFailed(f"{WRITES_TOPIC} is read-only: {self.failure}")
        if not (self.is_current or self.is_making):
            raise NotCoordinator("Staged writes are another broker's by now: ask which one.")

    def when_made(self, made: Callable[[PenstockError | None], None]) -> None:
        """Have it told when there are topics, or why there are not: in the order of the calls, and
        before this is ready. The turn is ended."""
        if not self._early:
            self._tasks.start(self._make_for_early())
        self._early.append(made)

    async def made(self) -> None:
        """Wait for the topics, if they are being made."""
        await self._tasks.finish(_STOP_S)

    async def _make_for_early(self) -> None:
        problem: PenstockError | None = None
        try:
            await self.make()
        except PenstockError as error:
            problem = error
        early, self._early = self._early, []
        for made in early:
            made(problem)
        self._driver.end_turn()

    async def make(self) -> None:
        """Make the topics, or give those of an earlier version the settings that are needed now."""
        await make_topics(self._topics)
        self._writes_term = _taken_over(self._writes, self._writes_term)
        self._staged_term = _taken_over(self._staged, self._staged_term)

    # --- writing -------------------------------------------------------------------------------

    def stage(self, batch: memoryview, done: Done) -> int:
        """Append to `__staged` with this turn, in which it was seen that this is ready; the offset,
        which holds if there is no error."""
        return self._staged.partition.replica.propose(read_header(batch), batch, done)

    @property
    def durable_offset(self) -> int:
        """What stands before it in `__staged` is durable."""
        if self._staged_term == UNMADE:
            return 0
        return self._staged.partition.replica.high_watermark

    def mark(self, marks: Iterable[memoryview], told: Told) -> None:
        """Append to `__staged` with this turn. `told` is called when all of it is durable or has
        failed, in a turn of its own, which is ended."""
        self._append(self._staged, marks, told)

    def write(self, records: Iterable[KeyAndValue], told: Told) -> None:
        """Append to `__writes`, likewise: what this proposes comes before what a later call does,
        whoever waits for what."""
        batches = build_batches(records, self.clock.now_ms())
        self._append(self._writes, map(memoryview, batches), told)

    def _append(self, topic: OwnTopic, batches: Iterable[memoryview], told: Told) -> None:
        if not self.is_current:
            raise NotLeader("Staged writes are looked after by another broker: ask which one.")
        # All in one turn, which is written whole or not at all: the last one's end is enough. Not
        # told at once, since the replica is in the midst of telling everybody.
        replica = topic.partition.replica
        *before, last = batches
        for batch in before:
            replica.propose(read_header(batch), batch, None)

        def done(error: PenstockError | None) -> None:
            self._loop.call_soon(self._tell, told, error)

        replica.propose(read_header(last), last, done)

    def _tell(self, told: Told, error: PenstockError | None) -> None:
        told(error)
        self._driver.end_turn()

    # --- reading -------------------------------------------------------------------------------

    def read_decisions(self, apply: Callable[[bytes, bytes | None], None]) -> Reading:
        """Every record of `__writes`, in order."""
        # Both: between the two readings neither may have changed hands.
        self._writes_term, self._staged_term = self._writes.term, self._staged.term
        if self._writes.is_here:
            writes = self._writes.partition
            yield from read_log(writes, 0, lambda key, value, _: apply(key, value))

    def read_staged(self, apply: Callable[[StagedBatch, int, int], None]) -> Reading:
        """Every record of `__staged`, in order: the key, the offset and the time of each. Those
        that a leader writes of its own are none."""
        if not self._staged.is_here:
            return
        replica = self.staged.replica
        offset = replica.log.start_offset
        while offset < replica.high_watermark:
            part = replica.read(offset, _READ_BYTES)
            is_whole = part.length <= _READ_BYTES
            data = (part if is_whole else part.head(STAGED_HEAD_BYTES)).read()
            position = 0
            while position < len(data):
                header = read_header(data, position)
                if not header.is_control:
                    _, staged = read_key(data, position)
                    apply(staged, header.base_offset, header.max_timestamp_ms)
                offset = header.next_offset
                position += header.length if is_whole else len(data)
            yield

    # --- making room ---------------------------------------------------------------------------

    def trim(self, low_offset: int | None, *, is_due: bool = False) -> None:
        """Let go of what lies before the oldest batch that is needed (None: none is), when that
        frees a file, or it is due in any case."""
        try:
            replica = self.staged.replica
        except PenstockError:
            return
        log = replica.log
        low_offset = replica.high_watermark if low_offset is None else low_offset
        sealed = log.sealed_segments()
        frees = bool(sealed) and sealed[0].next_offset <= low_offset
        if self._is_trimming or not (frees or is_due) or low_offset <= log.start_offset:
            return

        def trimmed(error: PenstockError | None) -> None:
            self._is_trimming = False
            if error is not None:
                logger.warning("%s keeps what nobody needs: %s", STAGED_TOPIC, error)
                return
            try:
                # It has no producers, so nothing need be saved of them first.
                for job in log.cutter.delete_before(low_offset):
                    self._flusher.submit(job, lambda: None)
            except StorageError as problem:
                logger.warning("%s keeps what nobody needs: %s", STAGED_TOPIC, problem)

        self._is_trimming = True
        try:
            replica.delete_before(low_offset, trimmed)
        except PenstockError as error:
            trimmed(error)


def _taken_over(topic: OwnTopic, read_term: int | None) -> int:
    """The term in which a topic is led that was perhaps just made. NotLeader if others may have
    written to it."""
    term = topic.term
    is_read = term == read_term != UNMADE
    is_ours = read_term == UNMADE and term not in (None, UNMADE) and topic.is_unwritten
    if term is None or not (is_read or is_ours):
        raise NotLeader(f"{topic.name} is led by another broker: ask again which one.")
    return term


async def make_topics(topics: Topics) -> None:
    """Make them if they are not there, on the same brokers, or one could not lead both."""
    await topics.keep_internal(WRITES_TOPIC, _WRITES_SETTINGS)
    await topics.keep_internal(STAGED_TOPIC, _STAGED_SETTINGS, beside=WRITES_TOPIC)
