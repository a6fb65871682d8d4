"""Topics and groups, through the client."""

from __future__ import annotations

import pytest

from penstock.client.client import Client
from penstock.model.errors import ConnectionLost, InvalidTopic, UnknownTopic
from penstock.protocol import penstock_pb2 as pb
from tests.unit.client.fake_broker import LOSE_ANSWER, FakeBroker


async def test_the_life_of_a_topic(broker: FakeBroker, mq: Client) -> None:
    admin = mq.admin
    created = await admin.create_topic("orders", 3, {"durability": "os"})
    assert (created.name, created.partition_count) == ("orders", 3)
    await admin.create_topic("another")
    assert [topic.name for topic in await admin.list_topics()] == ["another", "orders"]
    await mq.publish("orders", b"value", partition=1)
    described = await admin.describe_topic("orders")
    assert described.config == {"durability": "os"}
    assert [entry.high_watermark for entry in described.partitions] == [0, 1, 0]
    await admin.alter_topic("orders", {"retention_ms": "5"}, reset=["durability"])
    assert (await admin.describe_topic("orders")).config == {"retention_ms": "5"}
    await admin.add_partitions("orders", 4)
    assert len((await admin.describe_topic("orders")).partitions) == 4
    assert await admin.find_offset("orders", 1, "latest") == 1
    assert await admin.find_offset("orders", 1, "earliest") == 0
    assert await admin.find_offset("orders", 1, 7) == 7
    await admin.delete_topic("orders")
    with pytest.raises(UnknownTopic):
        await admin.delete_topic("orders")


async def test_the_place_of_a_group(broker: FakeBroker, mq: Client) -> None:
    admin = mq.admin
    await admin.commit_offsets("billing", {("orders", 0): 5, ("other", 1): 6})
    assert await admin.list_groups() == ["billing"]
    assert await admin.group_offsets("billing") == {("orders", 0): 5, ("other", 1): 6}
    assert await admin.group_offsets("billing", ["other"]) == {("other", 1): 6}


async def test_a_lost_answer_is_an_error_and_not_a_second_try(
    broker: FakeBroker, mq: Client
) -> None:
    broker.script[pb.CALL_CREATE_TOPIC].append(LOSE_ANSWER)
    with pytest.raises(ConnectionLost):
        await mq.admin.create_topic("orders")
    assert broker.count(pb.CALL_CREATE_TOPIC) == 1


async def test_a_bad_name_is_not_even_sent(broker: FakeBroker, mq: Client) -> None:
    with pytest.raises(InvalidTopic):
        await mq.admin.create_topic("a/b")
    assert broker.count(pb.CALL_CREATE_TOPIC) == 0
