"""What can be set per topic: names, units, defaults, checks. Kept and sent as text by name.

Beside the settings that do something there are the `KEPT` ones: Kafka has them, its users set
them, and here they are checked and shown again but change nothing. They are no part of
`TopicConfig`, so that whatever is in there has an effect.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from difflib import get_close_matches
from typing import Final, Literal, get_args

from penstock.model import limits
from penstock.model.errors import InvalidConfig

Durability = Literal["fsync", "os"]
TimestampType = Literal["create", "append"]
CleanupPolicy = Literal["delete", "compact", "compact,delete", "delete,compact", "none"]
ExclusiveProducer = Literal["no", "yes"]
CompressionType = Literal["producer", "uncompressed", "gzip", "snappy", "lz4", "zstd"]

# The largest number of 64 bits stands for "no limit" where Kafka has it so.
INT64_MAX: Final = 2**63 - 1
_INT32_MAX: Final = 2**31 - 1
_HOUR_MS: Final = 60 * 60 * 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicConfig:
    """The settings of one topic. `-1` means "no limit" where it is allowed."""

    durability: Durability = "fsync"
    """`fsync`: on the disk before the ack. `os`: in the kernel's page cache before the ack; a
    crash of the broker loses nothing, a crash of the machine may lose the last seconds."""

    min_insync_replicas: int = 1
    """A producer that waits for all replicas is refused while fewer than this are in sync."""

    cleanup_policy: CleanupPolicy = "delete"
    """`delete` by age and size; `compact` to the last message of each key; both; or `none`."""

    retention_ms: int = 72 * _HOUR_MS
    """Sealed segments whose newest message is older than this are deleted; -1 keeps them."""

    retention_bytes: int = -1
    """Oldest sealed segments are deleted while a partition is larger than this; -1: no limit."""

    segment_bytes: int = 256 * limits.MIB
    """A segment is sealed before it grows beyond this. Recovery reads only the unsealed one."""

    segment_ms: int = 24 * _HOUR_MS
    """A segment is sealed this long after its first message, so that cleanup can take it."""

    index_interval_bytes: int = 4 * limits.KIB
    """Log bytes between two entries of the sparse index."""

    min_cleanable_dirty_ratio: float = 0.5
    """A log is compacted when at least this part of it has not been compacted yet."""

    min_compaction_lag_ms: int = 0
    """A message younger than this is not compacted away."""

    max_compaction_lag_ms: int = INT64_MAX
    """A log with a message older than this to compact is compacted, whatever the ratio says."""

    delete_retention_ms: int = 24 * _HOUR_MS
    """How long a tombstone outlives compaction, so that readers see that its key is gone."""

    batch_bytes_max: int = limits.BATCH_BYTES_MAX_DEFAULT
    """The largest record batch the topic accepts, as it is on the wire."""

    timestamp_type: TimestampType = "create"
    """`create` keeps the producer's time; `append` replaces it by the broker's."""

    timestamp_before_max_ms: int = INT64_MAX
    """How far a producer's time may lie before the broker's."""

    timestamp_after_max_ms: int = _HOUR_MS
    """How far a producer's time may lie after the broker's."""

    compression_type: CompressionType = "producer"
    """`producer` keeps batches as they came; otherwise the broker makes them all like this."""

    compression_gzip_level: int = 6
    """How hard the broker tries where `compression_type` is `gzip`."""

    compression_zstd_level: int = 3
    """How hard the broker tries where `compression_type` is `zstd`."""

    exclusive_producer: ExclusiveProducer = "no"
    """`yes`: only the producer that has claimed the topic may write to it."""

    @property
    def is_compacted(self) -> bool:
        return "compact" in self.cleanup_policy

    @property
    def has_retention(self) -> bool:
        """Whether segments are deleted by age and size."""
        return "delete" in self.cleanup_policy

    def as_text(self) -> dict[str, str]:
        return {name: str(value) for name, value in asdict(self).items()}


KEPT: Final[Mapping[str, str]] = {
    "compression_lz4_level": "9",
    "file_delete_delay_ms": "60000",
    "flush_ms": str(INT64_MAX),
    "follower_replication_throttled_replicas": "",
    "leader_replication_throttled_replicas": "",
    "local_retention_bytes": "-2",
    "local_retention_ms": "-2",
    "preallocate": "false",
    "remote_log_copy_disable": "false",
    "remote_log_delete_on_disable": "false",
    "remote_storage_enable": "false",
    "segment_index_bytes": "10485760",
    "segment_jitter_ms": "0",
    "unclean_leader_election_enable": "false",
}
"""Settings without effect, with Kafka's defaults; why is told in docs/configuration.md."""

