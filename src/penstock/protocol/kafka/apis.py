"""Which of Kafka's APIs we speak, and in which versions: the table that everything else follows.

ApiVersions is answered from it, the dispatcher reads requests by it, and docs/kafka.md is made from
it. The invariant: what is not in this table is not advertised and not read.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from typing import Any, Final

_MESSAGES: Final = "penstock.protocol.kafka.messages"


@dataclass(frozen=True)
class Api:
    """One kind of request and its response. Their classes are made when the first request comes:
    there are two hundred, and a broker without Kafka clients should not wait for them to start."""

    key: int
    name: str
    version_min: int
    version_max: int
    flexible_since: int | None
    """From this version on lengths are compact and structures have tagged fields (KIP-482)."""

    @cached_property
    def word(self) -> str:
        """The name as Python's modules and functions have it."""
        return re.sub(r"(?<!^)(?=[A-Z])", "_", self.name).lower()

    @cached_property
    def request(self) -> type[Any]:
        return self._find("Request")

    @cached_property
    def response(self) -> type[Any]:
        return self._find("Response")

    def has(self, version: int) -> bool:
        return self.version_min <= version <= self.version_max

    def is_flexible(self, version: int) -> bool:
        return self.flexible_since is not None and version >= self.flexible_since

    def _find(self, which: str) -> type[Any]:
        found = getattr(import_module(f"{_MESSAGES}.{self.word}"), self.name + which)
        assert isinstance(found, type)
        return found


PRODUCE: Final = Api(0, "Produce", 3, 13, 9)
FETCH: Final = Api(1, "Fetch", 4, 18, 12)
LIST_OFFSETS: Final = Api(2, "ListOffsets", 1, 11, 6)
METADATA: Final = Api(3, "Metadata", 0, 13, 9)
OFFSET_COMMIT: Final = Api(8, "OffsetCommit", 2, 10, 8)
OFFSET_FETCH: Final = Api(9, "OffsetFetch", 1, 10, 6)
FIND_COORDINATOR: Final = Api(10, "FindCoordinator", 0, 6, 3)
JOIN_GROUP: Final = Api(11, "JoinGroup", 0, 9, 6)
HEARTBEAT: Final = Api(12, "Heartbeat", 0, 4, 4)
LEAVE_GROUP: Final = Api(13, "LeaveGroup", 0, 5, 4)
SYNC_GROUP: Final = Api(14, "SyncGroup", 0, 5, 4)
DESCRIBE_GROUPS: Final = Api(15, "DescribeGroups", 0, 6, 5)
LIST_GROUPS: Final = Api(16, "ListGroups", 0, 5, 3)
API_VERSIONS: Final = Api(18, "ApiVersions", 0, 4, 3)
CREATE_TOPICS: Final = Api(19, "CreateTopics", 2, 7, 5)
DELETE_TOPICS: Final = Api(20, "DeleteTopics", 1, 6, 4)
DELETE_RECORDS: Final = Api(21, "DeleteRecords", 0, 2, 2)
INIT_PRODUCER_ID: Final = Api(22, "InitProducerId", 0, 5, 2)
OFFSET_FOR_LEADER_EPOCH: Final = Api(23, "OffsetForLeaderEpoch", 2, 4, 4)
DESCRIBE_ACLS: Final = Api(29, "DescribeAcls", 1, 3, 2)
DESCRIBE_CONFIGS: Final = Api(32, "DescribeConfigs", 1, 4, 4)
ALTER_CONFIGS: Final = Api(33, "AlterConfigs", 0, 2, 2)
ALTER_REPLICA_LOG_DIRS: Final = Api(34, "AlterReplicaLogDirs", 1, 2, 2)
DESCRIBE_LOG_DIRS: Final = Api(35, "DescribeLogDirs", 1, 5, 2)
CREATE_PARTITIONS: Final = Api(37, "CreatePartitions", 0, 3, 2)
DELETE_GROUPS: Final = Api(42, "DeleteGroups", 0, 2, 2)
ELECT_LEADERS: Final = Api(43, "ElectLeaders", 0, 2, 2)
INCREMENTAL_ALTER_CONFIGS: Final = Api(44, "IncrementalAlterConfigs", 0, 1, 1)
ALTER_PARTITION_REASSIGNMENTS: Final = Api(45, "AlterPartitionReassignments", 0, 1, 0)
LIST_PARTITION_REASSIGNMENTS: Final = Api(46, "ListPartitionReassignments", 0, 0, 0)
OFFSET_DELETE: Final = Api(47, "OffsetDelete", 0, 0, None)
DESCRIBE_QUORUM: Final = Api(55, "DescribeQuorum", 0, 2, 0)
UPDATE_FEATURES: Final = Api(57, "UpdateFeatures", 0, 2, 0)
DESCRIBE_CLUSTER: Final = Api(60, "DescribeCluster", 0, 2, 0)
DESCRIBE_PRODUCERS: Final = Api(61, "DescribeProducers", 0, 0, 0)
CONSUMER_GROUP_HEARTBEAT: Final = Api(68, "ConsumerGroupHeartbeat", 0, 1, 0)
CONSUMER_GROUP_DESCRIBE: Final = Api(69, "ConsumerGroupDescribe", 0, 1, 0)
LIST_CONFIG_RESOURCES: Final = Api(74, "ListConfigResources", 0, 1, 0)
DESCRIBE_TOPIC_PARTITIONS: Final = Api(75, "DescribeTopicPartitions", 0, 0, 0)
SHARE_GROUP_HEARTBEAT: Final = Api(76, "ShareGroupHeartbeat", 1, 1, 0)
SHARE_GROUP_DESCRIBE: Final = Api(77, "ShareGroupDescribe", 1, 1, 0)
SHARE_FETCH: Final = Api(78, "ShareFetch", 1, 2, 0)
SHARE_ACKNOWLEDGE: Final = Api(79, "ShareAcknowledge", 1, 2, 0)
DESCRIBE_SHARE_GROUP_OFFSETS: Final = Api(90, "DescribeShareGroupOffsets", 0, 1, 0)
ALTER_SHARE_GROUP_OFFSETS: Final = Api(91, "AlterShareGroupOffsets", 0, 0, 0)
DELETE_SHARE_GROUP_OFFSETS: Final = Api(92, "DeleteShareGroupOffsets", 0, 0, 0)

