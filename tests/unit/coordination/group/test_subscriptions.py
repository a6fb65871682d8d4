"""Which groups read which topics, and in which mode; and members whose connection ended."""

from __future__ import annotations

from penstock.coordination.group.subscriptions import (
    Subscription,
    list_subscriptions,
    lose_member,
    readers_of,
)
from penstock.model.limits import MEMBER_LOST_MS_MAX
from tests.kit.models.group_coordinator import Shell
from tests.kit.models.tickets import Named


def test_members_places_and_modes_are_shown() -> None:
    """R-DEL-1: every group that reads a topic, and whether only one may."""
    shell = Shell()
    shell.consumer("till", is_point_to_point=True)
    shell.consumer("audit", topic_names=frozenset({"events"}))
    shell.commit("reports", 1, "events")
    expected = [
        Subscription(topic="events", is_point_to_point=False, groups=("audit", "reports")),
        Subscription(topic="orders", is_point_to_point=True, groups=("till",)),
    ]
    table, ids = shell.groups.table, shell.topic_ids.get
    assert list_subscriptions(table, ids) == expected
    assert list_subscriptions(table, ids, "orders") == expected[1:]
    assert list(readers_of(table, "events")) == ["audit"]
    shell.topic_ids.pop("events")
    assert list_subscriptions(table, ids) == expected[1:], "a topic that is gone has no readers"


def test_a_shared_group_is_shown_where_it_stands() -> None:
    """R-DEL-1: also when it has no members, as other groups are."""
    shell = Shell()
    joined = shell.share_joined("workers")
    shell.share_write("workers", b"state")
    assert shell.share("workers", member_epoch=-1) is not joined
    assert shell.groups.shared.describe("workers").members == ()
    table, ids = shell.groups.table, shell.topic_ids.get
    expected = Subscription(topic="orders", is_point_to_point=False, groups=("workers",))
    assert list_subscriptions(table, ids) == [expected]
    shell.topic_ids["orders"] = "0" * 32
    assert list_subscriptions(table, ids) == [], "a topic made anew is another"


def test_a_member_whose_connection_ended_has_a_moment() -> None:
    """R-DEL-7: then it is removed; the timer of the groups knows."""
    shell = Shell()
    shell.consumer_joined("g")
    shell.does(lose_member(shell.groups.table, Named("lost"), "g", "member", shell.now_ms))
    assert shell.groups.table.wake_ms == shell.now_ms + MEMBER_LOST_MS_MAX
    shell.now_ms += MEMBER_LOST_MS_MAX
    shell.expire()
    assert shell.groups.describe_consumer("g").members == ()
    for group in ("g", "nobody"):
        shell.does(lose_member(shell.groups.table, Named("lost"), group, "member", shell.now_ms))
