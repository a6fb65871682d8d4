"""Groups, for people and tools: described with their lag, moved, deleted; and who reads what.

One call each, no state. The invariant: a group that has members is not moved, since they would go
on from where they are and set it back.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from penstock.client.admin.topics import Admin, PartitionDescription
from penstock.client.concurrency.tasks import in_parts
from penstock.client.connection.routes import GROUPS, Routes
from penstock.client.consuming.committer import commit_offsets
from penstock.client.consuming.membership import partitions_given
from penstock.model.errors import (
    GroupNotEmpty,
    InvalidGroup,
    UnknownGroup,
    UnknownMember,
    UnknownTopic,
)
from penstock.model.ids import TopicPartition
from penstock.protocol import penstock_pb2 as pb
from penstock.protocol.calls import (
    ALTER_GROUP_SETTINGS,
    DELETE_GROUP,
    DESCRIBE_GROUP,
    GROUP_SETTINGS,
    LIST_SUBSCRIPTIONS,
)

_UNKNOWN: Final = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMember:
    """Who reads for a group."""

    member_id: str
    name: str
    """What it calls itself."""
    host: str
    instance_id: str | None
    epoch: int
    topics: tuple[str, ...]
    """Or a pattern of topics."""
    partitions: tuple[TopicPartition, ...]
    """What it has now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPlace:
    """Where a group stands in one partition."""

    topic: str
    partition: int
    committed: int | None
    """The next offset that it reads; None: it has no place there yet."""
    end: int | None
    """None: nobody leads the partition now."""
    lag: int | None
    """How many messages are still to come; all that are there where it has no place yet."""
    member_id: str | None
    """Who has it."""
    dead: int = 0
    """Messages that a shared group has buried there."""
    expired: int = 0
    """Messages whose time to live was over before a shared group could hand them out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDescription:
    """A group with its members and places, by topic and number."""

    name: str
    kind: str
    """classic: Kafka's first protocol, or no members yet; consumer: its second one, and ours."""
    state: str
    assignor: str
    epoch: int
    members: tuple[GroupMember, ...]
    places: tuple[GroupPlace, ...]

    @property
    def lag(self) -> int:
        """Of all partitions together, as far as it is known."""
        return sum(place.lag or 0 for place in self.places)

    def lag_in(self, topic: str) -> int:
        """Of the topic's partitions together, as far as it is known."""
        return sum(place.lag or 0 for place in self.places if place.topic == topic)

    @property
    def topics(self) -> list[str]:
        return sorted({place.topic for place in self.places})


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSettings:
    """What operators have decided for one group, by Kafka's names."""

    values: dict[str, str]
    """Of every setting that there is."""
    changed: frozenset[str]
    """Those that are the group's own; the others are the broker's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSubscription:
    """Who reads a topic."""

    topic: str
    is_point_to_point: bool
    """Whether one group alone may."""
    groups: tuple[str, ...]


class GroupAdmin:
    """Made by `Client.groups`."""

    def __init__(self, routes: Routes) -> None:
        self._routes = routes
        self._admin = Admin(routes)

    async def describe_all(self) -> list[GroupDescription]:
        """Every group, by name."""
        return await self.describe_those(await self._admin.list_groups())

    async def describe_those(self, names: Sequence[str]) -> list[GroupDescription]:
        """The groups of these names, without those that are none."""
        answers = await in_parts(self._ask, names)
        return await self._described([answer for answer in answers if answer is not None])

    async def describe(self, group: str) -> GroupDescription:
        answer = await self._ask(group)
        if answer is None:
            raise UnknownGroup(f"There is no group {group!r}: `penstock groups list` shows all.")
        [described] = await self._described([answer])
        return described

    async def delete(self, group: str) -> None:
        """Forget its place in every topic; what it read point to point is everybody's then."""
        request = pb.DeleteGroupRequest(group=group)
        await self._routes.call_coordinator(GROUPS, DELETE_GROUP, request)

    async def move(self, group: str, offsets: Mapping[tuple[str, int], int]) -> None:
        """Let a group without members go on elsewhere."""
        answer = await self._ask(group)
        if answer is not None and answer.members:
            raise _not_empty(group, [member.client_name for member in answer.members])
        try:
            await commit_offsets(self._routes, group, offsets)
        except UnknownMember:  # one has come meanwhile
            raise _not_empty(group, ()) from None

    async def settings(self, group: str) -> GroupSettings:
        """What holds for a group of this name, whether it is there or not."""
        if not group:
            raise InvalidGroup("The group's name is empty: name one.")
        request = pb.GroupSettingsRequest(group=group)
        answer = await self._routes.call_coordinator(GROUPS, GROUP_SETTINGS, request)
        values = dict(answer.defaults) | dict(answer.own)
        return GroupSettings(values=values, changed=frozenset(answer.own))

    async def configure(
        self, group: str, settings: Mapping[str, str], reset: Collection[str] = ()
    ) -> None:
        """Set some, and give others the broker's value again."""
        request = pb.AlterGroupSettingsRequest(group=group, set=settings, reset=reset)
        await self._routes.call_coordinator(GROUPS, ALTER_GROUP_SETTINGS, request)

    async def subscriptions(self, topic: str = "") -> list[TopicSubscription]:
        """Which groups read which topics, or this one, by topic."""
        request = pb.ListSubscriptionsRequest(topic=topic)
        answer = await self._routes.call_coordinator(GROUPS, LIST_SUBSCRIPTIONS, request)
        return [
            TopicSubscription(
                topic=entry.topic,
                is_point_to_point=entry.point_to_point,
                groups=tuple(entry.groups),
            )
            for entry in answer.subscriptions
        ]

    async def _ask(self, group: str) -> pb.DescribeGroupResponse | None:
        request = pb.DescribeGroupRequest(group=group)
        try:
            return await self._routes.call_coordinator(GROUPS, DESCRIBE_GROUP, request)
        except UnknownGroup:
            return None

    async def _described(
        self, answers: Iterable[pb.DescribeGroupResponse]
    ) -> list[GroupDescription]:
        """With the ends that only the partitions' leaders know, each topic asked for once."""
        answers = list(answers)
        topics = sorted(
            {
                place.topic
                for answer in answers
                for place in answer.places
                if _UNKNOWN in (place.high_watermark, place.offset)
            }
        )
        partitions: dict[TopicPartition, PartitionDescription] = {}
        for found in await in_parts(self._partitions, topics):
            partitions |= found
        return [_description(answer, partitions) for answer in answers]

    async def _partitions(self, topic: str) -> dict[TopicPartition, PartitionDescription]:
        try:
            described = await self._admin.describe_topic(topic)
        except UnknownTopic:
            return {}  # deleted in this moment, and the group's place with it
        return {TopicPartition(topic, entry.partition): entry for entry in described.partitions}


