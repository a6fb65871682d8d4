"""One partition on its leader: what may be appended, and who waits for more.

It stands between the handlers and the replica. The invariant (R-PRO-2): a batch of an idempotent
producer is proposed at most once, and its repetition is answered like the first, not before it.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from penstock.broker.partitions.admission import Admission, Opening
from penstock.broker.partitions.readers import Readers, Wakings
from penstock.coordination.producers.refused import RefusedSequences
from penstock.coordination.producers.state import (
    UNKNOWN_OFFSET,
    ProducerEntry,
    ProducerState,
)
from penstock.model.errors import (
    Busy,
    NotEnoughReplicas,
    OutOfOrderSequence,
    PenstockError,
    StorageError,
    UnknownProducer,
)
from penstock.model.ids import TopicId, TopicPartition
from penstock.model.limits import COPY_PRODUCER_ID_MIN
from penstock.model.topic_config import TopicConfig
from penstock.net.clock import Clock
from penstock.records.header import TRANSACTIONAL_FLAG, BatchHeader, check_produced
from penstock.replication.replica.replica import ACKS_ALL, Replica, refusal
from penstock.storage.segments.slice import FileSlice


class Append(Protocol):
    """A produced payload on its way: where it stands, and whom to tell when it is committed. A base
    for whoever has no better one: a producer's call is one by itself."""

    __slots__ = ("append_time_ms", "base_offset", "duplicate")

    base_offset: int
    append_time_ms: int
    duplicate: bool

    def __init__(self) -> None:
        self.base_offset = -1
        self.append_time_ms = -1
        self.duplicate = False

    @abstractmethod
    def finished(self, error: PenstockError | None) -> None:
        """Everything is committed, or (with an error) some of it may never be."""


@dataclass(slots=True)
class SavedProducers:
    """How far it is written down who produced."""

    rolls: int
    """How often the log had rolled then. What was found at start is good enough until it does."""
    offset: int = -1
    """What came before it in the log is no longer needed to know the producers."""
    is_saving: bool = False


