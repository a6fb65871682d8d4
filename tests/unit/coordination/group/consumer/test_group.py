"""Consumer groups (KIP-848): the scenarios of tests/golden/groups/consumer, large groups, and what
a scenario cannot say."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.coordination.group.assignors.assignment import count, partitions_of
from penstock.coordination.group.consumer.group import ConsumerGroup
from penstock.coordination.group.consumer.messages import (
    ConsumerGroupConfig,
    ConsumerGroupState,
    ConsumerHeartbeat,
    ConsumerHeartbeatAnswer,
    TopicFacts,
)
from penstock.model.errors import (
    CorruptLog,
    InvalidRegularExpression,
    StaleMemberEpoch,
    UnknownMember,
)
from tests.golden.groups.consumer_script import ConsumerScript
from tests.kit.models.consumer_group import ConsumerModel, GroupWithRecords, run_rounds
from tests.kit.models.tickets import Named
from tests.kit.runs.golden_files import run_golden

SCENARIOS = sorted((Path(__file__).parents[4] / "golden" / "groups" / "consumer").glob("*.txt"))


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_scenario(path: Path) -> None:
    """R-DEL-4, R-DEL-5"""
    run_golden(path, ConsumerScript().interpret)


class TestLargeGroups:
    TOPICS = tuple(f"topic-{number:02}" for number in range(20))

    def group(self, member_count: int) -> tuple[GroupWithRecords, list[ConsumerModel]]:
        group = GroupWithRecords()
        for topic in self.TOPICS:
            group.set_topic(topic, 10)
        consumers = [
            ConsumerModel(group, f"m{number:03}", self.TOPICS) for number in range(member_count)
        ]
        return group, consumers

    def check(self, group: GroupWithRecords, consumers: list[ConsumerModel]) -> None:
        assert group.group.state is ConsumerGroupState.STABLE
        owned = [partition for one in consumers for partition in partitions_of(one.using)]
        assert len(owned) == len(set(owned)) == 200
        loads = {count(one.using) for one in consumers}
        assert max(loads) - min(loads) <= 1

    def test_a_hundred_members_on_twenty_topics(self) -> None:
        """R-DEL-5: all come at once. Those who came first give up in one round of heartbeats and
        say so in the next, after which the others get theirs: a few rounds, not a hundred."""
        group, consumers = self.group(100)
        assert run_rounds(consumers, rounds_max=10) <= 4
        self.check(group, consumers)

    def test_ten_leave_at_once(self) -> None:
        """R-DEL-7: one new target, nobody else is disturbed: no one gives up anything."""
        group, consumers = self.group(100)
        run_rounds(consumers, rounds_max=10)
        epoch = group.group.describe().assignment_epoch
        leaving, staying = consumers[40:50], consumers[:40] + consumers[50:]
        before = {one.member_id: set(partitions_of(one.using)) for one in staying}
        for consumer in leaving:
            consumer.leave()
        assert run_rounds(staying, rounds_max=10) == 1
        self.check(group, staying)
        assert group.group.describe().assignment_epoch == epoch + 1
        assert all(before[one.member_id] <= set(partitions_of(one.using)) for one in staying)

    def test_ten_are_lost_at_once(self) -> None:
        group, consumers = self.group(100)
        run_rounds(consumers, rounds_max=10)
        group.pass_time(20_000)
        staying = consumers[10:]
        run_rounds(staying, rounds_max=10)
        effects = group.pass_time(25_000)
        assert len(effects.records) == 10 * 3 + 1
        assert run_rounds(staying, rounds_max=10) == 1
        self.check(group, staying)


class _Unseen:
    """Topics that nobody may look at."""

    def __iter__(self) -> Iterator[str]:
        raise AssertionError("looked at all topics")

    def get(self, name: str, /) -> TopicFacts | None:
        raise AssertionError(f"looked at {name}")


def joined(*names: str, pattern: str | None = None) -> tuple[GroupWithRecords, list[ConsumerModel]]:
    group = GroupWithRecords()
    group.set_topic("orders", 4)
    consumers = [ConsumerModel(group, name, ["orders"], pattern=pattern) for name in names]
    run_rounds(consumers, rounds_max=10)
    return group, consumers


def test_a_heartbeat_without_news_writes_nothing_and_looks_at_no_topic() -> None:
    """However many topics there are: a pattern is not compared with them at every heartbeat."""
    group, [consumer] = joined("a", pattern="o.*")
    request = ConsumerHeartbeat(member_id="a", member_epoch=consumer.epoch)
    effects = group.group.heartbeat(Named("t"), request, _Unseen(), group.now_ms)
    assert not effects.records
    assert effects.answers == [
        (
            Named("t"),
            ConsumerHeartbeatAnswer(
                member_id="a",
                member_epoch=1,
                heartbeat_interval_ms=5000,
                assignment=None,
                member_count=1,
            ),
        )
    ]


def test_a_member_without_an_id_is_given_one() -> None:
    group = GroupWithRecords()
    answer = group.heartbeat(
        ConsumerHeartbeat(
            member_id="",
            new_member_id="made-1",
            member_epoch=0,
            rebalance_timeout_ms=1,
            topic_names=frozenset(),
            owned={},
        )
    )
    assert isinstance(answer, ConsumerHeartbeatAnswer)
    assert answer.member_id == "made-1"
    assert answer.assignment == {}


def test_a_refused_join_changes_nothing() -> None:
    group, _ = joined("a")
    before = group.group.describe(), dict(group.records), group.group.deadline_ms
    answer = ConsumerModel(group, "b", pattern="(").heartbeat()
    assert isinstance(answer, InvalidRegularExpression)
    assert (group.group.describe(), group.records, group.group.deadline_ms) == before


def test_who_may_commit_and_fetch() -> None:
    group, [consumer] = joined("a")
    group.group.check_commit("a", consumer.epoch)
    group.group.check_fetch("a", consumer.epoch)
    group.group.check_fetch(None, -1)
    with pytest.raises(StaleMemberEpoch):
        group.group.check_commit("a", consumer.epoch - 1)
    with pytest.raises(StaleMemberEpoch):
        group.group.check_fetch("a", consumer.epoch + 1)
    with pytest.raises(UnknownMember):
        group.group.check_fetch("b", consumer.epoch)
    with pytest.raises(UnknownMember):
        group.group.check_commit("", -1)
    consumer.leave()
    group.group.check_commit("", -1)


def test_what_is_subscribed() -> None:
    group, _ = joined("a")
    group.set_topic("payments", 1)
    by_pattern = ConsumerModel(group, "b", pattern="pay.*")
    by_pattern.heartbeat()
    subscribed = frozenset({"orders", "payments"})
    assert group.group.subscribed_topics() == subscribed
    # After a restart a pattern means nothing before topics have been looked at.
    group.group = group.restored()
    assert group.group.subscribed_topics() is None
    by_pattern.heartbeat()
    assert group.group.subscribed_topics() == subscribed


def test_an_empty_group_knows_since_when() -> None:
    group, [consumer] = joined("a")
    assert (group.group.member_count, group.group.empty_since_ms) == (1, None)
    group.pass_time(1_000)
    consumer.leave()
    assert (group.group.member_count, group.group.deadline_ms) == (0, None)
    assert group.group.empty_since_ms == group.restored().empty_since_ms == 1_000
    assert group.group.subscribed_topics() == frozenset()


def test_a_group_that_is_joined_again_is_not_empty_any_more() -> None:
    group, [consumer] = joined("a")
    consumer.leave()
    consumer.heartbeat()
    assert group.group.empty_since_ms is None
    assert group.restored().empty_since_ms is None


def test_a_removed_member_is_a_line_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    group, _ = joined("a")
    with caplog.at_level(logging.INFO):
        group.pass_time(45_000)
    assert caplog.messages == ["Group g removes member a, which was silent for too long."]


def test_a_write_that_was_cut_off_is_made_good() -> None:
    """A member without a target gets one with the next heartbeat, whoever sends it."""
    group, [a, b] = joined("a", "b")
    group.records = {
        key: value
        for key, value in group.records.items()
        if b'target","group":"g","member":"b"' not in key
    }
    group.group = group.restored()
    assert run_rounds([a, b], rounds_max=10) <= 3
    assert sorted([count(a.using), count(b.using)]) == [2, 2]


def test_records_that_contradict_each_other_are_refused() -> None:
    group, _ = joined("a")
    for key, value in list(group.records.items()):
        group.records[key.replace(b'"member":"a"', b'"member":"b"')] = value
    with pytest.raises(CorruptLog, match="two of its members"):
        ConsumerGroup.restore("g", ConsumerGroupConfig(), group.records.items(), 0)
