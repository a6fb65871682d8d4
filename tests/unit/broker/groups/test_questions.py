"""What the leader of a partition asks of the groups: where a shared group stands in it."""

from __future__ import annotations

import asyncio

import pytest

from penstock.model.errors import (
    CoordinatorLoading,
    InvalidRequest,
    NotCoordinator,
    StaleTerm,
    UnknownGroup,
    UnknownTerm,
    UnknownTopic,
    UnknownTopicId,
)
from penstock.model.limits import SHARE_STATE_BYTES_MAX
from penstock.protocol import calls
from penstock.protocol import penstock_pb2 as pb
from tests.kit.broker.groups import Gate, Life, living
from tests.kit.broker.running import running
from tests.kit.models.told_members import share_heartbeat
from tests.kit.simulated_disk import SimulatedDisk


def beat(epoch: int = 0, member: str = "m", **changes: object) -> pb.GroupHeartbeatRequest:
    request = pb.GroupHeartbeatRequest(
        group="g", member_id=member, member_epoch=epoch, shared=True, client_name="client"
    )
    if epoch == 0:
        request.topics.append("orders")
    request.MergeFrom(pb.GroupHeartbeatRequest(**changes))  # type: ignore[arg-type]
    return request


class Leader:
    """Of one partition of `orders`, as the coordinator hears from it."""

    def __init__(self, life: Life, partition: int = 0) -> None:
        self.life = life
        self.partition = partition
        self.topic_id = life.registry.image.topic("orders").id
        self.incarnation = ""

    @property
    def term(self) -> int:
        return self.life.partitions.find("orders", self.partition).replica.term

    async def read(self, **changes: object) -> pb.ReadShareResponse:
        request = pb.ReadShareRequest(
            group="g",
            topic_id=self.topic_id,
            partition=self.partition,
            leader_term=self.term,
        )
        request.MergeFrom(pb.ReadShareRequest(**changes))  # type: ignore[arg-type]
        response = await self.life.groups_client.questions.read_share(request)
        self.incarnation = response.incarnation
        return response

    async def write(self, state: bytes, **changes: object) -> None:
        request = pb.WriteShareRequest(
            group="g",
            topic_id=self.topic_id,
            partition=self.partition,
            leader_term=self.term,
            state=state,
            incarnation=self.incarnation,
        )
        request.MergeFrom(pb.WriteShareRequest(**changes))  # type: ignore[arg-type]
        await self.life.groups_client.questions.write_share(request)


class TestPlaces:
    async def test_a_state_is_kept(self) -> None:
        """R-DEL-3: also across a crash."""
        disk = SimulatedDisk()
        async with living(disk) as life:
            await share_heartbeat(life.context, beat())
            leader = Leader(life, 2)
            found = await leader.read()
            assert (found.is_known, found.state) == (False, b"")
            await leader.write(b"one")
            await leader.write(b"two")
            assert (await leader.read()).state == b"two"
            assert not (await Leader(life, 1).read()).is_known
            crashed = disk.after_crash("lost")
        for one in (disk, crashed):
            async with living(one) as life:
                found = await Leader(life, 2).read()
                assert (found.is_known, found.state) == (True, b"two")

    async def test_only_who_has_read_may_write(self) -> None:
        async with living(SimulatedDisk()) as life:
            await share_heartbeat(life.context, beat())
            leader = Leader(life)
            await leader.read()
            other = Leader(life, 1)
            other.incarnation = leader.incarnation
            with pytest.raises(StaleTerm, match="read it first"):
                await other.write(b"state")

    async def test_a_leader_of_an_earlier_term_is_refused(self) -> None:
        async with living(SimulatedDisk()) as life:
            await share_heartbeat(life.context, beat())
            leader = Leader(life)
            await leader.read()
            await leader.write(b"one")
            replica = life.partitions.find("orders", 0).replica
            earlier = replica.term
            replica.term += 1
            with pytest.raises(StaleTerm):
                await leader.write(b"two", leader_term=earlier)
            with pytest.raises(StaleTerm, match="read it first"):
                await leader.write(b"two")
            assert (await leader.read()).state == b"one"
            await leader.write(b"two")

    async def test_a_term_that_nobody_leads_in_shuts_nobody_out(self) -> None:
        async with living(SimulatedDisk()) as life:
            await share_heartbeat(life.context, beat())
            leader = Leader(life)
            with pytest.raises(UnknownTerm):
                await leader.read(leader_term=2**31 - 1)
            await leader.read()
            await leader.write(b"state")

    async def test_a_group_that_was_made_again_is_another(self) -> None:
        async with living(SimulatedDisk()) as life:
            await share_heartbeat(life.context, beat())
            leader = Leader(life)
            await leader.read()
            await leader.write(b"of the first")
            await share_heartbeat(life.context, beat(-1))
            await life.answered(
                lambda answer: life.groups.submit(
                    answer, lambda groups, _: groups.delete(answer, ["g"])
                )
            )
            with pytest.raises(UnknownGroup):
                await leader.write(b"of the first")
            await share_heartbeat(life.context, beat())
            with pytest.raises(UnknownGroup, match="made again"):
                await leader.write(b"of the first")
            assert not (await leader.read()).is_known
            await leader.write(b"of the second")

    async def test_what_makes_no_sense_is_refused(self) -> None:
        async with living(SimulatedDisk()) as life:
            leader = Leader(life)
            with pytest.raises(UnknownGroup):
                await leader.read()
            await life.commit("exclusive", 1)
            with pytest.raises(UnknownGroup, match="no shared group"):
                await leader.read(group="exclusive")
            await share_heartbeat(life.context, beat())
            for topic_id, error in (("x", InvalidRequest), ("00" * 16, UnknownTopicId)):
                with pytest.raises(error):
                    await leader.read(topic_id=topic_id)
            with pytest.raises(UnknownTopic, match="no partition 4"):
                await leader.read(partition=4)
            await leader.read()
            for state in (b"", bytes(SHARE_STATE_BYTES_MAX + 1)):
                with pytest.raises(InvalidRequest, match="must have 1 to"):
                    await leader.write(state)
            await leader.write(bytes(SHARE_STATE_BYTES_MAX))

    async def test_nothing_is_told_before_it_is_durable(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async with living(SimulatedDisk()) as life:
            await share_heartbeat(life.context, beat())
            leader = Leader(life)
            gate = Gate(monkeypatch)
            reading = life.loop.create_task(leader.read())
            for _ in range(20):
                await asyncio.sleep(0)
            assert not reading.done()
            gate.open.set()
            await reading

    async def test_another_coordinator(self) -> None:
        async with living(SimulatedDisk()) as life:
            await share_heartbeat(life.context, beat())
            leader = Leader(life)
            await leader.read()
            life.lose()
            with pytest.raises((NotCoordinator, CoordinatorLoading)):
                await leader.write(b"state")


async def test_the_calls_are_served() -> None:
    async with running() as (_, client):
        await client.create("orders")
        with pytest.raises(UnknownTopicId):
            await client.channel.call(calls.READ_SHARE, pb.ReadShareRequest(group="g"))
        with pytest.raises(UnknownTopicId):
            await client.channel.call(calls.WRITE_SHARE, pb.WriteShareRequest(group="g"))
