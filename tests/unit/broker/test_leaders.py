"""Who leads, and where that is, also when the registry does not know."""

from __future__ import annotations

from penstock.broker.company import Acquaintances
from penstock.broker.leaders import Leaders
from penstock.model.ids import BrokerId
from penstock.registry.facts import ExpireBroker
from tests.registry_support import broker
from tests.unit.broker.cluster_harness import village


async def test_a_leader_that_the_registry_lost_is_found_while_it_is_heard() -> None:
    """R-CORE-5: it leads without a registry, so clients must be told where it is."""
    async with village(3) as cluster:
        topic = await cluster.create([1, 2, 3])
        lost = cluster.leader()
        assert lost is not None
        asked = next(life for life in cluster.up.values() if life is not lost)
        acquaintances = Acquaintances(BrokerId(asked.node.broker), lambda _: None)
        acquaintances.follow(cluster.registry.image)
        cluster.registry.watch(acquaintances.follow)
        leaders = Leaders(
            BrokerId(asked.node.broker),
            cluster.registry,
            asked.partitions,
            cluster.clock,
            asked.replicas,
            lambda: acquaintances.known,
        )
        assert leaders.brokers == cluster.registry.image.brokers

        await cluster.registry.change(ExpireBroker(node=lost.node))
        await cluster.pass_ms(5_000)
        number = BrokerId(lost.node.broker)
        assert number not in cluster.registry.image.brokers
        assert leaders.of(topic, 0).broker == number
        assert leaders.brokers[number] == broker(number)

        del cluster.up[number]
        await cluster.wait(lambda: leaders.of(topic, 0).broker not in (number, -1))
        await cluster.pass_ms(2_000)
        assert number not in leaders.brokers, "it is silent"
