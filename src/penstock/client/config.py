"""The settings of a connected client: names, units, defaults, checks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypedDict

from penstock.client.concurrency.backoff import Backoff
from penstock.model.errors import InvalidConfig


class ClientSettings(TypedDict, total=False):
    """The settings of `ClientConfig`, as keywords of `connect`."""

    client_name: str
    request_timeout_ms: int
    connect_timeout_ms: int
    route_refresh_ms: int
    retry_backoff_ms: int
    retry_backoff_ms_max: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientConfig:
    """How a client talks to its brokers."""

    client_name: str = "penstock"
    """What brokers show this client as."""

    request_timeout_ms: int = 30_000
    """How long an answer may take before the call is tried again or given up."""

    connect_timeout_ms: int = 5_000
    """How long one attempt to reach one broker may take."""

    route_refresh_ms: int = 300_000
    """How often routes are asked for anew without a reason, to find added partitions."""

    retry_backoff_ms: int = 50
    """The wait before the second retry (the first is at once); it doubles from there."""

    retry_backoff_ms_max: int = 250
    """The longest wait between two retries. An election takes about a second, and so much longer
    may pass before a new leader is found."""

    def __post_init__(self) -> None:
        for name in ClientSettings.__annotations__:
            if name != "client_name":
                check_range(name, getattr(self, name), 1)

    @property
    def request_timeout_s(self) -> float:
        return self.request_timeout_ms / 1000

    @property
    def connect_timeout_s(self) -> float:
        return self.connect_timeout_ms / 1000

    @property
    def backoff(self) -> Backoff:
        return Backoff(
            first_s=self.retry_backoff_ms / 1000, longest_s=self.retry_backoff_ms_max / 1000
        )


def check_range(name: str, value: float, low: float, high: float | None = None) -> None:
    """InvalidConfig for a setting that has another value than it can have."""
    if value < low or (high is not None and value > high):
        bounds = f"at least {low}" if high is None else f"from {low} to {high}"
        raise InvalidConfig(f"{name} is {value}: it must be {bounds}.")
