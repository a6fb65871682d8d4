"""What can be set per topic: names, units, defaults, checks. Kept and sent as text by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from difflib import get_close_matches
from typing import Final, Literal

from penstock.model import limits
from penstock.model.errors import InvalidConfig

Durability = Literal["fsync", "os"]
TimestampType = Literal["create", "append"]

_HOUR_MS: Final = 60 * 60 * 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicConfig:
    """The settings of one topic. `-1` means "no limit" where it is allowed."""

    durability: Durability = "fsync"
    """`fsync`: on the disk before the ack. `os`: in the kernel's page cache before the ack; a
    crash of the broker loses nothing, a crash of the machine may lose the last seconds."""

    retention_ms: int = 72 * _HOUR_MS
    """Sealed segments whose newest message is older than this are deleted; -1 keeps them."""

    retention_bytes: int = -1
    """Oldest sealed segments are deleted while a partition is larger than this; -1: no limit."""

    segment_bytes: int = 256 * limits.MIB
    """A segment is sealed before it grows beyond this. Recovery reads only the unsealed one."""

    segment_ms: int = 24 * _HOUR_MS
    """A segment is sealed this long after its first message, so that retention can take it."""

    batch_bytes_max: int = limits.BATCH_BYTES_MAX_DEFAULT
    """The largest record batch the topic accepts, as it is on the wire."""

    index_interval_bytes: int = 4 * limits.KIB
    """Log bytes between two entries of the sparse index."""

    timestamp_type: TimestampType = "create"
    """`create` keeps the producer's time; `append` replaces it by the broker's."""

    def as_text(self) -> dict[str, str]:
        return {name: str(value) for name, value in asdict(self).items()}


_CHOICES: Final[dict[str, tuple[str, ...]]] = {
    "durability": ("fsync", "os"),
    "timestamp_type": ("create", "append"),
}
_RANGES: Final[dict[str, tuple[int, int]]] = {
    "retention_ms": (-1, 2**63 - 1),
    "retention_bytes": (-1, 2**63 - 1),
    # A position in a segment is 32 bits wide in the index.
    # And a small one is a file for every few batches: as many as a process may have open.
    "segment_bytes": (64 * limits.KIB, 2 * limits.GIB - 1),
    "segment_ms": (1000, 2**63 - 1),
    "batch_bytes_max": (100, limits.BATCH_BYTES_MAX),
    # As far as a fetch may have to look through the log.
    "index_interval_bytes": (64, 1 * limits.MIB),
}
NAMES: Final = tuple(field.name for field in fields(TopicConfig))


def canonical_name(given: str) -> str:
    """The setting's name: `segment-bytes` and `segment.bytes` are written `segment_bytes`."""
    name = given.replace("-", "_").replace(".", "_")
    if name not in NAMES:
        near = get_close_matches(name, NAMES, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else f" Known: {', '.join(NAMES)}."
        raise InvalidConfig(f"A topic has no setting {given!r}.{hint}")
    return name


def with_settings(config: TopicConfig, settings: Mapping[str, str]) -> TopicConfig:
    """The config with the named settings changed, each checked."""
    changes: dict[str, object] = {}
    for given, text in settings.items():
        name = canonical_name(given)
        changes[name] = _parse(name, given, text)
    return replace(config, **changes)  # type: ignore[arg-type]


def _parse(name: str, given: str, text: str) -> str | int:
    if name in _CHOICES:
        if text not in _CHOICES[name]:
            raise InvalidConfig(f"{given} is {text!r}: it can be {' or '.join(_CHOICES[name])}.")
        return text
    low, high = _RANGES[name]
    try:
        number = int(text)
    except ValueError:
        raise InvalidConfig(f"{given} is {text!r}: it must be a whole number.") from None
    if not low <= number <= high:
        raise InvalidConfig(f"{given} is {number}: it must be from {low} to {high}.")
    return number
