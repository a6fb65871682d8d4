"""Topics that one group alone reads: the mode point-to-point of a subscription (R-DEL-1).

Publish-subscribe is the rule and needs no record. A group that subscribes point to point has the
topic for itself from then on, whoever of it comes and goes, until the group is deleted; also if the
topic is deleted and made again, unless that finds nobody of the group there. Not who of the group
reads which partition. The invariants: a topic belongs to one group at most; and no other group, of
whichever kind, joins with it or commits an offset in it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Final

from penstock.coordination.group.consumer.messages import TopicFacts, Topics
from penstock.coordination.group.effects import Record
from penstock.model.errors import InvalidTopic, SubscriptionTaken, UnknownTopic
from penstock.model.ids import is_internal

POINT_TO_POINT_KIND: Final = "point-to-point"
# The key says all there is to say.
_TAKEN: Final = b"{}"

TopicIdOf = Callable[[str], str | None]
"""The id of the topic that has this name now."""
ReadersOf = Callable[[str], Iterable[str]]
"""The groups whose members read the topic of this name."""


class PointToPoint:
    """The topics that belong to one group, by name. False: there are none."""

    def __init__(self) -> None:
        self._owners: dict[str, str] = {}
        self._topics: dict[str, set[str]] = {}

    def __len__(self) -> int:
        return len(self._owners)

    def owner(self, topic: str) -> str | None:
        """The group that alone may read the topic; None: everybody may."""
        return self._owners.get(topic)

    def topics_of(self, group: str) -> frozenset[str]:
        return frozenset(self._topics.get(group, ()))

    def check(self, group: str, topics: Iterable[str]) -> None:
        """Raise SubscriptionTaken if one of the topics is another group's."""
        if not self._owners:
            return
        for topic in topics:
            owner = self.owner(topic)
            if owner not in (None, group):
                raise SubscriptionTaken(
                    f"Topic {topic!r} is read point to point by group {owner!r} alone: join that "
                    "one, or delete it first."
                )

    def visible_to(self, group: str, topics: Topics) -> Topics:
        """The topics without those of other groups, for who asks by a pattern."""
        return _Visible(self, group, topics) if self._owners else topics

    def take(
        self, group: str, topics: Iterable[str], topic_id_of: TopicIdOf, readers_of: ReadersOf
    ) -> list[str]:
        """The topics that the group does not have yet and may have. They are its own only once it
        is told so (`give`): whoever asks may still be refused for another reason."""
        self.check(group, topics)
        found = []
        for topic in topics:
            if self.owner(topic) == group:
                continue
            if is_internal(topic):
                raise InvalidTopic(f"{topic!r} is the broker's own: nobody has it for itself.")
            if topic_id_of(topic) is None:
                raise UnknownTopic(f"There is no topic {topic!r} to read point to point.")
            for reader in readers_of(topic):
                if reader != group:
                    raise SubscriptionTaken(
                        f"Topic {topic!r} is read by group {reader!r}: nobody can have it point "
                        "to point before that one's consumers stop."
                    )
            found.append(topic)
        return found

    def give(self, group: str, topics: Iterable[str]) -> list[Record]:
        records = []
        for topic in topics:
            self._put(topic, group)
            records.append(Record(key=_key(group, topic), value=_TAKEN))
        return records

    def release(self, group: str) -> list[Record]:
        """The group is no more."""
        return [self._drop(group, topic) for topic in sorted(self._topics.get(group, ()))]

    def forget_gone(
        self, group: str, subscribed: Collection[str], topic_id_of: TopicIdOf
    ) -> list[Record]:
        """Topics that do not exist any more, and that no member of the group waits for."""
        gone = [
            topic
            for topic in sorted(self._topics.get(group, ()))
            if topic not in subscribed and topic_id_of(topic) is None
        ]
        return [self._drop(group, topic) for topic in gone]

    def apply(self, group: str, topic: str, value: bytes | None) -> None:
        """Take in one record of the internal topic."""
        if value is not None:
            self._put(topic, group)
        elif topic in self._topics.get(group, ()):
            self._drop(group, topic)

    def records(self) -> list[tuple[bytes, bytes]]:
        """Keys and values that lead to this from nothing."""
        return [(_key(group, topic), _TAKEN) for topic, group in self._owners.items()]

    def _put(self, topic: str, group: str) -> None:
        before = self._owners.get(topic)
        if before is not None:
            self._drop(before, topic)
        self._owners[topic] = group
        self._topics.setdefault(group, set()).add(topic)

    def _drop(self, group: str, topic: str) -> Record:
        del self._owners[topic]
        self._topics[group].discard(topic)
        if not self._topics[group]:
            del self._topics[group]
        return Record(key=_key(group, topic), value=None)


class _Visible:
    """Topics as one group may see them."""

    def __init__(self, taken: PointToPoint, group: str, topics: Topics) -> None:
        self._taken = taken
        self._group = group
        self._topics = topics

    def __iter__(self) -> Iterator[str]:
        return (name for name in self._topics if self.get(name) is not None)

    def get(self, name: str, /) -> TopicFacts | None:
        facts = self._topics.get(name)
        return facts if self._taken.owner(name) in (None, self._group) else None


def _key(group: str, topic: str) -> bytes:
    return json.dumps({"kind": POINT_TO_POINT_KIND, "group": group, "topic": topic}).encode()
