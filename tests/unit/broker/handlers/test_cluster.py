"""The cluster described and changed, where it is one broker: nothing to do, and one sentence."""

from __future__ import annotations

import pytest

from penstock.model.errors import InvalidRequest
from penstock.protocol import calls
from penstock.protocol import penstock_pb2 as pb
from tests.kit.broker.running import RawClient, batch, running


async def described(client: RawClient, *, moving_only: bool = False) -> pb.DescribeClusterResponse:
    request = pb.DescribeClusterRequest(moving_only=moving_only)
    response, _ = await client.channel.call(calls.DESCRIBE_CLUSTER, request)
    return response


async def test_a_broker_on_its_own_describes_itself() -> None:
    async with running() as (broker, client):
        await client.create("orders", 2)
        await client.produce("orders", batch([b"one"]), partition=1)
        answer = await described(client)
        (here,) = answer.brokers
        assert (here.id, here.address) == (1, broker.addresses[0])
        assert (here.is_alive, here.is_drained, here.leaders, here.replicas) == (True, False, 2, 2)
        assert here.bytes == len(batch([b"one"]))
        assert (answer.is_alone, answer.controller) == (True, 1)
        zero, one = answer.partitions
        assert (zero.topic, zero.partition, zero.leader, list(zero.target)) == ("orders", 0, 1, [1])
        assert (list(one.voters), list(one.in_sync), one.is_reached) == ([1], [1], True)
        assert (zero.commit_offset, one.commit_offset) == (0, 1)
        assert not (await described(client, moving_only=True)).partitions


@pytest.mark.parametrize(
    "request_",
    [
        pb.ChangePlacementRequest(drain=pb.ChangePlacementRequest.Drain(broker=1)),
        pb.ChangePlacementRequest(rebalance=pb.ChangePlacementRequest.Rebalance()),
        pb.ChangePlacementRequest(),
    ],
)
async def test_a_broker_on_its_own_can_move_nothing(request_: pb.ChangePlacementRequest) -> None:
    async with running() as (_, client):
        with pytest.raises(InvalidRequest, match=r"on its own.*penstock up --brokers 3"):
            await client.channel.call(calls.CHANGE_PLACEMENT, request_)


async def test_a_broker_on_its_own_leads_everything() -> None:
    async with running() as (_, client):
        await client.create("orders", 2)
        response, _ = await client.channel.call(calls.ELECT_LEADERS, pb.ElectLeadersRequest())
        assert not response.results
        request = pb.ElectLeadersRequest(max_wait_ms=100)
        request.partitions.add(topic="orders", partition=1)
        request.partitions.add(topic="orders", partition=2)
        response, _ = await client.channel.call(calls.ELECT_LEADERS, request)
        assert [(result.partition, result.outcome) for result in response.results] == [
            (1, pb.ElectLeadersResponse.NOT_NEEDED),
            (2, pb.ElectLeadersResponse.UNKNOWN),
        ]
