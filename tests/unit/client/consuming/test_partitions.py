"""What a consumer holds: fetched and counted together, or neither."""

from __future__ import annotations

from penstock.client.client import Client
from penstock.model.ids import TopicPartition
from tests.kit.client.fake_broker import FakeBroker

ONE, TWO = TopicPartition("orders", 0), TopicPartition("orders", 1)


async def test_what_is_held_is_fetched_and_counted(broker: FakeBroker, mq: Client) -> None:
    broker.create("orders", 2)
    async with mq.subscribe("orders", group="billing") as consumer:
        own = consumer._own
        progress = consumer.ledger.committer.progress
        assert own.partitions == list(progress) == [ONE, TWO]
        own.remove([TWO, TopicPartition("orders", 9)])
        assert own.partitions == list(progress) == [ONE]
        assert TWO not in own
        own.hold([ONE, TWO])
        own.release([ONE, TWO])
        assert await own.add({ONE: "latest", TWO: "latest"}) == [TWO]
        assert not progress[TWO].is_due, "only where the start is to be kept"


async def test_without_a_group_nothing_is_counted(broker: FakeBroker, mq: Client) -> None:
    broker.create("orders", 1)
    async with mq.subscribe("orders") as consumer:
        assert consumer._own.committer is None
        consumer._own.remove([ONE])
        assert consumer.partitions == []
