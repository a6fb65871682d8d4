"""Topics that one group alone reads (R-DEL-1): taken, refused to every other kind of group, kept
across restarts and snapshots, given up with the group."""

from __future__ import annotations

import pytest

from penstock.coordination.group.consumer.messages import ConsumerHeartbeatAnswer, TopicFacts
from penstock.coordination.group.point_to_point import PointToPoint
from penstock.coordination.group.table import GroupTable
from penstock.model.errors import InvalidTopic, SubscriptionTaken, UnknownTopic
from penstock.model.ids import TopicId
from tests.kit.models.group_coordinator import CONFIG, RETENTION_MS, TOPICS, Shell
from tests.kit.models.tickets import Named


def taken() -> Shell:
    """Group "till" has "orders" for itself."""
    shell = Shell()
    answer = shell.consumer("till", is_point_to_point=True)
    assert isinstance(answer, ConsumerHeartbeatAnswer), answer
    return shell


def leave(shell: Shell, group: str) -> None:
    answer = shell.consumer(group, -1)
    assert isinstance(answer, ConsumerHeartbeatAnswer), answer


def test_any_other_group_is_refused_whatever_it_speaks() -> None:
    """R-DEL-1: classic members, members of the next generation, and whoever commits."""
    for shell in (taken(), taken().restarted()):
        with pytest.raises(SubscriptionTaken, match="'till'"):
            shell.join("other")
        with pytest.raises(SubscriptionTaken, match="'till'"):
            shell.consumer("other")
        with pytest.raises(SubscriptionTaken, match="'till'"):
            shell.consumer("other", is_point_to_point=True)
        with pytest.raises(SubscriptionTaken, match="'till'"):
            shell.commit("other")
        assert shell.names() == ["till"], "who is refused leaves nothing"
        assert isinstance(
            shell.consumer("other", topic_names=frozenset({"events"})), ConsumerHeartbeatAnswer
        )


def test_the_group_itself_is_joined() -> None:
    """R-DEL-1: create it or join it, by any protocol."""
    shell = taken()
    assert isinstance(shell.consumer("till", member_id="second"), ConsumerHeartbeatAnswer)
    assert isinstance(
        shell.consumer("till", member_id="third", is_point_to_point=True), ConsumerHeartbeatAnswer
    )
    written = len(shell.log)
    shell.consumer("till", member_id="third", is_point_to_point=True)
    assert len(shell.log) == written, "it has the topic already"
    for member in ("second", "third", "member"):
        shell.consumer("till", -1, member_id=member)
    shell.stable("till")
    shell.commit("till", 3, member_id="member", generation=1)


def test_it_outlives_the_members_and_ends_with_the_group() -> None:
    shell = taken()
    leave(shell, "till")
    shell.now_ms += RETENTION_MS * 10
    for _ in range(3):
        shell.now_ms += 3_600_000
        shell.expire()
    again = shell.restarted()
    with pytest.raises(SubscriptionTaken):
        again.consumer("other")
    again.does(again.groups.delete(Named("delete"), ["till"]))
    assert isinstance(again.consumer("other"), ConsumerHeartbeatAnswer)
    assert isinstance(again.restarted().consumer("other", 1), ConsumerHeartbeatAnswer)


def test_what_others_read_cannot_be_taken() -> None:
    """One group reads a topic point to point, or it is not point to point."""
    shell = Shell()
    shell.stable("audit")
    with pytest.raises(SubscriptionTaken, match="'audit'"):
        shell.consumer("till", is_point_to_point=True)
    shell.now_ms += 20_000
    shell.expire()
    assert isinstance(shell.consumer("till", is_point_to_point=True), ConsumerHeartbeatAnswer)


def test_the_broker_s_own_topics_cannot_be_taken() -> None:
    """R-DEL-1: else one client keeps everybody from looking at them."""
    shell = Shell()
    with pytest.raises(InvalidTopic, match="the broker's own"):
        shell.consumer("till", topic_names=frozenset({"__offsets"}), is_point_to_point=True)


