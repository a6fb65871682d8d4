"""A consumer group kept with its records, and consumers that do what KIP-848 asks of them.

Not a client: no wire, no time of its own. A `ConsumerModel` uses what it was told to use, goes on
using what it was told to give up until `settle`, and repeats everything when an answer is lost.
"""

from __future__ import annotations

from collections.abc import Iterable

from penstock.coordination.group.assignors.assignment import Assignment, collect, partitions_of
from penstock.coordination.group.consumer.group import ConsumerGroup
from penstock.coordination.group.consumer.messages import (
    ConsumerGroupConfig,
    ConsumerHeartbeat,
    ConsumerHeartbeatAnswer,
    TopicFacts,
)
from penstock.coordination.group.effects import Effects
from penstock.model.errors import FencedMemberEpoch, PenstockError, UnknownMember
from penstock.model.ids import TopicId
from tests.kit.models.tickets import Named

REBALANCE_TIMEOUT_MS = 60_000


def topic_id(name: str) -> TopicId:
    """An id that tells its topic's name, so that failures can be read."""
    return TopicId(name.encode().hex().ljust(32, "0"))


class GroupWithRecords:
    """What the shell does for one group: it keeps the last record of each key, and the topics."""

    def __init__(self, config: ConsumerGroupConfig | None = None, name: str = "g") -> None:
        self.config = config or ConsumerGroupConfig()
        self.group = ConsumerGroup(name, self.config)
        self.topics: dict[str, TopicFacts] = {}
        self.records: dict[bytes, bytes] = {}
        self.now_ms = 0

    def set_topic(self, name: str, partition_count: int) -> None:
        if partition_count:
            self.topics[name] = TopicFacts(topic_id(name), partition_count)
        else:
            del self.topics[name]
        self.group.on_topics_changed()

    def heartbeat(self, request: ConsumerHeartbeat) -> ConsumerHeartbeatAnswer | PenstockError:
        effects = self.group.heartbeat(Named("ticket"), request, self.topics, self.now_ms)
        [(ticket, answer)] = self.keep(effects).answers
        assert ticket == Named("ticket")
        assert isinstance(answer, ConsumerHeartbeatAnswer | PenstockError)
        return answer

    def pass_time(self, milliseconds: int) -> Effects:
        self.now_ms += milliseconds
        effects = Effects()
        deadline_ms = self.group.deadline_ms
        if deadline_ms is not None and deadline_ms <= self.now_ms:
            effects = self.keep(self.group.expire(self.now_ms))
            assert not effects.answers
        return effects

    def keep(self, effects: Effects) -> Effects:
        for record in effects.records:
            self.records.pop(record.key, None)
            if record.value is not None:
                self.records[record.key] = record.value
        return effects

    def restored(self) -> ConsumerGroup:
        """The group as a broker would read it."""
        return ConsumerGroup.restore(
            self.group.name, self.config, self.records.items(), self.now_ms
        )


class ConsumerModel:
    """One consumer process."""

    def __init__(
        self,
        group: GroupWithRecords,
        member_id: str,
        topics: Iterable[str] = (),
        *,
        pattern: str | None = None,
        instance_id: str | None = None,
        assignor: str | None = None,
    ) -> None:
        self._group = group
        self.member_id = member_id
        self.topics = frozenset(topics)
        self.instance_id = instance_id
        self._pattern = pattern
        self._assignor = assignor
        self.epoch = 0
        self.told: Assignment = {}
        self.using: Assignment = {}
        """What it reads from: what it was told to, and what it has not stopped yet."""
        self._reported: Assignment | None = None

    def heartbeat(self, *, is_answer_lost: bool = False) -> ConsumerHeartbeatAnswer | PenstockError:
        is_full = self._reported is None
        owned = None if self._reported == self.using else self.using
        request = ConsumerHeartbeat(
            member_id=self.member_id,
            member_epoch=self.epoch,
            instance_id=self.instance_id,
            rebalance_timeout_ms=REBALANCE_TIMEOUT_MS if is_full else None,
            topic_names=self.topics if is_full else None,
            topic_pattern=self._pattern if is_full else None,
            assignor=self._assignor if is_full else None,
            owned=owned,
        )
        answer = self._group.heartbeat(request)
        if is_answer_lost:
            self._reported = None
            return answer
        if owned is not None:
            self._reported = owned
        if isinstance(answer, FencedMemberEpoch | UnknownMember):
            self.start_over()
        elif isinstance(answer, ConsumerHeartbeatAnswer):
            self.epoch = answer.member_epoch
            if answer.assignment is not None:
                self.told = answer.assignment
                self.using = collect(
                    {*partitions_of(self.using), *partitions_of(answer.assignment)}
                )
        return answer

    def settle(self) -> None:
        """Stop reading what it was told to give up."""
        self.using = self.told

    def start_over(self) -> None:
        """Give up everything; the next heartbeat joins."""
        self.epoch = 0
        self.told = self.using = {}
        self._reported = None

    def subscribe(self, topics: Iterable[str]) -> None:
        self.topics = frozenset(topics)
        self._reported = None

    def leave(self, *, for_a_while: bool = False) -> ConsumerHeartbeatAnswer | PenstockError:
        request = ConsumerHeartbeat(
            member_id=self.member_id,
            member_epoch=-2 if for_a_while else -1,
            instance_id=self.instance_id,
        )
        self.start_over()
        return self._group.heartbeat(request)


def run_rounds(consumers: Iterable[ConsumerModel], rounds_max: int) -> int:
    """Let all of them heartbeat and do as they are told until nothing changes any more; how many
    rounds of heartbeats that took."""
    consumers = list(consumers)
    for rounds in range(rounds_max):
        answers = []
        for consumer in consumers:
            before = consumer.epoch
            answer = consumer.heartbeat()
            assert isinstance(answer, ConsumerHeartbeatAnswer), answer
            answers.append(answer.assignment is not None or consumer.epoch != before)
            consumer.settle()
        if not any(answers):
            return rounds
    raise AssertionError(f"not stable after {rounds_max} rounds of heartbeats")
