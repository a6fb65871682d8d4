"""Which of Kafka's APIs we speak, and in which versions: the table that everything else follows.

ApiVersions is answered from it, the dispatcher reads requests by it, and docs/kafka.md is made from
it. The invariant: what is not in this table is not advertised and not read.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from penstock.protocol.kafka.messages import (
    alter_configs,
    api_versions,
    consumer_group_describe,
    consumer_group_heartbeat,
    create_partitions,
    create_topics,
    delete_groups,
    delete_records,
    delete_topics,
    describe_cluster,
    describe_configs,
    describe_groups,
    describe_log_dirs,
    describe_producers,
    describe_topic_partitions,
    fetch,
    find_coordinator,
    heartbeat,
    incremental_alter_configs,
    init_producer_id,
    join_group,
    leave_group,
    list_config_resources,
    list_groups,
    list_offsets,
    metadata,
    offset_commit,
    offset_delete,
    offset_fetch,
    offset_for_leader_epoch,
    produce,
    sync_group,
)


@dataclass(frozen=True, slots=True)
class Api:
    """One kind of request and its response."""

    key: int
    request: type[Any]
    response: type[Any]
    version_min: int
    version_max: int
    flexible_since: int | None
    """From this version on lengths are compact and structures have tagged fields (KIP-482)."""

    @property
    def name(self) -> str:
        return self.request.__name__.removesuffix("Request")

    def has(self, version: int) -> bool:
        return self.version_min <= version <= self.version_max

    def is_flexible(self, version: int) -> bool:
        return self.flexible_since is not None and version >= self.flexible_since


PRODUCE: Final = Api(0, produce.ProduceRequest, produce.ProduceResponse, 3, 13, 9)
FETCH: Final = Api(1, fetch.FetchRequest, fetch.FetchResponse, 4, 18, 12)
LIST_OFFSETS: Final = Api(
    2, list_offsets.ListOffsetsRequest, list_offsets.ListOffsetsResponse, 1, 11, 6
)
METADATA: Final = Api(3, metadata.MetadataRequest, metadata.MetadataResponse, 0, 13, 9)
OFFSET_COMMIT: Final = Api(
    8, offset_commit.OffsetCommitRequest, offset_commit.OffsetCommitResponse, 2, 10, 8
)
OFFSET_FETCH: Final = Api(
    9, offset_fetch.OffsetFetchRequest, offset_fetch.OffsetFetchResponse, 1, 10, 6
)
FIND_COORDINATOR: Final = Api(
    10, find_coordinator.FindCoordinatorRequest, find_coordinator.FindCoordinatorResponse, 0, 6, 3
)
JOIN_GROUP: Final = Api(11, join_group.JoinGroupRequest, join_group.JoinGroupResponse, 0, 9, 6)
HEARTBEAT: Final = Api(12, heartbeat.HeartbeatRequest, heartbeat.HeartbeatResponse, 0, 4, 4)
LEAVE_GROUP: Final = Api(13, leave_group.LeaveGroupRequest, leave_group.LeaveGroupResponse, 0, 5, 4)
SYNC_GROUP: Final = Api(14, sync_group.SyncGroupRequest, sync_group.SyncGroupResponse, 0, 5, 4)
DESCRIBE_GROUPS: Final = Api(
    15, describe_groups.DescribeGroupsRequest, describe_groups.DescribeGroupsResponse, 0, 6, 5
)
LIST_GROUPS: Final = Api(16, list_groups.ListGroupsRequest, list_groups.ListGroupsResponse, 0, 5, 3)
API_VERSIONS: Final = Api(
    18, api_versions.ApiVersionsRequest, api_versions.ApiVersionsResponse, 0, 4, 3
)
CREATE_TOPICS: Final = Api(
    19, create_topics.CreateTopicsRequest, create_topics.CreateTopicsResponse, 2, 7, 5
)
DELETE_TOPICS: Final = Api(
    20, delete_topics.DeleteTopicsRequest, delete_topics.DeleteTopicsResponse, 1, 6, 4
)
DELETE_RECORDS: Final = Api(
    21, delete_records.DeleteRecordsRequest, delete_records.DeleteRecordsResponse, 0, 2, 2
)
INIT_PRODUCER_ID: Final = Api(
    22, init_producer_id.InitProducerIdRequest, init_producer_id.InitProducerIdResponse, 0, 5, 2
)
OFFSET_FOR_LEADER_EPOCH: Final = Api(
    23,
    offset_for_leader_epoch.OffsetForLeaderEpochRequest,
    offset_for_leader_epoch.OffsetForLeaderEpochResponse,
    2,
    4,
    4,
)
DESCRIBE_CONFIGS: Final = Api(
    32, describe_configs.DescribeConfigsRequest, describe_configs.DescribeConfigsResponse, 1, 4, 4
)
ALTER_CONFIGS: Final = Api(
    33, alter_configs.AlterConfigsRequest, alter_configs.AlterConfigsResponse, 0, 2, 2
)
DESCRIBE_LOG_DIRS: Final = Api(
    35, describe_log_dirs.DescribeLogDirsRequest, describe_log_dirs.DescribeLogDirsResponse, 1, 5, 2
)
CREATE_PARTITIONS: Final = Api(
    37,
    create_partitions.CreatePartitionsRequest,
    create_partitions.CreatePartitionsResponse,
    0,
    3,
    2,
)
DELETE_GROUPS: Final = Api(
    42, delete_groups.DeleteGroupsRequest, delete_groups.DeleteGroupsResponse, 0, 2, 2
)
INCREMENTAL_ALTER_CONFIGS: Final = Api(
    44,
    incremental_alter_configs.IncrementalAlterConfigsRequest,
    incremental_alter_configs.IncrementalAlterConfigsResponse,
    0,
    1,
    1,
)
OFFSET_DELETE: Final = Api(
    47, offset_delete.OffsetDeleteRequest, offset_delete.OffsetDeleteResponse, 0, 0, None
)
DESCRIBE_CLUSTER: Final = Api(
    60, describe_cluster.DescribeClusterRequest, describe_cluster.DescribeClusterResponse, 0, 2, 0
)
DESCRIBE_PRODUCERS: Final = Api(
    61,
    describe_producers.DescribeProducersRequest,
    describe_producers.DescribeProducersResponse,
    0,
    0,
    0,
)
CONSUMER_GROUP_HEARTBEAT: Final = Api(
    68,
    consumer_group_heartbeat.ConsumerGroupHeartbeatRequest,
    consumer_group_heartbeat.ConsumerGroupHeartbeatResponse,
    0,
    1,
    0,
)
CONSUMER_GROUP_DESCRIBE: Final = Api(
    69,
    consumer_group_describe.ConsumerGroupDescribeRequest,
    consumer_group_describe.ConsumerGroupDescribeResponse,
    0,
    1,
    0,
)
LIST_CONFIG_RESOURCES: Final = Api(
    74,
    list_config_resources.ListConfigResourcesRequest,
    list_config_resources.ListConfigResourcesResponse,
    0,
    1,
    0,
)
DESCRIBE_TOPIC_PARTITIONS: Final = Api(
    75,
    describe_topic_partitions.DescribeTopicPartitionsRequest,
    describe_topic_partitions.DescribeTopicPartitionsResponse,
    0,
    0,
    0,
)

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
        DESCRIBE_CONFIGS,
        ALTER_CONFIGS,
        DESCRIBE_LOG_DIRS,
        CREATE_PARTITIONS,
        DELETE_GROUPS,
        INCREMENTAL_ALTER_CONFIGS,
        OFFSET_DELETE,
        DESCRIBE_CLUSTER,
        DESCRIBE_PRODUCERS,
        CONSUMER_GROUP_HEARTBEAT,
        CONSUMER_GROUP_DESCRIBE,
        LIST_CONFIG_RESOURCES,
        DESCRIBE_TOPIC_PARTITIONS,
    )
}
