"""Administration with the clients' own interfaces: librdkafka, kafka-python, aiokafka."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import pytest
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin import NewTopic as AiokafkaNewTopic
from aiokafka.admin.config_resource import ConfigResource as AiokafkaResource
from aiokafka.admin.config_resource import ConfigResourceType as AiokafkaResourceType
from aiokafka.admin.new_partitions import NewPartitions as AiokafkaNewPartitions
from aiokafka.admin.records_to_delete import RecordsToDelete
from aiokafka.structs import TopicPartition as AiokafkaPartition
from confluent_kafka import (
    Consumer,
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from tests.system.kafka.conftest import CreateTopic, partition_count
from tests.system.kafka.drivers.driver import PATIENCE_S, until
from tests.system.kafka.drivers.table import Clients
from tests.system.kafka.messages import numbered

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    import kafka.admin as kafka_python
    from kafka import TopicPartition as KafkaPythonPartition
    from kafka.structs import OffsetAndMetadata


@pytest.fixture(scope="module")
def other_admin(bootstrap: str) -> Iterator[Any]:
    client = kafka_python.KafkaAdminClient(bootstrap_servers=bootstrap)
    yield client
    client.close()


def one(futures: dict[Any, Any]) -> Any:
    [future] = futures.values()
    return future.result(PATIENCE_S)


def code_of(futures: dict[Any, Any]) -> int:
    with pytest.raises(KafkaException) as refused:
        one(futures)
    code: int = refused.value.args[0].code()
    return code


# --- librdkafka --------------------------------------------------------------------------------


def test_topics_are_created_described_grown_and_deleted(admin: AdminClient, topic: str) -> None:
    settings = {"retention.ms": "60000", "cleanup.policy": "compact"}
    one(admin.create_topics([NewTopic(topic, 3, 1, config=settings)]))
    assert code_of(admin.create_topics([NewTopic(topic, 3, 1)])) == KafkaError.TOPIC_ALREADY_EXISTS
    until(lambda: partition_count(admin, topic) == 3, "the topic is known")
    described = one(admin.describe_topics(TopicCollection([topic])))
    assert (described.name, len(described.partitions)) == (topic, 3)
    assert str(described.topic_id)
    assert not described.is_internal
    assert described.partitions[0].leader.id == described.partitions[0].replicas[0].id
    one(admin.create_partitions([NewPartitions(topic, 5)]))
    until(lambda: partition_count(admin, topic) == 5, "the topic has grown")
    assert code_of(admin.create_partitions([NewPartitions(topic, 5)])) == (
        KafkaError.INVALID_PARTITIONS
    )
    one(admin.delete_topics([topic]))
    until(lambda: partition_count(admin, topic) == 0, "the topic is gone")
    assert code_of(admin.delete_topics([topic])) == KafkaError.UNKNOWN_TOPIC_OR_PART


def test_a_topic_of_the_same_name_is_another_topic(
    admin: AdminClient, clients: Clients, create_topic: CreateTopic, topic: str
) -> None:
    create_topic(topic)
    clients["confluent-kafka"].produce(topic, numbered(range(5)))
    before = one(admin.describe_topics(TopicCollection([topic]))).topic_id
    one(admin.delete_topics([topic]))
    until(lambda: partition_count(admin, topic) == 0, "the topic is gone")
    create_topic(topic)
    after = one(admin.describe_topics(TopicCollection([topic]))).topic_id
    assert str(before) != str(after)
    clients["confluent-kafka"].produce(topic, numbered(range(1)))
    assert one(admin.list_offsets({TopicPartition(topic, 0): OffsetSpec.latest()})).offset == 1


def test_all_topics_are_listed(admin: AdminClient, create_topic: CreateTopic, topic: str) -> None:
    """librdkafka's request for all of them has three bytes too many, which Kafka overlooks."""
    create_topic(topic)
    assert topic in admin.list_topics(timeout=PATIENCE_S).topics


def test_what_is_only_checked_is_not_done(admin: AdminClient, topic: str) -> None:
    one(admin.create_topics([NewTopic(topic, 1, 1)], validate_only=True))
    assert partition_count(admin, topic) == 0


@pytest.mark.parametrize(
    ("wanted", "code"),
    [
        (NewTopic("refused", 0, 1), KafkaError.INVALID_PARTITIONS),
        (NewTopic("refused", 1, 3), KafkaError.INVALID_REPLICATION_FACTOR),
        (NewTopic("refused", 1, 1, config={"no.such": "1"}), KafkaError.INVALID_CONFIG),
        (NewTopic("refused", 1, 1, config={"retention.ms": "soon"}), KafkaError.INVALID_CONFIG),
        (NewTopic("refused", 1, 1, config={"cleanup.policy": "burn"}), KafkaError.INVALID_CONFIG),
    ],
    ids=["no partitions", "too many replicas", "unknown setting", "no number", "no policy"],
)
def test_topics_that_make_no_sense_are_refused(
    admin: AdminClient, wanted: NewTopic, code: int
) -> None:
    assert code_of(admin.create_topics([wanted])) == code


