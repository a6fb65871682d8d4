"""What a consumer holds: fetched and counted together, or neither."""

from __future__ import annotations

from penstock.client.client import Client
from penstock.model.ids import TopicPartition
from tests.kit.client.fake_broker import FakeBroker

ONE, TWO = TopicPartition("orders", 0), TopicPartition("orders", 1)


async def test_what_is_held_is_fetched_and_counted(broker: FakeBroker, mq: Client) -> None:
    broker.create("orders", 2)
    async with mq.subscribe("orders", group="billing") as consumer:
        holdings = consumer._holdings
        progress = consumer.ledger.committer.progress
        assert holdings.partitions == list(progress) == [ONE, TWO]
        holdings.remove([TWO, TopicPartition("orders", 9)])
        assert holdings.partitions == list(progress) == [ONE]
        assert TWO not in holdings
        holdings.hold([ONE, TWO])
        holdings.release([ONE, TWO])
        assert await holdings.add({ONE: "latest", TWO: "latest"}) == [TWO]
        assert not progress[TWO].is_due, "only where the start is to be kept"


async def test_without_a_group_nothing_is_counted(broker: FakeBroker, mq: Client) -> None:
    broker.create("orders", 1)
    async with mq.subscribe("orders") as consumer:
        assert consumer._holdings.committer is None
        consumer._holdings.remove([ONE])
        assert consumer.partitions == []