def _description(
    answer: pb.DescribeGroupResponse, partitions: Mapping[TopicPartition, PartitionDescription]
) -> GroupDescription:
    return GroupDescription(
        name=answer.group,
        kind=answer.kind,
        state=answer.state,
        assignor=answer.assignor,
        epoch=answer.epoch,
        members=tuple(
            GroupMember(
                member_id=member.member_id,
                name=member.client_name,
                host=member.client_host,
                instance_id=member.instance_id or None,
                epoch=member.member_epoch,
                topics=tuple(member.topics),
                partitions=tuple(partitions_given(member.assignment)),
            )
            for member in answer.members
        ),
        places=tuple(
            _place(place, partitions.get(TopicPartition(place.topic, place.partition)))
            for place in answer.places
        ),
    )


def _place(
    place: pb.DescribeGroupResponse.Place, partition: PartitionDescription | None
) -> GroupPlace:
    committed = None if place.offset == _UNKNOWN else place.offset
    end = None if place.high_watermark == _UNKNOWN else place.high_watermark
    is_known = partition is not None and not partition.is_offline
    if end is None and partition is not None and is_known:
        end = partition.high_watermark
    lag = None
    if end is not None and committed is not None:
        # A shared group may be done with messages behind the first that it is not done with.
        lag = max(end - committed - place.acknowledged, 0)
    elif end is not None and partition is not None and is_known:
        lag = max(end - partition.log_start_offset, 0)
    return GroupPlace(
        topic=place.topic,
        partition=place.partition,
        committed=committed,
        end=end,
        lag=lag,
        member_id=place.member_id or None,
        dead=place.dead,
        expired=place.expired,
    )


def _not_empty(group: str, names: Iterable[str]) -> GroupNotEmpty:
    shown = ", ".join(sorted(set(names)))
    who = f" ({shown})" if shown else ""
    return GroupNotEmpty(f"Group {group!r} has members{who}: stop them first.")
