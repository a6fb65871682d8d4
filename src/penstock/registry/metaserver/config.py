"""Which meta servers a broker asks, and how patiently (R-REP-5).

How they are written, and how many there can be, is `registry.meta_address`'s.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from penstock.registry import meta_address
from penstock.registry.meta_address import SCHEME


@dataclass(frozen=True, slots=True, kw_only=True)
class MetaConfig:
    """What a broker needs to know of its registry."""

    servers: Mapping[int, str]
    """Their addresses by their ids."""
    patience_ms: int = 8_000
    """How long a change waits for a server that leads: an election takes two seconds or so."""
    heartbeat_ms: int = 1_000
    """Between two signs of life; less if the servers have short sessions."""

    def __str__(self) -> str:
        return SCHEME + ",".join(f"{number}@{place}" for number, place in self.servers.items())


def parse_meta(text: str) -> MetaConfig:
    """What a registry's address names, or InvalidConfig that says how to write it."""
    return MetaConfig(servers=meta_address.parse_meta(text))
