"""One partition on its leader: what may be appended, and who waits for more.

It stands between the handlers and the replica. The invariant (R-PRO-2): a batch of an idempotent
producer is proposed at most once, and its repetition is answered like the first, not before it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

from penstock.coordination.producer_state import ProducerEntry, ProducerState
from penstock.model.errors import BatchTooLarge, InvalidBatch, PenstockError, StorageError
from penstock.model.ids import TopicPartition
from penstock.model.topic_config import TopicConfig
from penstock.net.clock import Clock
from penstock.records.header import BatchHeader, check_produced, read_header, stamp_append_time
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
        config: TopicConfig,
        replica: Replica,
        producers: ProducerState,
        clock: Clock,
    ) -> None:
        self.name = name
        self.config = config
        self.replica = replica
        self.producers = producers
        self._clock = clock
        # What this turn recorded of producers, to be taken back if the write fails.
        self._recorded: list[tuple[int, ProducerEntry | None]] = []
        # Called, and forgotten, when there is more to read.
        self._waiting: dict[object, Callable[[], None]] = {}
        replica.listener = self

    def append(self, payload: memoryview, append: Append) -> None:
        """Check and propose the batches of a produce request. Raises if one of them cannot be
        accepted, and then does not call `append.finished`."""
        batches = check_produced(payload)
        for header, _ in batches:
            self._check(header)
        if self.config.timestamp_type == "append":
            append.append_time_ms = now_ms = self._clock.now_ms()
            for _, batch in batches:
                stamp_append_time(batch, now_ms)
            batches = [(read_header(batch), batch) for _, batch in batches]
        last = len(batches) - 1
        for index, (header, batch) in enumerate(batches):
            done = append.finished if index == last else None
            original = self.producers.check(header) if header.producer_id >= 0 else None
            if original is None:
                base_offset = self.replica.propose(header, batch, done)
                if header.producer_id >= 0:
                    self._record(header, base_offset)
            else:
                base_offset = original
                append.duplicate = True
            if index == 0:
                append.base_offset = base_offset
            if original is not None and done is not None:
                self.replica.when_committed(original + header.last_offset_delta + 1, done)

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

    def _check(self, header: BatchHeader) -> None:
        if header.length > self.config.batch_bytes_max:
            raise BatchTooLarge(
                f"A batch of {header.length} bytes is larger than the "
                f"{self.config.batch_bytes_max} that {self.name.topic} accepts: send smaller ones "
                "or raise its batch_bytes_max."
            )
        if header.is_transactional:
            raise InvalidBatch("Transactional batches are not accepted yet.")

    def _record(self, header: BatchHeader, base_offset: int) -> None:
        previous = self.producers.record(header, base_offset, self._clock.now_ms())
        self._recorded.append((header.producer_id, previous))
