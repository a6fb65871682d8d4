"""What every consumer can be told of reading: names, units, defaults, checks.

Not what consumers of one kind alone are told (`consuming/settings`, `sharing/settings`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypedDict

from penstock.client.config import check_range
from penstock.client.reading.filters import make_filter
from penstock.client.reading.missing_topics import MissingTopic, check_missing_topic
from penstock.model.errors import InvalidConfig
from penstock.model.limits import FETCH_WAIT_MS_MAX, GROUP_NAME_LENGTH_MAX, MIB
from penstock.protocol import penstock_pb2 as pb


class ReadingSettings(TypedDict, total=False):
    """The settings of `ReadingConfig`, as keywords."""

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
class ReadingConfig:
    """A part of a consumer's."""

    on_missing_topic: MissingTopic = "wait"
    """Where there is no such topic: wait until somebody makes it, make it, or raise UnknownTopic.
    What comes later is read from its first message on."""

    filter: str | None = None
    """Only messages of whose headers, key, tag and timestamp this is true, as in
    "region = 'eu' AND price > 10"; docs/filters.md. All that is said here and below must hold. The
    group's place moves past the others."""

    tags: str | Sequence[str] = ()
    """Only messages with one of these tags."""

    key: bytes | None = None
    """Only messages with this key."""

    key_prefix: bytes | None = None
    """Only messages whose key begins like this."""

    buffer_bytes: int = 16 * MIB
    """How much may be fetched ahead of the reader."""

    max_wait_ms: int = 5_000
    """How long a broker holds a question open while there is nothing new."""

    push: bool = False
    """Have messages pushed by the brokers, instead of asking for them: the loop is the same."""

    auto_resume: bool = True
    """Let a delivery that a broker parked, because this process did not answer it, go on by
    itself. Else reading raises Parked, and goes on after `resume`."""

    def wanted(self) -> pb.Filter | None:
        """The messages that are asked for; None: all."""
        return make_filter(self.filter, self.tags, self.key, self.key_prefix)

    def check_reading(self, group: str | None) -> None:
        """InvalidConfig says what is wrong. group: None if there is none."""
        check_missing_topic(self.on_missing_topic)
        self.wanted()
        if group is not None and not 1 <= len(group) <= GROUP_NAME_LENGTH_MAX:
            raise InvalidConfig(
                f"The group's name has {len(group)} characters: give it 1 to "
                f"{GROUP_NAME_LENGTH_MAX}."
            )
        check_range("buffer_bytes", self.buffer_bytes, 1)
        check_range("max_wait_ms", self.max_wait_ms, 1, FETCH_WAIT_MS_MAX)
