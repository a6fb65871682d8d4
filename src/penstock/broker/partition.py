"""One partition on its leader: what may be appended, and who waits for more.

It stands between the handlers and the replica. The invariant (R-PRO-2): a batch of an idempotent
producer is proposed at most once, and its repetition is answered like the first, not before it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

from penstock.coordination.producer_state import ProducerEntry, ProducerState
from penstock.model.errors import (
    BatchError,
    BatchTooLarge,
    InvalidBatch,
    PenstockError,
    StorageError,
)
from penstock.model.ids import TopicId, TopicPartition
from penstock.model.topic_config import TopicConfig
from penstock.net.clock import Clock
from penstock.records.header import (
    TRANSACTIONAL_FLAG,
    BatchHeader,
    check_produced,
    read_header,
    stamp_append_time,
)
from penstock.replication.replica import Replica
from penstock.storage.slice import FileSlice


class Append(ABC):
    """A produced payload on its way: where it stands, and whom to tell when it is committed. The
    handler's subclass says how."""

    __slots__ = ("append_time_ms", "base_offset", "duplicate")

    def __init__(self) -> None:
        self.base_offset = -1
        self.append_time_ms = -1
        self.duplicate = False

    @abstractmethod
    def finished(self, error: PenstockError | None) -> None:
        """Everything is committed, or (with an error) some of it may never be."""


class Partition:
    """All calls come from the event loop."""

    def __init__(
        self,
        name: TopicPartition,
        topic_id: TopicId,
        config: TopicConfig,
        replica: Replica,
        producers: ProducerState,
        clock: Clock,
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.config = config
        self.replica = replica
        self.producers = producers
        # False from when its closing or deletion has begun: then it must be looked for again.
        self.is_open = True
        # What came before it in the log is no longer needed to know the producers; and how often
        # the log had rolled when that was so. What was found at start is good enough until then.
        self.producers_saved_offset = -1
        self.rolls_saved = replica.log.rolls
        self.is_saving_producers = False
        self._clock = clock
        # What this turn recorded of producers, to be taken back if the write fails.
        self._recorded: list[tuple[int, ProducerEntry | None]] = []
        # Called, and forgotten, when there is more to read.
        self._waiting: dict[object, Callable[[], None]] = {}
        replica.listener = self

    def append(self, batch: memoryview, append: Append) -> None:
        """Check and propose what a producer sent. Raises if it cannot be accepted, and then does
        not call `append.finished`."""
        header = check_produced(batch)
        config = self.config
        if header.length > config.batch_bytes_max or header.attributes & TRANSACTIONAL_FLAG:
            raise self._refusal(header)
        if config.timestamp_type == "append":
            append.append_time_ms = self._clock.now_ms()
            stamp_append_time(batch, append.append_time_ms)
            header = read_header(batch)
        if header.producer_id < 0:
            append.base_offset = self.replica.propose(header, batch, append.finished)
            return
        original = self.producers.check(header)
        if original is None:
            append.base_offset = self.replica.propose(header, batch, append.finished)
            self._record(header, append.base_offset)
        else:
            append.base_offset = original
            append.duplicate = True
            end_offset = original + header.last_offset_delta + 1
            self.replica.when_committed(end_offset, append.finished)

    def read(self, offset: int, max_bytes: int) -> FileSlice:
        """Whole batches from the one that holds `offset`, up to the high watermark."""
        return self.replica.read(offset, max_bytes)

    def wait_for_more(self, waiter: object, wake: Callable[[], None]) -> None:
        """Call `wake` once, when there is more to read."""
        self._waiting[waiter] = wake

    def stop_waiting(self, waiter: object) -> None:
        self._waiting.pop(waiter, None)

    def wake_all(self) -> None:
        """Let everybody who waits look again: there is more, or the partition is going away."""
        waiting, self._waiting = self._waiting, {}
        for wake in waiting.values():
            wake()

    # --- replication.replica.Listener ----------------------------------------------------------

    def on_written(self, error: StorageError | None) -> None:
        if error is not None:
            for producer_id, previous in reversed(self._recorded):
                self.producers.restore(producer_id, previous)
        if self._recorded:
            self._recorded = []

    def on_high_watermark(self) -> None:
        if self._waiting:
            self.wake_all()

    # --- appending -----------------------------------------------------------------------------

    def _refusal(self, header: BatchHeader) -> BatchError:
        if header.length > self.config.batch_bytes_max:
            return BatchTooLarge(
                f"A batch of {header.length} bytes is larger than the "
                f"{self.config.batch_bytes_max} that {self.name.topic} accepts: send smaller ones "
                "or raise its batch_bytes_max."
            )
        return InvalidBatch("Transactional batches are not accepted yet.")

    def _record(self, header: BatchHeader, base_offset: int) -> None:
        previous = self.producers.record(header, base_offset, self._clock.now_ms())
        self._recorded.append((header.producer_id, previous))