class Sequences:
    """The batches of idempotent producers in one partition: each is proposed once, however often it
    is sent. All calls come from the event loop."""

    def __init__(
        self, replica: Replica, recover: Callable[[], ProducerState], clock: Clock
    ) -> None:
        """recover: who produced to the log, as the log tells it."""
        self.producers = recover()
        # Whether a topic of this name was deleted before this one was made.
        self.has_namesake: Callable[[], bool] = bool
        self._replica = replica
        self._recover = recover
        self._clock = clock
        # What this turn recorded of producers, to be taken back if the write fails.
        self.recorded: list[tuple[BatchHeader, ProducerEntry | None]] = []
        self._refused = RefusedSequences()
        # What is before it was written while another led, or before a start.
        self._led_from = replica.log.next_offset

    def append(
        self, header: BatchHeader, batch: memoryview, append: Append, acks: int = ACKS_ALL
    ) -> None:
        """Propose the admitted batch of an idempotent producer, unless it is here already."""
        original: int | None = None
        try:
            original = self.producers.check(header)
        except OutOfOrderSequence:
            self._check_none_awaited(header)
            raise
        except UnknownProducer:
            self._check_none_awaited(header)
            if not self._goes_on(header):
                raise
        if original is None:
            append.base_offset = self._replica.propose(header, batch, append.finished, acks)
            previous = self.producers.record(header, append.base_offset, self._clock.now_ms())
            self.recorded.append((header, previous))
            if self._refused:
                self._refused.accept(header.producer_id)
            return
        append.base_offset = original
        append.duplicate = True
        if original == UNKNOWN_OFFSET:
            # Somewhere before what is remembered, and all of that may be yet to be committed.
            end_offset = self._replica.log.next_offset
        else:
            end_offset = original + header.last_offset_delta + 1
        self._replica.when_committed(end_offset, append.finished)

    def turn_away(self, header: BatchHeader) -> None:
        """A producer's batch is refused for now, and may come again."""
        if header.producer_id >= 0:
            self._refuse(header)

    def written(self, error: StorageError | None) -> None:
        """What was recorded in this turn is in the file, or none of it is."""
        if error is not None:
            for header, previous in reversed(self.recorded):
                self.producers.restore(header.producer_id, previous)
                self._refuse(header)
        self.recorded = []

    def copied(self, headers: Sequence[BatchHeader]) -> None:
        """These batches of another leader are in the file."""
        for header in headers:
            if header.producer_id >= 0:
                self.producers.record_copy(header, header.base_offset, self._clock.now_ms())

    def truncated(self, offset: int) -> None:
        """The log ends there, and what was known of later batches is void."""
        is_anew = offset == self._replica.log.first_offset
        producers = None if is_anew else self.producers.before(offset)
        # Where what is remembered does not tell, the disk does.
        producers = self._recover() if producers is None else producers
        for producer_id, epoch, sequence in self.producers.beyond(producers):
            self._refused.refuse(producer_id, epoch, sequence, self._clock.now_ms())
        self.producers = producers

    def led(self) -> None:
        """From here on it is this broker that writes."""
        self._led_from = self._replica.log.next_offset

    def _refuse(self, header: BatchHeader) -> None:
        self._refused.refuse(
            header.producer_id, header.producer_epoch, header.base_sequence, self._clock.now_ms()
        )

    def _goes_on(self, header: BatchHeader) -> bool:
        """Whether a producer that is not known counts on from another topic, which had the name
        before (KIP-360). It is asked to send again first: where the earliest that it has on its way
        has not come, one behind it would pass for its beginning, and the earlier be lost."""
        if (
            header.producer_id >= COPY_PRODUCER_ID_MIN
            # It may have written here, and was forgotten with what is gone.
            or self._replica.log.start_offset > 0
            or not self.has_namesake()
        ):
            return False
        if self._refused.is_earliest(header):
            return True
        self._refuse(header)
        raise Busy(
            f"Producer {header.producer_id} has not been in this topic, which was made anew: its "
            f"sequence {header.base_sequence} is taken when it comes again before any other."
        )

    def _check_none_awaited(self, header: BatchHeader) -> None:
        """A batch does not follow those that are known: raise if that may be otherwise soon."""
        if not self._replica.accepts:
            raise refusal(self._replica)
        producer_id, now_ms = header.producer_id, self._clock.now_ms()
        if gap := self.producers.awaited_after(producer_id, self._led_from):
            self._refused.miss(producer_id, *gap, now_ms)
        last = self.producers.last_batch(producer_id)
        awaited = self._refused.awaited_before(header, last, now_ms)
        if awaited is not None:
            raise Busy(
                f"Producer {producer_id} sent sequence {header.base_sequence}, and its sequence "
                f"{awaited} was turned away lately, or is on its way: send that first."
            )


