"""What Kafka's tools ask about a cluster as a whole: its features, its quorum, its folders."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from typing import Any

import pytest

from tests.system.kafka.conftest import CreateTopic
from tests.system.kafka.drivers.remote import JavaDriver

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    import kafka.admin as kafka_python
    from kafka.errors import LogDirNotFoundError, NoError, UnknownTopicOrPartitionError


@pytest.fixture(scope="module")
def java(bootstrap: str) -> Iterator[JavaDriver]:
    driver = JavaDriver(bootstrap)
    yield driver
    driver.close()


@pytest.fixture(scope="module")
def other_admin(bootstrap: str) -> Iterator[Any]:
    client = kafka_python.KafkaAdminClient(bootstrap_servers=bootstrap)
    yield client
    client.close()


def test_features_are_described(java: JavaDriver, bootstrap: str, other_admin: Any) -> None:
    """KIP-584: what suites of clients look for before they try the new groups."""
    tool = "org.apache.kafka.tools.FeatureCommand"
    printed = java.tool(tool, "--bootstrap-server", bootstrap, "describe")
    for name in ("group.version", "share.version"):
        assert re.search(rf"Feature: {name}\b.*SupportedMaxVersion: 1\b", printed), printed
        assert re.search(rf"Feature: {name}\b.*FinalizedVersionLevel: 1\b", printed), printed
    assert re.search(r"Feature: transaction.version\b", printed), printed
    described = other_admin.describe_features()
    assert "share.version" in str(described)


def test_features_are_updated_to_what_there_is(java: JavaDriver, bootstrap: str) -> None:
    tool = "org.apache.kafka.tools.FeatureCommand"
    where = ("--bootstrap-server", bootstrap)
    printed = java.tool(tool, *where, "upgrade", "--feature", "group.version=1")
    assert "group.version was upgraded to 1" in printed
    with pytest.raises(AssertionError, match="update version 9 for feature share"):
        java.tool(tool, *where, "upgrade", "--feature", "share.version=9")


def test_the_quorum_is_described(java: JavaDriver, bootstrap: str, other_admin: Any) -> None:
    """KIP-595, KIP-836. A broker on its own is its own quorum."""
    tool = "org.apache.kafka.tools.MetadataQuorumCommand"
    printed = java.tool(tool, "--bootstrap-server", bootstrap, "describe", "--status")
    assert re.search(r"LeaderId:\s+1\b", printed), printed
    assert re.search(r"MaxFollowerLag:\s+0\b", printed), printed
    printed = java.tool(tool, "--bootstrap-server", bootstrap, "describe", "--replication")
    assert re.search(r"^1\s.*\bLeader\b", printed, re.MULTILINE), printed
    assert "leader_id" in str(other_admin.describe_metadata_quorum())


def test_copies_stay_in_the_folder_there_is(
    other_admin: Any, create_topic: CreateTopic, topic: str
) -> None:
    """KIP-113."""
    create_topic(topic)
    [described] = other_admin.describe_log_dirs()
    [folder] = described["log_dirs"]
    here = folder["log_dir"]

    def moved(path: str, name: str = topic) -> Any:
        return other_admin.alter_replica_log_dirs({(name, 0, 1): path})[(name, 0, 1)]

    assert moved(here) is NoError
    assert moved("/elsewhere") is LogDirNotFoundError
    assert moved(here, "no-such-topic") is UnknownTopicOrPartitionError
