"""The topic settings of Kafka 4.3, one row each: its type, what it says, and what it is here.

Data and the reading of one value, no more: `broker.kafka.settings.topics` uses it. The invariant:
every topic setting that Kafka documents has a row, so a name without one is unknown to Kafka too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

from penstock.model import topic_config
from penstock.model.errors import InvalidConfig
from penstock.model.topic_config import INT64_MAX
from penstock.replication.replica.catch_up import BYTES_PER_S_DEFAULT


class SettingType(IntEnum):
    """As DescribeConfigs tells them (KIP-569)."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    LONG = 5
    DOUBLE = 6
    LIST = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaSetting:
    """A row of the table."""

    name: str
    type: SettingType
    documentation: str
    broker_name: str = ""
    """What a broker's default for it is called."""
    setting: str = ""
    """Our name, where it is not Kafka's with underscores."""
    words: Mapping[str, str] = field(default_factory=dict)
    """Values that are spelled otherwise here, by Kafka's spelling."""
    only_words: str = ""
    """If not empty no other value is accepted, and this says what is."""

    @property
    def own_name(self) -> str:
        return self.setting or self.name.replace(".", "_")

    def to_own(self, text: str) -> str:
        """Kafka's value as ours, checked; an error calls the setting by Kafka's name."""
        text = text.strip()
        if self.type is SettingType.BOOLEAN:
            text = text.lower()
        if self.only_words and text not in self.words:
            raise InvalidConfig(f"{self.name} is {text!r}: {self.only_words}")
        own = self.words.get(text, text)
        topic_config.parse(self.own_name, own, self.name)
        return own

    def from_own(self, text: str) -> str:
        return next((kafka for kafka, own in self.words.items() if own == text), text)


_BOOLEAN, _STRING, _INT = SettingType.BOOLEAN, SettingType.STRING, SettingType.INT
_LONG, _DOUBLE, _LIST = SettingType.LONG, SettingType.DOUBLE, SettingType.LIST
_NO_REMOTE: Final = "Kept without effect: there is no remote storage, a log is whole on its broker."
_NO_THROTTLE: Final = (
    "Kept without effect: no replica can be named for a throttle. All copies that are far behind "
    f"share {BYTES_PER_S_DEFAULT:,} bytes/s of each broker that leads, and those in sync are never "
    "held up."
)