APIS: Final[dict[int, Api]] = {
    api.key: api
    for api in (
        PRODUCE,
        FETCH,
        LIST_OFFSETS,
        METADATA,
        OFFSET_COMMIT,
        OFFSET_FETCH,
        FIND_COORDINATOR,
        JOIN_GROUP,
        HEARTBEAT,
        LEAVE_GROUP,
        SYNC_GROUP,
        DESCRIBE_GROUPS,
        LIST_GROUPS,
        API_VERSIONS,
        CREATE_TOPICS,
        DELETE_TOPICS,
        DELETE_RECORDS,
        INIT_PRODUCER_ID,
        OFFSET_FOR_LEADER_EPOCH,
        DESCRIBE_ACLS,
        DESCRIBE_CONFIGS,
        ALTER_CONFIGS,
        ALTER_REPLICA_LOG_DIRS,
        DESCRIBE_LOG_DIRS,
        CREATE_PARTITIONS,
        DELETE_GROUPS,
        ELECT_LEADERS,
        INCREMENTAL_ALTER_CONFIGS,
        ALTER_PARTITION_REASSIGNMENTS,
        LIST_PARTITION_REASSIGNMENTS,
        OFFSET_DELETE,
        DESCRIBE_QUORUM,
        UPDATE_FEATURES,
        DESCRIBE_CLUSTER,
        DESCRIBE_PRODUCERS,
        CONSUMER_GROUP_HEARTBEAT,
        CONSUMER_GROUP_DESCRIBE,
        LIST_CONFIG_RESOURCES,
        DESCRIBE_TOPIC_PARTITIONS,
        SHARE_GROUP_HEARTBEAT,
        SHARE_GROUP_DESCRIBE,
        SHARE_FETCH,
        SHARE_ACKNOWLEDGE,
        DESCRIBE_SHARE_GROUP_OFFSETS,
        ALTER_SHARE_GROUP_OFFSETS,
        DELETE_SHARE_GROUP_OFFSETS,
    )
}
