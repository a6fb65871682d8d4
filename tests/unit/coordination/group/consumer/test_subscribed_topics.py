"""Names and patterns turned into topics."""

from __future__ import annotations

import pytest

from penstock.coordination.group.consumer.membership import Membership
from penstock.coordination.group.consumer.messages import TopicFacts
from penstock.coordination.group.consumer.subscribed_topics import SubscribedTopics
from penstock.model.errors import InvalidRegularExpression
from tests.kit.models.consumer_group import topic_id

TOPICS = {
    name: TopicFacts(topic_id(name), count)
    for name, count in {"orders-eu": 2, "orders-us": 3, "payments": 1, "__offsets": 1}.items()
}
BY_NAME = Membership(topic_names=frozenset({"payments", "no-such"}))
BY_PATTERN = Membership(topic_pattern="orders-.*")
BY_BOTH = Membership(topic_names=frozenset({"payments"}), topic_pattern=".*-us")


def test_each_member_gets_the_topics_it_means() -> None:
    resolution = SubscribedTopics().resolve([BY_NAME, BY_PATTERN, BY_BOTH], TOPICS)
    assert resolution.topics_of(BY_NAME) == {topic_id("payments")}
    assert resolution.topics_of(BY_PATTERN) == {topic_id("orders-eu"), topic_id("orders-us")}
    assert resolution.topics_of(BY_BOTH) == {topic_id("payments"), topic_id("orders-us")}
    assert resolution.topics.keys() == {"payments", "orders-eu", "orders-us"}
    assert resolution.partition_counts()[topic_id("orders-us")] == 3


def test_internal_topics_are_for_those_who_name_them() -> None:
    everything = Membership(topic_pattern=".*")
    named = Membership(topic_names=frozenset({"__offsets"}))
    resolution = SubscribedTopics().resolve([everything, named], TOPICS)
    assert topic_id("__offsets") not in resolution.topics_of(everything)
    assert resolution.topics_of(named) == {topic_id("__offsets")}


def test_the_digest_tells_whether_an_assignor_would_see_a_difference() -> None:
    def digest(members: list[Membership], topics: dict[str, TopicFacts], assignor: str) -> str:
        return SubscribedTopics().resolve(members, topics).digest(assignor)

    before = digest([BY_NAME], TOPICS, "range")
    assert digest([BY_NAME, BY_NAME], dict(reversed(TOPICS.items())), "range") == before
    assert digest([BY_NAME], TOPICS | {"other": TopicFacts(topic_id("o"), 1)}, "range") == before
    assert digest([BY_NAME], TOPICS, "uniform") != before
    assert digest([BY_NAME, BY_PATTERN], TOPICS, "range") != before
    grown = TOPICS | {"payments": TopicFacts(topic_id("payments"), 2)}
    assert digest([BY_NAME], grown, "range") != before
    made_again = TOPICS | {"payments": TopicFacts(topic_id("other"), 1)}
    assert digest([BY_NAME], made_again, "range") != before


def test_a_pattern_that_cannot_be_used_is_refused() -> None:
    subscribed = SubscribedTopics()
    subscribed.resolve([BY_PATTERN], TOPICS)
    with pytest.raises(InvalidRegularExpression):
        subscribed.resolve([BY_PATTERN, Membership(topic_pattern="(")], TOPICS)
    assert subscribed.resolve([BY_PATTERN], TOPICS).topics.keys() == {"orders-eu", "orders-us"}
