"""Partitions and leaders moved with Kafka's own tools and admin clients, on a cluster of brokers
(R-REP-7, R-NET-5): AlterPartitionReassignments, ListPartitionReassignments, ElectLeaders."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import confluent_kafka
import pytest
from confluent_kafka import ElectionType
from confluent_kafka.admin import AdminClient, NewTopic
from kafka import KafkaAdminClient, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType
from kafka.errors import (
    InvalidReplicationAssignmentError,
    NoReassignmentInProgressError,
    UnknownTopicOrPartitionError,
)

from tests.kit.processes.cluster import Cluster
from tests.system.kafka.drivers.driver import until
from tests.system.kafka.drivers.remote import JavaDriver

REASSIGN = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
ELECT = "org.apache.kafka.tools.LeaderElectionCommand"
CONFIGS = "kafka.admin.ConfigCommand"
# The first three, which have the registry; and one that is stopped now and then.
KEPT = (1, 2, 3)
SPARE = 4


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("cluster"), 4, is_started=False) as running:
        # Whoever is first finishes what others left, for as long as it lives, and is asked who it
        # is; so it must not be the one that is stopped now and then.
        for broker in KEPT:
            running.start(broker, is_awaited=False)
        for broker in KEPT:
            running.wait_ready(broker)
        running.start(SPARE)
        yield running


@pytest.fixture(scope="module")
def bootstrap(cluster: Cluster) -> str:
    return ",".join(cluster.addresses[broker] for broker in KEPT)


@pytest.fixture
def kafka_python(bootstrap: str) -> Iterator[KafkaAdminClient]:
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    yield admin
    admin.close()


@contextmanager
def standing_still(cluster: Cluster, broker: int, admin: AdminClient) -> Iterator[KafkaAdminClient]:
    """One that asks another broker: kafka-python asks the one that was named to it first for as
    long as it lives itself. Who stands still for long is no broker, until it says that it is back.
    """
    asked = KafkaAdminClient(bootstrap_servers=cluster.bootstrap)
    while asked.list_partition_reassignments() or asked._controller_id == broker:
        asked.close()
        asked = KafkaAdminClient(bootstrap_servers=cluster.bootstrap)
    cluster.stop(broker)
    try:
        yield asked
    finally:
        cluster.resume(broker)
        asked.close()
    until(lambda: is_known(admin, broker), f"broker {broker} is back")


def is_known(admin: AdminClient, broker: int) -> bool:
    try:
        return broker in admin.list_topics(timeout=5).brokers
    except confluent_kafka.KafkaException as error:
        return is_unanswered(error)


@pytest.fixture
def orders(admin: AdminClient, topic: str) -> str:
    """A topic of two partitions on brokers 1, 2 and 3, led by 1."""
    new = NewTopic(topic, replica_assignment=[[1, 2, 3], [1, 2, 3]], num_partitions=2)
    admin.create_topics([new])[topic].result()
    until(lambda: leaders(admin, topic) == [1, 1], "it is led")
    return topic


def described(admin: AdminClient, topic: str) -> list[confluent_kafka.admin.PartitionMetadata]:
    partitions = admin.list_topics(topic, timeout=5).topics[topic].partitions
    return [partitions[number] for number in sorted(partitions)]


def leaders(admin: AdminClient, topic: str) -> list[int]:
    return [partition.leader for partition in described(admin, topic)]


def is_on(admin: AdminClient, topic: str, partition: int, brokers: list[int]) -> bool:
    try:
        found = described(admin, topic)[partition]
    except confluent_kafka.KafkaException as error:
        return is_unanswered(error)
    return list(found.replicas) == brokers and sorted(found.isrs) == sorted(brokers)


def is_unanswered(error: confluent_kafka.KafkaException) -> bool:
    """False, or raise: librdkafka asks any broker that it is connected to, also one that stands
    still, and then another."""
    if error.args[0].code() != confluent_kafka.KafkaError._TIMED_OUT:
        raise error
    return False


def test_kafka_python_moves_a_partition(
    kafka_python: KafkaAdminClient, admin: AdminClient, orders: str
) -> None:
    zero = TopicPartition(orders, 0)
    assert kafka_python.alter_partition_reassignments({zero: [4, 2, 3]}) == {zero: None}
    until(lambda: is_on(admin, orders, 0, [4, 2, 3]), "it has moved")
    until(lambda: not kafka_python.list_partition_reassignments(), "nothing is on its way")
    assert is_on(admin, orders, 1, [1, 2, 3])


def test_a_move_is_listed_and_called_off(admin: AdminClient, cluster: Cluster, orders: str) -> None:
    """KIP-455: replicas that are added and removed; null calls it off."""
    zero = TopicPartition(orders, 0)
    with standing_still(cluster, SPARE, admin) as asked:
        assert asked.alter_partition_reassignments({zero: [4, 2, 3]}) == {zero: None}
        expected = {"replicas": [4, 2, 3, 1], "adding_replicas": [4], "removing_replicas": [1]}
        until(lambda: asked.list_partition_reassignments() == {zero: expected}, "it is listed")
        assert asked.list_partition_reassignments({orders: [0, 1]}) == {zero: expected}
        assert asked.list_partition_reassignments({orders: [1]}) == {}
        assert asked.alter_partition_reassignments({zero: None}) == {zero: None}
        until(lambda: is_on(admin, orders, 0, [1, 2, 3]), "it is where it was")
        until(lambda: not asked.list_partition_reassignments(), "nothing is on its way")
        again = asked.alter_partition_reassignments({zero: None})
        assert again == {zero: NoReassignmentInProgressError}


def test_the_controller_stands_still(
    kafka_python: KafkaAdminClient, admin: AdminClient, cluster: Cluster, orders: str
) -> None:
    """Every broker can do what is asked, and names itself: the others are asked without it."""
    controller = admin.describe_cluster().result(10).controller.id
    others = [broker for broker in cluster.ids if broker != controller]
    one = TopicPartition(orders, 1)
    with standing_still(cluster, controller, admin) as asked:
        until(lambda: asked.alter_partition_reassignments({one: others}) == {one: None}, "begun")
    until(lambda: is_on(admin, orders, 1, others), "it has moved")
    back = {one: list(KEPT)}
    assert kafka_python.alter_partition_reassignments(back) == {one: None}
    until(lambda: is_on(admin, orders, 1, list(KEPT)), "it has moved back")


def test_what_cannot_be_is_refused_partition_by_partition(
    kafka_python: KafkaAdminClient, admin: AdminClient, orders: str
) -> None:
    zero, one = TopicPartition(orders, 0), TopicPartition(orders, 1)
    missing, unknown = TopicPartition(orders, 9), TopicPartition("no-such-topic", 0)
    answers = kafka_python.alter_partition_reassignments(
        {zero: [99], one: [2, 3], missing: [1], unknown: [1]}
    )
    assert answers == {
        zero: InvalidReplicationAssignmentError,
        one: None,
        missing: UnknownTopicOrPartitionError,
        unknown: UnknownTopicOrPartitionError,
    }
    until(lambda: is_on(admin, orders, 1, [2, 3]), "the one that can be is done")
    until(lambda: is_on(admin, orders, 0, [1, 2, 3]), "the other is where it was")


def test_librdkafka_elects_preferred_leaders(
    kafka_python: KafkaAdminClient, admin: AdminClient, orders: str
) -> None:
    zero = TopicPartition(orders, 0)
    kafka_python.alter_partition_reassignments({zero: [3, 2, 1]})
    until(lambda: is_on(admin, orders, 0, [3, 2, 1]), "another is preferred")
    asked = [confluent_kafka.TopicPartition(orders, number) for number in (0, 1, 7)]
    until(lambda: leaders(admin, orders)[0] == 1, "the old one leads")
    results = admin.elect_leaders(ElectionType.PREFERRED, asked).result()
    codes = {partition.partition: error for partition, error in results.items()}
    assert codes[0] is None
    assert codes[1].name() == "ELECTION_NOT_NEEDED"
    assert codes[7].name() == "UNKNOWN_TOPIC_OR_PART"
    assert leaders(admin, orders) == [3, 1]
    unclean = admin.elect_leaders(ElectionType.UNCLEAN, asked[:1]).result()
    assert [error.name() for error in unclean.values()] == ["ELECTION_NOT_NEEDED"]


def test_elections_of_everything(admin: AdminClient, orders: str) -> None:
    """Partitions that need none are left out."""
    results = admin.elect_leaders(ElectionType.PREFERRED).result()
    assert not [each for each in results if each.topic == orders]


def test_the_tools_that_come_with_kafka(
    bootstrap: str, admin: AdminClient, orders: str, tmp_path: Path
) -> None:
    """kafka-reassign-partitions and kafka-leader-election, as people run them."""
    plan = tmp_path / "plan.json"
    moves = [
        {"topic": orders, "partition": number, "replicas": [4, 3, 2], "log_dirs": ["any"] * 3}
        for number in range(2)
    ]
    plan.write_text(json.dumps({"version": 1, "partitions": moves}))
    java = JavaDriver(bootstrap)
    try:
        where = ("--bootstrap-server", bootstrap)
        begun = java.tool(REASSIGN, *where, "--reassignment-json-file", str(plan), "--execute")
        assert "Successfully started partition reassignments" in begun
        until(lambda: is_on(admin, orders, 0, [4, 3, 2]), "the first has moved")
        until(lambda: is_on(admin, orders, 1, [4, 3, 2]), "the second has moved")
        verified = java.tool(
            REASSIGN,
            *where,
            *("--reassignment-json-file", str(plan), "--verify", "--preserve-throttles"),
        )
        assert f"Reassignment of partition {orders}-1 is completed." in verified
        assert "No partition reassignments found." in java.tool(REASSIGN, *where, "--list")
        java.tool(ELECT, *where, "--election-type", "preferred", "--all-topic-partitions")
        until(lambda: leaders(admin, orders) == [4, 4], "the preferred broker leads")
    finally:
        java.close()


def test_the_quorum_of_meta_servers_is_described(
    bootstrap: str, kafka_python: KafkaAdminClient
) -> None:
    """R-REP-5 as Kafka's tools show it: three brokers keep the facts, the fourth follows them."""
    quorum = kafka_python.describe_metadata_quorum()
    [[partition]] = [topic["partitions"] for topic in quorum["topics"]]
    assert partition["leader_id"] in KEPT
    assert [voter["replica_id"] for voter in partition["current_voters"]] == list(KEPT)
    assert partition["high_watermark"] > 0
    assert [observer["replica_id"] for observer in partition["observers"]] == [SPARE]
    java = JavaDriver(bootstrap)
    try:
        where = ("--bootstrap-server", bootstrap)
        tool = "org.apache.kafka.tools.MetadataQuorumCommand"
        printed = java.tool(tool, *where, "describe", "--status")
    finally:
        java.close()
    leader, epoch = partition["leader_id"], partition["leader_epoch"]
    assert re.search(rf"LeaderId:\s+{leader}\s+LeaderEpoch:\s+{epoch}\s", printed), printed


def test_a_default_that_is_changed_holds_on_every_broker(
    bootstrap: str, kafka_python: KafkaAdminClient
) -> None:
    """R-NET-5: KIP-226, kept by the registry and followed by all."""
    java = JavaDriver(bootstrap)
    where = ("--bootstrap-server", bootstrap, "--entity-type", "brokers", "--entity-default")

    def segments() -> set[str]:
        brokers = [ConfigResource(ConfigResourceType.BROKER, str(each)) for each in (*KEPT, SPARE)]
        described = kafka_python.describe_configs(brokers, config_filter="all")["broker"]
        return {described[str(each)]["log.segment.bytes"]["value"] for each in (*KEPT, SPARE)}

    try:
        java.tool(CONFIGS, *where, "--alter", "--add-config", "log.segment.bytes=2097152")
        until(lambda: segments() == {"2097152"}, "all know it")
        java.tool(CONFIGS, *where, "--alter", "--delete-config", "log.segment.bytes")
        until(lambda: "2097152" not in segments(), "all have let it go")
    finally:
        java.close()
