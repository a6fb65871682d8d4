"""The settings of a consumer of a shared group: names, units, defaults, checks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypedDict

from penstock.client.config import check_range
from penstock.client.reading.settings import ReadingConfig, ReadingSettings
from penstock.model.errors import InvalidConfig
from penstock.model.limits import MIB, SHARE_WINDOW_OFFSETS_MAX
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


class SharedConsumerSettings(LeaseSettings, ReadingSettings, total=False):
    """The settings of `SharedConsumerConfig`, as keywords of `Client.share`."""

    group: str
    start: Literal["earliest", "latest"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedConsumerConfig(ReadingConfig):
    """How a group shares messages, and how far a member reads ahead. All members of a group say
    the same of what is the group's; 0 stands for the broker's default."""

    group: str = ""

    ordered: bool = False
    """Messages of one key one after another, to one member at a time (R-DEL-11)."""

    start: Literal["earliest", "latest"] = "earliest"
    """Where the group begins, in partitions that it has never read."""

    lease_ms: int = 0
    """How long a member has for a message before it goes to another."""

    attempts_max: int = 0
    """How often a message is tried before it becomes a dead letter."""

    backoff_ms: int | None = None
    """The wait before the second attempt; it doubles, with jitter. 0: none; None: the broker's
    default, which a group has that Kafka consumers began."""

    backoff_ms_max: int = 0

    prefetch: int = 200
    """Messages held ahead of the reader: kept from others meanwhile."""

    buffer_bytes: int = 4 * MIB
    """The most that one answer brings."""

    auto_extend: bool = False
    """Extend the leases of messages that the reader has taken and not settled, at half their time,
    for as long as this process lives."""

    def __post_init__(self) -> None:
        self.check_reading(self.group)
        if self.start not in ("earliest", "latest"):
            raise InvalidConfig(
                f"start is {self.start!r}: a shared group begins at 'earliest' or 'latest'."
            )
        for name in ("lease_ms", "attempts_max", "backoff_ms", "backoff_ms_max"):
            if (getattr(self, name) or 0) < 0:
                raise InvalidConfig(f"{name} is {getattr(self, name)}: it cannot be negative.")
        check_range("prefetch", self.prefetch, 1, SHARE_WINDOW_OFFSETS_MAX)

    def of_group(self) -> pb.SharedSettings:
        """What all members say alike."""
        return pb.SharedSettings(
            ordered_by_key=self.ordered,
            lease_ms=self.lease_ms,
            attempts_max=self.attempts_max,
            backoff_ms=self.backoff_ms,
            backoff_ms_max=self.backoff_ms_max,
            filter=self.wanted(),
            start_latest=self.start == "latest",
        )