TOPIC_SETTINGS: Final = (
    KafkaSetting(
        name="cleanup.policy",
        type=_LIST,
        broker_name="log.cleanup.policy",
        words={"": "none"},
        documentation="delete: old segments are deleted by age and size; compact: the last "
        "message of each key is kept; both; or an empty list for neither.",
    ),
    KafkaSetting(
        name="compression.gzip.level",
        type=_INT,
        broker_name="compression.gzip.level",
        words={"-1": "6"},  # zlib's own default is 6
        documentation="The level at which the broker compresses if compression.type is gzip.",
    ),
    KafkaSetting(
        name="compression.lz4.level",
        type=_INT,
        broker_name="compression.lz4.level",
        documentation="Kept without effect: the broker writes LZ4 at its fast level.",
    ),
    KafkaSetting(
        name="compression.type",
        type=_STRING,
        broker_name="compression.type",
        documentation="producer keeps batches as they came; uncompressed, gzip, snappy, lz4 and "
        "zstd are what the broker makes of those that came otherwise.",
    ),
    KafkaSetting(
        name="compression.zstd.level",
        type=_INT,
        broker_name="compression.zstd.level",
        documentation="The level at which the broker compresses if compression.type is zstd.",
    ),
    KafkaSetting(
        name="delete.retention.ms",
        type=_LONG,
        broker_name="log.cleaner.delete.retention.ms",
        documentation="How long a tombstone outlives compaction.",
    ),
    KafkaSetting(
        name="file.delete.delay.ms",
        type=_LONG,
        broker_name="log.segment.delete.delay.ms",
        documentation="Kept without effect: a segment's file goes when nobody reads it any more.",
    ),
    KafkaSetting(
        name="flush.messages",
        type=_LONG,
        broker_name="log.flush.interval.messages",
        setting="durability",
        words={"1": "fsync", str(INT64_MAX): "os"},
        only_words=f"it can be 1 (penstock.durability=fsync: on the disk before the "
        f"acknowledgement) or {INT64_MAX} (penstock.durability=os: the kernel writes it later).",
        documentation=f"1 is penstock.durability=fsync, {INT64_MAX} is penstock.durability=os.",
    ),
    KafkaSetting(
        name="flush.ms",
        type=_LONG,
        broker_name="log.flush.interval.ms",
        words={str(INT64_MAX): str(INT64_MAX)},
        only_words=f"it can only be {INT64_MAX}; when messages are flushed is said by "
        "penstock.durability (fsync or os).",
        documentation="Kept without effect: penstock.durability says when messages are flushed.",
    ),
    KafkaSetting(
        name="follower.replication.throttled.replicas", type=_LIST, documentation=_NO_THROTTLE
    ),
    KafkaSetting(
        name="index.interval.bytes",
        type=_INT,
        broker_name="log.index.interval.bytes",
        documentation="Log bytes between two entries of the sparse index.",
    ),
    KafkaSetting(
        name="leader.replication.throttled.replicas", type=_LIST, documentation=_NO_THROTTLE
    ),
    KafkaSetting(
        name="local.retention.bytes",
        type=_LONG,
        broker_name="log.local.retention.bytes",
        documentation=_NO_REMOTE,
    ),
    KafkaSetting(
        name="local.retention.ms",
        type=_LONG,
        broker_name="log.local.retention.ms",
        documentation=_NO_REMOTE,
    ),
    KafkaSetting(
        name="max.compaction.lag.ms",
        type=_LONG,
        broker_name="log.cleaner.max.compaction.lag.ms",
        documentation="A log with a message older than this to compact is compacted, whatever "
        "min.cleanable.dirty.ratio says.",
    ),
    KafkaSetting(
        name="max.message.bytes",
        type=_INT,
        broker_name="message.max.bytes",
        setting="batch_bytes_max",
        documentation="The largest record batch the topic accepts, as it is on the wire.",
    ),
    KafkaSetting(
        name="message.timestamp.after.max.ms",
        type=_LONG,
        broker_name="log.message.timestamp.after.max.ms",
        setting="timestamp_after_max_ms",
        documentation="How far a producer's time may lie after the broker's.",
    ),
    KafkaSetting(
        name="message.timestamp.before.max.ms",
        type=_LONG,
        broker_name="log.message.timestamp.before.max.ms",
        setting="timestamp_before_max_ms",
        documentation="How far a producer's time may lie before the broker's.",
    ),
    KafkaSetting(
        name="message.timestamp.type",
        type=_STRING,
        broker_name="log.message.timestamp.type",
        setting="timestamp_type",
        words={"CreateTime": "create", "LogAppendTime": "append"},
        only_words="it can be CreateTime or LogAppendTime.",
        documentation="CreateTime keeps the producer's time, LogAppendTime replaces it by the "
        "broker's.",
    ),
    KafkaSetting(
        name="min.cleanable.dirty.ratio",
        type=_DOUBLE,
        broker_name="log.cleaner.min.cleanable.ratio",
        documentation="A log is compacted when at least this part of it has not been yet.",
    ),
    KafkaSetting(
        name="min.compaction.lag.ms",
        type=_LONG,
        broker_name="log.cleaner.min.compaction.lag.ms",
        documentation="A message younger than this is not compacted away.",
    ),
    KafkaSetting(
        name="min.insync.replicas",
        type=_INT,
        broker_name="min.insync.replicas",
        documentation="A producer with acks=all is refused while fewer replicas are in sync.",
    ),
    KafkaSetting(
        name="penstock.durability",
        type=_STRING,
        broker_name="penstock.durability",
        setting="durability",
        documentation="fsync: on the disk before the acknowledgement; os: in the kernel's memory.",
    ),
    KafkaSetting(
        name="penstock.exclusive.producer",
        type=_STRING,
        setting="exclusive_producer",
        documentation="yes: only the producer that has claimed the topic may write to it, which "
        "Kafka's producers cannot.",
    ),
    KafkaSetting(
        name="preallocate",
        type=_BOOLEAN,
        broker_name="log.preallocate",
        documentation="Kept without effect: a log file is nothing but batches, so it only grows.",
    ),
    KafkaSetting(name="remote.log.copy.disable", type=_BOOLEAN, documentation=_NO_REMOTE),
    KafkaSetting(name="remote.log.delete.on.disable", type=_BOOLEAN, documentation=_NO_REMOTE),
    KafkaSetting(
        name="remote.storage.enable",
        type=_BOOLEAN,
        words={"false": "false"},
        only_words="it can only be false: there is no remote storage.",
        documentation=_NO_REMOTE,
    ),
    KafkaSetting(
        name="retention.bytes",
        type=_LONG,
        broker_name="log.retention.bytes",
        documentation="Oldest segments are deleted while a partition is larger; -1: no limit.",
    ),
    KafkaSetting(
        name="retention.ms",
        type=_LONG,
        broker_name="log.retention.ms",
        documentation="Segments whose newest message is older are deleted; -1 keeps them.",
    ),
    KafkaSetting(
        name="segment.bytes",
        type=_INT,
        broker_name="log.segment.bytes",
        documentation="A segment is sealed before it grows beyond this.",
    ),
    KafkaSetting(
        name="segment.index.bytes",
        type=_INT,
        broker_name="log.index.size.max.bytes",
        documentation="Kept without effect: an index is as long as its segment makes it.",
    ),
    KafkaSetting(
        name="segment.jitter.ms",
        type=_LONG,
        broker_name="log.roll.jitter.ms",
        documentation="Kept without effect: sealing many segments at once costs little.",
    ),
    KafkaSetting(
        name="segment.ms",
        type=_LONG,
        broker_name="log.roll.ms",
        documentation="A segment is sealed this long after its first message.",
    ),
    KafkaSetting(
        name="unclean.leader.election.enable",
        type=_BOOLEAN,
        broker_name="unclean.leader.election.enable",
        words={"false": "false"},
        only_words="it can only be false: a leader always has everything that was committed.",
        documentation="Kept without effect: a leader always has everything that was committed.",
    ),
)
