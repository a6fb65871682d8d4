"""The settings of a consumer of partitions: names, units, defaults, checks."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from penstock.client.concurrency.callbacks import OnPartitions
from penstock.client.config import check_range
from penstock.client.consuming.starts import OutOfRange, Start, check_out_of_range, check_start
from penstock.client.reading.settings import ReadingConfig, ReadingSettings
from penstock.model.errors import InvalidConfig
from penstock.model.ids import TopicPartition
from penstock.model.limits import PARTITIONS_PER_TOPIC_MAX, PUSH_CREDIT_MESSAGES_MAX


class ConsumerSettings(ReadingSettings, total=False):
    """The settings of `ConsumerConfig`, as keywords of `Client.consumer`."""

    group: str | None
    start: Start
    on_out_of_range: OutOfRange
    name: str | None
    instance_id: str | None
    assignor: str | None
    partitions: Collection[int | tuple[str, int]] | None
    point_to_point: bool
    on_assigned: OnPartitions | None
    on_revoked: OnPartitions | None
    push_messages: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerConfig(ReadingConfig):
    """Where a consumer begins and how far it reads ahead."""

    group: str | None = None
    """Share the topics with the other members of this group, begin where it has come to, and let
    messages be acknowledged for it."""

    start: Start = "earliest"
    """Where to begin in partitions that the group has not read, or without a group in all."""

    on_out_of_range: OutOfRange = "earliest"
    """Where to go on when retention has taken the next message: there, or raise."""

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

    push_messages: int = 10_000
    """How many messages of a partition may be pushed ahead of the reader, and how many bytes of all
    of them `buffer_bytes` says; one batch is pushed whatever its size."""

    def __post_init__(self) -> None:
        self.check_reading(self.group)
        self._check_membership()
        check_start(self.start)
        check_out_of_range(self.on_out_of_range)
        check_range("push_messages", self.push_messages, 1, PUSH_CREDIT_MESSAGES_MAX)

    def manual(self, topics: Sequence[str]) -> tuple[TopicPartition, ...] | None:
        """The partitions that are assigned by hand, of these topics; None if none are."""
        if self.partitions is None:
            return None
        if not topics:
            raise InvalidConfig("Partitions are claimed, but no topic is named: name theirs.")
        if len(topics) > 1 and any(isinstance(each, int) for each in self.partitions):
            raise InvalidConfig(
                f"The numbers in partitions may be of any of {len(topics)} topics: give pairs of "
                "topic and number."
            )
        return tuple(
            TopicPartition(topics[0], each) if isinstance(each, int) else TopicPartition(*each)
            for each in self.partitions
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
            _check_manual(self.partitions)


def _check_manual(partitions: Collection[int | tuple[str, int]]) -> None:
    if not partitions:
        raise InvalidConfig("There are no partitions to claim: name at least one.")
    for each in partitions:
        number = each[1] if isinstance(each, tuple | list) and len(each) == 2 else each
        if not (isinstance(number, int) and 0 <= number < PARTITIONS_PER_TOPIC_MAX):
            raise InvalidConfig(
                f"{each!r} is no partition to claim: give its number, or a pair of topic and "
                f"number, which is from 0 to {PARTITIONS_PER_TOPIC_MAX - 1}."
            )
