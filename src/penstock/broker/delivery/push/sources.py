"""Where a push stream's messages come from: the batches of a partition, from an offset on.

Not when they leave: that is `coordination.delivery.push`. The invariant: a source gives one load at
a time, each beginning where the one before it ended, unless that was given back by `drop`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from penstock.broker.partitions.leaders import Leaders
from penstock.broker.partitions.partition import Partition
from penstock.model.errors import Busy, PenstockError
from penstock.model.ids import TopicPartition
from penstock.net.outbox import FileSlice
from penstock.protocol import penstock_pb2 as pb
from penstock.storage.segments.chain import out_of_range


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What one delivery has in it."""

    messages: int
    """What it takes of the stream's credit."""
    payload: FileSlice | bytes
    offset: int = -1
    """Of an exclusive group: where it begins, and where the next one does."""
    next_offset: int = -1
    high_watermark: int = -1
    has_gaps: bool = False
    leases: Sequence[pb.LeasedRange] = ()
    lease_ms: int = 0
    leased_at_s: float = 0.0
    """From when on that counts, by the broker's clock."""

    @property
    def size_bytes(self) -> int:
        return len(self.payload) if isinstance(self.payload, bytes) else self.payload.length

    def without_bytes(self) -> Load:
        """To keep until it is answered: what is in memory is read again if it must be."""
        return replace(self, payload=b"") if isinstance(self.payload, bytes) else self


Done = Callable[[Load | PenstockError | None], None]
"""Called with what there is, with what ends the stream, or with nothing: then ask again."""
Read = Callable[[Partition, int, int, int, int], Load | None]
"""Given a partition, an offset, a limit before which to end, and the most messages and bytes: the
next load, if there is one. A filter is another way to read."""


class Source(Protocol):
    """What a stream asks for messages."""

    def next(self, messages_max: int, bytes_max: int, done: Done) -> None:
        """Call `done` once with what comes next: now, if it is there, else when it is, or may be.
        Not called again before `done` was, or `cancel`."""
        ...

    def cancel(self) -> None:
        """Do not call `done` any more."""
        ...

    def drop(self, load: Load) -> None:
        """The last load was not sent, and will not be: it comes again."""
        ...

    def again(self, load: Load) -> Load | None:
        """What a load had, to send it again; None if that is no longer the client's. Raises what
        ends the stream."""
        ...

    def take_back(self, unanswered: Sequence[Load]) -> bool:
        """The client has not answered, and nothing is sent until it resumes the stream. Whether
        these loads are others' now."""
        ...

    def close(self, unanswered: Sequence[Load]) -> None:
        """The stream has ended, and these loads may not have arrived."""
        ...


class ExclusiveSource:
    """Whole batches of a partition, for whoever has it for itself."""

    __slots__ = ("_done", "_leaders", "_name", "_offset", "_read", "_waits_at")

    def __init__(self, leaders: Leaders, name: TopicPartition, offset: int, read: Read) -> None:
        self._leaders = leaders
        self._name = name
        self._offset = offset
        self._read = read
        self._done: Done | None = None
        self._waits_at: Partition | None = None

    def next(self, messages_max: int, bytes_max: int, done: Done) -> None:
        assert self._done is None, f"{self._name} is asked twice"
        outcome: Load | PenstockError | None
        try:
            # Led elsewhere, or deleted, it is not found.
            partition = self._leaders.find(*self._name)
            high_watermark = partition.replica.high_watermark
            outcome = self._read(partition, self._offset, high_watermark, messages_max, bytes_max)
        except PenstockError as error:
            outcome = error
        else:
            if outcome is None:
                self._done, self._waits_at = done, partition
                partition.wait_for_more(self, self._wake)
                return
            self._offset = outcome.next_offset
        done(outcome)

    def cancel(self) -> None:
        self._done = None
        if self._waits_at is not None:
            self._waits_at.stop_waiting(self)
            self._waits_at = None

    def drop(self, load: Load) -> None:
        self._offset = load.offset

    def again(self, load: Load) -> Load | None:
        # All that it had: the most that there can be, up to where it ended.
        everything = 2**62
        partition = self._leaders.find(*self._name)
        found = self._read(partition, load.offset, load.next_offset, everything, everything)
        if found is None or found.next_offset != load.next_offset:
            raise Busy(
                f"The messages of {self._name} from offset {load.offset} on were compacted before "
                f"they arrived: open the stream again."
            )
        return found

    def take_back(self, unanswered: Sequence[Load]) -> bool:
        """They are sent again at the resume."""
        del unanswered
        return False

    def close(self, unanswered: Sequence[Load]) -> None:
        del unanswered
        self.cancel()

    def _wake(self) -> None:
        """There may be more, or the partition may be led elsewhere by now. It is looked at when it
        is the stream's turn: a batch may wake thousands of them."""
        done = self._done
        assert done is not None, f"{self._name} wakes whom it does not know"
        self._done = self._waits_at = None
        done(None)


def read_batches(
    partition: Partition, offset: int, limit_offset: int, messages_max: int, bytes_max: int
) -> Load | None:
    """As many whole batches as the counts allow, but one if there is one."""
    log, high_watermark = partition.replica.log, partition.replica.high_watermark
    if not log.start_offset <= offset <= high_watermark:
        raise out_of_range(offset, log.start_offset, high_watermark)
    if offset >= limit_offset:
        return None
    affordable = min(limit_offset, offset + messages_max)
    found, next_offset = log.read_stored(offset, bytes_max, affordable)
    if not found.length:
        # The next batch ends beyond what is affordable: it goes alone.
        found, next_offset = log.read_stored(offset, 1, limit_offset)
    if not found.length:
        return None
    messages = next_offset - offset
    if log.is_compacted:
        messages = min(messages, found.length)  # offsets that nothing is left of cost nobody
    return Load(
        messages=messages,
        payload=found,
        offset=offset,
        next_offset=next_offset,
        high_watermark=high_watermark,
        has_gaps=log.is_compacted,
    )
