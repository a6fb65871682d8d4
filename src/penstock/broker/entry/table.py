"""All calls of both protocols, a row for each: what answers it, who may make it, what it needs of
which resources, and what it costs.

Not what the columns mean (`columns`). The invariant: what this broker answers has exactly one row,
and is what is published: `tests/unit/broker/entry/test_table.py` walks both lists.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from penstock.broker.entry.columns import (
    Audience,
    Cost,
    KafkaRow,
    NativeRow,
    Need,
    Needs,
    Operation,
    Resource,
    Turn,
)
from penstock.broker.handlers import (
    clients,
    cluster,
    delay,
    fetch,
    leases,
    produce,
    push,
    removals,
    replies,
    staging,
    topics,
)
from penstock.broker.handlers.groups import exclusivity, groups, members, settings, shared
from penstock.broker.handlers.groups.find_coordinator import find_coordinator
from penstock.broker.handlers.hello import hello
from penstock.broker.handlers.meta import meta
from penstock.broker.handlers.raft import RaftCall, raft
from penstock.protocol import calls
from penstock.protocol.calls import CallType
from penstock.protocol.kafka import apis

_INLINE, _WAITING, _EITHER = Turn.INLINE, Turn.WAITING, Turn.EITHER
_CLIENT, _BROKER, _ANYBODY = Audience.CLIENT, Audience.BROKER, Audience.ANYBODY
_CHEAP, _DATA, _ADMIN, _HEAVY = Cost.CHEAP, Cost.DATA, Cost.ADMIN, Cost.HEAVY


def _need(resource: Resource, operation: Operation) -> Needs:
    return (Need(resource, operation),)


_NOTHING: Final[Needs] = ()
_TOPIC_READ = _need(Resource.TOPIC, Operation.READ)
_TOPIC_WRITE = _need(Resource.TOPIC, Operation.WRITE)
_TOPIC_CREATE = _need(Resource.TOPIC, Operation.CREATE)
_TOPIC_DELETE = _need(Resource.TOPIC, Operation.DELETE)
_TOPIC_ALTER = _need(Resource.TOPIC, Operation.ALTER)
_TOPIC_DESCRIBE = _need(Resource.TOPIC, Operation.DESCRIBE)
_TOPIC_CONFIGS = _need(Resource.TOPIC, Operation.DESCRIBE_CONFIGS)
_TOPIC_ALTER_CONFIGS = _need(Resource.TOPIC, Operation.ALTER_CONFIGS)
_GROUP_READ = _need(Resource.GROUP, Operation.READ)
_GROUP_DELETE = _need(Resource.GROUP, Operation.DELETE)
_GROUP_DESCRIBE = _need(Resource.GROUP, Operation.DESCRIBE)
_GROUP_CONFIGS = _need(Resource.GROUP, Operation.DESCRIBE_CONFIGS)
_GROUP_ALTER_CONFIGS = _need(Resource.GROUP, Operation.ALTER_CONFIGS)
_CLUSTER_ACTION = _need(Resource.CLUSTER, Operation.CLUSTER_ACTION)
_CLUSTER_ALTER = _need(Resource.CLUSTER, Operation.ALTER)
_CLUSTER_DESCRIBE = _need(Resource.CLUSTER, Operation.DESCRIBE)
_CLUSTER_CONFIGS = _need(Resource.CLUSTER, Operation.DESCRIBE_CONFIGS)
_CLUSTER_ALTER_CONFIGS = _need(Resource.CLUSTER, Operation.ALTER_CONFIGS)
# A staged write is one of its own kind.
_WRITE = _need(Resource.TRANSACTIONAL_ID, Operation.WRITE)
_WRITE_DESCRIBE = _need(Resource.TRANSACTIONAL_ID, Operation.DESCRIBE)
_MEMBER = _GROUP_READ + _TOPIC_READ
_SUBSCRIBER = _GROUP_READ + _TOPIC_DESCRIBE
_CONFIGS = _TOPIC_CONFIGS + _GROUP_CONFIGS + _CLUSTER_CONFIGS
_ALTER_CONFIGS = _TOPIC_ALTER_CONFIGS + _GROUP_ALTER_CONFIGS + _CLUSTER_ALTER_CONFIGS


def _meta(kind: CallType[Any, Any]) -> NativeRow:
    """What a meta server within this broker answers."""
    return NativeRow(kind, meta, _INLINE, _BROKER, _CLUSTER_ACTION, _CHEAP, is_early=True)


_NATIVE: Final = (
    # What brokers say to each other, ready or not; and what anybody says first.
    NativeRow(calls.HELLO, hello, _INLINE, _ANYBODY, _NOTHING, _CHEAP, is_early=True),
    NativeRow(calls.RAFT, raft, _INLINE, _BROKER, _CLUSTER_ACTION, _DATA, RaftCall, is_early=True),
    _meta(calls.META_CHANGE),
    _meta(calls.META_FETCH),
    _meta(calls.META_HEARTBEAT),
    _meta(calls.META_LEADER),
    _meta(calls.META_SNAPSHOT),
    # What brokers ask of those that lead.
    NativeRow(calls.COPY, staging.copy, _INLINE, _BROKER, _CLUSTER_ACTION, _DATA, staging.CopyCall),
    NativeRow(calls.APPEND_DUE, delay.deliver_due, _INLINE, _BROKER, _CLUSTER_ACTION, _DATA),
    NativeRow(calls.READ_SHARE, shared.read_share, _WAITING, _BROKER, _CLUSTER_ACTION, _CHEAP),
    NativeRow(calls.WRITE_SHARE, shared.write_share, _WAITING, _BROKER, _CLUSTER_ACTION, _CHEAP),
    NativeRow(
        calls.CHECK_CLAIM, exclusivity.check_claim, _WAITING, _BROKER, _CLUSTER_ACTION, _CHEAP
    ),
    NativeRow(
        calls.DESCRIBE_BROKER, cluster.describe_broker, _WAITING, _BROKER, _CLUSTER_ACTION, _HEAVY
    ),
    # Messages into topics. Brokers pass on what they publish themselves.
    NativeRow(
        calls.PRODUCE,
        produce.produce,
        _INLINE,
        _ANYBODY,
        _TOPIC_WRITE,
        _DATA,
        produce.ProduceCall,
    ),
    # Of any topic (KIP-679).
    NativeRow(calls.INIT_PRODUCER, produce.init_producer, _WAITING, _CLIENT, _TOPIC_WRITE, _CHEAP),
    NativeRow(calls.CLAIM_TOPIC, exclusivity.claim_topic, _WAITING, _CLIENT, _TOPIC_WRITE, _CHEAP),
    NativeRow(
        calls.RELEASE_TOPIC, exclusivity.release_topic, _WAITING, _CLIENT, _TOPIC_WRITE, _CHEAP
    ),
    NativeRow(calls.STAGE, staging.stage, _INLINE, _CLIENT, _TOPIC_WRITE, _DATA),
    NativeRow(calls.COMMIT_STAGED, staging.commit_staged, _INLINE, _CLIENT, _WRITE, _DATA),
    NativeRow(calls.ABORT_STAGED, staging.abort_staged, _WAITING, _CLIENT, _WRITE, _CHEAP),
    NativeRow(
        calls.COMMITTED_EPOCH, staging.committed_epoch, _INLINE, _CLIENT, _WRITE_DESCRIBE, _CHEAP
    ),
    NativeRow(calls.DELAY, delay.delay, _INLINE, _CLIENT, _TOPIC_WRITE, _DATA),
    NativeRow(calls.CANCEL_DELAYED, delay.cancel_delayed, _WAITING, _CLIENT, _TOPIC_WRITE, _CHEAP),
    NativeRow(
        calls.DESCRIBE_DELAYED, delay.describe_delayed, _WAITING, _CLIENT, _TOPIC_DESCRIBE, _CHEAP
    ),
    NativeRow(calls.PUT_SCHEDULE, delay.put_schedule, _WAITING, _CLIENT, _TOPIC_WRITE, _ADMIN),
    NativeRow(
        calls.DELETE_SCHEDULE, delay.delete_schedule, _WAITING, _CLIENT, _TOPIC_WRITE, _ADMIN
    ),
    NativeRow(
        calls.LIST_SCHEDULES, delay.list_schedules, _WAITING, _CLIENT, _TOPIC_DESCRIBE, _CHEAP
    ),
    # To a client that asked for it, by the number that it was given for that.
    NativeRow(calls.REPLY, replies.reply, _INLINE, _CLIENT, _NOTHING, _DATA),
    # Messages out of topics.
    NativeRow(calls.FETCH, fetch.fetch, _INLINE, _CLIENT, _TOPIC_READ, _DATA),
    NativeRow(calls.FIND_OFFSET, fetch.find_offset, _INLINE, _CLIENT, _TOPIC_DESCRIBE, _CHEAP),
    NativeRow(calls.LEASE, leases.lease, _INLINE, _CLIENT, _MEMBER, _DATA),
    NativeRow(calls.SETTLE, leases.settle, _INLINE, _CLIENT, _MEMBER, _CHEAP),
    NativeRow(calls.DEAD_LETTER, leases.dead_letter, _WAITING, _CLIENT, _MEMBER, _DATA),
    NativeRow(calls.OPEN_PUSH, push.open_push, _INLINE, _CLIENT, _MEMBER, _DATA),
    # Of a stream, which is of the connection that opened it.
    NativeRow(calls.GIVE_CREDIT, push.give_credit, _INLINE, _CLIENT, _TOPIC_READ, _CHEAP),
    NativeRow(calls.RESUME_PUSH, push.resume_push, _INLINE, _CLIENT, _TOPIC_READ, _CHEAP),
    NativeRow(calls.CLOSE_PUSH, push.close_push, _INLINE, _CLIENT, _TOPIC_READ, _CHEAP),
    # Groups.
    NativeRow(
        calls.GROUP_HEARTBEAT, members.group_heartbeat, _INLINE, _CLIENT, _SUBSCRIBER, _CHEAP
    ),
    NativeRow(calls.COMMIT_OFFSETS, groups.commit_offsets, _INLINE, _CLIENT, _MEMBER, _CHEAP),
    NativeRow(
        calls.FETCH_OFFSETS,
        groups.fetch_offsets,
        _WAITING,
        _CLIENT,
        _GROUP_DESCRIBE + _TOPIC_DESCRIBE,
        _CHEAP,
    ),
    NativeRow(calls.FIND_COORDINATOR, find_coordinator, _WAITING, _CLIENT, _GROUP_DESCRIBE, _CHEAP),
    NativeRow(calls.LIST_GROUPS, groups.list_groups, _WAITING, _CLIENT, _CLUSTER_DESCRIBE, _HEAVY),
    NativeRow(
        calls.DESCRIBE_GROUP, groups.describe_group, _WAITING, _CLIENT, _GROUP_DESCRIBE, _CHEAP
    ),
    NativeRow(calls.DELETE_GROUP, groups.delete_group, _WAITING, _CLIENT, _GROUP_DELETE, _ADMIN),
    NativeRow(
        calls.LIST_SUBSCRIPTIONS, groups.subscriptions, _WAITING, _CLIENT, _GROUP_DESCRIBE, _HEAVY
    ),
    # Other brokers ask for these on behalf of Kafka's clients.
    NativeRow(
        calls.ALTER_GROUP_SETTINGS,
        settings.alter_group_settings,
        _WAITING,
        _ANYBODY,
        _GROUP_ALTER_CONFIGS,
        _ADMIN,
    ),
    NativeRow(
        calls.GROUP_SETTINGS, settings.group_settings, _WAITING, _ANYBODY, _GROUP_CONFIGS, _CHEAP
    ),
    # Topics.
    NativeRow(calls.METADATA, topics.metadata, _WAITING, _CLIENT, _TOPIC_DESCRIBE, _CHEAP),
    NativeRow(calls.CREATE_TOPIC, topics.create_topic, _WAITING, _CLIENT, _TOPIC_CREATE, _ADMIN),
    NativeRow(calls.DELETE_TOPIC, topics.delete_topic, _WAITING, _CLIENT, _TOPIC_DELETE, _ADMIN),
    NativeRow(
        calls.DESCRIBE_TOPIC,
        topics.describe_topic,
        _WAITING,
        _CLIENT,
        _TOPIC_DESCRIBE + _TOPIC_CONFIGS,
        _CHEAP,
    ),
    NativeRow(
        calls.ALTER_TOPIC, topics.alter_topic, _WAITING, _CLIENT, _TOPIC_ALTER_CONFIGS, _ADMIN
    ),
    NativeRow(calls.ADD_PARTITIONS, topics.add_partitions, _WAITING, _CLIENT, _TOPIC_ALTER, _ADMIN),
    NativeRow(
        calls.LIST_REMOVALS, removals.list_removals, _WAITING, _CLIENT, _TOPIC_DESCRIBE, _CHEAP
    ),
    NativeRow(
        calls.LIST_DELETED_TOPICS,
        removals.list_deleted_topics,
        _WAITING,
        _CLIENT,
        _CLUSTER_DESCRIBE,
        _CHEAP,
    ),
    # The cluster.
    NativeRow(
        calls.DESCRIBE_CLUSTER,
        cluster.describe_cluster,
        _WAITING,
        _CLIENT,
        _CLUSTER_DESCRIBE,
        _HEAVY,
    ),
    NativeRow(
        calls.CHANGE_PLACEMENT, cluster.change_placement, _WAITING, _CLIENT, _CLUSTER_ALTER, _ADMIN
    ),
    # Brokers pass on what others are to do.
    NativeRow(
        calls.ELECT_LEADERS, cluster.elect_leaders, _WAITING, _ANYBODY, _CLUSTER_ALTER, _ADMIN
    ),
    NativeRow(
        calls.LIST_CLIENTS, clients.list_clients, _WAITING, _CLIENT, _CLUSTER_DESCRIBE, _HEAVY
    ),
    NativeRow(calls.STEER_CLIENT, clients.steer_client, _WAITING, _CLIENT, _CLUSTER_ALTER, _ADMIN),
)
NATIVE: Final[Mapping[int, NativeRow]] = {row.kind.number: row for row in _NATIVE}
ELSEWHERE: Final[frozenset[CallType[Any, Any]]] = frozenset(
    {calls.PING, calls.DELIVER, calls.PUSH_ENDED}
)
"""Calls that no broker's handler answers: the channel does, or the client that a broker calls."""

