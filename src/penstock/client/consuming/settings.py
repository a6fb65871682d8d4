"""The settings of a consumer of partitions: names, units, defaults, checks."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TypedDict

from penstock.client.concurrency.callbacks import OnPartitions
from penstock.client.consuming.starts import OutOfRange, Start, check_out_of_range, check_start
from penstock.client.reading.filters import make_filter
from penstock.client.reading.missing_topics import MissingTopic, check_missing_topic
from penstock.model.errors import InvalidConfig
from penstock.model.limits import (
    FETCH_WAIT_MS_MAX,
    GROUP_NAME_LENGTH_MAX,
    MIB,
    PARTITIONS_PER_TOPIC_MAX,
    PUSH_CREDIT_MESSAGES_MAX,
)


class ConsumerSettings(TypedDict, total=False):
    """The settings of `ConsumerConfig`, as keywords of `Client.consumer`."""

    group: str | None
    start: Start
    on_out_of_range: OutOfRange
    on_missing_topic: MissingTopic
    buffer_bytes: int
    max_wait_ms: int
    name: str | None
    instance_id: str | None
    assignor: str | None
    partitions: Collection[int | tuple[str, int]] | None
    point_to_point: bool
    on_assigned: OnPartitions | None
    on_revoked: OnPartitions | None
    filter: str | None
    tags: str | Sequence[str]
    key: bytes | None
    key_prefix: bytes | None
    push: bool
    push_messages: int
    auto_resume: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerConfig:
    """Where a consumer begins and how far it reads ahead."""

    group: str | None = None
    """Share the topics with the other members of this group, begin where it has come to, and let
    messages be acknowledged for it."""

    start: Start = "earliest"
    """Where to begin in partitions that the group has not read, or without a group in all."""

    on_out_of_range: OutOfRange = "earliest"
    """Where to go on when retention has taken the next message: there, or raise."""

    on_missing_topic: MissingTopic = "wait"
    """Where there is no such topic: wait until somebody makes it, make it, or raise UnknownTopic.
    What comes later is read from its first message on."""

    buffer_bytes: int = 16 * MIB
    """How much may be fetched ahead of the reader."""

    max_wait_ms: int = 5_000
    """How long a broker holds a question open while there is nothing new."""

    name: str | None = None
    """What the group shows this member as; None: the client's name."""

    instance_id: str | None = None
    """Who this member is across restarts: closed and started again within a session, it finds what
    it had. After a crash its place is kept for three seconds only, and it waits for them."""

    assignor: str | None = None
    """How the group's partitions are spread: uniform, range, ring, round-robin or sticky. The one
    that most members ask for; None: what the broker does."""

    partitions: Collection[int | tuple[str, int]] | None = None
    """Read these and no others, which no other member may claim as well: numbers of the one topic,
    or pairs of topic and number."""

    point_to_point: bool = False
    """The topics are this group's alone, from now on until it is deleted."""

    on_assigned: OnPartitions | None = None
    """Is told of partitions that the group has given, before anything of them is read. It may seek,
    pause and commit, but not assign or close: what is read is being changed while it runs."""

    on_revoked: OnPartitions | None = None
    """Is told of partitions that the group takes away: the last moment to acknowledge what was read
    of them. Also when they are lost already, to a group that took this member for dead."""
    filter: str | None = None
    """Only messages of which this is true, as in "region = 'eu' AND price > 10"; docs/filters.md.
    All that is said here and below must hold. The group's place moves past the others."""

    tags: str | Sequence[str] = ()
    """Only messages with one of these tags."""

    key: bytes | None = None
    """Only messages with this key."""

    key_prefix: bytes | None = None
    """Only messages whose key begins like this."""
    push: bool = False
    """Have messages pushed by the brokers, instead of asking for them: the loop is the same."""

    push_messages: int = 10_000
    """How many messages of a partition may be pushed ahead of the reader, and how many bytes of all
    of them `buffer_bytes` says; one batch is pushed whatever its size."""

    auto_resume: bool = True
    """Let a delivery that a broker parked, because this process did not answer it, go on by
    itself. Else reading raises Parked, and goes on after `resume`."""

    def __post_init__(self) -> None:
        self._check_membership()
        check_start(self.start)
        check_out_of_range(self.on_out_of_range)
        check_missing_topic(self.on_missing_topic)
        make_filter(self.filter, self.tags, self.key, self.key_prefix)
        if self.group is not None and not 1 <= len(self.group) <= GROUP_NAME_LENGTH_MAX:
            raise InvalidConfig(
                f"The group's name has {len(self.group)} characters: give it 1 to "
                f"{GROUP_NAME_LENGTH_MAX}."
            )
        if self.buffer_bytes <= 0:
            raise InvalidConfig(f"buffer_bytes is {self.buffer_bytes}: it must be at least 1.")
        if not 1 <= self.push_messages <= PUSH_CREDIT_MESSAGES_MAX:
            raise InvalidConfig(
                f"push_messages is {self.push_messages}: it must be from 1 to "
                f"{PUSH_CREDIT_MESSAGES_MAX}."
            )
        if not 1 <= self.max_wait_ms <= FETCH_WAIT_MS_MAX:
            raise InvalidConfig(
                f"max_wait_ms is {self.max_wait_ms}: it must be from 1 to {FETCH_WAIT_MS_MAX}."
            )

    def _check_membership(self) -> None:
        wishes = {
            "instance_id": self.instance_id,
            "assignor": self.assignor,
            "partitions": self.partitions,
            "point_to_point": self.point_to_point or None,
            "on_assigned": self.on_assigned,
            "on_revoked": self.on_revoked,
        }
        for name, wish in wishes.items():
            if self.group is None and wish is not None:
                raise InvalidConfig(f"{name} is for members of a group: give one, as group='g'.")
        if self.partitions is not None and self.assignor not in (None, "manual"):
            raise InvalidConfig(
                f"partitions are claimed, so the assignor is 'manual', not {self.assignor!r}."
            )
        if self.assignor == "manual" and self.partitions is None:
            raise InvalidConfig("The assignor 'manual' needs partitions to claim.")
        if self.partitions is not None:
            _check_claims(self.partitions)


def _check_claims(partitions: Collection[int | tuple[str, int]]) -> None:
    if not partitions:
        raise InvalidConfig("There are no partitions to claim: name at least one.")
    for each in partitions:
        number = each[1] if isinstance(each, tuple | list) and len(each) == 2 else each
        if not (isinstance(number, int) and 0 <= number < PARTITIONS_PER_TOPIC_MAX):
            raise InvalidConfig(
                f"{each!r} is no partition to claim: give its number, or a pair of topic and "
                f"number, which is from 0 to {PARTITIONS_PER_TOPIC_MAX - 1}."
            )
