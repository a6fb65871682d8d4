"""The cluster as a broker describes it: the dead are there as long as something of them is."""

from __future__ import annotations

from penstock.broker.cluster.view import ClusterView
from penstock.model.ids import BrokerId
from penstock.protocol import penstock_pb2 as pb
from tests.kit.broker.cluster import Village, village


async def described(cluster: Village) -> pb.DescribeClusterResponse:
    life = cluster.up[1]
    view = ClusterView(BrokerId(1), cluster.registry, life.partitions, life.leaders)
    return await view.describe()


def states(answer: pb.DescribeClusterResponse) -> dict[int, tuple[bool, bool]]:
    return {each.id: (each.is_alive, each.is_drained) for each in answer.brokers}


async def test_a_dead_broker_is_listed_until_it_is_drained_of_everything() -> None:
    """R-REP-7: then nothing is left of it."""
    async with village(4) as cluster:
        await cluster.create([1, 2, 3])
        await cluster.kill(3)
        assert states(await described(cluster))[3] == (False, False)
        await cluster.registry.drain_broker(BrokerId(3), is_drained=True)
        await cluster.retarget([1, 2, 4])
        assert states(await described(cluster))[3] == (False, True), "it has a vote still"
        await cluster.wait(lambda: cluster.voters() == {1, 2, 4})
        assert sorted(states(await described(cluster))) == [1, 2, 4]


async def test_who_has_the_only_copy_is_listed_whatever_the_target_says() -> None:
    async with village(2) as cluster:
        await cluster.create([2])
        await cluster.kill(2)
        await cluster.retarget([1])
        await cluster.pass_ms(3_000)
        answer = await described(cluster)
        assert states(answer) == {1: (True, False), 2: (False, False)}
        (partition,) = answer.partitions
        assert (partition.leader, list(partition.voters), list(partition.target)) == (-1, [2], [1])
