"""Members of shared groups, by our own protocol."""

from __future__ import annotations

import pytest

from penstock.model.errors import (
    InconsistentSubscription,
    InvalidFilter,
    InvalidGroup,
    InvalidRequest,
    UnknownMember,
)
from penstock.protocol import penstock_pb2 as pb
from tests.kit.broker.groups import living
from tests.kit.models.told_members import share_heartbeat
from tests.kit.simulated_disk import SimulatedDisk

OWNED = {"orders": [0, 1, 2, 3]}


def beat(epoch: int = 0, member: str = "m", **changes: object) -> pb.GroupHeartbeatRequest:
    request = pb.GroupHeartbeatRequest(
        group="g", member_id=member, member_epoch=epoch, shared=True, client_name="client"
    )
    if epoch == 0:
        request.topics.append("orders")
    request.MergeFrom(pb.GroupHeartbeatRequest(**changes))  # type: ignore[arg-type]
    return request


def owned(response: pb.GroupHeartbeatResponse) -> dict[str, list[int]]:
    assert response.has_assignment
    return {one.topic: list(one.partitions) for one in response.assignment}


class TestMembers:
    async def test_joining_staying_and_leaving(self) -> None:
        """R-DEL-3"""
        async with living(SimulatedDisk()) as life:
            first = await share_heartbeat(life.context, beat())
            assert owned(first) == OWNED
            assert first.heartbeat_interval_ms == 500
            second = await share_heartbeat(life.context, beat(member="n"))
            assert [len(numbers) for numbers in owned(second).values()] == [2]
            again = await share_heartbeat(life.context, beat(first.member_epoch))
            assert again.member_epoch == second.member_epoch
            assert [len(numbers) for numbers in owned(again).values()] == [2]
            same = await share_heartbeat(life.context, beat(again.member_epoch))
            assert not same.has_assignment
            gone = await share_heartbeat(life.context, beat(-1))
            assert (gone.member_epoch, gone.has_assignment) == (-1, False)
            with pytest.raises(UnknownMember):
                await share_heartbeat(life.context, beat(again.member_epoch))

    async def test_members_and_settings_survive_a_crash(self) -> None:
        """R-DEL-3"""
        disk = SimulatedDisk()
        settings = pb.SharedSettings(lease_ms=5_000, backoff_ms=0, filter=pb.Filter(tags=["a"]))
        async with living(disk) as life:
            joined = await share_heartbeat(life.context, beat(settings=settings))
            crashed = disk.after_crash("lost")
        async with living(crashed) as life:
            stayed = await share_heartbeat(life.context, beat(joined.member_epoch))
            assert stayed.member_epoch == joined.member_epoch
            assert not stayed.has_assignment
            topic = life.registry.image.topic("orders")
            term = life.leaders.of(topic, 0).term
            request = pb.ReadShareRequest(group="g", topic_id=topic.id, leader_term=term)
            found = (await life.groups_client.questions.read_share(request)).settings
            assert (found.lease_ms, found.backoff_ms, list(found.filter.tags)) == (5_000, 0, ["a"])
            assert (found.attempts_max, found.backoff_ms_max) == (5, 300_000)

    async def test_a_member_that_says_otherwise_is_refused(self) -> None:
        async with living(SimulatedDisk()) as life:
            await share_heartbeat(life.context, beat(settings=pb.SharedSettings(lease_ms=5_000)))
            other = pb.SharedSettings(lease_ms=6_000)
            with pytest.raises(InconsistentSubscription, match=r"lease_ms 5000.* says 6000"):
                await share_heartbeat(life.context, beat(member="n", settings=other))
            await share_heartbeat(life.context, beat(member="n"))

    @pytest.mark.parametrize(
        "changes",
        [
            {"settings": pb.SharedSettings(lease_ms=999)},
            {"settings": pb.SharedSettings(lease_ms=900_001)},
            {"settings": pb.SharedSettings(attempts_max=101)},
            {"settings": pb.SharedSettings(backoff_ms=3_600_001)},
            {"settings": pb.SharedSettings(backoff_ms=2, backoff_ms_max=1)},
            {"assignor": "ring"},
            {"claims": [pb.OwnedTopic(topic="orders", partitions=[0])]},
            {"instance_id": "one"},
            {"topics": ["topic"] * 10_001},
            {"client_name": "x" * 513},
            {"settings": pb.SharedSettings(filter=pb.Filter(tags=["t"] * 10_001))},
        ],
        ids=str,
    )
    async def test_senseless_heartbeats_are_refused(self, changes: dict[str, object]) -> None:
        async with living(SimulatedDisk()) as life:
            with pytest.raises(InvalidRequest):
                await share_heartbeat(life.context, beat(**changes))  # type: ignore[arg-type]

    async def test_senseless_names_and_filters_are_refused(self) -> None:
        async with living(SimulatedDisk()) as life:
            with pytest.raises(InvalidRequest):
                await share_heartbeat(life.context, pb.GroupHeartbeatRequest(group="g"))
            with pytest.raises(InvalidGroup):
                await share_heartbeat(life.context, beat(group="g" * 256))
            large = pb.SharedSettings(filter=pb.Filter(expression="x" * 20_000))
            with pytest.raises(InvalidFilter):
                await share_heartbeat(life.context, beat(settings=large))
