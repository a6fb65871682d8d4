"""Topics that one group alone reads: the mode point-to-point of a subscription (R-DEL-1).

Publish-subscribe is the rule and needs no record. A group that subscribes point to point has the
topic for itself from then on, whoever of it comes and goes, until the group is deleted. Not who of
the group reads which partition. The invariants: a topic belongs to one group at most; and no other
group, of whichever kind, joins with it or commits an offset in it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

from penstock.coordination.group.consumer_messages import TopicFacts, Topics
from penstock.coordination.group.effects import Record
from penstock.model.delivery_errors import SubscriptionTaken
from penstock.model.errors import CorruptLog, UnknownTopic

POINT_TO_POINT_KIND: Final = "point-to-point"

TopicIdOf = Callable[[str], str | None]
"""The id of the topic that has this name now."""
ReadersOf = Callable[[str], Iterable[str]]
"""The groups whose members read the topic of this name."""


class _Owner(NamedTuple):
    group: str
    topic_id: str
    """A topic that was deleted and made again is another topic, and everybody's."""


class PointToPoint:
    """The topics that belong to one group, by name. False: there are none."""

    def __init__(self) -> None:
        self._owners: dict[str, _Owner] = {}
        self._topics: dict[str, set[str]] = {}

    def __len__(self) -> int:
        return len(self._owners)

    def owner(self, topic: str, topic_id: str | None) -> str | None:
        """The group that alone may read the topic; None: everybody may."""
        owner = self._owners.get(topic)
        return owner.group if owner is not None and owner.topic_id == topic_id else None

    def topics_of(self, group: str) -> frozenset[str]:
        return frozenset(self._topics.get(group, ()))

    def check(self, group: str, topics: Iterable[str], topic_id_of: TopicIdOf) -> None:
        """Raise SubscriptionTaken if one of the topics is another group's."""
        if not self._owners:
            return
        for topic in topics:
            owner = self.owner(topic, topic_id_of(topic))
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
    ) -> dict[str, str]:
        """The ids of the topics that the group does not have yet and may have. They are its own
        only once it is told so (`give`): whoever asks may still be refused for another reason."""
        self.check(group, topics, topic_id_of)
        found = {}
        for topic in topics:
            topic_id = topic_id_of(topic)
            if topic_id is None:
                raise UnknownTopic(f"There is no topic {topic!r} to read point to point.")
            if self.owner(topic, topic_id) == group:
                continue
            for reader in readers_of(topic):
                if reader != group:
                    raise SubscriptionTaken(
                        f"Topic {topic!r} is read by group {reader!r}: nobody can have it point "
                        "to point before that one's consumers stop."
                    )
            found[topic] = topic_id
        return found

    def give(self, group: str, topic_ids: dict[str, str]) -> list[Record]:
        for topic, topic_id in topic_ids.items():
            self._put(topic, _Owner(group, topic_id))
        return [_record(group, topic, topic_id) for topic, topic_id in topic_ids.items()]

    def release(self, group: str) -> list[Record]:
        """The group is no more."""
        return [self._drop(group, topic) for topic in sorted(self._topics.get(group, ()))]

    def forget_gone(self, group: str, topic_id_of: TopicIdOf) -> list[Record]:
        """Topics of the group that do not exist any more."""
        gone = [
            topic
            for topic in sorted(self._topics.get(group, ()))
            if self._owners[topic].topic_id != topic_id_of(topic)
        ]
        return [self._drop(group, topic) for topic in gone]

    def apply(self, group: str, topic: str, value: bytes | None) -> None:
        """Take in one record of the internal topic."""
        if value is not None:
            self._put(topic, _Owner(group, _read_topic_id(group, value)))
        elif topic in self._topics.get(group, ()):
            self._drop(group, topic)

    def records(self) -> list[tuple[bytes, bytes]]:
        """Keys and values that lead to this from nothing."""
        records = []
        for topic, owner in self._owners.items():
            record = _record(owner.group, topic, owner.topic_id)
            assert record.value is not None
            records.append((record.key, record.value))
        return records

    def _put(self, topic: str, owner: _Owner) -> None:
        before = self._owners.get(topic)
        if before is not None:
            self._drop(before.group, topic)
        self._owners[topic] = owner
        self._topics.setdefault(owner.group, set()).add(topic)

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
        if facts is None or self._taken.owner(name, facts.topic_id) in (None, self._group):
            return facts
        return None


def _key(group: str, topic: str) -> bytes:
    return json.dumps({"kind": POINT_TO_POINT_KIND, "group": group, "topic": topic}).encode()


def _record(group: str, topic: str, topic_id: str) -> Record:
    return Record(key=_key(group, topic), value=json.dumps({"topic_id": topic_id}).encode())


def _read_topic_id(group: str, value: bytes) -> str:
    try:
        return str(json.loads(value)["topic_id"])
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptLog(
            f"Which topic group {group!r} reads point to point cannot be read: {error!r}."
        ) from error
