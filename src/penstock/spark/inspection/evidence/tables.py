"""The results of an inspection as tables: what the terminal, Parquet and the report show.

A table is a tuple of rows of one class; a row's fields are its columns. All of them are small,
whatever the log's size: lists of the many are cut to the largest. Plain data, no Spark.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, get_args, get_type_hints

# Rows kept of what a topic may have without limit.
KEYS_MAX: Final = 50
PRODUCERS_MAX: Final = 50
CAUSES_MAX: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRow:
    """A topic as a whole. Times are milliseconds since 1970; None: there are no messages."""

    topic: str
    partitions: int
    messages: int
    batches: int
    unkeyed_messages: int
    message_bytes: int
    """Keys, values and headers."""
    stored_bytes: int
    """As they are in the log: in batches, compressed."""
    first_ms: int | None
    last_ms: int | None
    keys: int
    gini: float
    producers: int
    size_p50: int
    size_p99: int
    delay_basis: str
    """`append time`: exact; `lower bound`: from the create times around; see docs/inspection.md."""
    delay_p50_ms: int
    delay_p99_ms: int
    is_compacted: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRow:
    """A partition. What only the broker knows is None in a data folder."""

    topic: str
    partition: int
    messages: int
    batches: int
    stored_bytes: int
    first_offset: int | None
    last_offset: int | None
    log_start_offset: int | None
    log_end_offset: int | None
    size_bytes: int | None
    segments: int | None
    missing_offsets: int
    missing_sequences: int
    repeated_sequences: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ThroughputRow:
    """What was appended from `start_ms` on, for `width_ms`."""

    topic: str
    start_ms: int
    width_ms: int
    messages: int
    stored_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeRow:
    """Messages of at least `low` bytes and less than `end`."""

    topic: str
    low: int
    end: int
    messages: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PercentileRow:
    """A percentile of a topic's message sizes (bytes) or delays (ms)."""

    topic: str
    measure: str
    share: float
    value: int


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRow:
    """One of the keys with the most messages."""

    topic: str
    rank: int
    key: bytes
    """Its first 48 bytes."""
    messages: int
    share: float
    """Of the messages that have a key."""
    message_bytes: int
    first_partition: int
    first_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LorenzRow:
    """A point of the Lorenz curve: the least used keys have this share of the messages."""

    topic: str
    keys_share: float
    messages_share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerRow:
    """A producer of a topic: one of the largest, or of the slowest. -1: all without an id."""

    topic: str
    producer_id: int
    epoch: int
    messages: int
    batches: int
    stored_bytes: int
    delay_p50_ms: int | None
    delay_p99_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CodecRow:
    """Batches of one codec, of those that were read whole."""

    topic: str
    codec: str
    batches: int
    messages: int
    stored_bytes: int
    expanded_bytes: int
    ratio: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LagRow:
    """How far a group is behind in a partition."""

    topic: str
    group: str
    partition: int
    committed_offset: int
    end_offset: int
    lag: int
    lost: int
    """Messages that were removed before the group had read them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterRow:
    """Dead letters of one cause."""

    topic: str
    cause: str
    messages: int
    first_ms: int | None
    last_ms: int | None
    partition: int
    offset: int
    """Where the newest is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovalRow:
    """Offsets that are gone, and why."""

    topic: str
    partition: int
    first_offset: int
    end_offset: int
    cause: str
    at_ms: int
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Tables:
    """All tables of an inspection, by name."""

    topics: tuple[TopicRow, ...] = ()
    partitions: tuple[PartitionRow, ...] = ()
    throughput: tuple[ThroughputRow, ...] = ()
    sizes: tuple[SizeRow, ...] = ()
    percentiles: tuple[PercentileRow, ...] = ()
    keys: tuple[KeyRow, ...] = ()
    lorenz: tuple[LorenzRow, ...] = ()
    producers: tuple[ProducerRow, ...] = ()
    codecs: tuple[CodecRow, ...] = ()
    lag: tuple[LagRow, ...] = ()
    dead_letters: tuple[DeadLetterRow, ...] = ()
    removals: tuple[RemovalRow, ...] = ()


ROW_CLASSES: Final[dict[str, type]] = {
    name: get_args(rows)[0] for name, rows in get_type_hints(Tables).items()
}
"""What the rows of each table are, also of an empty one."""
