"""Which topics the members' subscriptions mean now: names and patterns turned into topics.

Not who gets their partitions. The invariant: `Resolution.digest` changes whenever what an
assignor would be given about the topics changes, and survives a restart of the broker.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from penstock.coordination.group.consumer.membership import Membership
from penstock.coordination.group.consumer.messages import TopicFacts, Topics
from penstock.coordination.group.consumer.topic_pattern import TopicPattern
from penstock.model.ids import TopicId, is_internal

_Subscription = tuple[frozenset[str], str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolution:
    """The topics of all members together, and of each."""

    topics: Mapping[str, TopicFacts]
    _ids: Mapping[_Subscription, frozenset[TopicId]]

    def topics_of(self, membership: Membership) -> frozenset[TopicId]:
        return self._ids[membership.topic_names, membership.topic_pattern]

    def partition_counts(self) -> dict[TopicId, int]:
        return {facts.topic_id: facts.partition_count for facts in self.topics.values()}

    def digest(self, assignor: str) -> str:
        """Short, since it is written whenever the group changes."""
        facts = json.dumps([assignor, sorted(self.topics.items())])
        return hashlib.blake2b(facts.encode(), digest_size=8).hexdigest()


class SubscribedTopics:
    """Remembers the patterns of a group and what they said about the topics seen so far."""

    def __init__(self) -> None:
        self._patterns: dict[str, TopicPattern] = {}

    def resolve(self, memberships: Iterable[Membership], topics: Topics) -> Resolution:
        """Raises InvalidRegularExpression, and has then changed nothing that matters."""
        subscriptions = {(one.topic_names, one.topic_pattern) for one in memberships}
        matching = self._match({pattern for _, pattern in subscriptions if pattern}, topics)
        facts: dict[str, TopicFacts] = {}
        ids: dict[_Subscription, frozenset[TopicId]] = {}
        for names, pattern in subscriptions:
            found = {}
            for name in names | matching.get(pattern or "", frozenset()):
                topic = topics.get(name)
                if topic is not None:
                    found[name] = topic
            facts |= found
            ids[names, pattern] = frozenset(topic.topic_id for topic in found.values())
        return Resolution(topics=facts, _ids=ids)

    def _match(self, patterns: set[str], topics: Topics) -> dict[str, frozenset[str]]:
        """The broker's own topics are for those who name them: `.*` means the user's."""
        if not patterns:
            self._patterns = {}
            return {}
        names = [name for name in topics if not is_internal(name)]
        compiled = {text: self._patterns.get(text) or TopicPattern(text) for text in patterns}
        matching = {text: pattern.matching(names) for text, pattern in compiled.items()}
        self._patterns = compiled
        return matching