def test_a_topic_that_does_not_exist_cannot_be_taken() -> None:
    with pytest.raises(UnknownTopic):
        Shell().consumer("till", is_point_to_point=True, topic_names=frozenset({"nowhere"}))


def test_who_is_refused_as_a_member_takes_nothing() -> None:
    shell = Shell()
    refused = shell.consumer("till", is_point_to_point=True, assignor="none such")
    assert isinstance(refused, Exception)
    assert isinstance(shell.consumer("other"), ConsumerHeartbeatAnswer)


def test_a_pattern_does_not_see_what_is_taken() -> None:
    """As Kafka's patterns do not see topics that one may not read."""
    shell = taken()
    answer = shell.consumer("other", topic_names=None, topic_pattern=".*")
    assert isinstance(answer, ConsumerHeartbeatAnswer)
    assert answer.assignment is not None
    assert answer.assignment.keys() == {TOPICS["events"].topic_id}
    leave(shell, "till")
    shell.does(shell.groups.delete(Named("delete"), ["till"]))
    answer = shell.consumer("other", answer.member_epoch)
    assert isinstance(answer, ConsumerHeartbeatAnswer)
    assert answer.assignment is not None
    assert len(answer.assignment) == 2, "when it is everybody's again, it is seen"


def swept(shell: Shell) -> Shell:
    shell.expire()
    shell.now_ms += 3_600_000
    shell.expire()
    return shell


def test_a_topic_made_anew_is_still_the_groups() -> None:
    """R-DEL-1: it ends with the group, and not in silence when somebody cleans up."""
    shell = taken()
    shell.topic_ids["orders"] = "0c" * 16
    for again in (shell, shell.restarted(), swept(taken())):
        with pytest.raises(SubscriptionTaken, match="'till'"):
            again.consumer("other")


def test_a_topic_that_is_gone_is_waited_for_by_members_alone() -> None:
    shell = taken()
    del shell.topic_ids["orders"]
    answer = shell.consumer("till", is_point_to_point=True)
    assert isinstance(answer, ConsumerHeartbeatAnswer), "it may come again, and is its own then"
    shell.expire()
    shell.now_ms += 3_600_000
    shell.consumer("till")
    shell.expire()
    assert shell.groups.table.point_to_point.topics_of("till") == {"orders"}
    leave(shell, "till")
    assert not swept(shell).groups.table.point_to_point, "the sweep forgets it"
    assert not shell.restarted().groups.table.point_to_point


def test_a_checkpoint_has_it() -> None:
    """R-STO-7"""
    shell = taken()
    checkpoint = shell.groups.table.checkpoint()
    again = GroupTable(CONFIG)
    records = list(checkpoint.records())
    assert len(checkpoint) == len(records)
    for key, value in records:
        again.apply(key, value, 0)
    assert again.restored(1) == []
    assert again.point_to_point.owner("orders") == "till"


def test_a_late_tombstone_of_an_earlier_owner_changes_nothing() -> None:
    """Compaction may leave it after the record of the next one."""
    modes = PointToPoint()
    modes.apply("first", "orders", b"{}")
    modes.apply("second", "orders", b"{}")
    modes.apply("first", "orders", None)
    assert modes.owner("orders") == "second"
    assert modes.topics_of("first") == frozenset()


def test_what_is_visible() -> None:
    modes = PointToPoint()
    topics = {"orders": TopicFacts(TopicId("1"), 1), "events": TopicFacts(TopicId("2"), 1)}
    assert modes.visible_to("g", topics) is topics
    modes.apply("till", "orders", b"{}")
    assert list(modes.visible_to("till", topics)) == ["orders", "events"]
    visible = modes.visible_to("g", topics)
    assert list(visible) == ["events"]
    assert visible.get("orders") is None
    assert visible.get("nowhere") is None
