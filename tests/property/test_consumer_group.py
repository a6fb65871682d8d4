"""A consumer group and consumers that come, go, stall, lose answers and are fenced, by chance; the
broker restarts at any moment.

Over every run: no two members use one partition, the records tell the whole state, and once the
turmoil ends the group is stable and even within a few heartbeats.
"""

from __future__ import annotations

from dataclasses import replace

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from penstock.coordination.group.assignors.assignment import Partition, count, partitions_of
from penstock.coordination.group.consumer.group import ConsumerGroup
from penstock.coordination.group.consumer.messages import (
    ConsumerGroupConfig,
    ConsumerGroupState,
    ConsumerHeartbeatAnswer,
)
from penstock.model.errors import GroupFull, UnreleasedInstance
from tests.kit.models.consumer_group import ConsumerModel, GroupWithRecords, run_rounds

TOPICS = ("ta", "tb", "tc")
ROUNDS_MAX = 10

any_topics = st.sets(st.sampled_from(TOPICS), min_size=1)
assignors = st.sampled_from([None, "range", "ring", "round-robin", "uniform"])


class ConsumerGroupMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.group = GroupWithRecords(ConsumerGroupConfig(members_max=6))
        self.group.set_topic("ta", 3)
        self.consumers: list[ConsumerModel] = []
        self.made = 0
        self.epoch = 0

    @property
    def members(self) -> set[str]:
        return {member.member_id for member in self.group.group.describe().members}

    def heartbeat(self, consumer: ConsumerModel, *, is_answer_lost: bool = False) -> None:
        answer = consumer.heartbeat(is_answer_lost=is_answer_lost)
        if isinstance(answer, GroupFull | UnreleasedInstance):
            self.consumers.remove(consumer)

    @precondition(lambda self: len(self.consumers) < 8)
    @rule(
        topics=any_topics, is_by_pattern=st.booleans(), is_static=st.booleans(), assignor=assignors
    )
    def join(
        self, topics: set[str], is_by_pattern: bool, is_static: bool, assignor: str | None
    ) -> None:
        self.made += 1
        consumer = ConsumerModel(
            self.group,
            f"m{self.made}",
            () if is_by_pattern else topics,
            pattern="|".join(sorted(topics)) if is_by_pattern else None,
            instance_id=f"i{self.made}" if is_static else None,
            assignor=assignor,
        )
        self.consumers.append(consumer)
        self.heartbeat(consumer)

    @precondition(lambda self: self.consumers)
    @rule(data=st.data(), is_answer_lost=st.booleans())
    def beat(self, data: st.DataObject, is_answer_lost: bool) -> None:
        self.heartbeat(data.draw(st.sampled_from(self.consumers)), is_answer_lost=is_answer_lost)

    @precondition(lambda self: self.consumers)
    @rule(settling=st.sets(st.integers(0, 7)))
    def beat_all(self, settling: set[int]) -> None:
        """The usual thing, so that the unusual ones happen in groups that have come somewhere."""
        for place, consumer in enumerate(list(self.consumers)):
            self.heartbeat(consumer)
            if place in settling:
                consumer.settle()

    @precondition(lambda self: self.consumers)
    @rule(data=st.data())
    def settle(self, data: st.DataObject) -> None:
        data.draw(st.sampled_from(self.consumers)).settle()

    @precondition(lambda self: self.consumers)
    @rule(data=st.data(), topics=any_topics)
    def subscribe(self, data: st.DataObject, topics: set[str]) -> None:
        data.draw(st.sampled_from(self.consumers)).subscribe(topics)

    @precondition(lambda self: self.consumers)
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        consumer = data.draw(st.sampled_from(self.consumers))
        self.consumers.remove(consumer)
        consumer.leave()

    @precondition(lambda self: any(consumer.instance_id for consumer in self.consumers))
    @rule(data=st.data(), comes_back=st.booleans(), has_new_id=st.booleans())
    def leave_for_a_while(self, data: st.DataObject, comes_back: bool, has_new_id: bool) -> None:
        consumer = data.draw(
            st.sampled_from([one for one in self.consumers if one.instance_id is not None])
        )
        consumer.leave(for_a_while=True)
        if not comes_back:
            self.consumers.remove(consumer)
        elif has_new_id:
            self.made += 1
            consumer.member_id = f"m{self.made}"

    @precondition(lambda self: self.consumers)
    @rule(data=st.data())
    def crash(self, data: st.DataObject) -> None:
        self.consumers.remove(data.draw(st.sampled_from(self.consumers)))

    @rule(milliseconds=st.sampled_from([1_000, 5_000, 20_000, 46_000]))
    def wait(self, milliseconds: int) -> None:
        self.group.pass_time(milliseconds)

    @rule(topic=st.sampled_from(TOPICS), partition_count=st.integers(0, 5))
    def change_topic(self, topic: str, partition_count: int) -> None:
        if partition_count or topic in self.group.topics:
            self.group.set_topic(topic, partition_count)

    @rule()
    def restart_broker(self) -> None:
        self.group.group = self.group.restored()

    @invariant()
    def nobody_shares_a_partition(self) -> None:
        users: dict[Partition, str] = {}
        for consumer in self.consumers:
            # Who was removed while it was silent stops by itself; the group cannot wait for it.
            if consumer.member_id in self.members:
                for partition in partitions_of(consumer.using):
                    assert partition not in users, (partition, users[partition], consumer.member_id)
                    users[partition] = consumer.member_id

    @invariant()
    def records_tell_everything(self) -> None:
        group, restored = self.group.group, self.group.restored()
        assert _by_member(restored) == _by_member(group)
        assert restored.empty_since_ms == group.empty_since_ms

    @invariant()
    def epochs_never_fall(self) -> None:
        epoch = self.group.group.describe().epoch
        assert epoch >= self.epoch
        self.epoch = epoch

    def teardown(self) -> None:
        """The turmoil ends: the dead are gone after a session, the others go on."""
        for _ in range(4):
            self.group.pass_time(20_000)
            for consumer in list(self.consumers):
                self.heartbeat(consumer)
                consumer.settle()
        for consumer in self.consumers:
            if consumer.epoch == 0:
                self.heartbeat(consumer)
        run_rounds(self.consumers, ROUNDS_MAX)
        self.nobody_shares_a_partition()
        group = self.group.group.describe()
        assert {member.member_id for member in group.members} == {
            consumer.member_id for consumer in self.consumers
        }
        assert group.state is (
            ConsumerGroupState.STABLE if self.consumers else ConsumerGroupState.EMPTY
        )
        subscribed = self.group.group.subscribed_topics()
        assert subscribed is not None
        used = [partition for one in self.consumers for partition in partitions_of(one.using)]
        assert sorted(used) == sorted(
            (facts.topic_id, number)
            for name, facts in self.group.topics.items()
            for number in range(facts.partition_count)
            if name in subscribed
        )
        assert all(isinstance(one.heartbeat(), ConsumerHeartbeatAnswer) for one in self.consumers)
        assert all(count(one.told) == count(one.using) for one in self.consumers)


def _by_member(group: ConsumerGroup) -> object:
    description = group.describe()
    members = sorted(description.members, key=lambda member: member.member_id)
    return replace(description, members=tuple(members))


TestConsumerGroup = ConsumerGroupMachine.TestCase
TestConsumerGroup.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)
