"""What a topic's settings let in: the size of a batch, its times, its keys, its compression.

Whether the bytes are a batch at all was checked before; who sent it and in which order is the
partition's affair. The invariant: what is admitted obeys every setting of the topic. For the
settings most topics have that is seen from `Admission`'s attributes, without a call.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Final

from penstock.broker.partitions.unopened import Unopened
from penstock.coordination.producers.exclusivity import ADVICE
from penstock.model.errors import (
    BatchTooLarge,
    Busy,
    InvalidBatch,
    InvalidTimestamp,
    ReservedProducerId,
    TopicClaimed,
)
from penstock.model.limits import (
    COPY_PRODUCER_ID_MIN,
    OPENED_BATCH_BYTES_MAX,
    OPENED_BATCH_BYTES_MIN,
    OPENED_EXPANSION_MAX,
)
from penstock.model.topic_config import INT64_MAX, TopicConfig
from penstock.net.clock import Clock
from penstock.records import count_keys
from penstock.records.compression import Codec
from penstock.records.header import (
    NO_TIMESTAMP_MS,
    TRANSACTIONAL_FLAG,
    BatchHeader,
    check_produced,
    read_header,
    stamp_append_time,
)
from penstock.records.plain import PlainBatch
from penstock.records.recompress import recompress

_CODECS: Final = {
    "uncompressed": Codec.NONE,
    "gzip": Codec.GZIP,
    "snappy": Codec.SNAPPY,
    "lz4": Codec.LZ4,
    "zstd": Codec.ZSTD,
}


@dataclass(frozen=True, slots=True)
class Opening:
    """What a topic has done to each batch before it is appended. Those that are equal do the same,
    so a batch that waited need not be opened again where other settings changed."""

    codec: Codec | None
    """None: whatever the producer chose."""
    level: int | None
    needs_keys: bool
    bytes_max: int
    """Opened, a batch is no larger."""

    @property
    def is_any(self) -> bool:
        """Whether there is something to do at all."""
        return self.codec is not None or self.needs_keys

    def must_open(self, header: BatchHeader) -> bool:
        """Whether something is to be done to this batch."""
        return self.needs_keys or self.codec not in (None, header.codec)

    def unopened(self, header: BatchHeader, batch: memoryview) -> Unopened[memoryview]:
        """The batch, of which `admitted` is to be made."""
        return Unopened(header, batch, partial(self.admitted, header, batch), self.bytes_max)

    def admitted(self, header: BatchHeader, batch: memoryview, plain: PlainBatch) -> memoryview:
        """The batch, opened, in the topic's compression, and with a key to each message where the
        topic wants that; else it is InvalidBatch. A thread may do it."""
        if self.needs_keys and count_keys(plain.header, plain.batch, self.bytes_max) < (
            header.record_count
        ):
            raise InvalidBatch(
                "A message has no key: the topic is compacted, which keeps the last message of "
                "each key, so every message needs one."
            )
        if self.codec in (None, header.codec):
            return batch
        changed = memoryview(recompress(plain, self.codec, level=self.level))
        check_produced(changed)
        return changed


NOT_OPENED: Final = Opening(codec=None, level=None, needs_keys=False, bytes_max=0)
"""Of a batch whose topic is not known: no topic has this."""


class Admission:
    """The settings of one topic, made ready for one partition of it."""

    __slots__ = (
        "_clock",
        "_config",
        "_topic",
        "batch_bytes_max",
        "latest_ms",
        "looks_at_all",
        "opening",
        "opens_batches",
    )

    def __init__(self, topic: str, config: TopicConfig, clock: Clock) -> None:
        self._topic = topic
        self._config = config
        self._clock = clock
        self.opening = Opening(
            codec=_CODECS.get(config.compression_type),
            level=_level(config),
            needs_keys=config.is_compacted,
            bytes_max=_opened_bytes_max(config),
        )
        # The three that the partition looks at itself, before it calls `admit`.
        self.batch_bytes_max = config.batch_bytes_max
        # Whether what may be much larger than it came is looked into (`broker.topics.openings`).
        self.opens_batches = self.opening.is_any
        self.looks_at_all = (
            self.opens_batches
            or config.timestamp_type == "append"
            or config.timestamp_before_max_ms < INT64_MAX
            or config.exclusive_producer == "yes"
        )
        # What is not later than this was allowed when the clock was last read, so it still is.
        self.latest_ms = NO_TIMESTAMP_MS

    def admit(
        self,
        batch: memoryview,
        header: BatchHeader,
        *,
        is_appended: bool = True,
        is_claimed: bool = False,
        opened_by: Opening | None = None,
    ) -> tuple[memoryview, BatchHeader]:
        """The batch as the topic wants it, or the error that says why it does not.

        is_appended: now, so that the broker's time is the present one. is_claimed: its producer has
        the topic for itself. opened_by: it is what this made of one; Busy if the topic's settings
        ask for something else by now.
        """
        if not is_claimed and self._config.exclusive_producer == "yes":
            raise TopicClaimed(
                f"Topic {self._topic!r} takes messages of one producer alone, which has to claim "
                f"it: Kafka's producers, staged writes and delayed messages cannot. {ADVICE}"
            )
        self.check_size(header)
        if header.attributes & TRANSACTIONAL_FLAG:
            raise InvalidBatch("Transactional batches are not accepted yet.")
        if header.producer_id >= COPY_PRODUCER_ID_MIN:
            raise ReservedProducerId(
                f"The batch has producer id {header.producer_id}: those from "
                f"{COPY_PRODUCER_ID_MIN} on are for the copies that brokers make; ask for one by "
                "InitProducer, or leave it at -1."
            )
        now_ms = self._clock.now_ms()
        if self._config.timestamp_type == "create":
            self._check_times(header, now_ms)
        if opened_by is None and self.opens_batches:
            batch = self.opened(batch, header)
            header = read_header(batch)
            self.check_size(header)
        elif not (opened_by is None or opened_by is self.opening or opened_by == self.opening):
            raise Busy(f"The settings of {self._topic} were changed while a batch waited.")
        if self._config.timestamp_type == "append" and is_appended:
            stamp_append_time(batch, now_ms)
            header = read_header(batch)
        return batch, header

    def opened(self, batch: memoryview, header: BatchHeader) -> memoryview:
        """What the topic wants to have made of the batch, however long that takes."""
        if not self.opening.must_open(header):
            return batch
        return self.opening.unopened(header, batch).opened()

    def check_size(self, header: BatchHeader) -> None:
        """BatchTooLarge."""
        if header.length > self.batch_bytes_max:
            raise BatchTooLarge(
                f"A batch of {header.length} bytes is larger than the {self.batch_bytes_max} that "
                f"{self._topic} accepts: send smaller ones or raise its batch_bytes_max."
            )

    def _check_times(self, header: BatchHeader, now_ms: int) -> None:
        """Of the two times that the header tells, which are the first message's and the latest."""
        self.latest_ms = now_ms + self._config.timestamp_after_max_ms
        if header.max_timestamp_ms > self.latest_ms:
            raise InvalidTimestamp(
                f"A message's time is {header.max_timestamp_ms - now_ms} ms after the broker's: "
                f"{self._topic} accepts {self._config.timestamp_after_max_ms} "
                "(timestamp_after_max_ms); check the producer's clock and that it counts in "
                "milliseconds."
            )
        earliest_ms = now_ms - self._config.timestamp_before_max_ms
        if NO_TIMESTAMP_MS < header.base_timestamp_ms < earliest_ms:
            raise InvalidTimestamp(
                f"A message's time is {now_ms - header.base_timestamp_ms} ms before the broker's: "
                f"{self._topic} accepts {self._config.timestamp_before_max_ms} "
                "(timestamp_before_max_ms)."
            )


def _opened_bytes_max(config: TopicConfig) -> int:
    expected = config.batch_bytes_max * OPENED_EXPANSION_MAX
    return min(max(expected, OPENED_BATCH_BYTES_MIN), OPENED_BATCH_BYTES_MAX)


def _level(config: TopicConfig) -> int | None:
    match config.compression_type:
        case "gzip":
            return config.compression_gzip_level
        case "zstd":
            return config.compression_zstd_level
    return None
