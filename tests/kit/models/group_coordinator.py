"""What tests of the coordinator share: a coordinator, its members' requests, and its topic."""

from __future__ import annotations

from penstock.coordination.group.classic.messages import (
    GroupConfig,
    JoinAnswer,
    JoinRequest,
    SyncRequest,
)
from penstock.coordination.group.consumer.messages import (
    ConsumerGroupConfig,
    ConsumerHeartbeat,
    ConsumerHeartbeatAnswer,
    TopicFacts,
)
from penstock.coordination.group.coordinator import CommitRequest, Coordinator
from penstock.coordination.group.effects import Effects, Record
from penstock.coordination.group.offsets import CommittedOffset
from penstock.coordination.group.shared.messages import (
    ShareGroupConfig,
    ShareHeartbeat,
    ShareHeartbeatAnswer,
    SharePlace,
    ShareReadAnswer,
)
from penstock.coordination.group.table import CoordinatorConfig
from penstock.model.ids import TopicId
from tests.kit.models.tickets import Named

RETENTION_MS = 1_000_000
CONFIG = CoordinatorConfig(
    classic=GroupConfig(initial_rebalance_delay_ms=0),
    consumer=ConsumerGroupConfig(),
    share=ShareGroupConfig(),
    offsets_retention_ms=RETENTION_MS,
)
# A subscription to "orders" as Kafka's consumers write it: version 0, topics, no user data.
SUBSCRIPTION = b"\x00\x00\x00\x00\x00\x01\x00\x06orders\xff\xff\xff\xff"
TOPICS = {
    "orders": TopicFacts(TopicId("0a" * 16), 2),
    "events": TopicFacts(TopicId("0b" * 16), 2),
}


class Shell:
    """A coordinator whose records are kept, so that it can be built again from them."""

    def __init__(self) -> None:
        self.log: list[Record] = []
        self.topic_ids = {name: str(facts.topic_id) for name, facts in TOPICS.items()}
        self.groups = Coordinator(CONFIG, self.topic_ids.get)
        self.now_ms = 1

    def does(self, effects: Effects) -> dict[object, object]:
        """Append the records; the answers by ticket."""
        self.log += effects.records
        return dict(effects.answers)

    def restarted(self) -> Shell:
        """Another coordinator that has read the same topic."""
        again = Shell()
        again.now_ms = self.now_ms
        again.log = list(self.log)
        for record in self.log:
            again.groups.table.apply(record.key, record.value, 0)
        assert again.groups.table.restored(self.now_ms) == []
        return again

    def join(self, group: str, **changes: object) -> dict[object, object]:
        settings: dict[str, object] = {
            "member_id": "",
            "new_member_id": "member",
            "client_id": "client",
            "client_host": "/127.0.0.1",
            "session_timeout_ms": 10_000,
            "rebalance_timeout_ms": 10_000,
            "protocol_type": "consumer",
            "protocols": (("range", SUBSCRIPTION),),
        }
        request = JoinRequest(**(settings | changes))  # type: ignore[arg-type]
        return self.does(self.groups.join(Named("join"), group, request, self.now_ms))

    def stable(self, group: str, **changes: object) -> JoinAnswer:
        """One member, joined and synced."""
        answers = self.join(group, **changes) | self.expire()
        joined = answers["join"]
        assert isinstance(joined, JoinAnswer), joined
        request = SyncRequest(
            member_id=joined.member_id,
            generation=joined.generation,
            assignments={joined.member_id: b"all"},
        )
        self.does(self.groups.sync(Named("sync"), group, request, self.now_ms))
        return joined

    def consumer(self, group: str, member_epoch: int = 0, **changes: object) -> object:
        """A heartbeat of the one member of a consumer group."""
        settings: dict[str, object] = {"member_id": "member", "member_epoch": member_epoch}
        if member_epoch == 0:
            settings |= {
                "rebalance_timeout_ms": 10_000,
                "topic_names": frozenset({"orders"}),
                "owned": {},
            }
        request = ConsumerHeartbeat(**(settings | changes))  # type: ignore[arg-type]
        effects = self.groups.consumer_heartbeat(Named("beat"), group, request, TOPICS, self.now_ms)
        return self.does(effects)["beat"]

    def consumer_joined(self, group: str) -> ConsumerHeartbeatAnswer:
        answer = self.consumer(group)
        assert isinstance(answer, ConsumerHeartbeatAnswer), answer
        return answer

    def share(self, group: str, member_epoch: int = 0, **changes: object) -> object:
        """A heartbeat of the one member of a shared group."""
        settings: dict[str, object] = {
            "member_id": "member",
            "member_epoch": member_epoch,
            "new_incarnation": f"made at {self.now_ms}",
            "topic_names": frozenset({"orders"}) if member_epoch == 0 else None,
        }
        request = ShareHeartbeat(**(settings | changes))  # type: ignore[arg-type]
        effects = self.groups.shared.heartbeat(Named("beat"), group, request, TOPICS, self.now_ms)
        return self.does(effects)["beat"]

    def share_joined(self, group: str) -> ShareHeartbeatAnswer:
        answer = self.share(group)
        assert isinstance(answer, ShareHeartbeatAnswer), answer
        return answer

    def share_place(self, topic: str = "orders", leader_term: int = 1) -> SharePlace:
        return SharePlace(
            topic=topic,
            topic_id=self.topic_ids[topic],
            partition=0,
            leader_term=leader_term,
        )

    def share_read(self, group: str, place: SharePlace) -> ShareReadAnswer:
        answer = self.does(self.groups.shared.read(Named("read"), group, place))["read"]
        assert isinstance(answer, ShareReadAnswer), answer
        return answer

    def share_write(self, group: str, state: bytes, topic: str = "orders", term: int = 1) -> None:
        """By a leader that reads first."""
        place = self.share_place(topic, term)
        incarnation = self.share_read(group, place).incarnation
        self.does(self.groups.shared.write(Named("write"), group, incarnation, place, state))

    def commit(
        self, group: str, offset: int = 1, topic: str = "orders", **changes: object
    ) -> dict[object, object]:
        committed = CommittedOffset(
            topic=topic,
            topic_id=self.topic_ids.get(topic, ""),
            partition=0,
            offset=offset,
            committed_ms=self.now_ms,
        )
        request = CommitRequest(group=group, offsets=[committed], **changes)  # type: ignore[arg-type]
        return self.does(self.groups.commit(Named("commit"), request, self.now_ms))

    def expire(self) -> dict[object, object]:
        return self.does(self.groups.expire(self.now_ms, self.now_ms))

    def offset(self, group: str, topic: str = "orders") -> int | None:
        committed = self.groups.fetch(group).get(topic, 0)
        return None if committed is None else committed.offset

    def names(self) -> list[str]:
        return [group.name for group in self.groups.list()]
