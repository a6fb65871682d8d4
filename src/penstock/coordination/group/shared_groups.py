"""What is asked of shared groups: by their members, by the leaders of partitions, by people.

Not durability or sockets, as in `coordinator`, of which this is a part. The invariants: a name is
one kind of group for as long as anything of it is there; and a group that was deleted and made
again takes nothing from whoever leads a partition for the one before.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from penstock.coordination.group.consumer.messages import JOIN_EPOCH, Topics
from penstock.coordination.group.effects import Effects, Ticket
from penstock.coordination.group.offsets import check_group_name
from penstock.coordination.group.point_to_point import TopicIdOf
from penstock.coordination.group.shared.group import ShareGroup
from penstock.coordination.group.shared.messages import (
    ShareGroupDescription,
    ShareHeartbeat,
    ShareHeartbeatAnswer,
    SharePlace,
    ShareReadAnswer,
    ShareReset,
)
from penstock.coordination.group.shared.settings import SharedSettings
from penstock.coordination.group.shared.states import KeptState
from penstock.coordination.group.subscriptions import readers_of
from penstock.coordination.group.table import CoordinatorConfig, Group, GroupTable
from penstock.model.errors import GroupNotEmpty, PenstockError, UnknownGroup, UnknownMember


class SharedGroups:
    """The shared ones among all groups."""

    def __init__(
        self, config: CoordinatorConfig, table: GroupTable, topic_id_of: TopicIdOf
    ) -> None:
        self._config = config
        self._table = table
        self._topic_id_of = topic_id_of

    # --- members -------------------------------------------------------------------------------

    def heartbeat(
        self,
        ticket: Ticket[ShareHeartbeatAnswer],
        name: str,
        request: ShareHeartbeat,
        topics: Topics,
        now_ms: int,
    ) -> Effects:
        check_group_name(name)
        if request.member_epoch != JOIN_EPOCH and self._table.get(name) is None:
            raise UnknownMember  # so that it joins again
        self._table.check_room(name, request.member_id)
        taken, names = self._table.point_to_point, request.topic_names or frozenset()
        taking: list[str] = []
        if request.is_point_to_point:
            readers = partial(readers_of, self._table)
            taking = taken.take(name, names, self._topic_id_of, readers)
        else:
            taken.check(name, names)
        group = self._table.get_or_create(name)
        machine = group.machine
        if not isinstance(machine, ShareGroup):
            if machine is not None or group.offsets:
                raise UnknownGroup(
                    f"Group {name!r} is not a shared group: take another name, or delete it first."
                )
            machine = ShareGroup(name, self._table.settings.share_config(name))
        effects = Effects()
        acted = machine.heartbeat(ticket, request, topics, now_ms)
        if group.machine is None and machine.member_count:
            # What was left of a group whose records nobody could read.
            effects.records.extend(self._table.forget_members(group))
            group.machine = machine
        effects.extend(acted)
        if not any(isinstance(answer, PenstockError) for _, answer in acted.answers):
            effects.records.extend(taken.give(name, taking))
        return self._table.acted(group, effects)

    # --- leaders of partitions -----------------------------------------------------------------

    def read(self, ticket: Ticket[ShareReadAnswer], name: str, place: SharePlace) -> Effects:
        """Answered with ShareReadAnswer. From then on nobody of an earlier term writes there."""
        machine = self._find(name)
        kept, records = self._table.shares.take_over(name, place)
        effects = Effects(records=records)
        facts = machine.facts
        answer = ShareReadAnswer(
            state=kept.state,
            settings=machine.settings,
            incarnation=facts.incarnation,
            sequence=kept.sequence,
            start_ago_ms=machine.config.start_ago_ms,
        )
        effects.answer(ticket, answer)
        return effects

    def write(
        self,
        ticket: Ticket[SharedSettings],
        name: str,
        incarnation: str,
        place: SharePlace,
        state: bytes,
    ) -> Effects:
        """Answered with the group's settings, which may have changed."""
        machine = self._find(name)
        if machine.facts.incarnation != incarnation:
            raise UnknownGroup(f"Group {name!r} was deleted and made again: read it again.")
        effects = Effects(records=[self._table.shares.write(name, place, state)])
        effects.answer(ticket, machine.settings)
        return effects

    # --- people --------------------------------------------------------------------------------

    def begin(
        self,
        ticket: Ticket[None],
        name: str,
        incarnation: str,
        resets: Sequence[ShareReset],
        now_ms: int,
    ) -> Effects:
        """Let a group begin elsewhere, also one that there is not yet. Answered with None."""
        self._table.point_to_point.check(name, {wanted.topic for wanted in resets})
        check_group_name(name)
        group = self._table.get(name)
        if group is not None and (group.machine is not None or group.offsets or group.records):
            return self.reset(ticket, name, incarnation, resets, now_ms)
        self._table.shares.check_resets(resets)
        group = self._table.get_or_create(name)
        group.machine = ShareGroup(name, self._table.settings.share_config(name))
        return self._place(ticket, group, group.machine, incarnation, resets, now_ms)

    def reset(
        self,
        ticket: Ticket[None],
        name: str,
        incarnation: str,
        resets: Sequence[ShareReset],
        now_ms: int,
    ) -> Effects:
        """Let a group that has no members begin elsewhere. Answered with None."""
        machine = self._find(name)
        if machine.member_count:
            raise GroupNotEmpty(f"Group {name!r} has members: stop its consumers first.")
        self._table.shares.check_resets(resets)
        group = self._table.get_or_create(name)
        return self._place(ticket, group, machine, incarnation, resets, now_ms)

    def _place(
        self,
        ticket: Ticket[None],
        group: Group,
        machine: ShareGroup,
        incarnation: str,
        resets: Sequence[ShareReset],
        now_ms: int,
    ) -> Effects:
        """Nothing is refused here."""
        effects = Effects()
        machine.renew(incarnation, now_ms, effects)
        self._table.acted(group, effects)
        for wanted in resets:
            record = self._table.shares.reset(group.name, wanted)
            if record is not None:
                effects.record(record)
        effects.answer(ticket, None)
        return effects

    def has(self, name: str) -> bool:
        """Whether there is a group of this name, and it is a shared one."""
        group = self._table.get(name)
        return group is not None and isinstance(group.machine, ShareGroup)

    def describe(self, name: str) -> ShareGroupDescription:
        return self._find(name).describe()

    def places(self, name: str) -> list[KeptState]:
        """Where the group stands, as it was written last; CorruptLog is whoever reads it's."""
        self._find(name)
        return [kept for kept in self._table.shares.of(name) if kept.state]

    # --- time ----------------------------------------------------------------------------------

    def retire(self, group: Group, gone: list[KeptState], wall_ms: int) -> Effects:
        """Let go of places in topics that are gone, and of a group that nobody has used for as
        long as offsets are kept."""
        effects = Effects()
        for kept in gone:
            tombstone = self._table.shares.remove(group.name, kept.topic, kept.partition)
            if tombstone is not None:
                effects.record(tombstone)
        since_ms = group.usage().empty_since_ms
        if since_ms is not None and wall_ms >= since_ms + self._config.offsets_retention_ms:
            effects.records.extend(self._table.remove(group))
        return effects

    def _find(self, name: str) -> ShareGroup:
        check_group_name(name)
        group = self._table.get(name)
        if group is None or not isinstance(group.machine, ShareGroup):
            raise UnknownGroup(f"There is no shared group {name!r}: let a member join first.")
        return group.machine


def check_not_shared(group: Group, error: type[PenstockError]) -> None:
    """Refuse what only groups of the other kinds do."""
    if isinstance(group.machine, ShareGroup):
        raise error(
            f"Group {group.name!r} is a shared group, whose members acknowledge messages one by "
            "one: take another name, or delete it first. `penstock groups describe` tells where it "
            "stands."
        )
