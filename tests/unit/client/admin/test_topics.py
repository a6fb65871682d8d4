"""Topics and groups, through the client."""

from __future__ import annotations

import pytest

from penstock.client.admin.topics import GroupLag
from penstock.client.client import Client
from penstock.model.errors import ConnectionLost, InvalidTopic, MalformedFrame, UnknownTopic
from penstock.model.removal import DeletedPartition, DeletedTopic, Removal
from penstock.protocol import penstock_pb2 as pb
from tests.kit.client.fake_broker import LOSE_ANSWER, FakeBroker

DESCRIBE = pb.CALL_DESCRIBE_TOPIC


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


async def test_how_far_a_group_is_behind(broker: FakeBroker, mq: Client) -> None:
    """R-SPK-3: lag per group; beside what it missed and what it cannot have read yet."""
    admin = mq.admin
    await admin.create_topic("orders", 4)
    await admin.create_topic("events")
    for partition, (start, end) in zip(
        broker.topics["orders"], [(0, 9), (4, 9), (0, 2), (0, 9)], strict=True
    ):
        partition.start, partition.end = start, end
    broker.topics["orders"][3].is_offline = True
    offsets = {("orders", 0): 7, ("orders", 1): 2, ("orders", 2): 3, ("orders", 3): 1}
    await admin.commit_offsets("billing", {**offsets, ("events", 0): 0, ("gone", 0): 5})
    lags = await admin.group_lag("billing")
    assert [(lag.topic, lag.partition, lag.lag) for lag in lags] == [
        ("events", 0, 0),
        ("orders", 0, 2),
        ("orders", 1, 7),
        ("orders", 2, 0),
    ]
    assert lags[2] == GroupLag(topic="orders", partition=1, committed=2, log_start=4, end=9, lag=7)
    assert await admin.group_lag("nobody") == []


async def test_the_groups_of_a_topic(broker: FakeBroker, mq: Client) -> None:
    admin = mq.admin
    await admin.commit_offsets("billing", {("orders", 0): 5, ("orders", 1): 6, ("other", 0): 7})
    await admin.commit_offsets("audit", {("other", 0): 8})
    for number in range(250):
        await admin.commit_offsets(f"many{number}", {("many", 0): number})
    assert await admin.topic_groups("orders") == {"billing": {0: 5, 1: 6}}
    assert await admin.topic_groups("other") == {"audit": {0: 8}, "billing": {0: 7}}
    many = {f"many{number}": {0: number} for number in range(250)}
    assert await admin.topic_groups("many") == many
    assert await admin.topic_groups("nothing") == {}


async def test_why_offsets_are_gone(broker: FakeBroker, mq: Client) -> None:
    """R-SPK-3: which offsets, why and when."""
    await mq.admin.create_topic("orders", 2)
    entry = pb.ListRemovalsResponse.Removal(
        first_offset=0, end_offset=9, cause="deleted", at_ms=5, detail="on request"
    )
    broker.removals["orders", 1] = [entry]
    assert await mq.admin.removals("orders", 0) == []
    assert await mq.admin.removals("orders", 1) == [
        Removal(first_offset=0, end_offset=9, cause="deleted", at_ms=5, detail="on request")
    ]
    with pytest.raises(UnknownTopic):
        await mq.admin.removals("orders", 2)
    entry.cause = "boredom"
    with pytest.raises(MalformedFrame, match="boredom"):
        await mq.admin.removals("orders", 1)


async def test_topics_that_were_deleted(broker: FakeBroker, mq: Client) -> None:
    orders = pb.ListDeletedTopicsResponse.Topic(name="orders", id="id", at_ms=5)
    orders.partitions.add(partition=1, start_offset=2, end_offset=3)
    broker.deleted_topics = [orders, pb.ListDeletedTopicsResponse.Topic(name="events")]
    found = await mq.admin.deleted_topics("orders")
    assert found == [
        DeletedTopic(name="orders", topic_id="id", at_ms=5, partitions=(DeletedPartition(1, 2, 3),))
    ]
    assert [topic.name for topic in await mq.admin.deleted_topics()] == ["orders", "events"]


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


# --- several brokers -----------------------------------------------------------------------------


async def test_each_partition_is_described_by_its_leader(broker: FakeBroker, mq: Client) -> None:
    """R-REP-2: others may be behind."""
    async with FakeBroker(broker_id=5) as other:
        for each in (broker, other):
            each.create("orders", 3)
            each.leaders = {("orders", 1): 5, ("orders", 0): 0, ("orders", 2): 0}
        broker.peers[5] = other.address
        other.topics["orders"][1].end = 20
        other.topics["orders"][0].end = 1
        broker.topics["orders"][0].end = 10
        described = await mq.admin.describe_topic("orders")
        assert [one.high_watermark for one in described.partitions] == [10, 20, 0]
        assert [one.leader for one in described.partitions] == [0, 5, 0]
        assert described.partitions[1].replicas == (5,)
        assert described.partitions[0].replicas == (0, 5)
        assert described.partitions[1].in_sync == (5,)
        assert (broker.count(DESCRIBE), other.count(DESCRIBE)) == (1, 1)


async def test_what_nobody_leads_is_offline(
    broker: FakeBroker, mq: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody may take what a copy has for what there is."""
    monkeypatch.setattr("penstock.client.admin.topics._ELECTION_S_MAX", 0.5)
    monkeypatch.setattr("penstock.client.admin.topics._LOOK_S", 0.01)
    broker.create("orders", 3)
    for partition in broker.topics["orders"]:
        partition.end = 9
    broker.leaders = {("orders", 1): -1, ("orders", 2): 6}
    described = await mq.admin.describe_topic("orders")
    assert [one.is_offline for one in described.partitions] == [False, True, True]
    assert [one.high_watermark for one in described.partitions] == [9, 0, 0]
    assert "no leader now" in str(described.partitions[1].error)
    assert "broker 6, which cannot be reached" in str(described.partitions[2].error)
    assert broker.count(DESCRIBE) > 2, "it may be elected at any moment"


async def test_how_many_copies_is_for_the_caller_to_say(broker: FakeBroker, mq: Client) -> None:
    """R-REP-2."""
    await mq.admin.create_topic("orders", 2, replicas=3)
    assert broker.calls[-1][1].replicas == 3
