"""All groups by name: each with its machine, its offsets, and when it next has something to do.

Not what is asked of them (`group.coordinator`). The invariants: the table is what reading the
records in order gives, so `checkpoint` leads to the same table; and a group of which nothing is
left, neither members nor records, is not in it.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from penstock.coordination.group.classic.group import ClassicGroup
from penstock.coordination.group.classic.messages import GroupConfig, GroupState
from penstock.coordination.group.consumer.group import ConsumerGroup
from penstock.coordination.group.consumer.messages import ConsumerGroupConfig
from penstock.coordination.group.effects import Effects, Record
from penstock.coordination.group.exclusivity import CLAIM_KIND, ExclusiveTopics
from penstock.coordination.group.offsets import (
    CommittedOffset,
    GroupOffsets,
    Usage,
    check_group_name,
)
from penstock.coordination.group.point_to_point import POINT_TO_POINT_KIND, PointToPoint
from penstock.coordination.group.records import (
    CLASSIC_KIND,
    CONFIRMATION_KIND,
    OFFSET_KIND,
    SETTINGS_KIND,
    SHARE_STATE_KIND,
    encode_offset,
    offset_key,
    read_key,
    read_offset,
)
from penstock.coordination.group.settings import GroupSettingChange, GroupSettings
from penstock.coordination.group.shared.group import ShareGroup
from penstock.coordination.group.shared.messages import ShareGroupConfig
from penstock.coordination.group.shared.records import SHARED_KINDS
from penstock.coordination.group.shared.states import KeptState, ShareStates, encode_state
from penstock.model.errors import Busy, CorruptLog
from penstock.model.limits import GROUPS_BYTES_MAX, GROUPS_MAX

_NOBODY: Final[frozenset[str]] = frozenset()

Machine = ClassicGroup | ConsumerGroup | ShareGroup


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorConfig:
    """What an operator decides about groups."""

    classic: GroupConfig
    consumer: ConsumerGroupConfig
    share: ShareGroupConfig
    offsets_retention_ms: int
    """How long offsets outlive the members of their group."""


class Group:
    """One group. Without a machine it never had members, or has forgotten them: just offsets."""

    __slots__ = (
        "counted_bytes",
        "machine",
        "name",
        "offsets",
        "record_bytes",
        "records",
        "wake_ms",
    )

    def __init__(self, name: str) -> None:
        self.name = name
        self.machine: Machine | None = None
        self.offsets = GroupOffsets()
        # The last record of each key that its machine has written, in the order of the topic.
        self.records: dict[bytes, bytes] = {}
        self.record_bytes = 0
        # What of it the table has counted.
        self.counted_bytes = 0
        # When the table looks at it next.
        self.wake_ms: int | None = None

    @property
    def is_empty(self) -> bool:
        """Whether nobody is in it or about to be."""
        machine = self.machine
        if machine is None:
            return True
        if isinstance(machine, ClassicGroup):
            return machine.state is GroupState.EMPTY
        return machine.member_count == 0

    @property
    def is_nothing(self) -> bool:
        """Whether nothing would be lost with it."""
        return (
            not self.offsets
            and not self.records
            and self.is_empty
            and (self.machine is None or self.machine.deadline_ms is None)
        )

    def usage(self) -> Usage:
        machine = self.machine
        if machine is None:
            return Usage(subscribed=_NOBODY, empty_since_ms=None)
        if self.is_empty:
            return Usage(subscribed=_NOBODY, empty_since_ms=machine.empty_since_ms)
        return Usage(subscribed=machine.subscribed_topics(), empty_since_ms=None)

    def note(self, record: Record) -> None:
        """Its machine has written the record."""
        # Taken out first, so that the order is that of the last records, as in a compacted topic.
        earlier = self.records.pop(record.key, None)
        if earlier is not None:
            self.record_bytes -= len(record.key) + len(earlier)
        if record.value is not None:
            self.records[record.key] = record.value
            self.record_bytes += len(record.key) + len(record.value)

    @property
    def size_bytes(self) -> int:
        """What its members take: what they have said, and what is written of it."""
        machine = self.machine
        said_bytes = machine.member_bytes if isinstance(machine, ClassicGroup) else 0
        return said_bytes + self.record_bytes


class GroupTable:
    """Every group of the coordinator."""

    def __init__(self, config: CoordinatorConfig) -> None:
        self._config = config
        self._groups: dict[str, Group] = {}
        self._wakes: list[tuple[int, str]] = []
        self.settings = GroupSettings(config.consumer, config.share)
        self.shares = ShareStates()
        self.exclusive_topics = ExclusiveTopics()
        """Of topics, which have nothing to do with groups but who keeps them."""
        self.offset_count = 0
        """Of all groups together."""
        self.size_bytes = 0
        """What the members of all groups take."""
        self.point_to_point = PointToPoint()
        """The topics that one group has for itself."""

    def __len__(self) -> int:
        return len(self._groups)

    def __iter__(self) -> Iterator[Group]:
        return iter(self._groups.values())

    def get(self, name: str) -> Group | None:
        return self._groups.get(name)

    def get_or_create(self, name: str) -> Group:
        group = self._groups.get(name)
        if group is None:
            check_group_name(name)
            if len(self._groups) >= GROUPS_MAX:
                raise Busy(f"The broker keeps {GROUPS_MAX} groups and no more: delete some.")
            group = self._groups[name] = Group(name)
        return group

    def check_room(self, name: str, member_id: str) -> None:
        """Raise Busy if the member is not in the group yet and there is no room for it."""
        if self.size_bytes > GROUPS_BYTES_MAX and not self.has_member(name, member_id):
            raise Busy(
                f"The members of all groups take more than {GROUPS_BYTES_MAX} bytes: stop some."
            )

    def has_member(self, name: str, member_id: str) -> bool:
        group = self._groups.get(name)
        return (
            group is not None and group.machine is not None and group.machine.has_member(member_id)
        )

    # --- what changes a group ------------------------------------------------------------------

    def acted(self, group: Group, effects: Effects) -> Effects:
        """The group's machine has done something: remember what it wrote and when to wake it."""
        for record in effects.records:
            group.note(record)
        self._count(group)
        machine = group.machine
        deadline_ms = None if machine is None else machine.deadline_ms
        if deadline_ms is None:
            self.drop_if_nothing(group)
        elif group.wake_ms is None or deadline_ms < group.wake_ms:
            self._wake_at(group, deadline_ms)
        return effects

    def put_offset(self, group: Group, committed: CommittedOffset) -> Record:
        self.offset_count += group.offsets.put(committed)
        return encode_offset(group.name, committed)

    def remove_offset(self, group: Group, topic: str, partition: int) -> Record | None:
        if not group.offsets.remove(topic, partition):
            return None
        self.offset_count -= 1
        return Record(key=offset_key(group.name, topic, partition), value=None)

    def configure(self, name: str, change: GroupSettingChange) -> list[Record]:
        """From now on the group goes by these settings, if it is there. InvalidConfig."""
        records = self.settings.put(name, self.settings.changed(name, change))
        group = self._groups.get(name)
        if group is not None and isinstance(group.machine, ConsumerGroup):
            group.machine.config = self.settings.consumer_config(name)
        elif group is not None and isinstance(group.machine, ShareGroup):
            group.machine.config = self.settings.share_config(name)
        return records

    def forget_members(self, group: Group) -> list[Record]:
        """Let the group have no machine any more; its offsets stay."""
        tombstones = [Record(key=key, value=None) for key in group.records]
        group.records.clear()
        group.record_bytes = 0
        group.machine = None
        self._count(group)
        return tombstones

    def remove(self, group: Group) -> list[Record]:
        """Let nothing of the group be left."""
        tombstones = self.forget_members(group)
        tombstones += [
            Record(key=offset_key(group.name, committed.topic, committed.partition), value=None)
            for committed in group.offsets
        ]
        tombstones += self.shares.remove_group(group.name)
        self.offset_count -= len(group.offsets)
        del self._groups[group.name]
        return tombstones + self.point_to_point.release(group.name)

    def drop_if_nothing(self, group: Group) -> None:
        owns = group.name in self.shares or self.point_to_point.topics_of(group.name)
        if group.is_nothing and not owns:
            self._groups.pop(group.name, None)

    def _count(self, group: Group) -> None:
        size_bytes = group.size_bytes
        self.size_bytes += size_bytes - group.counted_bytes
        group.counted_bytes = size_bytes

    # --- time ----------------------------------------------------------------------------------

    @property
    def wake_ms(self) -> int | None:
        """When to look at `due`: never later than a group has something to do."""
        return self._wakes[0][0] if self._wakes else None

    def due(self, now_ms: int) -> list[Group]:
        """The groups whose machines have something to do by now."""
        found = []
        wakes = self._wakes
        while wakes and wakes[0][0] <= now_ms:
            wake_ms, name = heapq.heappop(wakes)
            group = self._groups.get(name)
            if group is None or group.machine is None or group.wake_ms != wake_ms:
                continue  # it was woken earlier, or is another group of that name by now
            group.wake_ms = None
            deadline_ms = group.machine.deadline_ms
            if deadline_ms is None:
                continue
            if deadline_ms <= now_ms:
                found.append(group)
            else:
                self._wake_at(group, deadline_ms)
        return found

    def _wake_at(self, group: Group, wake_ms: int) -> None:
        # Only ever earlier than before, so heartbeats, which move deadlines away, add nothing.
        group.wake_ms = wake_ms
        heapq.heappush(self._wakes, (wake_ms, group.name))

    # --- records -------------------------------------------------------------------------------

    def apply(self, key: bytes, value: bytes | None, timestamp_ms: int) -> None:
        """Take in one record of the internal topic. After the last one: `restored`."""
        what = read_key(key)
        if what.kind == CLAIM_KIND:
            self.exclusive_topics.apply(what.topic, value)
            return
        if what.kind == CONFIRMATION_KIND:
            return
        if what.kind == SETTINGS_KIND:
            self.settings.apply(what.group, value)
            return
        group = self._groups.setdefault(what.group, Group(what.group))
        if what.kind == SHARE_STATE_KIND:
            self.shares.apply(what, value)
        elif what.kind == POINT_TO_POINT_KIND:
            self.point_to_point.apply(what.group, what.topic, value)
        elif what.kind != OFFSET_KIND:
            group.note(Record(key=key, value=value))
        elif value is not None:
            self.offset_count += group.offsets.put(read_offset(what, value, timestamp_ms))
        else:
            self.offset_count -= group.offsets.remove(what.topic, what.partition)

    def restored(self, now_ms: int) -> list[CorruptLog]:
        """All records are applied: let the groups go on, with a full session for every member.
        Returns what cannot be read: those groups keep their offsets, and their members are to
        join again."""
        self.exclusive_topics.restored(now_ms)
        problems = []
        for group in list(self):
            if group.records:
                try:
                    group.machine = self._restore(group, now_ms)
                except CorruptLog as problem:
                    problems.append(problem)
            self.acted(group, Effects())
        return problems

    def _restore(self, group: Group, now_ms: int) -> Machine:
        [(key, value), *others] = group.records.items()
        kind = read_key(key).kind
        if kind == CLASSIC_KIND and not others:
            return ClassicGroup.restore(group.name, self._config.classic, value, now_ms)
        if kind in SHARED_KINDS:
            share = self.settings.share_config(group.name)
            return ShareGroup.restore(group.name, share, group.records.items(), now_ms)
        consumer = self.settings.consumer_config(group.name)
        return ConsumerGroup.restore(group.name, consumer, group.records.items(), now_ms)

    def checkpoint(self) -> Checkpoint:
        """The table as it is now, for a snapshot that is written while it goes on changing."""
        return Checkpoint(
            [(group.name, list(group.records.items()), group.offsets.copy()) for group in self],
            list(self.shares),
            [
                *self.point_to_point.records(),
                *self.exclusive_topics.records(),
                *self.settings.records(),
            ],
        )


class Checkpoint:
    """A table at one moment."""

    def __init__(
        self,
        groups: list[tuple[str, list[tuple[bytes, bytes]], list[CommittedOffset]]],
        shares: list[tuple[str, KeptState]],
        others: Sequence[tuple[bytes, bytes]] = (),
    ) -> None:
        """others: records that are not of one group's members or offsets."""
        self._groups = groups
        self._shares = shares
        self._others = others

    def __len__(self) -> int:
        of_groups = sum(len(records) + len(offsets) for _, records, offsets in self._groups)
        return of_groups + len(self._shares) + len(self._others)

    def records(self) -> Iterator[tuple[bytes, bytes]]:
        """Keys and values that lead to the table from nothing."""
        yield from self._others
        for name, records, offsets in self._groups:
            yield from records
            for committed in offsets:
                record = encode_offset(name, committed)
                assert record.value is not None
                yield record.key, record.value
        for name, kept in self._shares:
            record = encode_state(name, kept)
            assert record.value is not None
            yield record.key, record.value