class Partition:
    """All calls come from the event loop."""

    def __init__(
        self,
        name: TopicPartition,
        topic_id: TopicId,
        config: TopicConfig,
        replica: Replica,
        recover_producers: Callable[[], ProducerState],
        clock: Clock,
        wakings: Wakings,
    ) -> None:
        """recover_producers: who produced to the log, as the log tells it."""
        self.name = name
        self.topic_id = topic_id
        self.replica = replica
        self.sequences = Sequences(replica, recover_producers, clock)
        # False from when its closing or deletion has begun: then it must be looked for again.
        self.is_open = True
        self.saved_producers = SavedProducers(replica.log.writer.rolls)
        # Set while no compaction is at work in the partition's folder.
        self.no_compaction = asyncio.Event()
        self.no_compaction.set()
        self._clock = clock
        self.config = config
        # Told of each change of who leads, in a turn of its own.
        self.when_led: Callable[[bool], None] = _nobody
        self.readers = Readers(wakings)
        replica.listener = self

    @property
    def config(self) -> TopicConfig:
        return self._config

    @config.setter
    def config(self, config: TopicConfig) -> None:
        self._config = config
        # What the topic's settings let in; for `broker.topics.openings`.
        self.admission = Admission(self.name.topic, config, self._clock)
        # Whether what is produced goes by `broker.producers.exclusivity`.
        self.is_exclusive = config.exclusive_producer == "yes"
        self.replica.min_insync_replicas = config.min_insync_replicas

    @property
    def producers(self) -> ProducerState:
        """Who produced, and what last."""
        return self.sequences.producers

    @property
    def lacks_replicas(self) -> bool:
        """Whether fewer are in sync than the topic asks for."""
        return self.replica.in_sync_count < self.replica.min_insync_replicas

    def check_acks(self, acks: int) -> None:
        """Raise NotEnoughReplicas if a producer waits for more of them than there are (R-REP-3).
        While `lacks_replicas` is false it need not be called."""
        if acks == ACKS_ALL and self.replica.is_leader and self.lacks_replicas:
            raise NotEnoughReplicas(
                f"{self.name} has {self.replica.in_sync_count} of its replicas in sync and its "
                f"min_insync_replicas is {self._config.min_insync_replicas}: bring brokers back, "
                "lower it, or produce with acks=1."
            )

    def append(self, batch: memoryview, append: Append, acks: int = ACKS_ALL) -> None:
        """Check and propose what a producer sent; `append.finished` is called when it is as safe as
        `acks` says. Raises if it cannot be accepted, and then does not call it."""
        header = check_produced(batch)
        admission = self.admission
        if (
            admission.looks_at_all
            or header.length > admission.batch_bytes_max
            or header.max_timestamp_ms > admission.latest_ms
            or header.attributes & TRANSACTIONAL_FLAG
            or header.producer_id >= COPY_PRODUCER_ID_MIN
        ):
            batch, header = admission.admit(batch, header)
            if header.is_append_time:
                append.append_time_ms = header.max_timestamp_ms
        if header.producer_id < 0:
            append.base_offset = self.replica.propose(header, batch, append.finished, acks)
        else:
            self.sequences.append(header, batch, append, acks)

    def append_known(
        self,
        batch: memoryview,
        append: Append,
        acks: int,
        *,
        is_claimed: bool = False,
        opened_by: Opening | None = None,
    ) -> None:
        """The same for a batch of which more is known, as `Admission.admit` has it."""
        batch, header = self.admission.admit(
            batch, check_produced(batch), is_claimed=is_claimed, opened_by=opened_by
        )
        if header.is_append_time:
            append.append_time_ms = header.max_timestamp_ms
        if header.producer_id < 0:
            append.base_offset = self.replica.propose(header, batch, append.finished, acks)
        else:
            self.sequences.append(header, batch, append, acks)

    def read(self, offset: int, max_bytes: int) -> FileSlice:
        """Whole batches from the one that holds `offset`, up to the high watermark."""
        return self.replica.read(offset, max_bytes)

    def wait_for_more(self, waiter: object, wake: Callable[[], None]) -> None:
        """Call `wake` once, in a turn of the loop that comes when there is more to read."""
        self.readers.wait(waiter, wake)

    def stop_waiting(self, waiter: object) -> None:
        self.readers.stop_waiting(waiter)

    def wake_all(self) -> None:
        """Let everybody who waits look at once: the partition is going away."""
        self.readers.wake_all()

    # --- replication.replica.Listener ----------------------------------------------------------

    def on_written(self, error: StorageError | None) -> None:
        if self.sequences.recorded:
            self.sequences.written(error)

    def on_replicated(self, headers: Sequence[BatchHeader]) -> None:
        self.sequences.copied(headers)

    def on_truncated(self, offset: int) -> None:
        self.sequences.truncated(offset)

    def on_leadership(self, is_leader: bool) -> None:
        if is_leader:
            self.sequences.led()
        self.when_led(is_leader)
        if not is_leader:
            self.wake_all()

    def on_high_watermark(self) -> None:
        self.readers.on_more()


def _nobody(is_leader: bool) -> None:
    """Nobody is to be told."""
    del is_leader
