"""A crash at the disk operations of a broker whose groups join, commit, rebalance and leave.

The checker after each: every acknowledged commit is there, or a later one that was under way; a
group that was stable goes on with heartbeats, without a rebalance, and so does a member of a
consumer group with its epoch; what was deleted stays deleted; and everybody can go on.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from penstock.broker.groups import log as group_log
from penstock.protocol.kafka import apis
from penstock.protocol.kafka.errors import ErrorCode
from penstock.protocol.kafka.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
)
from penstock.protocol.kafka.messages.delete_groups import DeleteGroupsRequest
from penstock.protocol.kafka.messages.heartbeat import HeartbeatRequest
from penstock.protocol.kafka.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
)
from penstock.protocol.kafka.messages.leave_group import LeaveGroupRequest, MemberIdentity
from penstock.protocol.kafka.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from penstock.protocol.kafka.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestTopic,
)
from penstock.protocol.kafka.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)
from tests.kit.broker.kafka_client import KafkaClient, connect
from tests.kit.broker.running import running
from tests.kit.crashes import WAYS, Workload, crash_everywhere, found_after
from tests.kit.simulated_disk import SimulatedDisk

pytestmark = pytest.mark.usefixtures("quiet")

SETTINGS: dict[str, Any] = {"group_initial_rebalance_delay_ms": 0, "shutdown_timeout_ms": 10}


@dataclass
class Member:
    """A member of the classic group "classic", on its own connection."""

    client: KafkaClient
    member_id: str = ""
    generation: int = -1
    assignment: bytes = b""

    async def join(self) -> Any:
        request = JoinGroupRequest(
            "classic",
            10_000,
            10_000,
            self.member_id,
            None,
            "consumer",
            [JoinGroupRequestProtocol("range", b"")],
        )
        response = await self.client.call(apis.JOIN_GROUP, 9, request)
        if response.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = response.member_id
            return await self.join()
        assert response.error_code == ErrorCode.NONE
        self.generation = response.generation_id
        return response

    async def sync(self, assignments: dict[str, bytes]) -> None:
        request = SyncGroupRequest(
            "classic",
            self.generation,
            self.member_id,
            None,
            "consumer",
            "range",
            [SyncGroupRequestAssignment(*item) for item in assignments.items()],
        )
        response = await self.client.call(apis.SYNC_GROUP, 5, request)
        assert response.error_code == ErrorCode.NONE
        self.assignment = response.assignment

    async def beat(self, client: KafkaClient) -> int:
        request = HeartbeatRequest("classic", self.generation, self.member_id)
        return int((await client.call(apis.HEARTBEAT, 4, request)).error_code)


@dataclass
class Facts:
    """What the broker has promised, and what it was asked for without an answer yet."""

    topic_exists: bool = False
    committed: dict[tuple[str, int], int] = field(default_factory=dict)
    committing: dict[tuple[str, int], int] = field(default_factory=dict)
    stable: list[Member] = field(default_factory=list)
    """The members of the classic group, while it is stable."""
    epoch: int | None = None
    """Of the consumer group's member, while no heartbeat is under way that may change it."""
    deleted: bool = False
    """Of the group "doomed"."""
    deleting: bool = False


class LifeStory(Workload):
    """Two lives of a broker, and what it was asked for in them."""

    def __init__(self, disk: SimulatedDisk) -> None:
        super().__init__(disk)
        self.facts = Facts()

    async def check(self) -> None:
        async with clients_on(self.disk, 1) as ([client], _):
            await check(client, self.facts)

    async def live(self) -> None:
        facts = self.facts
        async with clients_on(self.disk, 3) as (clients, native):
            await native.create("orders", partitions=2)
            facts.topic_exists = True
            await self._commit(clients[0], "simple", 0, 1)
            await self._commit(clients[0], "doomed", 0, 1)
            one, two = Member(clients[1]), Member(clients[2])
            await self._rebalance(one)
            await self._commit(clients[1], "classic", 0, 5, one)
            await self._heartbeat(clients[0], 0)
            await self._commit_by_epoch(clients[0], 7)
            await self._rebalance(one, two)
            await asyncio.gather(
                self._commit(clients[1], "classic", 0, 6, one),
                self._commit(clients[2], "classic", 1, 8, two),
            )
            await self._delete(clients[0])
            await self._leave(two)
            await self._rebalance(one)
            await self._commit(clients[1], "classic", 0, 9, one)
        async with clients_on(self.disk, 2) as (clients, _):
            one.client = clients[1]
            assert await one.beat(one.client) == ErrorCode.NONE
            await self._commit(clients[0], "simple", 0, 2)
            await self._commit(clients[1], "classic", 0, 10, one)
            facts.epoch = None
            await self._heartbeat(clients[0], -1)

    async def _commit(
        self,
        client: KafkaClient,
        group: str,
        partition: int,
        offset: int,
        member: Member | None = None,
    ) -> None:
        self.facts.committing[group, partition] = offset
        code = await commit(
            client,
            group,
            partition,
            offset,
            member_id="" if member is None else member.member_id,
            generation_id_or_member_epoch=-1 if member is None else member.generation,
        )
        assert code == ErrorCode.NONE
        self.facts.committed[group, partition] = offset

    async def _commit_by_epoch(self, client: KafkaClient, offset: int) -> None:
        self.facts.committing["consumer", 0] = offset
        code = await commit(
            client,
            "consumer",
            0,
            offset,
            member_id="m",
            generation_id_or_member_epoch=self.facts.epoch,
        )
        assert code == ErrorCode.NONE
        self.facts.committed["consumer", 0] = offset

    async def _rebalance(self, *members: Member) -> None:
        """The last one joins, the others find out and join again, and each gets its part."""
        self.facts.stable = []
        *old, newest = members
        joining = asyncio.create_task(newest.join())
        for member in old:
            while await member.beat(member.client) != ErrorCode.REBALANCE_IN_PROGRESS:
                await asyncio.sleep(0)
        answers = await asyncio.gather(*(member.join() for member in old), joining)
        assert len({member.generation for member in members}) == 1
        parts = {member.member_id: member.member_id.encode() for member in members}
        leader = answers[0].leader
        await asyncio.gather(
            *(member.sync(parts if member.member_id == leader else {}) for member in members)
        )
        for member in members:
            assert member.assignment == member.member_id.encode()
        self.facts.stable = list(members)

    async def _leave(self, member: Member) -> None:
        self.facts.stable = []
        request = LeaveGroupRequest("classic", members=[MemberIdentity(member.member_id)])
        response = await member.client.call(apis.LEAVE_GROUP, 5, request)
        assert response.members[0].error_code == ErrorCode.NONE

    async def _heartbeat(self, client: KafkaClient, epoch: int) -> None:
        self.facts.epoch = None
        response = await beat(client, epoch)
        assert response.error_code == ErrorCode.NONE
        self.facts.epoch = response.member_epoch if epoch >= 0 else None

    async def _delete(self, client: KafkaClient) -> None:
        self.facts.deleting = True
        response = await client.call(apis.DELETE_GROUPS, 2, DeleteGroupsRequest(["doomed"]))
        assert response.results[0].error_code == ErrorCode.NONE
        self.facts.deleted = True


