"""What a partition remembers of each idempotent producer, so that a retry makes no duplicate.

Not transactions, and not the allocation of producer ids. The invariant (R-PRO-2): of one producer
and epoch, a partition accepts each sequence number once and in order. A batch that repeats one of
the last five is recognised and answered with the offset it got the first time. Those that copy
staged writes are remembered apart, and for longer: neither kind pushes out the other.

Entries are plain tuples: `check` and `record` run once per batch on the broker's hot path.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Set
from typing import Final, NamedTuple, Protocol

from penstock.model.errors import CorruptLog, OutOfOrderSequence, ProducerFenced, UnknownProducer
from penstock.model.limits import (
    COPY_PRODUCER_ID_MIN,
    COPY_PRODUCER_SILENCE_MS_MAX,
    COPY_PRODUCERS_PER_PARTITION_MAX,
    PRODUCER_SILENCE_MS_MAX,
    PRODUCER_WINDOW_BATCHES,
    PRODUCERS_PER_PARTITION_MAX,
)

_SEQUENCE_MAX: Final = 2**31 - 1
# Of a batch that is known to be in the log, and no more.
UNKNOWN_OFFSET: Final = -1
_ENTRY: Final = struct.Struct(
    ">qhqB"
)  # producer id, epoch, last append time, batches in the window
_BATCH: Final = struct.Struct(">iiq")  # first sequence, last sequence, base offset


class SequencedBatch(Protocol):
    """What is looked at in a batch: a `records.BatchHeader` has it."""

    @property
    def producer_id(self) -> int: ...
    @property
    def producer_epoch(self) -> int: ...
    @property
    def base_sequence(self) -> int: ...
    @property
    def last_sequence(self) -> int: ...


class RememberedBatch(NamedTuple):
    first_sequence: int
    last_sequence: int
    base_offset: int


class ProducerEntry(NamedTuple):
    epoch: int
    last_append_ms: int
    window: tuple[RememberedBatch, ...]  # oldest first, at most five


class ProducerState:
    """The producers of one partition. The shell calls `check`, then `record` for what it appends,
    and `restore` when an append had to be undone.

    kept: producers that are not forgotten for as long as they are in there; the shell's to fill,
    one for all partitions. A staged write that is not done finds out by them where it had come.
    """

    def __init__(self, kept: Set[int] = frozenset()) -> None:
        self._kept = kept
        # In the order of their last append, so that the first is the one longest silent; and those
        # that copy staged writes, likewise.
        self._entries: dict[int, ProducerEntry] = {}
        self._copies: dict[int, ProducerEntry] = {}

    def __len__(self) -> int:
        return len(self._entries) + len(self._copies)

    def producers(self) -> list[tuple[int, ProducerEntry]]:
        """Who is remembered, of each kind the one longest silent first."""
        return [*self._entries.items(), *self._copies.items()]

    def check(self, batch: SequencedBatch) -> int | None:
        """The base offset of the batch that this one repeats, or None when it is the next one."""
        entry = self._like(batch.producer_id).get(batch.producer_id)
        if entry is None:
            if batch.base_sequence != 0:
                raise UnknownProducer(
                    f"Producer {batch.producer_id} starts at sequence {batch.base_sequence} but is "
                    "not known here: it was silent too long, or its first batch is missing. "
                    "Ask for a new producer id."
                )
            return None
        if batch.producer_epoch != entry.epoch:
            self._check_new_epoch(batch, entry)
            return None
        last_sequence = entry.window[-1].last_sequence
        if batch.base_sequence == _after(last_sequence):
            return None
        return self._find_repeated(batch, entry)

    def record(self, batch: SequencedBatch, base_offset: int, now_ms: int) -> ProducerEntry | None:
        """Remember an appended batch. Returns what `restore` needs to take it back."""
        entries = self._like(batch.producer_id)
        previous = entries.pop(batch.producer_id, None)
        remembered = RememberedBatch(batch.base_sequence, batch.last_sequence, base_offset)
        if previous is None or previous.epoch != batch.producer_epoch:
            window: tuple[RememberedBatch, ...] = (remembered,)
        else:
            window = (*previous.window[1 - PRODUCER_WINDOW_BATCHES :], remembered)
        entries[batch.producer_id] = ProducerEntry(batch.producer_epoch, now_ms, window)
        is_counted = entries is self._entries
        most = PRODUCERS_PER_PARTITION_MAX if is_counted else COPY_PRODUCERS_PER_PARTITION_MAX
        if len(entries) > most:
            silent = next((entry for entry in entries if entry not in self._kept), None)
            if silent is not None:
                del entries[silent]
        return previous

    def record_copy(self, batch: SequencedBatch, base_offset: int, now_ms: int) -> None:
        """Remember a batch that is in the log, unless what came later is known already: what was
        remembered may reach further than the log that is read."""
        entry = self._like(batch.producer_id).get(batch.producer_id)
        if entry is None or entry.window[-1].base_offset < base_offset:
            self.record(batch, base_offset, now_ms)

    def before(self, offset: int) -> ProducerState | None:
        """What was known when the log ended at the offset, as far as it can still matter: of the
        batches that a producer may yet repeat, those that came later are some. None if it cannot
        be told from what is remembered."""
        state = ProducerState(self._kept)
        for producer_id, entry in self.producers():
            known = state._like(producer_id)
            if entry.window[-1].base_offset < offset:
                known[producer_id] = entry
                continue
            window = tuple(batch for batch in entry.window if batch.base_offset < offset)
            first, _, first_offset = entry.window[0]
            is_full = len(entry.window) == PRODUCER_WINDOW_BATCHES
            if is_full and first_offset != UNKNOWN_OFFSET and (first or not window):
                # Nobody repeats the one before these. But it tells what follows it, also when the
                # others are cut off as well.
                last = first - 1 if first else _SEQUENCE_MAX
                window = (RememberedBatch(last, last, UNKNOWN_OFFSET), *window)
            if window:
                known[producer_id] = entry._replace(window=window)
            elif first or entry.epoch > 0:
                # It may have had others before these, or another epoch, or none.
                return None
        return state

    def beyond(self, earlier: ProducerState) -> Iterator[tuple[int, int, int]]:
        """Of each producer of whom less was known then: its id, its epoch, and its first sequence
        that was not."""
        for producer_id, entry in self.producers():
            known = earlier.last_batch(producer_id)
            if known is None or known[0] != entry.epoch:
                yield producer_id, entry.epoch, entry.window[0].first_sequence
            elif known[1] != entry.window[-1].last_sequence:
                yield producer_id, entry.epoch, _after(known[1])

    def forget(self, producer_id: int) -> None:
        """It will not come again."""
        self._like(producer_id).pop(producer_id, None)

    def last_batch(self, producer_id: int) -> tuple[int, int] | None:
        """The epoch and the last sequence of the producer's last batch."""
        entry = self._like(producer_id).get(producer_id)
        return None if entry is None else (entry.epoch, entry.window[-1].last_sequence)

    def awaited_after(self, producer_id: int, offset: int) -> tuple[int, int] | None:
        """The epoch and the sequence of what the producer sends next, if all that is known of it
        was written before the offset."""
        entry = self._like(producer_id).get(producer_id)
        if entry is None or entry.window[-1].base_offset >= offset:
            return None
        return entry.epoch, _after(entry.window[-1].last_sequence)

    def kept_offset(self) -> int | None:
        """From where on the log tells of all those that are kept how far they came; None if none of
        them has been here."""
        found = (self._like(producer_id).get(producer_id) for producer_id in self._kept)
        offsets = (entry.window[-1].base_offset for entry in found if entry is not None)
        return min(offsets, default=None)

    def remembered_offsets(self) -> frozenset[int]:
        """Of the batches that somebody may still repeat: whoever copies the log, or reads it after
        a crash, must find them in it."""
        return frozenset(
            batch.base_offset for _, entry in self.producers() for batch in entry.window
        )

    def restore(self, producer_id: int, previous: ProducerEntry | None) -> None:
        """Take back a `record`. Several are taken back newest first."""
        entries = self._like(producer_id)
        if previous is None:
            entries.pop(producer_id, None)
        else:
            entries[producer_id] = previous

    def expire(self, now_ms: int) -> None:
        """Forget producers that have been silent for too long."""
        self._expire(self._entries, now_ms - PRODUCER_SILENCE_MS_MAX)
        self._expire(self._copies, now_ms - COPY_PRODUCER_SILENCE_MS_MAX)

    def _expire(self, entries: dict[int, ProducerEntry], silent_before_ms: int) -> None:
        silent = []
        for producer_id, entry in entries.items():
            if entry.last_append_ms >= silent_before_ms:
                break
            if producer_id not in self._kept:
                silent.append(producer_id)
        for producer_id in silent:
            del entries[producer_id]

    def encode(self) -> bytes:
        """The whole state as bytes, for a snapshot."""
        parts: list[bytes] = []
        for producer_id, entry in self.producers():
            assert 1 <= len(entry.window) <= PRODUCER_WINDOW_BATCHES, (producer_id, entry)
            parts.append(
                _ENTRY.pack(producer_id, entry.epoch, entry.last_append_ms, len(entry.window))
            )
            parts.extend(_BATCH.pack(*remembered) for remembered in entry.window)
        return b"".join(parts)

    @classmethod
    def decode(cls, data: bytes, kept: Set[int] = frozenset()) -> ProducerState:
        """The state that `encode` wrote."""
        state = cls(kept)
        position = 0
        try:
            while position < len(data):
                producer_id, epoch, last_append_ms, count = _ENTRY.unpack_from(data, position)
                position += _ENTRY.size
                if not 1 <= count <= PRODUCER_WINDOW_BATCHES:
                    raise CorruptLog(f"A producer snapshot has a producer of {count} batches.")
                window = tuple(
                    RememberedBatch._make(_BATCH.unpack_from(data, position + _BATCH.size * index))
                    for index in range(count)
                )
                position += _BATCH.size * count
                state._like(producer_id)[producer_id] = ProducerEntry(epoch, last_append_ms, window)
        except struct.error as error:
            raise CorruptLog(f"A producer snapshot ends early, at byte {position}.") from error
        return state

    def _like(self, producer_id: int) -> dict[int, ProducerEntry]:
        """Where those of its kind are."""
        return self._entries if producer_id < COPY_PRODUCER_ID_MIN else self._copies

    def _check_new_epoch(self, batch: SequencedBatch, entry: ProducerEntry) -> None:
        if batch.producer_epoch < entry.epoch:
            raise ProducerFenced(
                f"Producer {batch.producer_id} has epoch {batch.producer_epoch}, but epoch "
                f"{entry.epoch} has taken over: stop this producer."
            )
        if batch.base_sequence != 0:
            raise OutOfOrderSequence(
                f"Producer {batch.producer_id} starts epoch {batch.producer_epoch} at sequence "
                f"{batch.base_sequence} instead of 0."
            )

    def _find_repeated(self, batch: SequencedBatch, entry: ProducerEntry) -> int:
        for remembered in reversed(entry.window):
            if (
                remembered.first_sequence == batch.base_sequence
                and remembered.last_sequence == batch.last_sequence
            ):
                return remembered.base_offset
        raise OutOfOrderSequence(
            f"Producer {batch.producer_id} sent sequence {batch.base_sequence} after "
            f"{entry.window[-1].last_sequence}: a batch between them is missing."
        )


def _after(sequence: int) -> int:
    return 0 if sequence == _SEQUENCE_MAX else sequence + 1
