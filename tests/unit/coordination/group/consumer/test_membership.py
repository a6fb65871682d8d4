"""What members say about themselves, and heartbeats that make no sense."""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.coordination.group.consumer.membership import Membership, check_heartbeat
from penstock.coordination.group.consumer.messages import ConsumerHeartbeat
from penstock.model.errors import InvalidRequest, UnsupportedAssignor
from penstock.model.ids import TopicId
from penstock.model.limits import MEMBER_NAME_LENGTH_MAX, SUBSCRIPTION_CHARACTERS_MAX

JOIN = ConsumerHeartbeat(
    member_id="m",
    member_epoch=0,
    rebalance_timeout_ms=1000,
    topic_names=frozenset({"orders"}),
    owned={},
)
TOO_LONG = "x" * (MEMBER_NAME_LENGTH_MAX + 1)


def test_a_join_and_what_follows_it() -> None:
    check_heartbeat(JOIN)
    check_heartbeat(replace(JOIN, member_id="", new_member_id="made"))
    check_heartbeat(replace(JOIN, topic_names=None, topic_pattern=""))
    check_heartbeat(ConsumerHeartbeat(member_id="m", member_epoch=7))
    check_heartbeat(ConsumerHeartbeat(member_id="m", member_epoch=-1))
    check_heartbeat(ConsumerHeartbeat(member_id="m", member_epoch=-2, instance_id="i"))


@pytest.mark.parametrize(
    ("request_", "reason"),
    [
        (replace(JOIN, member_epoch=-3), "epoch is -3"),
        (replace(JOIN, rebalance_timeout_ms=None), "rebalance timeout"),
        (replace(JOIN, rebalance_timeout_ms=-2), "cannot be negative"),
        (replace(JOIN, topic_names=None), "what it subscribes to"),
        (replace(JOIN, owned=None), "owns no partitions"),
        (replace(JOIN, owned={TopicId("1"): (0,)}), "owns no partitions"),
        (replace(JOIN, member_id=TOO_LONG), "characters"),
        (replace(JOIN, instance_id=TOO_LONG), "characters"),
        (replace(JOIN, rack_id=TOO_LONG), "characters"),
        (replace(JOIN, client_id=TOO_LONG), "characters"),
        (replace(JOIN, instance_id=""), "leave it out"),
        (replace(JOIN, rack_id=""), "leave it out"),
        (replace(JOIN, topic_names=frozenset(map(str, range(10_001)))), "10001 topics"),
        (
            replace(JOIN, topic_names=frozenset({"x" * SUBSCRIPTION_CHARACTERS_MAX, "y"})),
            "2 topics",
        ),
        (ConsumerHeartbeat(member_id="", member_epoch=7), "member id is empty"),
        (ConsumerHeartbeat(member_id="", member_epoch=-1), "member id is empty"),
        (ConsumerHeartbeat(member_id="m", member_epoch=-2), "instance id"),
    ],
)
def test_senseless(request_: ConsumerHeartbeat, reason: str) -> None:
    with pytest.raises(InvalidRequest, match=reason):
        check_heartbeat(request_)


def test_an_assignor_that_is_not_there() -> None:
    with pytest.raises(UnsupportedAssignor, match="take one of uniform, range"):
        check_heartbeat(replace(JOIN, assignor="cooperative-sticky"))


def test_what_is_not_said_stays() -> None:
    joined = Membership().updated(replace(JOIN, instance_id="i", rack_id="r", assignor="range"))
    assert joined == Membership(
        instance_id="i",
        rack_id="r",
        rebalance_timeout_ms=1000,
        topic_names=frozenset({"orders"}),
        assignor="range",
    )
    assert joined.updated(ConsumerHeartbeat(member_id="m", member_epoch=1)) is joined
    assert joined.updated(JOIN) is joined


def test_a_pattern_can_be_taken_back() -> None:
    beat = ConsumerHeartbeat(member_id="m", member_epoch=1)
    by_pattern = Membership().updated(replace(beat, topic_pattern="a.*"))
    assert by_pattern.topic_pattern == "a.*"
    assert by_pattern.updated(beat) is by_pattern
    assert by_pattern.updated(replace(beat, topic_pattern="")).topic_pattern is None
    assert not by_pattern.subscribes_like(Membership())
    assert by_pattern.subscribes_like(replace(by_pattern, client_id="other"))