@contextlib.asynccontextmanager
async def clients_on(disk: SimulatedDisk, count: int) -> AsyncIterator[tuple[Any, Any]]:
    async with running(disk.root, **SETTINGS) as (broker, native):
        clients = [await connect(broker) for _ in range(count)]
        try:
            yield clients, native
        finally:
            for client in clients:
                await client.close()


async def commit(
    client: KafkaClient, group: str, partition: int, offset: int, **member: Any
) -> int:
    part = OffsetCommitRequestPartition(partition, offset, -1, "")
    topics = [OffsetCommitRequestTopic("orders", partitions=[part])]
    request = OffsetCommitRequest(group_id=group, topics=topics, **member)
    response = await client.call(apis.OFFSET_COMMIT, 9, request)
    return int(response.topics[0].partitions[0].error_code)


async def fetch(client: KafkaClient, group: str, partition: int) -> int | None:
    request = OffsetFetchRequest(group, [OffsetFetchRequestTopic("orders", [partition])])
    response = await client.call(apis.OFFSET_FETCH, 7, request)
    assert response.error_code == ErrorCode.NONE
    offset = response.topics[0].partitions[0].committed_offset
    return None if offset < 0 else int(offset)


async def beat(client: KafkaClient, epoch: int) -> Any:
    request = ConsumerGroupHeartbeatRequest("consumer", "m", epoch)
    if epoch == 0:
        request.rebalance_timeout_ms = 10_000
        request.subscribed_topic_names = ["orders"]
        request.topic_partitions = []
    return await client.call(apis.CONSUMER_GROUP_HEARTBEAT, 1, request)


# --- the checker -------------------------------------------------------------------------------


async def check(client: KafkaClient, facts: Facts) -> None:
    """Every promise is kept."""
    for (group, partition), committing in facts.committing.items():
        if group == "doomed" and facts.deleting:
            continue
        found = await fetch(client, group, partition)
        assert found in (facts.committed.get((group, partition)), committing), group
    if facts.deleted:
        assert await fetch(client, "doomed", 0) is None
    for member in facts.stable:
        assert await member.beat(client) == ErrorCode.NONE, "no rebalance"
    if facts.epoch is not None:
        response = await beat(client, facts.epoch)
        assert (response.error_code, response.member_epoch) == (ErrorCode.NONE, facts.epoch)


async def go_on(client: KafkaClient, facts: Facts) -> None:
    """Whatever became of what was under way, there is new work to do."""
    facts.committed["new", 0] = facts.committing["new", 0] = 20
    assert await commit(client, "new", 0, 20) == ErrorCode.NONE
    if facts.stable:
        member = facts.stable[0]
        facts.committed["classic", 1] = facts.committing["classic", 1] = 30
        code = await commit(
            client,
            "classic",
            1,
            30,
            member_id=member.member_id,
            generation_id_or_member_epoch=member.generation,
        )
        assert code == ErrorCode.NONE


# --- the crashes -------------------------------------------------------------------------------


@pytest.mark.parametrize("turn", range(len(WAYS)))
async def test_a_crash_at_an_operation(turn: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """R-DEL-4, R-DEL-10, R-STO-7: at any moment, and whatever the disk kept of what was not
    flushed. Each way to crash has its own sample of the operations."""
    # So that there are snapshots on the way as well.
    monkeypatch.setattr(group_log, "_SNAPSHOT_RECORDS", 4)

    async def recover(story: LifeStory, operation: int) -> None:
        found, facts = found_after(story.disk, turn, operation), story.facts
        if not facts.topic_exists:
            return
        async with clients_on(found, 1) as ([client], _):
            await check(client, facts)
            await go_on(client, facts)
        async with clients_on(found, 1) as ([client], _):
            await check(client, facts)

    await crash_everywhere(LifeStory, turn, recover)