_SWITCH: Final = ("true", "false")
_CHOICES: Final[dict[str, tuple[str, ...]]] = {
    "durability": ("fsync", "os"),
    "timestamp_type": ("create", "append"),
    "compression_type": ("producer", "uncompressed", "gzip", "snappy", "lz4", "zstd"),
    "cleanup_policy": get_args(CleanupPolicy),
    "exclusive_producer": ("no", "yes"),
    "preallocate": _SWITCH,
    "remote_log_copy_disable": _SWITCH,
    "remote_log_delete_on_disable": _SWITCH,
    # What would change what a topic promises is not accepted only to be ignored.
    "remote_storage_enable": ("false",),
    "unclean_leader_election_enable": ("false",),
    "flush_ms": (str(INT64_MAX),),
}
_RANGES: Final[dict[str, tuple[int, int]]] = {
    "retention_ms": (-1, INT64_MAX),
    "retention_bytes": (-1, INT64_MAX),
    # A position in a segment is 32 bits wide in the index.
    # And a small one is a file for every few batches: as many as a process may have open.
    "segment_bytes": (64 * limits.KIB, 2 * limits.GIB - 1),
    "segment_ms": (100, INT64_MAX),
    "batch_bytes_max": (100, limits.BATCH_BYTES_MAX),
    # As far as a fetch may have to look through the log.
    "index_interval_bytes": (64, 1 * limits.MIB),
    "min_insync_replicas": (1, _INT32_MAX),
    "min_compaction_lag_ms": (0, INT64_MAX),
    "max_compaction_lag_ms": (1, INT64_MAX),
    "delete_retention_ms": (0, INT64_MAX),
    "timestamp_before_max_ms": (0, INT64_MAX),
    "timestamp_after_max_ms": (0, INT64_MAX),
    "compression_gzip_level": (1, 9),
    "compression_zstd_level": (-131072, 22),
    "compression_lz4_level": (1, 17),
    "file_delete_delay_ms": (0, INT64_MAX),
    "local_retention_bytes": (-2, INT64_MAX),
    "local_retention_ms": (-2, INT64_MAX),
    "segment_index_bytes": (4, _INT32_MAX),
    "segment_jitter_ms": (0, INT64_MAX),
}
_RATIOS: Final = ("min_cleanable_dirty_ratio",)
# Everything, nothing, or partition:broker pairs.
_THROTTLED_REPLICAS: Final = re.compile(r"\*|(\d{1,10}:\d{1,10}(,\d{1,10}:\d{1,10})*)?")

NAMES: Final = tuple(field.name for field in fields(TopicConfig))


def canonical_name(given: str) -> str:
    """The setting's name: `segment-bytes` and `segment.bytes` are written `segment_bytes`."""
    name = given.replace("-", "_").replace(".", "_")
    if name not in NAMES and name not in KEPT:
        near = get_close_matches(name, (*NAMES, *KEPT), n=1)
        hint = f" Did you mean {near[0]!r}?" if near else f" Known: {', '.join(NAMES)}."
        raise InvalidConfig(f"A topic has no setting {given!r}.{hint}")
    return name


def with_settings(config: TopicConfig, settings: Mapping[str, str]) -> TopicConfig:
    """The config with the named settings changed, each checked."""
    changes: dict[str, object] = {}
    for given, text in settings.items():
        name = canonical_name(given)
        value = parse(name, text, given)
        if name not in KEPT:
            changes[name] = value
    return replace(config, **changes)  # type: ignore[arg-type]


def kept_settings(settings: Mapping[str, str]) -> dict[str, str]:
    """Those of a topic's own settings that have no effect."""
    return {name: text for name, text in settings.items() if name in KEPT}


def parse(name: str, text: str, given: str) -> str | int | float:
    """The value of the setting of this canonical name. An error calls it as it was given."""
    if name in _RATIOS:
        return _parse_ratio(text, given)
    if name in _RANGES:
        return _parse_number(name, text, given)
    if name in _CHOICES:
        return _parse_choice(name, text, given)
    if not _THROTTLED_REPLICAS.fullmatch(text):
        raise InvalidConfig(
            f"{given} is {text!r}: it can be * or partition:broker pairs such as 0:1,1:1."
        )
    return text


def _parse_choice(name: str, text: str, given: str) -> str:
    if name == "cleanup_policy":
        # A list: in the order in which it was given, each once.
        text = ",".join(dict.fromkeys(part.strip() for part in text.split(",")))
    if text not in _CHOICES[name]:
        raise InvalidConfig(f"{given} is {text!r}: it can be {' or '.join(_CHOICES[name])}.")
    return text


def _parse_number(name: str, text: str, given: str) -> int:
    low, high = _RANGES[name]
    try:
        number = int(text)
    except ValueError:
        raise InvalidConfig(f"{given} is {text!r}: it must be a whole number.") from None
    if not low <= number <= high:
        raise InvalidConfig(f"{given} is {number}: it must be from {low} to {high}.")
    return number


def _parse_ratio(text: str, given: str) -> float:
    try:
        ratio = float(text)
    except ValueError:
        raise InvalidConfig(f"{given} is {text!r}: it must be a number.") from None
    if not 0 <= ratio <= 1:
        raise InvalidConfig(f"{given} is {text}: it must be from 0 to 1.")
    return ratio