def test_settings_are_described_with_their_source(
    admin: AdminClient, create_topic: CreateTopic, topic: str
) -> None:
    create_topic(topic, retention_ms="86400000", max_message_bytes="2000000")
    settings = one(admin.describe_configs([ConfigResource(ResourceType.TOPIC, topic)]))
    assert (settings["retention.ms"].value, settings["retention.ms"].source) == ("86400000", 1)
    assert settings["max.message.bytes"].value == "2000000"
    assert settings["cleanup.policy"].value == "delete"
    assert settings["cleanup.policy"].is_default
    expected = {
        "compression.type",
        "delete.retention.ms",
        "message.timestamp.type",
        "min.insync.replicas",
        "retention.bytes",
        "segment.bytes",
        "segment.ms",
    }
    assert expected <= set(settings)


def test_settings_are_changed_one_by_one(
    admin: AdminClient, create_topic: CreateTopic, topic: str
) -> None:
    create_topic(topic, retention_ms="1000000", retention_bytes="5000000")

    def alter(name: str, kind: AlterConfigOpType, value: str | None) -> dict[Any, Any]:
        entry = ConfigEntry(name, value, incremental_operation=kind)
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
        found: dict[Any, Any] = admin.incremental_alter_configs([resource])
        return found

    one(alter("retention.ms", AlterConfigOpType.SET, "2000000"))
    one(alter("retention.bytes", AlterConfigOpType.DELETE, None))
    one(alter("cleanup.policy", AlterConfigOpType.APPEND, "compact"))
    settings = one(admin.describe_configs([ConfigResource(ResourceType.TOPIC, topic)]))
    assert settings["retention.ms"].value == "2000000"
    assert settings["retention.bytes"].value == "-1"
    assert settings["cleanup.policy"].value == "delete,compact", "in the order they came"
    refused = alter("retention.forever", AlterConfigOpType.SET, "true")
    assert code_of(refused) == KafkaError.INVALID_CONFIG


def test_settings_are_replaced_all_at_once(
    admin: AdminClient, create_topic: CreateTopic, topic: str
) -> None:
    """The old call: what it does not name goes back to its default."""
    create_topic(topic, retention_ms="1000000")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        one(
            admin.alter_configs(
                [ConfigResource(ResourceType.TOPIC, topic, {"segment.bytes": "2000000"})]
            )
        )
    settings = one(admin.describe_configs([ConfigResource(ResourceType.TOPIC, topic)]))
    assert settings["segment.bytes"].value == "2000000"
    assert settings["retention.ms"].is_default


def test_the_cluster_and_the_broker_are_described(admin: AdminClient) -> None:
    cluster = admin.describe_cluster().result(PATIENCE_S)
    assert cluster.cluster_id
    [node] = cluster.nodes
    assert cluster.controller.id == node.id
    settings = one(admin.describe_configs([ConfigResource(ResourceType.BROKER, str(node.id))]))
    assert settings["num.partitions"].value == "1"
    assert settings["auto.create.topics.enable"].value == "true"


def test_records_are_deleted_up_to_an_offset(
    admin: AdminClient, clients: Clients, create_topic: CreateTopic, topic: str
) -> None:
    create_topic(topic)
    clients["confluent-kafka"].produce(topic, numbered(range(10)))
    deleted = one(admin.delete_records([TopicPartition(topic, 0, 4)]))
    assert deleted.low_watermark == 4
    found = clients["confluent-kafka"].consume({topic: 6})[topic]
    assert [record.offset for record in found] == [4, 5, 6, 7, 8, 9]
    too_far = admin.delete_records([TopicPartition(topic, 0, 11)])
    assert code_of(too_far) == KafkaError.OFFSET_OUT_OF_RANGE
    deleted = one(admin.delete_records([TopicPartition(topic, 0, -1)]))
    assert deleted.low_watermark == 10


def test_groups_are_listed_described_and_deleted(
    bootstrap: str,
    admin: AdminClient,
    clients: Clients,
    create_topic: CreateTopic,
    topic: str,
    group: str,
) -> None:
    create_topic(topic)
    clients["confluent-kafka"].produce(topic, numbered(range(10)))
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "client.id": "reader",
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe([topic])
    message = consumer.poll(PATIENCE_S)
    assert message is not None
    assert group in {found.group_id for found in listed(admin)}
    described = one(admin.describe_consumer_groups([group]))
    assert described.state == ConsumerGroupState.STABLE
    assert described.partition_assignor == "range"
    [member] = described.members
    assert member.client_id == "reader"
    assert [(part.topic, part.partition) for part in member.assignment.topic_partitions] == [
        (topic, 0)
    ]
    assert code_of(admin.delete_consumer_groups([group])) == KafkaError.NON_EMPTY_GROUP
    consumer.commit(message=message, asynchronous=False)
    consumer.close()
    assert one(admin.describe_consumer_groups([group])).state == ConsumerGroupState.EMPTY
    one(admin.delete_consumer_groups([group]))
    assert group not in {found.group_id for found in listed(admin)}
    assert code_of(admin.delete_consumer_groups([group])) == KafkaError.GROUP_ID_NOT_FOUND


