"""What each broker of a cluster says of it: asked one by one, past the network that may be cut.

Real clients ask whichever broker they like. The invariant: an answer is the broker's own, given
now; who does not answer soon is not there.
"""

from __future__ import annotations

import socket
from dataclasses import dataclass
from typing import Any

from penstock.protocol.kafka.apis import DESCRIBE_CLUSTER, FIND_COORDINATOR, METADATA, Api
from penstock.protocol.kafka.codec import read_message, read_tag_section
from penstock.protocol.kafka.messages.describe_cluster import DescribeClusterRequest
from penstock.protocol.kafka.messages.find_coordinator import FindCoordinatorRequest
from penstock.protocol.kafka.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.kit.broker.kafka_client import encode_request
from tests.kit.processes.cluster import Cluster

ANSWER_S_MAX = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Led:
    """Who leads a partition, to one broker's knowledge."""

    term: int
    broker: int
    """-1: nobody."""
    in_sync: frozenset[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    brokers: frozenset[int]
    controller: int
    partitions: dict[int, Led]


def views(cluster: Cluster, topic: str) -> dict[int, View]:
    """What those say that answer."""
    found = {}
    for broker_id in cluster.ids:
        try:
            found[broker_id] = view(cluster.configs[broker_id].listen[0], topic)
        except OSError:
            continue
    return found


def view(address: str, topic: str) -> View:
    """What the broker at the address says; OSError if it says nothing."""
    wanted = MetadataRequest(
        topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False
    )
    response = ask(address, METADATA, 12, wanted)
    (found,) = response.topics
    return View(
        brokers=frozenset(broker.node_id for broker in response.brokers),
        controller=ask(address, DESCRIBE_CLUSTER, 0, DescribeClusterRequest()).controller_id,
        partitions={
            partition.partition_index: Led(
                term=partition.leader_epoch,
                broker=partition.leader_id,
                in_sync=frozenset(partition.isr_nodes),
            )
            for partition in found.partitions
        },
    )


def coordinator(cluster: Cluster, group: str) -> int | None:
    """Which broker looks after the group, as the first says that answers; None: nobody knows."""
    wanted = FindCoordinatorRequest(coordinator_keys=[group])
    for config in cluster.configs.values():
        try:
            response = ask(config.listen[0], FIND_COORDINATOR, 4, wanted)
        except OSError:
            continue
        (found,) = response.coordinators
        return None if found.error_code else int(found.node_id)
    return None


def ask(
    address: str, api: Api, version: int, request: object, seconds_max: float = ANSWER_S_MAX
) -> Any:
    """The broker's answer; in a version in which headers have tags."""
    host, port = address.rsplit(":", 1)
    with socket.create_connection((host, int(port)), seconds_max) as connection:
        connection.sendall(encode_request(api, version, 1, request))
        frame = _read(connection, int.from_bytes(_read(connection, 4)))
    position = read_tag_section(memoryview(frame), 4)
    return read_message(api.response, version, True, memoryview(frame), position)


def _read(connection: socket.socket, count: int) -> bytes:
    content = b""
    while len(content) < count:
        more = connection.recv(count - len(content))
        if not more:
            raise ConnectionError("The broker ended the connection.")
        content += more
    return content
