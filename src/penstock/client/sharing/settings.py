"""The settings of a consumer of a shared group: names, units, defaults, checks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypedDict

from penstock.client.reading.filters import make_filter
from penstock.client.reading.missing_topics import MissingTopic, check_missing_topic
from penstock.model.errors import InvalidConfig
from penstock.model.limits import (
    FETCH_WAIT_MS_MAX,
    GROUP_NAME_LENGTH_MAX,
    MIB,
    SHARE_WINDOW_OFFSETS_MAX,
)
from penstock.protocol import penstock_pb2 as pb


class LeaseSettings(TypedDict, total=False):
    """Those settings of `SharedConsumerConfig` that only a shared group has."""

    ordered: bool
    lease_ms: int
    attempts_max: int
    backoff_ms: int | None
    backoff_ms_max: int
    prefetch: int
    auto_extend: bool


class SharedConsumerSettings(LeaseSettings, total=False):
    """The settings of `SharedConsumerConfig`, as keywords of `Client.share`."""

    group: str
    start: Literal["earliest", "latest"]
    on_missing_topic: MissingTopic
    filter: str | None
    tags: str | Sequence[str]
    key: bytes | None
    key_prefix: bytes | None
    buffer_bytes: int
    max_wait_ms: int
    push: bool
    auto_resume: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedConsumerConfig:
    """How a group shares messages, and how far a member reads ahead. All members of a group say
    the same of what is the group's; 0 stands for the broker's default."""

    group: str = ""

    ordered: bool = False
    """Messages of one key one after another, to one member at a time (R-DEL-11)."""

    start: Literal["earliest", "latest"] = "earliest"
    """Where the group begins, in partitions that it has never read."""

    on_missing_topic: MissingTopic = "wait"
    """Where there is no such topic: wait until somebody makes it, make it, or raise."""

    lease_ms: int = 0
    """How long a member has for a message before it goes to another."""

    attempts_max: int = 0
    """How often a message is tried before it becomes a dead letter."""

    backoff_ms: int | None = None
    """The wait before the second attempt; it doubles, with jitter. 0: none; None: the broker's
    default, which a group has that Kafka consumers began."""

    backoff_ms_max: int = 0

    filter: str | None = None
    """An expression over headers, key, tag and timestamp."""

    tags: str | Sequence[str] = ()
    """Only messages with one of these tags."""

    key: bytes | None = None
    key_prefix: bytes | None = None

    prefetch: int = 200
    """Messages held ahead of the reader: kept from others meanwhile."""

    buffer_bytes: int = 4 * MIB
    """The most that one answer brings."""

    max_wait_ms: int = 5_000
    """How long a broker holds a question open while there is nothing."""

    push: bool = False
    """Have messages pushed by the brokers, instead of asking for them: the loop is the same."""

    auto_resume: bool = True
    """Let a delivery that a broker parked, because this process did not answer it, go on by
    itself. Else reading raises Parked, and goes on after `resume`."""

    auto_extend: bool = False
    """Extend the leases of messages that the reader has taken and not settled, at half their time,
    for as long as this process lives."""

    def __post_init__(self) -> None:
        if not 1 <= len(self.group) <= GROUP_NAME_LENGTH_MAX:
            raise InvalidConfig(
                f"The group's name has {len(self.group)} characters: give it 1 to "
                f"{GROUP_NAME_LENGTH_MAX}."
            )
        if self.start not in ("earliest", "latest"):
            raise InvalidConfig(
                f"start is {self.start!r}: a shared group begins at 'earliest' or 'latest'."
            )
        check_missing_topic(self.on_missing_topic)
        make_filter(self.filter, self.tags, self.key, self.key_prefix)
        for name in ("lease_ms", "attempts_max", "backoff_ms", "backoff_ms_max"):
            if (getattr(self, name) or 0) < 0:
                raise InvalidConfig(f"{name} is {getattr(self, name)}: it cannot be negative.")
        if not 1 <= self.prefetch <= SHARE_WINDOW_OFFSETS_MAX:
            raise InvalidConfig(
                f"prefetch is {self.prefetch}: it must be from 1 to {SHARE_WINDOW_OFFSETS_MAX}."
            )
        if self.buffer_bytes <= 0:
            raise InvalidConfig(f"buffer_bytes is {self.buffer_bytes}: it must be at least 1.")
        if not 1 <= self.max_wait_ms <= FETCH_WAIT_MS_MAX:
            raise InvalidConfig(
                f"max_wait_ms is {self.max_wait_ms}: it must be from 1 to {FETCH_WAIT_MS_MAX}."
            )

    def of_group(self) -> pb.SharedSettings:
        """What all members say alike."""
        return pb.SharedSettings(
            ordered_by_key=self.ordered,
            lease_ms=self.lease_ms,
            attempts_max=self.attempts_max,
            backoff_ms=self.backoff_ms,
            backoff_ms_max=self.backoff_ms_max,
            filter=make_filter(self.filter, self.tags, self.key, self.key_prefix),
            start_latest=self.start == "latest",
        )
