"""Positions in a topic: by time, at its ends, committed and taken up again, out of range."""

from __future__ import annotations

import asyncio
import time

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka import TopicPartition as AiokafkaPartition
from aiokafka.errors import OffsetOutOfRangeError
from confluent_kafka import Consumer, KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

import penstock
from penstock.model.ids import TopicPartition as OurPartition
from tests.system.kafka.conftest import CreateTopic
from tests.system.kafka.drivers.confluent import ConfluentDriver
from tests.system.kafka.drivers.driver import PATIENCE_S
from tests.system.kafka.drivers.kafka_python import KafkaPythonDriver
from tests.system.kafka.drivers.remote import KafkajsDriver
from tests.system.kafka.drivers.table import NAMES, Clients
from tests.system.kafka.messages import Message, numbered
from tests.system.kafka.peer import IS_KAFKA

START_MS = 1_700_000_000_000
# A second apart, but for the last, which is older than the one before it.
TIMES_MS = [START_MS + second * 1_000 for second in (0, 1, 2, 3, 9, 5)]


@pytest.fixture(scope="module")
def timed_topic(clients: Clients, create_topic: CreateTopic) -> str:
    """Each message in a batch of its own, so that finding one is the broker's work."""
    topic = "timed"
    create_topic(topic)
    for number, timestamp_ms in enumerate(TIMES_MS):
        message = Message(key=None, value=b"%d" % number, timestamp_ms=timestamp_ms)
        clients["confluent-kafka"].produce(topic, [message])
    return topic


@pytest.mark.parametrize("name", NAMES)
def test_a_position_is_found_by_time(clients: Clients, timed_topic: str, name: str) -> None:
    driver = clients[name]
    assert driver.offset_at(timed_topic, 1) == 0
    assert driver.offset_at(timed_topic, TIMES_MS[2]) == 2
    assert driver.offset_at(timed_topic, TIMES_MS[2] + 1) == 3
    assert driver.offset_at(timed_topic, TIMES_MS[3] + 1) == 4
    assert driver.offset_at(timed_topic, TIMES_MS[4] + 1) is None


def test_a_position_is_found_by_time_within_a_batch(
    clients: Clients, create_topic: CreateTopic, topic: str
) -> None:
    create_topic(topic)
    messages = [
        Message(key=None, value=b"%d" % number, timestamp_ms=START_MS + number)
        for number in range(100)
    ]
    for codec in ("none", "zstd"):
        clients["confluent-kafka"].produce(topic, messages, codec=codec)
    assert clients["aiokafka"].offset_at(topic, START_MS + 42) == 42


def test_both_ends_and_the_latest_time(admin: AdminClient, timed_topic: str) -> None:
    for wanted, offset, timestamp_ms in (
        (OffsetSpec.earliest(), 0, -1),
        (OffsetSpec.latest(), 6, -1),
        (OffsetSpec.max_timestamp(), 4, TIMES_MS[4]),
        (OffsetSpec.for_timestamp(TIMES_MS[3]), 3, TIMES_MS[3]),
    ):
        [listed] = admin.list_offsets({TopicPartition(timed_topic, 0): wanted}).values()
        found = listed.result(PATIENCE_S)
        assert (found.offset, found.timestamp) == (offset, timestamp_ms)


def test_a_group_goes_on_where_it_was_whichever_client_comes(
    clients: Clients, create_topic: CreateTopic, topic: str, group: str
) -> None:
    """Each client in turn joins the group, reads three messages, commits and leaves."""
    create_topic(topic)
    clients["confluent-kafka"].produce(topic, numbered(range(100)))
    expected = 0
    for name in (*[name for name in NAMES if name != "java"], "confluent-kafka"):
        found = clients[name].consume_in_group(topic, group, 3)
        offsets = [record.offset for record in found]
        assert offsets == [expected, expected + 1, expected + 2], name
        expected += 3


@pytest.mark.parametrize("name", NAMES)
def test_a_new_member_goes_on_from_the_commit(
    clients: Clients, create_topic: CreateTopic, topic: str, group: str, name: str
) -> None:
    create_topic(topic)
    clients[name].produce(topic, numbered(range(10)))
    for first in (0, 4):
        found = clients[name].consume_in_group(topic, group, 4)
        assert [record.value for record in found] == [b"%d" % (first + one) for one in range(4)]


def test_committed_offsets_and_their_metadata_are_seen_by_all(
    bootstrap: str, create_topic: CreateTopic, topic: str, group: str
) -> None:
    create_topic(topic, 2)
    note = "by hand, on Tuesday"
    KafkaPythonDriver(bootstrap).commit(topic, 1, group, 42, note)
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    both = [TopicPartition(topic, 0), TopicPartition(topic, 1)]
    never, found = consumer.committed(both, PATIENCE_S)
    consumer.close()
    assert never.offset < 0
    # Not the note: confluent-kafka reads beyond its end.
    assert found.offset == 42

    async def read_with_aiokafka() -> int | None:
        async with AIOKafkaConsumer(bootstrap_servers=bootstrap, group_id=group) as other:
            committed: int | None = await other.committed(AiokafkaPartition(topic, 1))
            return committed

    assert asyncio.run(read_with_aiokafka()) == 42
    assert KafkaPythonDriver(bootstrap).committed(topic, 1, group) == (42, note)