_KAFKA: Final = (
    KafkaRow(apis.PRODUCE, "produce", _INLINE, _TOPIC_WRITE, _DATA),
    # Of any topic (KIP-679).
    KafkaRow(apis.INIT_PRODUCER_ID, "producers", _WAITING, _TOPIC_WRITE, _CHEAP),
    KafkaRow(apis.DESCRIBE_PRODUCERS, "producers", _INLINE, _TOPIC_READ, _CHEAP),
    KafkaRow(apis.FETCH, "fetch", _INLINE, _TOPIC_READ, _DATA),
    KafkaRow(apis.LIST_OFFSETS, "offsets", _INLINE, _TOPIC_DESCRIBE, _CHEAP),
    KafkaRow(apis.OFFSET_FOR_LEADER_EPOCH, "offsets", _INLINE, _TOPIC_DESCRIBE, _CHEAP),
    KafkaRow(apis.DELETE_RECORDS, "records", _WAITING, _TOPIC_DELETE, _ADMIN),
    # Groups of consumers.
    KafkaRow(apis.FIND_COORDINATOR, "groups.classic", _WAITING, _GROUP_DESCRIBE, _CHEAP),
    KafkaRow(apis.JOIN_GROUP, "groups.classic", _INLINE, _GROUP_READ, _CHEAP),
    KafkaRow(apis.SYNC_GROUP, "groups.classic", _INLINE, _GROUP_READ, _CHEAP),
    KafkaRow(apis.HEARTBEAT, "groups.classic", _INLINE, _GROUP_READ, _CHEAP),
    KafkaRow(apis.LEAVE_GROUP, "groups.classic", _INLINE, _GROUP_READ, _CHEAP),
    KafkaRow(apis.DESCRIBE_GROUPS, "groups.classic", _INLINE, _GROUP_DESCRIBE, _CHEAP),
    KafkaRow(apis.LIST_GROUPS, "groups.classic", _INLINE, _CLUSTER_DESCRIBE, _HEAVY),
    KafkaRow(apis.DELETE_GROUPS, "groups.classic", _INLINE, _GROUP_DELETE, _ADMIN),
    KafkaRow(apis.CONSUMER_GROUP_HEARTBEAT, "groups.consumer", _INLINE, _SUBSCRIBER, _CHEAP),
    KafkaRow(apis.CONSUMER_GROUP_DESCRIBE, "groups.consumer", _INLINE, _GROUP_DESCRIBE, _CHEAP),
    KafkaRow(apis.OFFSET_COMMIT, "groups.offsets", _INLINE, _MEMBER, _CHEAP),
    KafkaRow(
        apis.OFFSET_FETCH, "groups.offsets", _INLINE, _GROUP_DESCRIBE + _TOPIC_DESCRIBE, _CHEAP
    ),
    KafkaRow(apis.OFFSET_DELETE, "groups.offsets", _INLINE, _GROUP_DELETE + _TOPIC_READ, _CHEAP),
    # Groups that share (KIP-932).
    KafkaRow(apis.SHARE_GROUP_HEARTBEAT, "groups.share", _INLINE, _SUBSCRIBER, _CHEAP),
    KafkaRow(apis.SHARE_GROUP_DESCRIBE, "groups.share", _INLINE, _GROUP_DESCRIBE, _CHEAP),
    KafkaRow(apis.SHARE_FETCH, "groups.share_leases", _INLINE, _MEMBER, _DATA),
    KafkaRow(apis.SHARE_ACKNOWLEDGE, "groups.share_leases", _INLINE, _MEMBER, _CHEAP),
    KafkaRow(
        apis.DESCRIBE_SHARE_GROUP_OFFSETS,
        "groups.share_offsets",
        _INLINE,
        _GROUP_DESCRIBE + _TOPIC_DESCRIBE,
        _CHEAP,
    ),
    KafkaRow(apis.ALTER_SHARE_GROUP_OFFSETS, "groups.share_offsets", _INLINE, _MEMBER, _ADMIN),
    KafkaRow(
        apis.DELETE_SHARE_GROUP_OFFSETS,
        "groups.share_offsets",
        _INLINE,
        _GROUP_DELETE + _TOPIC_READ,
        _ADMIN,
    ),
    # Topics.
    KafkaRow(apis.METADATA, "metadata", _EITHER, _TOPIC_DESCRIBE, _CHEAP),
    KafkaRow(apis.DESCRIBE_TOPIC_PARTITIONS, "topics", _INLINE, _TOPIC_DESCRIBE, _CHEAP),
    KafkaRow(apis.CREATE_TOPICS, "topics", _WAITING, _TOPIC_CREATE, _ADMIN),
    KafkaRow(apis.DELETE_TOPICS, "topics", _WAITING, _TOPIC_DELETE, _ADMIN),
    KafkaRow(apis.CREATE_PARTITIONS, "topics", _WAITING, _TOPIC_ALTER, _ADMIN),
    # Settings, of whatever kind the request names.
    KafkaRow(apis.DESCRIBE_CONFIGS, "configs", _WAITING, _CONFIGS, _CHEAP),
    KafkaRow(apis.ALTER_CONFIGS, "configs", _WAITING, _ALTER_CONFIGS, _ADMIN),
    KafkaRow(apis.INCREMENTAL_ALTER_CONFIGS, "configs", _WAITING, _ALTER_CONFIGS, _ADMIN),
    KafkaRow(apis.LIST_CONFIG_RESOURCES, "configs", _WAITING, _CLUSTER_CONFIGS, _HEAVY),
    # The cluster.
    KafkaRow(apis.API_VERSIONS, "versions", _INLINE, _NOTHING, _CHEAP, _ANYBODY),
    KafkaRow(apis.DESCRIBE_CLUSTER, "cluster", _INLINE, _NOTHING, _CHEAP),
    KafkaRow(apis.DESCRIBE_ACLS, "cluster", _INLINE, _CLUSTER_DESCRIBE, _CHEAP),
    KafkaRow(apis.DESCRIBE_LOG_DIRS, "cluster", _INLINE, _CLUSTER_DESCRIBE, _HEAVY),
    KafkaRow(apis.ALTER_REPLICA_LOG_DIRS, "cluster", _INLINE, _CLUSTER_ALTER, _ADMIN),
    KafkaRow(apis.UPDATE_FEATURES, "features", _INLINE, _CLUSTER_ALTER, _ADMIN),
    KafkaRow(apis.DESCRIBE_QUORUM, "quorum", _WAITING, _CLUSTER_DESCRIBE, _CHEAP),
    KafkaRow(apis.ELECT_LEADERS, "reassignments", _WAITING, _CLUSTER_ALTER, _ADMIN),
    KafkaRow(apis.ALTER_PARTITION_REASSIGNMENTS, "reassignments", _WAITING, _CLUSTER_ALTER, _ADMIN),
    KafkaRow(
        apis.LIST_PARTITION_REASSIGNMENTS, "reassignments", _INLINE, _CLUSTER_DESCRIBE, _HEAVY
    ),
)
KAFKA: Final[Mapping[int, KafkaRow]] = {row.api.key: row for row in _KAFKA}
