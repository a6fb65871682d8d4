"""What brokers ask of whoever looks after the groups, answered where that is: where a shared group
stands in a partition (R-DEL-3), who may write to a topic (R-CORE-6), and what operators decided for
a group.

Not the way there (`client`). The invariant: only who leads the partition as far as this broker
knows may change where a group stands in it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from penstock.broker.bounds import check_count
from penstock.broker.groups.answers import decided, found
from penstock.broker.groups.coordinator import GroupCoordinator
from penstock.broker.partitions.leaders import Leaders
from penstock.coordination.group.coordinator import Coordinator
from penstock.coordination.group.effects import Effects, Ticket
from penstock.coordination.group.exclusivity import ClaimHolder
from penstock.coordination.group.offsets import check_group_name
from penstock.coordination.group.settings import GroupSettingChange
from penstock.coordination.group.shared.messages import SharePlace, ShareReadAnswer
from penstock.coordination.group.shared.settings import SharedSettings
from penstock.model.errors import InvalidRequest, StaleTerm, UnknownTerm, UnknownTopic
from penstock.model.limits import CLAIM_VALID_MS
from penstock.protocol import calls
from penstock.protocol import penstock_pb2 as pb
from penstock.protocol.calls import CallType, RequestT, ResponseT
from penstock.registry.api import Registry


class Questions:
    """One per broker."""

    def __init__(self, groups: GroupCoordinator, registry: Registry, leaders: Leaders) -> None:
        self.groups = groups
        self._registry = registry
        self._leaders = leaders
        self._answers: Mapping[int, Callable[[Any], Awaitable[Any]]] = {
            calls.READ_SHARE.number: self.read_share,
            calls.WRITE_SHARE.number: self.write_share,
            calls.CHECK_CLAIM.number: self.check_claim,
            calls.ALTER_GROUP_SETTINGS.number: self.alter_settings,
            calls.GROUP_SETTINGS.number: self.settings,
        }

    def answer(
        self, call: CallType[RequestT, ResponseT], request: RequestT
    ) -> Awaitable[ResponseT]:
        return self._answers[call.number](request)

    async def read_share(self, request: pb.ReadShareRequest) -> pb.ReadShareResponse:
        """Where the group stands, for the leader of the partition."""
        place = self._place(request)

        kept: ShareReadAnswer = await decided(
            self.groups, lambda ticket, groups, _: groups.shared.read(ticket, request.group, place)
        )
        return pb.ReadShareResponse(
            is_known=bool(kept.state),
            state=kept.state,
            settings=settings_message(kept.settings),
            incarnation=kept.incarnation,
            sequence=kept.sequence,
            start_ago_ms=kept.start_ago_ms,
        )

    async def write_share(self, request: pb.WriteShareRequest) -> pb.WriteShareResponse:
        """Where the group stands from now on. Answered when it is durable."""
        place = self._place(request)

        settings: SharedSettings = await decided(
            self.groups,
            lambda ticket, groups, _: groups.shared.write(
                ticket, request.group, request.incarnation, place, request.state
            ),
        )
        return pb.WriteShareResponse(lease_ms=settings.lease_ms, attempts_max=settings.attempts_max)

    async def check_claim(self, request: pb.CheckClaimRequest) -> pb.CheckClaimResponse:
        holder: ClaimHolder = await decided(
            self.groups,
            lambda ticket, groups, _: groups.table.exclusive_topics.check(ticket, request.topic_id),
        )
        return pb.CheckClaimResponse(
            claim=holder.claim, client_name=holder.client_name, valid_ms=CLAIM_VALID_MS
        )

    async def alter_settings(
        self, request: pb.AlterGroupSettingsRequest
    ) -> pb.AlterGroupSettingsResponse:
        """Answered when it is durable."""
        check_count("settings", len(request.set) + len(request.reset))
        change = GroupSettingChange(
            settings=dict(request.set), removed=tuple(request.reset), replaces=request.replaces
        )

        def act(ticket: Ticket[None], groups: Coordinator, now_ms: int) -> Effects:
            del now_ms
            check_group_name(request.group)
            table = groups.table
            effects = Effects(answers=[(ticket, None)])
            if request.only_checked:
                table.settings.changed(request.group, change)
            else:
                effects.records = table.configure(request.group, change)
            return effects

        await decided(self.groups, act)
        return pb.AlterGroupSettingsResponse()

    async def settings(self, request: pb.GroupSettingsRequest) -> pb.GroupSettingsResponse:
        def find(groups: Coordinator) -> pb.GroupSettingsResponse:
            settings = groups.table.settings
            if not request.group:
                return pb.GroupSettingsResponse(groups=settings.groups())
            check_group_name(request.group)
            return pb.GroupSettingsResponse(
                own=settings.of(request.group), defaults=settings.defaults(request.group)
            )

        return await found(self.groups, find)

    def _place(self, request: pb.ReadShareRequest | pb.WriteShareRequest) -> SharePlace:
        """Checked against what the leaders tell every broker: a term that nobody leads in would
        shut out those who do."""
        topic = self._registry.image.topic_by_id(_topic_id(request.topic_id))
        if request.partition >= len(topic.partitions):
            raise UnknownTopic(f"There is no partition {request.partition} of {topic.name!r}.")
        known = self._leaders.of(topic, request.partition)
        if request.leader_term > known.term:
            raise UnknownTerm(
                f"This broker knows of no leader of {topic.name}-{request.partition} in term "
                f"{request.leader_term}: try again."
            )
        if request.leader_term < known.term:
            raise StaleTerm(
                f"{topic.name}-{request.partition} is led in term {known.term}, and this is a "
                f"leader of term {request.leader_term}."
            )
        return SharePlace(
            topic=topic.name,
            topic_id=topic.id,
            partition=request.partition,
            leader_term=request.leader_term,
            sequence=request.sequence if isinstance(request, pb.WriteShareRequest) else 0,
        )


def settings_message(settings: SharedSettings) -> pb.SharedSettings:
    """All of them, none left out."""
    wanted = settings.filter
    return pb.SharedSettings(
        ordered_by_key=settings.ordered_by_key,
        lease_ms=settings.lease_ms,
        attempts_max=settings.attempts_max,
        backoff_ms=settings.backoff_ms,
        backoff_ms_max=settings.backoff_ms_max,
        filter=pb.Filter(
            tags=wanted.tags,
            key=wanted.key,
            key_prefix=wanted.key_prefix,
            expression=wanted.expression,
        ),
        start_latest=settings.start_latest,
    )


def _topic_id(text: str) -> bytes:
    try:
        return bytes.fromhex(text)
    except ValueError:
        raise InvalidRequest(f"{text[:80]!r} is not the id of a topic.") from None