def listed(admin: AdminClient) -> list[Any]:
    found = admin.list_consumer_groups().result(PATIENCE_S)
    assert not found.errors
    groups: list[Any] = found.valid
    return groups


def test_offsets_of_a_group_are_listed_and_changed(
    admin: AdminClient, clients: Clients, create_topic: CreateTopic, topic: str, group: str
) -> None:
    create_topic(topic)
    clients["confluent-kafka"].produce(topic, numbered(range(10)))
    clients["confluent-kafka"].consume_in_group(topic, group, 6)
    asked = [ConsumerGroupTopicPartitions(group)]
    [found] = one(admin.list_consumer_group_offsets(asked)).topic_partitions
    assert (found.topic, found.partition, found.offset) == (topic, 0, 6)
    wanted = [ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0, 2)])]
    one(admin.alter_consumer_group_offsets(wanted))
    found_again = clients["confluent-kafka"].consume_in_group(topic, group, 1)
    assert found_again[0].offset == 2


# --- kafka-python ------------------------------------------------------------------------------


def test_kafka_pythons_admin(other_admin: Any, clients: Clients, topic: str, group: str) -> None:
    other_admin.create_topics([kafka_python.NewTopic(topic, 2, 1)])
    until(lambda: described_partitions(other_admin, topic) == 2, "the topic is known")
    other_admin.create_partitions({topic: kafka_python.NewPartitions(3)})
    until(lambda: described_partitions(other_admin, topic) == 3, "the topic has grown")
    clients["kafka-python"].produce(topic, numbered(range(10)))
    partition = KafkaPythonPartition(topic, 0)
    other_admin.delete_records({partition: 3})
    latest = other_admin.list_partition_offsets({partition: kafka_python.OffsetSpec.EARLIEST})
    assert latest[partition].offset == 3
    other_admin.alter_group_offsets(group, {partition: OffsetAndMetadata(5, "", -1)})
    assert other_admin.list_group_offsets({group: None})[group][partition].offset == 5
    assert group in {found["group_id"] for found in other_admin.list_groups()}
    other_admin.delete_group_offsets(group, [partition])
    assert partition not in other_admin.list_group_offsets({group: None}).get(group, {})
    other_admin.delete_topics([topic])
    until(lambda: topic not in other_admin.list_topics(), "the topic is gone")


def described_partitions(client: Any, topic: str) -> int:
    [described] = client.describe_topics([topic])
    return len(described["partitions"])


def test_kafka_python_describes_the_cluster_and_its_disks(
    other_admin: Any, clients: Clients, topic: str
) -> None:
    clients["kafka-python"].produce(topic, numbered(range(10)))
    cluster = other_admin.describe_cluster()
    assert len(cluster["brokers"]) == 1
    found = str(other_admin.describe_log_dirs())
    assert topic in found


def test_kafka_python_changes_settings(other_admin: Any, topic: str) -> None:
    other_admin.create_topics([kafka_python.NewTopic(topic, 1, 1)])
    until(lambda: topic in other_admin.list_topics(), "the topic is known")
    kind = kafka_python.ConfigResourceType.TOPIC
    wanted = kafka_python.ConfigResource(kind, topic, configs={"retention.ms": "1234567"})
    other_admin.alter_configs([wanted])
    found = str(other_admin.describe_configs([kafka_python.ConfigResource(kind, topic)]))
    assert "1234567" in found
    other_admin.reset_configs([kafka_python.ConfigResource(kind, topic, configs=["retention.ms"])])
    found = str(other_admin.describe_configs([kafka_python.ConfigResource(kind, topic)]))
    assert "1234567" not in found


# --- aiokafka ----------------------------------------------------------------------------------


async def test_aiokafkas_admin(
    bootstrap: str, admin: AdminClient, create_topic: CreateTopic, topic: str, group: str
) -> None:
    create_topic(topic)
    client = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await client.start()
    try:
        await client.create_partitions({topic: AiokafkaNewPartitions(2)})
        until(lambda: partition_count(admin, topic) == 2, "the topic has grown")
        [described] = await client.describe_topics([topic])
        assert len(described["partitions"]) == 2
        resource = AiokafkaResource(AiokafkaResourceType.TOPIC, topic, {"retention.ms": "1234567"})
        await client.alter_configs([resource])
        asked = AiokafkaResource(AiokafkaResourceType.TOPIC, topic)
        assert "1234567" in str(await client.describe_configs([asked]))
        assert len((await client.describe_cluster())["brokers"]) == 1
        nothing = RecordsToDelete(before_offset=0)
        await client.delete_records({AiokafkaPartition(topic, 0): nothing})
        assert await client.find_coordinator(group) >= 0
        assert await client.list_consumer_groups() is not None
        await client.create_topics([AiokafkaNewTopic(f"{topic}-more", 1, 1)])
        until(lambda: partition_count(admin, f"{topic}-more") == 1, "the topic is known")
        await client.delete_topics([topic])
        until(lambda: partition_count(admin, topic) == 0, "the topic is gone")
    finally:
        await client.close()