@pytest.mark.parametrize(("policy", "value"), [("earliest", b"0"), ("latest", b"10")])
def test_a_position_out_of_range_is_reset_as_the_consumer_asks(
    bootstrap: str, create_topic: CreateTopic, topic: str, policy: str, value: bytes
) -> None:
    create_topic(topic)
    driver = ConfluentDriver(bootstrap)
    driver.produce(topic, numbered(range(10)))
    consumer = consumer_at(bootstrap, topic, 1_000, policy)
    try:
        if policy == "latest":  # it has been reset once the broker was asked where the end is
            wait_until_it_reads_at(consumer, TopicPartition(topic, 0), 10)
            driver.produce(topic, numbered(range(10, 11)))
        found = consumer.poll(PATIENCE_S)
        assert found is not None
        assert (found.error(), found.value()) == (None, value)
    finally:
        consumer.close()


def test_a_position_out_of_range_is_an_error_where_the_consumer_asks_for_that(
    bootstrap: str, create_topic: CreateTopic, topic: str
) -> None:
    create_topic(topic)
    consumer = consumer_at(bootstrap, topic, 1_000, "error")
    found = consumer.poll(PATIENCE_S)
    consumer.close()
    assert found is not None
    assert found.error().code() == KafkaError._AUTO_OFFSET_RESET

    async def read_with_aiokafka() -> None:
        async with AIOKafkaConsumer(
            bootstrap_servers=bootstrap, auto_offset_reset="none"
        ) as consumer:
            partition = AiokafkaPartition(topic, 0)
            consumer.assign([partition])
            consumer.seek(partition, 1_000)
            await asyncio.wait_for(consumer.getone(), PATIENCE_S)

    with pytest.raises(OffsetOutOfRangeError):
        asyncio.run(read_with_aiokafka())


@pytest.mark.parametrize(
    ("committed", "expected"), [(2, [5, 6, 7, 8, 9]), (1_000, [5, 6, 7])], ids=["gone", "to come"]
)
def test_kafkajs_recovers_from_an_offset_out_of_range(
    bootstrap: str,
    admin: AdminClient,
    clients: Clients,
    create_topic: CreateTopic,
    topic: str,
    group: str,
    committed: int,
    expected: list[int],
) -> None:
    """R-DEL-10: by committing -2, which says that there is no offset, and asking for it again."""
    create_topic(topic)
    clients["confluent-kafka"].produce(topic, numbered(range(10)))
    [deleted] = admin.delete_records([TopicPartition(topic, 0, 5)]).values()
    assert deleted.result(PATIENCE_S).low_watermark == 5
    KafkaPythonDriver(bootstrap).commit(topic, 0, group, committed, "")
    found = clients["kafkajs"].consume_in_group(topic, group, len(expected))
    assert [record.offset for record in found] == expected
    # What it then has read counts for everybody.
    assert KafkaPythonDriver(bootstrap).committed(topic, 0, group) == (expected[-1] + 1, "")


@pytest.mark.soak  # kafkajs waits for five seconds each time
@pytest.mark.parametrize(("at", "answer"), [("earliest", -2), ("latest", -1)])
def test_kafkajs_lets_a_group_begin_elsewhere(
    bootstrap: str,
    clients: Clients,
    create_topic: CreateTopic,
    topic: str,
    group: str,
    at: str,
    answer: int,
) -> None:
    """R-DEL-10: at an end, which it commits as -2 or -1: whoever reads goes by its own policy."""
    create_topic(topic)
    clients["confluent-kafka"].produce(topic, numbered(range(10)))
    kafkajs = clients["kafkajs"]
    assert isinstance(kafkajs, KafkajsDriver)
    assert kafkajs.call("placeGroup", topic=topic, group=group, at=7) == 7
    found = kafkajs.consume_in_group(topic, group, 2)
    assert [record.offset for record in found] == [7, 8]
    assert kafkajs.call("placeGroup", topic=topic, group=group, at=at) == answer
    if not IS_KAFKA:
        assert asyncio.run(as_ours_see_it(bootstrap, topic, group)) == ({}, {None})
    found = clients["confluent-kafka"].consume_in_group(topic, group, 2)
    assert [record.offset for record in found] == [0, 1]


async def as_ours_see_it(
    bootstrap: str, topic: str, group: str
) -> tuple[dict[OurPartition, int], set[int | None]]:
    """How far the group has read, and what is told of its places."""
    async with penstock.connect(bootstrap) as mq:
        described = await mq.groups.describe(group)
        return await mq.admin.group_offsets(group), {one.committed for one in described.places}


def consumer_at(bootstrap: str, topic: str, offset: int, policy: str) -> Consumer:
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "unused", "auto.offset.reset": policy}
    )
    consumer.assign([TopicPartition(topic, 0, offset)])
    return consumer


def wait_until_it_reads_at(consumer: Consumer, partition: TopicPartition, end: int) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while consumer.get_watermark_offsets(partition, cached=True)[1] != end:
        assert consumer.poll(0.05) is None
        assert time.monotonic() < deadline
