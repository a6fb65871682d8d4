"""Which groups read which topics, and in which mode: what an operator sees of subscriptions.

Questions to the table and one order, no state of its own. The invariant: a group is shown with a
topic exactly if its members read it, it has a place in it, or it has it for itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from penstock.coordination.group.consumer.group import ConsumerGroup
from penstock.coordination.group.effects import Effects, Ticket
from penstock.coordination.group.point_to_point import TopicIdOf
from penstock.coordination.group.shared.group import ShareGroup
from penstock.coordination.group.table import GroupTable


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    topic: str
    is_point_to_point: bool
    groups: tuple[str, ...]


def list_subscriptions(
    table: GroupTable, topic_id_of: TopicIdOf, only_topic: str = ""
) -> list[Subscription]:
    """By topic; of all topics unless one is named."""
    groups_of: dict[str, set[str]] = {}
    for group in table:
        topics = set(group.usage().subscribed or ())
        topics |= {
            place.topic
            for place in (*group.offsets, *table.shares.of(group.name))
            if place.topic_id == topic_id_of(place.topic)
        }
        topics |= table.point_to_point.topics_of(group.name)
        for topic in topics & {only_topic} if only_topic else topics:
            groups_of.setdefault(topic, set()).add(group.name)
    return [
        Subscription(
            topic=topic,
            is_point_to_point=table.point_to_point.owner(topic) is not None,
            groups=tuple(sorted(groups_of[topic])),
        )
        for topic in sorted(groups_of)
        if topic_id_of(topic) is not None
    ]


def readers_of(table: GroupTable, topic: str) -> Iterator[str]:
    """The groups whose members are known to read the topic now."""
    for group in table:
        if topic in (group.usage().subscribed or ()):
            yield group.name


def lose_member(
    table: GroupTable, ticket: Ticket[None], name: str, member_id: str, now_ms: int
) -> Effects:
    """The connection of a member of ours has ended. Answered with None."""
    effects = Effects()
    effects.answer(ticket, None)
    group = table.get(name)
    if group is not None and isinstance(group.machine, ConsumerGroup | ShareGroup):
        group.machine.lose(member_id, now_ms)
        table.acted(group, effects)
    return effects
