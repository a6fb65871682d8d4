"""What a topic's settings let in: the size of a batch, its times, its keys, its compression.

Whether the bytes are a batch at all was checked before; who sent it and in which order is the
partition's affair. The invariant: what is admitted obeys every setting of the topic. For the
settings most topics have that is seen from `Admission`'s attributes, without a call.
"""

from __future__ import annotations

from typing import Final

from penstock.coordination.claim_view import ADVICE
from penstock.model.delivery_errors import ReservedProducerId, TopicClaimed
from penstock.model.errors import BatchTooLarge, InvalidBatch, InvalidTimestamp
from penstock.model.limits import COPY_PRODUCER_ID_MIN, OPENED_BATCH_BYTES_MAX
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
from penstock.records.recompress import recompress

_CODECS: Final = {
    "uncompressed": Codec.NONE,
    "gzip": Codec.GZIP,
    "snappy": Codec.SNAPPY,
    "lz4": Codec.LZ4,
    "zstd": Codec.ZSTD,
}


class Admission:
    """The settings of one topic, made ready for one partition of it."""

    __slots__ = (
        "_clock",
        "_codec",
        "_config",
        "_level",
        "_topic",
        "batch_bytes_max",
        "latest_ms",
        "looks_at_all",
        "opens_batches",
    )

    def __init__(self, topic: str, config: TopicConfig, clock: Clock) -> None:
        self._topic = topic
        self._config = config
        self._clock = clock
        # None: whatever the producer chose.
        self._codec = _CODECS.get(config.compression_type)
        self._level = _level(config)
        # The three that the partition looks at itself, before it calls `admit`.
        self.batch_bytes_max = config.batch_bytes_max
        # Whether what may be much larger than it came is looked into (`broker.openings`).
        self.opens_batches = self._codec is not None or config.is_compacted
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
        is_opened: bool = False,
    ) -> tuple[memoryview, BatchHeader]:
        """The batch as the topic wants it, or the error that says why it does not.

        is_appended: now, so that the broker's time is the present one. is_claimed: its producer has
        the topic for itself. is_opened: it is what `opened` made of one.
        """
        if not is_claimed and self._config.exclusive_producer == "yes":
            raise TopicClaimed(
                f"Topic {self._topic!r} takes messages of one producer alone, which has to claim "
                f"it: Kafka's producers, staged writes and delayed messages cannot. {ADVICE}"
            )
        self._check_size(header)
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
        if self.opens_batches and not is_opened:
            batch = self.opened(batch, header)
            header = read_header(batch)
            self._check_size(header)
        if self._config.timestamp_type == "append" and is_appended:
            stamp_append_time(batch, now_ms)
            header = read_header(batch)
        return batch, header

    def opened(
        self, batch: memoryview, header: BatchHeader, bytes_max: int = OPENED_BATCH_BYTES_MAX
    ) -> memoryview:
        """The batch in the topic's compression, and with a key to each message where the topic
        wants that. InvalidBatch also if it is larger, decompressed, than so many bytes. A thread
        may do it."""
        if self._config.is_compacted:
            self._check_keys(header, batch, bytes_max)
        if self._codec is None or self._codec == header.codec:
            return batch
        changed = recompress(header, batch, self._codec, level=self._level, bytes_max=bytes_max)
        check_produced(memoryview(changed))
        return memoryview(changed)

    def _check_size(self, header: BatchHeader) -> None:
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

    def _check_keys(self, header: BatchHeader, batch: memoryview, bytes_max: int) -> None:
        if count_keys(header, batch, bytes_max) < header.record_count:
            raise InvalidBatch(
                f"A message has no key: {self._topic} is compacted, which keeps the last "
                "message of each key, so every message needs one."
            )


def _level(config: TopicConfig) -> int | None:
    match config.compression_type:
        case "gzip":
            return config.compression_gzip_level
        case "zstd":
            return config.compression_zstd_level
    return None
