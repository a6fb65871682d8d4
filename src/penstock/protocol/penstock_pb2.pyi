from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Call(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    CALL_UNSPECIFIED: _ClassVar[Call]
    CALL_HELLO: _ClassVar[Call]
    CALL_PING: _ClassVar[Call]
    CALL_METADATA: _ClassVar[Call]
    CALL_PRODUCE: _ClassVar[Call]
    CALL_FETCH: _ClassVar[Call]
    CALL_FIND_OFFSET: _ClassVar[Call]
    CALL_INIT_PRODUCER: _ClassVar[Call]
    CALL_CREATE_TOPIC: _ClassVar[Call]
    CALL_DELETE_TOPIC: _ClassVar[Call]
    CALL_DESCRIBE_TOPIC: _ClassVar[Call]
    CALL_ALTER_TOPIC: _ClassVar[Call]
    CALL_ADD_PARTITIONS: _ClassVar[Call]
    CALL_COMMIT_OFFSETS: _ClassVar[Call]
    CALL_FETCH_OFFSETS: _ClassVar[Call]
    CALL_LIST_GROUPS: _ClassVar[Call]
    CALL_STAGE: _ClassVar[Call]
    CALL_COMMIT_STAGED: _ClassVar[Call]
    CALL_ABORT_STAGED: _ClassVar[Call]
    CALL_COMMITTED_EPOCH: _ClassVar[Call]
    CALL_LIST_REMOVALS: _ClassVar[Call]
    CALL_LIST_DELETED_TOPICS: _ClassVar[Call]
    CALL_RAFT: _ClassVar[Call]
    CALL_FIND_COORDINATOR: _ClassVar[Call]
    CALL_COPY: _ClassVar[Call]
    CALL_META_CHANGE: _ClassVar[Call]
    CALL_META_FETCH: _ClassVar[Call]
    CALL_META_HEARTBEAT: _ClassVar[Call]
    CALL_META_LEADER: _ClassVar[Call]
    CALL_META_SNAPSHOT: _ClassVar[Call]
    CALL_DESCRIBE_CLUSTER: _ClassVar[Call]
    CALL_CHANGE_PLACEMENT: _ClassVar[Call]
    CALL_ELECT_LEADERS: _ClassVar[Call]
    CALL_DESCRIBE_BROKER: _ClassVar[Call]
    CALL_GROUP_HEARTBEAT: _ClassVar[Call]
    CALL_DESCRIBE_GROUP: _ClassVar[Call]
    CALL_DELETE_GROUP: _ClassVar[Call]
    CALL_LIST_SUBSCRIPTIONS: _ClassVar[Call]
    CALL_LEASE: _ClassVar[Call]
    CALL_SETTLE: _ClassVar[Call]
    CALL_READ_SHARE: _ClassVar[Call]
    CALL_WRITE_SHARE: _ClassVar[Call]
    CALL_DEAD_LETTER: _ClassVar[Call]
    CALL_ALTER_GROUP_SETTINGS: _ClassVar[Call]
    CALL_OPEN_PUSH: _ClassVar[Call]
    CALL_GIVE_CREDIT: _ClassVar[Call]
    CALL_CLOSE_PUSH: _ClassVar[Call]
    CALL_DELIVER: _ClassVar[Call]
    CALL_PUSH_ENDED: _ClassVar[Call]
    CALL_RESUME_PUSH: _ClassVar[Call]
    CALL_LIST_CLIENTS: _ClassVar[Call]
    CALL_STEER_CLIENT: _ClassVar[Call]
    CALL_GROUP_SETTINGS: _ClassVar[Call]
    CALL_DELAY: _ClassVar[Call]
    CALL_CANCEL_DELAYED: _ClassVar[Call]
    CALL_DESCRIBE_DELAYED: _ClassVar[Call]
    CALL_PUT_SCHEDULE: _ClassVar[Call]
    CALL_DELETE_SCHEDULE: _ClassVar[Call]
    CALL_LIST_SCHEDULES: _ClassVar[Call]
    CALL_APPEND_DUE: _ClassVar[Call]
    CALL_CLAIM_TOPIC: _ClassVar[Call]
    CALL_RELEASE_TOPIC: _ClassVar[Call]
    CALL_CHECK_CLAIM: _ClassVar[Call]
    CALL_REPLY: _ClassVar[Call]
CALL_UNSPECIFIED: Call
CALL_HELLO: Call
CALL_PING: Call
CALL_METADATA: Call
CALL_PRODUCE: Call
CALL_FETCH: Call
CALL_FIND_OFFSET: Call
CALL_INIT_PRODUCER: Call
CALL_CREATE_TOPIC: Call
CALL_DELETE_TOPIC: Call
CALL_DESCRIBE_TOPIC: Call
CALL_ALTER_TOPIC: Call
CALL_ADD_PARTITIONS: Call
CALL_COMMIT_OFFSETS: Call
CALL_FETCH_OFFSETS: Call
CALL_LIST_GROUPS: Call
CALL_STAGE: Call
CALL_COMMIT_STAGED: Call
CALL_ABORT_STAGED: Call
CALL_COMMITTED_EPOCH: Call
CALL_LIST_REMOVALS: Call
CALL_LIST_DELETED_TOPICS: Call
CALL_RAFT: Call
CALL_FIND_COORDINATOR: Call
CALL_COPY: Call
CALL_META_CHANGE: Call
CALL_META_FETCH: Call
CALL_META_HEARTBEAT: Call
CALL_META_LEADER: Call
CALL_META_SNAPSHOT: Call
CALL_DESCRIBE_CLUSTER: Call
CALL_CHANGE_PLACEMENT: Call
CALL_ELECT_LEADERS: Call
CALL_DESCRIBE_BROKER: Call
CALL_GROUP_HEARTBEAT: Call
CALL_DESCRIBE_GROUP: Call
CALL_DELETE_GROUP: Call
CALL_LIST_SUBSCRIPTIONS: Call
CALL_LEASE: Call
CALL_SETTLE: Call
CALL_READ_SHARE: Call
CALL_WRITE_SHARE: Call
CALL_DEAD_LETTER: Call
CALL_ALTER_GROUP_SETTINGS: Call
CALL_OPEN_PUSH: Call
CALL_GIVE_CREDIT: Call
CALL_CLOSE_PUSH: Call
CALL_DELIVER: Call
CALL_PUSH_ENDED: Call
CALL_RESUME_PUSH: Call
CALL_LIST_CLIENTS: Call
CALL_STEER_CLIENT: Call
CALL_GROUP_SETTINGS: Call
CALL_DELAY: Call
CALL_CANCEL_DELAYED: Call
CALL_DESCRIBE_DELAYED: Call
CALL_PUT_SCHEDULE: Call
CALL_DELETE_SCHEDULE: Call
CALL_LIST_SCHEDULES: Call
CALL_APPEND_DUE: Call
CALL_CLAIM_TOPIC: Call
CALL_RELEASE_TOPIC: Call
CALL_CHECK_CLAIM: Call
CALL_REPLY: Call

class Error(_message.Message):
    __slots__ = ("code", "message", "retriable")
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    RETRIABLE_FIELD_NUMBER: _ClassVar[int]
    code: int
    message: str
    retriable: bool
    def __init__(self, code: _Optional[int] = ..., message: _Optional[str] = ..., retriable: _Optional[bool] = ...) -> None: ...

class HelloRequest(_message.Message):
    __slots__ = ("client_name", "software")
    CLIENT_NAME_FIELD_NUMBER: _ClassVar[int]
    SOFTWARE_FIELD_NUMBER: _ClassVar[int]
    client_name: str
    software: str
    def __init__(self, client_name: _Optional[str] = ..., software: _Optional[str] = ...) -> None: ...

class HelloResponse(_message.Message):
    __slots__ = ("cluster_id", "broker_id", "software", "frame_bytes_max", "directory", "client")
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    BROKER_ID_FIELD_NUMBER: _ClassVar[int]
    SOFTWARE_FIELD_NUMBER: _ClassVar[int]
    FRAME_BYTES_MAX_FIELD_NUMBER: _ClassVar[int]
    DIRECTORY_FIELD_NUMBER: _ClassVar[int]
    CLIENT_FIELD_NUMBER: _ClassVar[int]
    cluster_id: str
    broker_id: int
    software: str
    frame_bytes_max: int
    directory: int
    client: int
    def __init__(self, cluster_id: _Optional[str] = ..., broker_id: _Optional[int] = ..., software: _Optional[str] = ..., frame_bytes_max: _Optional[int] = ..., directory: _Optional[int] = ..., client: _Optional[int] = ...) -> None: ...

class PingRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class PingResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class MetadataRequest(_message.Message):
    __slots__ = ("topics", "all_topics", "create_missing")
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    ALL_TOPICS_FIELD_NUMBER: _ClassVar[int]
    CREATE_MISSING_FIELD_NUMBER: _ClassVar[int]
    topics: _containers.RepeatedScalarFieldContainer[str]
    all_topics: bool
    create_missing: bool
    def __init__(self, topics: _Optional[_Iterable[str]] = ..., all_topics: _Optional[bool] = ..., create_missing: _Optional[bool] = ...) -> None: ...

class MetadataResponse(_message.Message):
    __slots__ = ("cluster_id", "brokers", "topics")
    class Broker(_message.Message):
        __slots__ = ("id", "address")
        ID_FIELD_NUMBER: _ClassVar[int]
        ADDRESS_FIELD_NUMBER: _ClassVar[int]
        id: int
        address: str
        def __init__(self, id: _Optional[int] = ..., address: _Optional[str] = ...) -> None: ...
    class Partition(_message.Message):
        __slots__ = ("partition", "leader", "term", "replicas", "in_sync")
        PARTITION_FIELD_NUMBER: _ClassVar[int]
        LEADER_FIELD_NUMBER: _ClassVar[int]
        TERM_FIELD_NUMBER: _ClassVar[int]
        REPLICAS_FIELD_NUMBER: _ClassVar[int]
        IN_SYNC_FIELD_NUMBER: _ClassVar[int]
        partition: int
        leader: int
        term: int
        replicas: _containers.RepeatedScalarFieldContainer[int]
        in_sync: _containers.RepeatedScalarFieldContainer[int]
        def __init__(self, partition: _Optional[int] = ..., leader: _Optional[int] = ..., term: _Optional[int] = ..., replicas: _Optional[_Iterable[int]] = ..., in_sync: _Optional[_Iterable[int]] = ...) -> None: ...
    class Topic(_message.Message):
        __slots__ = ("name", "id", "partitions", "error")
        NAME_FIELD_NUMBER: _ClassVar[int]
        ID_FIELD_NUMBER: _ClassVar[int]
        PARTITIONS_FIELD_NUMBER: _ClassVar[int]
        ERROR_FIELD_NUMBER: _ClassVar[int]
        name: str
        id: str
        partitions: _containers.RepeatedCompositeFieldContainer[MetadataResponse.Partition]
        error: Error
        def __init__(self, name: _Optional[str] = ..., id: _Optional[str] = ..., partitions: _Optional[_Iterable[_Union[MetadataResponse.Partition, _Mapping]]] = ..., error: _Optional[_Union[Error, _Mapping]] = ...) -> None: ...
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    BROKERS_FIELD_NUMBER: _ClassVar[int]
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    cluster_id: str
    brokers: _containers.RepeatedCompositeFieldContainer[MetadataResponse.Broker]
    topics: _containers.RepeatedCompositeFieldContainer[MetadataResponse.Topic]
    def __init__(self, cluster_id: _Optional[str] = ..., brokers: _Optional[_Iterable[_Union[MetadataResponse.Broker, _Mapping]]] = ..., topics: _Optional[_Iterable[_Union[MetadataResponse.Topic, _Mapping]]] = ...) -> None: ...

class ProduceRequest(_message.Message):
    __slots__ = ("topic", "partition", "acks", "claim")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    ACKS_FIELD_NUMBER: _ClassVar[int]
    CLAIM_FIELD_NUMBER: _ClassVar[int]
    topic: str
    partition: int
    acks: int
    claim: int
    def __init__(self, topic: _Optional[str] = ..., partition: _Optional[int] = ..., acks: _Optional[int] = ..., claim: _Optional[int] = ...) -> None: ...

class ProduceResponse(_message.Message):
    __slots__ = ("base_offset", "append_time_ms", "duplicate")
    BASE_OFFSET_FIELD_NUMBER: _ClassVar[int]
    APPEND_TIME_MS_FIELD_NUMBER: _ClassVar[int]
    DUPLICATE_FIELD_NUMBER: _ClassVar[int]
    base_offset: int
    append_time_ms: int
    duplicate: bool
    def __init__(self, base_offset: _Optional[int] = ..., append_time_ms: _Optional[int] = ..., duplicate: _Optional[bool] = ...) -> None: ...

class FetchRequest(_message.Message):
    __slots__ = ("topic", "partition", "offset", "max_bytes", "min_bytes", "max_wait_ms", "filter")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    MAX_BYTES_FIELD_NUMBER: _ClassVar[int]
    MIN_BYTES_FIELD_NUMBER: _ClassVar[int]
    MAX_WAIT_MS_FIELD_NUMBER: _ClassVar[int]
    FILTER_FIELD_NUMBER: _ClassVar[int]
    topic: str
    partition: int
    offset: int
    max_bytes: int
    min_bytes: int
    max_wait_ms: int
    filter: Filter
    def __init__(self, topic: _Optional[str] = ..., partition: _Optional[int] = ..., offset: _Optional[int] = ..., max_bytes: _Optional[int] = ..., min_bytes: _Optional[int] = ..., max_wait_ms: _Optional[int] = ..., filter: _Optional[_Union[Filter, _Mapping]] = ...) -> None: ...

class FetchResponse(_message.Message):
    __slots__ = ("high_watermark", "log_start_offset", "compacted", "next_offset")
    HIGH_WATERMARK_FIELD_NUMBER: _ClassVar[int]
    LOG_START_OFFSET_FIELD_NUMBER: _ClassVar[int]
    COMPACTED_FIELD_NUMBER: _ClassVar[int]
    NEXT_OFFSET_FIELD_NUMBER: _ClassVar[int]
    high_watermark: int
    log_start_offset: int
    compacted: bool
    next_offset: int
    def __init__(self, high_watermark: _Optional[int] = ..., log_start_offset: _Optional[int] = ..., compacted: _Optional[bool] = ..., next_offset: _Optional[int] = ...) -> None: ...

class FindOffsetRequest(_message.Message):
    __slots__ = ("topic", "partition", "earliest", "latest", "timestamp_ms")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    EARLIEST_FIELD_NUMBER: _ClassVar[int]
    LATEST_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_MS_FIELD_NUMBER: _ClassVar[int]
    topic: str
    partition: int
    earliest: bool
    latest: bool
    timestamp_ms: int
    def __init__(self, topic: _Optional[str] = ..., partition: _Optional[int] = ..., earliest: _Optional[bool] = ..., latest: _Optional[bool] = ..., timestamp_ms: _Optional[int] = ...) -> None: ...

class FindOffsetResponse(_message.Message):
    __slots__ = ("offset", "timestamp_ms")
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_MS_FIELD_NUMBER: _ClassVar[int]
    offset: int
    timestamp_ms: int
    def __init__(self, offset: _Optional[int] = ..., timestamp_ms: _Optional[int] = ...) -> None: ...

class InitProducerRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class InitProducerResponse(_message.Message):
    __slots__ = ("producer_id", "producer_epoch")
    PRODUCER_ID_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    producer_id: int
    producer_epoch: int
    def __init__(self, producer_id: _Optional[int] = ..., producer_epoch: _Optional[int] = ...) -> None: ...

class CreateTopicRequest(_message.Message):
    __slots__ = ("name", "partitions", "config", "replicas")
    class ConfigEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    CONFIG_FIELD_NUMBER: _ClassVar[int]
    REPLICAS_FIELD_NUMBER: _ClassVar[int]
    name: str
    partitions: int
    config: _containers.ScalarMap[str, str]
    replicas: int
    def __init__(self, name: _Optional[str] = ..., partitions: _Optional[int] = ..., config: _Optional[_Mapping[str, str]] = ..., replicas: _Optional[int] = ...) -> None: ...

class CreateTopicResponse(_message.Message):
    __slots__ = ("id", "partitions")
    ID_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    id: str
    partitions: int
    def __init__(self, id: _Optional[str] = ..., partitions: _Optional[int] = ...) -> None: ...

class DeleteTopicRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class DeleteTopicResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class DescribeTopicRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class DescribeTopicResponse(_message.Message):
    __slots__ = ("name", "id", "config", "changed", "partitions", "broker")
    class Partition(_message.Message):
        __slots__ = ("partition", "leader", "log_start_offset", "high_watermark", "log_end_offset", "bytes", "segments", "error", "replicas", "in_sync")
        PARTITION_FIELD_NUMBER: _ClassVar[int]
        LEADER_FIELD_NUMBER: _ClassVar[int]
        LOG_START_OFFSET_FIELD_NUMBER: _ClassVar[int]
        HIGH_WATERMARK_FIELD_NUMBER: _ClassVar[int]
        LOG_END_OFFSET_FIELD_NUMBER: _ClassVar[int]
        BYTES_FIELD_NUMBER: _ClassVar[int]
        SEGMENTS_FIELD_NUMBER: _ClassVar[int]
        ERROR_FIELD_NUMBER: _ClassVar[int]
        REPLICAS_FIELD_NUMBER: _ClassVar[int]
        IN_SYNC_FIELD_NUMBER: _ClassVar[int]
        partition: int
        leader: int
        log_start_offset: int
        high_watermark: int
        log_end_offset: int
        bytes: int
        segments: int
        error: Error
        replicas: _containers.RepeatedScalarFieldContainer[int]
        in_sync: _containers.RepeatedScalarFieldContainer[int]
        def __init__(self, partition: _Optional[int] = ..., leader: _Optional[int] = ..., log_start_offset: _Optional[int] = ..., high_watermark: _Optional[int] = ..., log_end_offset: _Optional[int] = ..., bytes: _Optional[int] = ..., segments: _Optional[int] = ..., error: _Optional[_Union[Error, _Mapping]] = ..., replicas: _Optional[_Iterable[int]] = ..., in_sync: _Optional[_Iterable[int]] = ...) -> None: ...
    class ConfigEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    CONFIG_FIELD_NUMBER: _ClassVar[int]
    CHANGED_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    BROKER_FIELD_NUMBER: _ClassVar[int]
    name: str
    id: str
    config: _containers.ScalarMap[str, str]
    changed: _containers.RepeatedScalarFieldContainer[str]
    partitions: _containers.RepeatedCompositeFieldContainer[DescribeTopicResponse.Partition]
    broker: int
    def __init__(self, name: _Optional[str] = ..., id: _Optional[str] = ..., config: _Optional[_Mapping[str, str]] = ..., changed: _Optional[_Iterable[str]] = ..., partitions: _Optional[_Iterable[_Union[DescribeTopicResponse.Partition, _Mapping]]] = ..., broker: _Optional[int] = ...) -> None: ...

class AlterTopicRequest(_message.Message):
    __slots__ = ("name", "set", "reset")
    class SetEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    SET_FIELD_NUMBER: _ClassVar[int]
    RESET_FIELD_NUMBER: _ClassVar[int]
    name: str
    set: _containers.ScalarMap[str, str]
    reset: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, name: _Optional[str] = ..., set: _Optional[_Mapping[str, str]] = ..., reset: _Optional[_Iterable[str]] = ...) -> None: ...

class AlterTopicResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class AddPartitionsRequest(_message.Message):
    __slots__ = ("name", "total")
    NAME_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    name: str
    total: int
    def __init__(self, name: _Optional[str] = ..., total: _Optional[int] = ...) -> None: ...

class AddPartitionsResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class FindCoordinatorRequest(_message.Message):
    __slots__ = ("kind",)
    class Kind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        KIND_UNSPECIFIED: _ClassVar[FindCoordinatorRequest.Kind]
        KIND_GROUPS: _ClassVar[FindCoordinatorRequest.Kind]
        KIND_STAGED_WRITES: _ClassVar[FindCoordinatorRequest.Kind]
        KIND_DELAYED: _ClassVar[FindCoordinatorRequest.Kind]
    KIND_UNSPECIFIED: FindCoordinatorRequest.Kind
    KIND_GROUPS: FindCoordinatorRequest.Kind
    KIND_STAGED_WRITES: FindCoordinatorRequest.Kind
    KIND_DELAYED: FindCoordinatorRequest.Kind
    KIND_FIELD_NUMBER: _ClassVar[int]
    kind: FindCoordinatorRequest.Kind
    def __init__(self, kind: _Optional[_Union[FindCoordinatorRequest.Kind, str]] = ...) -> None: ...

class FindCoordinatorResponse(_message.Message):
    __slots__ = ("broker", "address")
    BROKER_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    broker: int
    address: str
    def __init__(self, broker: _Optional[int] = ..., address: _Optional[str] = ...) -> None: ...

class GroupOffset(_message.Message):
    __slots__ = ("topic", "partition", "offset", "metadata")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    topic: str
    partition: int
    offset: int
    metadata: str
    def __init__(self, topic: _Optional[str] = ..., partition: _Optional[int] = ..., offset: _Optional[int] = ..., metadata: _Optional[str] = ...) -> None: ...

class CommitOffsetsRequest(_message.Message):
    __slots__ = ("group", "offsets", "member_id", "member_epoch")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    OFFSETS_FIELD_NUMBER: _ClassVar[int]
    MEMBER_ID_FIELD_NUMBER: _ClassVar[int]
    MEMBER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    group: str
    offsets: _containers.RepeatedCompositeFieldContainer[GroupOffset]
    member_id: str
    member_epoch: int
    def __init__(self, group: _Optional[str] = ..., offsets: _Optional[_Iterable[_Union[GroupOffset, _Mapping]]] = ..., member_id: _Optional[str] = ..., member_epoch: _Optional[int] = ...) -> None: ...

class CommitOffsetsResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class FetchOffsetsRequest(_message.Message):
    __slots__ = ("group", "topics")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    group: str
    topics: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, group: _Optional[str] = ..., topics: _Optional[_Iterable[str]] = ...) -> None: ...

class FetchOffsetsResponse(_message.Message):
    __slots__ = ("offsets",)
    OFFSETS_FIELD_NUMBER: _ClassVar[int]
    offsets: _containers.RepeatedCompositeFieldContainer[GroupOffset]
    def __init__(self, offsets: _Optional[_Iterable[_Union[GroupOffset, _Mapping]]] = ...) -> None: ...

class ListGroupsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListGroupsResponse(_message.Message):
    __slots__ = ("groups",)
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    groups: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, groups: _Optional[_Iterable[str]] = ...) -> None: ...

class StageRequest(_message.Message):
    __slots__ = ("write", "epoch", "attempt", "sequence", "topic", "partition")
    WRITE_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    write: str
    epoch: int
    attempt: str
    sequence: int
    topic: str
    partition: int
    def __init__(self, write: _Optional[str] = ..., epoch: _Optional[int] = ..., attempt: _Optional[str] = ..., sequence: _Optional[int] = ..., topic: _Optional[str] = ..., partition: _Optional[int] = ...) -> None: ...

class StageResponse(_message.Message):
    __slots__ = ("already",)
    ALREADY_FIELD_NUMBER: _ClassVar[int]
    already: bool
    def __init__(self, already: _Optional[bool] = ...) -> None: ...

class StagedAttempt(_message.Message):
    __slots__ = ("attempt", "batches")
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    BATCHES_FIELD_NUMBER: _ClassVar[int]
    attempt: str
    batches: int
    def __init__(self, attempt: _Optional[str] = ..., batches: _Optional[int] = ...) -> None: ...

class CommitStagedRequest(_message.Message):
    __slots__ = ("write", "epoch", "attempts", "last", "max_wait_ms")
    WRITE_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    MAX_WAIT_MS_FIELD_NUMBER: _ClassVar[int]
    write: str
    epoch: int
    attempts: _containers.RepeatedCompositeFieldContainer[StagedAttempt]
    last: bool
    max_wait_ms: int
    def __init__(self, write: _Optional[str] = ..., epoch: _Optional[int] = ..., attempts: _Optional[_Iterable[_Union[StagedAttempt, _Mapping]]] = ..., last: _Optional[bool] = ..., max_wait_ms: _Optional[int] = ...) -> None: ...

class CommitStagedResponse(_message.Message):
    __slots__ = ("already", "records", "readable")
    ALREADY_FIELD_NUMBER: _ClassVar[int]
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    READABLE_FIELD_NUMBER: _ClassVar[int]
    already: bool
    records: int
    readable: bool
    def __init__(self, already: _Optional[bool] = ..., records: _Optional[int] = ..., readable: _Optional[bool] = ...) -> None: ...

class AbortStagedRequest(_message.Message):
    __slots__ = ("write", "epoch", "attempts")
    WRITE_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    write: str
    epoch: int
    attempts: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, write: _Optional[str] = ..., epoch: _Optional[int] = ..., attempts: _Optional[_Iterable[str]] = ...) -> None: ...

class AbortStagedResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class CommittedEpochRequest(_message.Message):
    __slots__ = ("write",)
    WRITE_FIELD_NUMBER: _ClassVar[int]
    write: str
    def __init__(self, write: _Optional[str] = ...) -> None: ...

class CommittedEpochResponse(_message.Message):
    __slots__ = ("epoch",)
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    def __init__(self, epoch: _Optional[int] = ...) -> None: ...

class CopyRequest(_message.Message):
    __slots__ = ("topic", "topic_id", "partition", "coordinator_term")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    COORDINATOR_TERM_FIELD_NUMBER: _ClassVar[int]
    topic: str
    topic_id: str
    partition: int
    coordinator_term: int
    def __init__(self, topic: _Optional[str] = ..., topic_id: _Optional[str] = ..., partition: _Optional[int] = ..., coordinator_term: _Optional[int] = ...) -> None: ...

class CopyResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListRemovalsRequest(_message.Message):
    __slots__ = ("topic", "partition")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    topic: str
    partition: int
    def __init__(self, topic: _Optional[str] = ..., partition: _Optional[int] = ...) -> None: ...

class ListRemovalsResponse(_message.Message):
    __slots__ = ("removals",)
    class Removal(_message.Message):
        __slots__ = ("first_offset", "end_offset", "cause", "at_ms", "detail")
        FIRST_OFFSET_FIELD_NUMBER: _ClassVar[int]
        END_OFFSET_FIELD_NUMBER: _ClassVar[int]
        CAUSE_FIELD_NUMBER: _ClassVar[int]
        AT_MS_FIELD_NUMBER: _ClassVar[int]
        DETAIL_FIELD_NUMBER: _ClassVar[int]
        first_offset: int
        end_offset: int
        cause: str
        at_ms: int
        detail: str
        def __init__(self, first_offset: _Optional[int] = ..., end_offset: _Optional[int] = ..., cause: _Optional[str] = ..., at_ms: _Optional[int] = ..., detail: _Optional[str] = ...) -> None: ...
    REMOVALS_FIELD_NUMBER: _ClassVar[int]
    removals: _containers.RepeatedCompositeFieldContainer[ListRemovalsResponse.Removal]
    def __init__(self, removals: _Optional[_Iterable[_Union[ListRemovalsResponse.Removal, _Mapping]]] = ...) -> None: ...

class ListDeletedTopicsRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class ListDeletedTopicsResponse(_message.Message):
    __slots__ = ("topics",)
    class Partition(_message.Message):
        __slots__ = ("partition", "start_offset", "end_offset")
        PARTITION_FIELD_NUMBER: _ClassVar[int]
        START_OFFSET_FIELD_NUMBER: _ClassVar[int]
        END_OFFSET_FIELD_NUMBER: _ClassVar[int]
        partition: int
        start_offset: int
        end_offset: int
        def __init__(self, partition: _Optional[int] = ..., start_offset: _Optional[int] = ..., end_offset: _Optional[int] = ...) -> None: ...
    class Topic(_message.Message):
        __slots__ = ("name", "id", "at_ms", "partitions")
        NAME_FIELD_NUMBER: _ClassVar[int]
        ID_FIELD_NUMBER: _ClassVar[int]
        AT_MS_FIELD_NUMBER: _ClassVar[int]
        PARTITIONS_FIELD_NUMBER: _ClassVar[int]
        name: str
        id: str
        at_ms: int
        partitions: _containers.RepeatedCompositeFieldContainer[ListDeletedTopicsResponse.Partition]
        def __init__(self, name: _Optional[str] = ..., id: _Optional[str] = ..., at_ms: _Optional[int] = ..., partitions: _Optional[_Iterable[_Union[ListDeletedTopicsResponse.Partition, _Mapping]]] = ...) -> None: ...
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    topics: _containers.RepeatedCompositeFieldContainer[ListDeletedTopicsResponse.Topic]
    def __init__(self, topics: _Optional[_Iterable[_Union[ListDeletedTopicsResponse.Topic, _Mapping]]] = ...) -> None: ...

class RaftRequest(_message.Message):
    __slots__ = ("sender", "receiver", "messages", "heartbeat", "cluster_id")
    class Node(_message.Message):
        __slots__ = ("broker", "directory")
        BROKER_FIELD_NUMBER: _ClassVar[int]
        DIRECTORY_FIELD_NUMBER: _ClassVar[int]
        broker: int
        directory: int
        def __init__(self, broker: _Optional[int] = ..., directory: _Optional[int] = ...) -> None: ...
    class PartitionId(_message.Message):
        __slots__ = ("topic_id", "partition")
        TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
        PARTITION_FIELD_NUMBER: _ClassVar[int]
        topic_id: bytes
        partition: int
        def __init__(self, topic_id: _Optional[bytes] = ..., partition: _Optional[int] = ...) -> None: ...
    class Vote(_message.Message):
        __slots__ = ("last_term", "end_offset", "is_trial", "is_transfer")
        LAST_TERM_FIELD_NUMBER: _ClassVar[int]
        END_OFFSET_FIELD_NUMBER: _ClassVar[int]
        IS_TRIAL_FIELD_NUMBER: _ClassVar[int]
        IS_TRANSFER_FIELD_NUMBER: _ClassVar[int]
        last_term: int
        end_offset: int
        is_trial: bool
        is_transfer: bool
        def __init__(self, last_term: _Optional[int] = ..., end_offset: _Optional[int] = ..., is_trial: _Optional[bool] = ..., is_transfer: _Optional[bool] = ...) -> None: ...
    class VoteAnswer(_message.Message):
        __slots__ = ("is_trial", "is_granted")
        IS_TRIAL_FIELD_NUMBER: _ClassVar[int]
        IS_GRANTED_FIELD_NUMBER: _ClassVar[int]
        is_trial: bool
        is_granted: bool
        def __init__(self, is_trial: _Optional[bool] = ..., is_granted: _Optional[bool] = ...) -> None: ...
    class Append(_message.Message):
        __slots__ = ("previous_term", "previous_offset", "commit_offset", "payload_bytes")
        PREVIOUS_TERM_FIELD_NUMBER: _ClassVar[int]
        PREVIOUS_OFFSET_FIELD_NUMBER: _ClassVar[int]
        COMMIT_OFFSET_FIELD_NUMBER: _ClassVar[int]
        PAYLOAD_BYTES_FIELD_NUMBER: _ClassVar[int]
        previous_term: int
        previous_offset: int
        commit_offset: int
        payload_bytes: int
        def __init__(self, previous_term: _Optional[int] = ..., previous_offset: _Optional[int] = ..., commit_offset: _Optional[int] = ..., payload_bytes: _Optional[int] = ...) -> None: ...
    class AppendAnswer(_message.Message):
        __slots__ = ("is_matching", "end_offset", "last_term", "asked_offset")
        IS_MATCHING_FIELD_NUMBER: _ClassVar[int]
        END_OFFSET_FIELD_NUMBER: _ClassVar[int]
        LAST_TERM_FIELD_NUMBER: _ClassVar[int]
        ASKED_OFFSET_FIELD_NUMBER: _ClassVar[int]
        is_matching: bool
        end_offset: int
        last_term: int
        asked_offset: int
        def __init__(self, is_matching: _Optional[bool] = ..., end_offset: _Optional[int] = ..., last_term: _Optional[int] = ..., asked_offset: _Optional[int] = ...) -> None: ...
    class Reset(_message.Message):
        __slots__ = ("start_offset", "start_term", "voters", "learners", "payload_bytes")
        START_OFFSET_FIELD_NUMBER: _ClassVar[int]
        START_TERM_FIELD_NUMBER: _ClassVar[int]
        VOTERS_FIELD_NUMBER: _ClassVar[int]
        LEARNERS_FIELD_NUMBER: _ClassVar[int]
        PAYLOAD_BYTES_FIELD_NUMBER: _ClassVar[int]
        start_offset: int
        start_term: int
        voters: _containers.RepeatedCompositeFieldContainer[RaftRequest.Node]
        learners: _containers.RepeatedCompositeFieldContainer[RaftRequest.Node]
        payload_bytes: int
        def __init__(self, start_offset: _Optional[int] = ..., start_term: _Optional[int] = ..., voters: _Optional[_Iterable[_Union[RaftRequest.Node, _Mapping]]] = ..., learners: _Optional[_Iterable[_Union[RaftRequest.Node, _Mapping]]] = ..., payload_bytes: _Optional[int] = ...) -> None: ...
    class Campaign(_message.Message):
        __slots__ = ()
        def __init__(self) -> None: ...
    class Message(_message.Message):
        __slots__ = ("partition", "term", "vote", "vote_answer", "append", "append_answer", "reset", "campaign")
        PARTITION_FIELD_NUMBER: _ClassVar[int]
        TERM_FIELD_NUMBER: _ClassVar[int]
        VOTE_FIELD_NUMBER: _ClassVar[int]
        VOTE_ANSWER_FIELD_NUMBER: _ClassVar[int]
        APPEND_FIELD_NUMBER: _ClassVar[int]
        APPEND_ANSWER_FIELD_NUMBER: _ClassVar[int]
        RESET_FIELD_NUMBER: _ClassVar[int]
        CAMPAIGN_FIELD_NUMBER: _ClassVar[int]
        partition: RaftRequest.PartitionId
        term: int
        vote: RaftRequest.Vote
        vote_answer: RaftRequest.VoteAnswer
        append: RaftRequest.Append
        append_answer: RaftRequest.AppendAnswer
        reset: RaftRequest.Reset
        campaign: RaftRequest.Campaign
        def __init__(self, partition: _Optional[_Union[RaftRequest.PartitionId, _Mapping]] = ..., term: _Optional[int] = ..., vote: _Optional[_Union[RaftRequest.Vote, _Mapping]] = ..., vote_answer: _Optional[_Union[RaftRequest.VoteAnswer, _Mapping]] = ..., append: _Optional[_Union[RaftRequest.Append, _Mapping]] = ..., append_answer: _Optional[_Union[RaftRequest.AppendAnswer, _Mapping]] = ..., reset: _Optional[_Union[RaftRequest.Reset, _Mapping]] = ..., campaign: _Optional[_Union[RaftRequest.Campaign, _Mapping]] = ...) -> None: ...
    class Claim(_message.Message):
        __slots__ = ("partition", "term", "commit_offset", "start_offset", "voters", "learners", "is_settled", "in_sync")
        PARTITION_FIELD_NUMBER: _ClassVar[int]
        TERM_FIELD_NUMBER: _ClassVar[int]
        COMMIT_OFFSET_FIELD_NUMBER: _ClassVar[int]
        START_OFFSET_FIELD_NUMBER: _ClassVar[int]
        VOTERS_FIELD_NUMBER: _ClassVar[int]
        LEARNERS_FIELD_NUMBER: _ClassVar[int]
        IS_SETTLED_FIELD_NUMBER: _ClassVar[int]
        IN_SYNC_FIELD_NUMBER: _ClassVar[int]
        partition: RaftRequest.PartitionId
        term: int
        commit_offset: int
        start_offset: int
        voters: _containers.RepeatedCompositeFieldContainer[RaftRequest.Node]
        learners: _containers.RepeatedCompositeFieldContainer[RaftRequest.Node]
        is_settled: bool
        in_sync: _containers.RepeatedScalarFieldContainer[int]
        def __init__(self, partition: _Optional[_Union[RaftRequest.PartitionId, _Mapping]] = ..., term: _Optional[int] = ..., commit_offset: _Optional[int] = ..., start_offset: _Optional[int] = ..., voters: _Optional[_Iterable[_Union[RaftRequest.Node, _Mapping]]] = ..., learners: _Optional[_Iterable[_Union[RaftRequest.Node, _Mapping]]] = ..., is_settled: _Optional[bool] = ..., in_sync: _Optional[_Iterable[int]] = ...) -> None: ...
    class Heartbeat(_message.Message):
        __slots__ = ("incarnation", "version", "is_whole", "needs_whole", "claims", "released")
        INCARNATION_FIELD_NUMBER: _ClassVar[int]
        VERSION_FIELD_NUMBER: _ClassVar[int]
        IS_WHOLE_FIELD_NUMBER: _ClassVar[int]
        NEEDS_WHOLE_FIELD_NUMBER: _ClassVar[int]
        CLAIMS_FIELD_NUMBER: _ClassVar[int]
        RELEASED_FIELD_NUMBER: _ClassVar[int]
        incarnation: int
        version: int
        is_whole: bool
        needs_whole: bool
        claims: _containers.RepeatedCompositeFieldContainer[RaftRequest.Claim]
        released: _containers.RepeatedCompositeFieldContainer[RaftRequest.PartitionId]
        def __init__(self, incarnation: _Optional[int] = ..., version: _Optional[int] = ..., is_whole: _Optional[bool] = ..., needs_whole: _Optional[bool] = ..., claims: _Optional[_Iterable[_Union[RaftRequest.Claim, _Mapping]]] = ..., released: _Optional[_Iterable[_Union[RaftRequest.PartitionId, _Mapping]]] = ...) -> None: ...
    SENDER_FIELD_NUMBER: _ClassVar[int]
    RECEIVER_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    sender: RaftRequest.Node
    receiver: RaftRequest.Node
    messages: _containers.RepeatedCompositeFieldContainer[RaftRequest.Message]
    heartbeat: RaftRequest.Heartbeat
    cluster_id: str
    def __init__(self, sender: _Optional[_Union[RaftRequest.Node, _Mapping]] = ..., receiver: _Optional[_Union[RaftRequest.Node, _Mapping]] = ..., messages: _Optional[_Iterable[_Union[RaftRequest.Message, _Mapping]]] = ..., heartbeat: _Optional[_Union[RaftRequest.Heartbeat, _Mapping]] = ..., cluster_id: _Optional[str] = ...) -> None: ...

class RaftResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class MetaChangeRequest(_message.Message):
    __slots__ = ("cluster_id", "entry")
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    ENTRY_FIELD_NUMBER: _ClassVar[int]
    cluster_id: str
    entry: bytes
    def __init__(self, cluster_id: _Optional[str] = ..., entry: _Optional[bytes] = ...) -> None: ...

class MetaChangeResponse(_message.Message):
    __slots__ = ("version", "first_producer_id", "controller", "session_timeout_ms")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    FIRST_PRODUCER_ID_FIELD_NUMBER: _ClassVar[int]
    CONTROLLER_FIELD_NUMBER: _ClassVar[int]
    SESSION_TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    version: int
    first_producer_id: int
    controller: int
    session_timeout_ms: int
    def __init__(self, version: _Optional[int] = ..., first_producer_id: _Optional[int] = ..., controller: _Optional[int] = ..., session_timeout_ms: _Optional[int] = ...) -> None: ...

class MetaFetchRequest(_message.Message):
    __slots__ = ("cluster_id", "seen_version", "max_wait_ms")
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    SEEN_VERSION_FIELD_NUMBER: _ClassVar[int]
    MAX_WAIT_MS_FIELD_NUMBER: _ClassVar[int]
    cluster_id: str
    seen_version: int
    max_wait_ms: int
    def __init__(self, cluster_id: _Optional[str] = ..., seen_version: _Optional[int] = ..., max_wait_ms: _Optional[int] = ...) -> None: ...

class MetaFetchResponse(_message.Message):
    __slots__ = ("version", "is_whole", "entries", "controller", "session_timeout_ms")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    IS_WHOLE_FIELD_NUMBER: _ClassVar[int]
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    CONTROLLER_FIELD_NUMBER: _ClassVar[int]
    SESSION_TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    version: int
    is_whole: bool
    entries: _containers.RepeatedScalarFieldContainer[bytes]
    controller: int
    session_timeout_ms: int
    def __init__(self, version: _Optional[int] = ..., is_whole: _Optional[bool] = ..., entries: _Optional[_Iterable[bytes]] = ..., controller: _Optional[int] = ..., session_timeout_ms: _Optional[int] = ...) -> None: ...

class MetaHeartbeatRequest(_message.Message):
    __slots__ = ("cluster_id", "broker", "directory", "place")
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    BROKER_FIELD_NUMBER: _ClassVar[int]
    DIRECTORY_FIELD_NUMBER: _ClassVar[int]
    PLACE_FIELD_NUMBER: _ClassVar[int]
    cluster_id: str
    broker: int
    directory: int
    place: int
    def __init__(self, cluster_id: _Optional[str] = ..., broker: _Optional[int] = ..., directory: _Optional[int] = ..., place: _Optional[int] = ...) -> None: ...

class MetaHeartbeatResponse(_message.Message):
    __slots__ = ("is_registered", "is_controller", "session_timeout_ms")
    IS_REGISTERED_FIELD_NUMBER: _ClassVar[int]
    IS_CONTROLLER_FIELD_NUMBER: _ClassVar[int]
    SESSION_TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    is_registered: bool
    is_controller: bool
    session_timeout_ms: int
    def __init__(self, is_registered: _Optional[bool] = ..., is_controller: _Optional[bool] = ..., session_timeout_ms: _Optional[int] = ...) -> None: ...

class MetaLeaderRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class MetaLeaderResponse(_message.Message):
    __slots__ = ("leader", "address", "term", "is_empty", "voters", "commit_offset")
    class Voter(_message.Message):
        __slots__ = ("id", "address", "end_offset")
        ID_FIELD_NUMBER: _ClassVar[int]
        ADDRESS_FIELD_NUMBER: _ClassVar[int]
        END_OFFSET_FIELD_NUMBER: _ClassVar[int]
        id: int
        address: str
        end_offset: int
        def __init__(self, id: _Optional[int] = ..., address: _Optional[str] = ..., end_offset: _Optional[int] = ...) -> None: ...
    LEADER_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    TERM_FIELD_NUMBER: _ClassVar[int]
    IS_EMPTY_FIELD_NUMBER: _ClassVar[int]
    VOTERS_FIELD_NUMBER: _ClassVar[int]
    COMMIT_OFFSET_FIELD_NUMBER: _ClassVar[int]
    leader: int
    address: str
    term: int
    is_empty: bool
    voters: _containers.RepeatedCompositeFieldContainer[MetaLeaderResponse.Voter]
    commit_offset: int
    def __init__(self, leader: _Optional[int] = ..., address: _Optional[str] = ..., term: _Optional[int] = ..., is_empty: _Optional[bool] = ..., voters: _Optional[_Iterable[_Union[MetaLeaderResponse.Voter, _Mapping]]] = ..., commit_offset: _Optional[int] = ...) -> None: ...

class MetaSnapshotRequest(_message.Message):
    __slots__ = ("first_offset",)
    FIRST_OFFSET_FIELD_NUMBER: _ClassVar[int]
    first_offset: int
    def __init__(self, first_offset: _Optional[int] = ...) -> None: ...

class MetaSnapshotResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class DescribeClusterRequest(_message.Message):
    __slots__ = ("moving_only",)
    MOVING_ONLY_FIELD_NUMBER: _ClassVar[int]
    moving_only: bool
    def __init__(self, moving_only: _Optional[bool] = ...) -> None: ...

class DescribeClusterResponse(_message.Message):
    __slots__ = ("cluster_id", "controller", "brokers", "partitions", "is_alone")
    class Broker(_message.Message):
        __slots__ = ("id", "address", "host", "is_alive", "is_drained", "leaders", "replicas", "bytes", "disk")
        ID_FIELD_NUMBER: _ClassVar[int]
        ADDRESS_FIELD_NUMBER: _ClassVar[int]
        HOST_FIELD_NUMBER: _ClassVar[int]
        IS_ALIVE_FIELD_NUMBER: _ClassVar[int]
        IS_DRAINED_FIELD_NUMBER: _ClassVar[int]
        LEADERS_FIELD_NUMBER: _ClassVar[int]
        REPLICAS_FIELD_NUMBER: _ClassVar[int]
        BYTES_FIELD_NUMBER: _ClassVar[int]
        DISK_FIELD_NUMBER: _ClassVar[int]
        id: int
        address: str
        host: str
        is_alive: bool
        is_drained: bool
        leaders: int
        replicas: int
        bytes: int
        disk: str
        def __init__(self, id: _Optional[int] = ..., address: _Optional[str] = ..., host: _Optional[str] = ..., is_alive: _Optional[bool] = ..., is_drained: _Optional[bool] = ..., leaders: _Optional[int] = ..., replicas: _Optional[int] = ..., bytes: _Optional[int] = ..., disk: _Optional[str] = ...) -> None: ...
    class Learner(_message.Message):
        __slots__ = ("broker", "offset", "bytes_left")
        BROKER_FIELD_NUMBER: _ClassVar[int]
        OFFSET_FIELD_NUMBER: _ClassVar[int]
        BYTES_LEFT_FIELD_NUMBER: _ClassVar[int]
        broker: int
        offset: int
        bytes_left: int
        def __init__(self, broker: _Optional[int] = ..., offset: _Optional[int] = ..., bytes_left: _Optional[int] = ...) -> None: ...
    class Offline(_message.Message):
        __slots__ = ("broker", "reason")
        BROKER_FIELD_NUMBER: _ClassVar[int]
        REASON_FIELD_NUMBER: _ClassVar[int]
        broker: int
        reason: str
        def __init__(self, broker: _Optional[int] = ..., reason: _Optional[str] = ...) -> None: ...
    class Partition(_message.Message):
        __slots__ = ("topic", "partition", "leader", "term", "target", "voters", "in_sync", "learners", "is_reached", "commit_offset", "offline")
        TOPIC_FIELD_NUMBER: _ClassVar[int]
        PARTITION_FIELD_NUMBER: _ClassVar[int]
        LEADER_FIELD_NUMBER: _ClassVar[int]
        TERM_FIELD_NUMBER: _ClassVar[int]
        TARGET_FIELD_NUMBER: _ClassVar[int]
        VOTERS_FIELD_NUMBER: _ClassVar[int]
        IN_SYNC_FIELD_NUMBER: _ClassVar[int]
        LEARNERS_FIELD_NUMBER: _ClassVar[int]
        IS_REACHED_FIELD_NUMBER: _ClassVar[int]
        COMMIT_OFFSET_FIELD_NUMBER: _ClassVar[int]
        OFFLINE_FIELD_NUMBER: _ClassVar[int]
        topic: str
        partition: int
        leader: int
        term: int
        target: _containers.RepeatedScalarFieldContainer[int]
        voters: _containers.RepeatedScalarFieldContainer[int]
        in_sync: _containers.RepeatedScalarFieldContainer[int]
        learners: _containers.RepeatedCompositeFieldContainer[DescribeClusterResponse.Learner]
        is_reached: bool
        commit_offset: int
        offline: _containers.RepeatedCompositeFieldContainer[DescribeClusterResponse.Offline]
        def __init__(self, topic: _Optional[str] = ..., partition: _Optional[int] = ..., leader: _Optional[int] = ..., term: _Optional[int] = ..., target: _Optional[_Iterable[int]] = ..., voters: _Optional[_Iterable[int]] = ..., in_sync: _Optional[_Iterable[int]] = ..., learners: _Optional[_Iterable[_Union[DescribeClusterResponse.Learner, _Mapping]]] = ..., is_reached: _Optional[bool] = ..., commit_offset: _Optional[int] = ..., offline: _Optional[_Iterable[_Union[DescribeClusterResponse.Offline, _Mapping]]] = ...) -> None: ...
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    CONTROLLER_FIELD_NUMBER: _ClassVar[int]
    BROKERS_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    IS_ALONE_FIELD_NUMBER: _ClassVar[int]
    cluster_id: str
    controller: int
    brokers: _containers.RepeatedCompositeFieldContainer[DescribeClusterResponse.Broker]
    partitions: _containers.RepeatedCompositeFieldContainer[DescribeClusterResponse.Partition]
    is_alone: bool
    def __init__(self, cluster_id: _Optional[str] = ..., controller: _Optional[int] = ..., brokers: _Optional[_Iterable[_Union[DescribeClusterResponse.Broker, _Mapping]]] = ..., partitions: _Optional[_Iterable[_Union[DescribeClusterResponse.Partition, _Mapping]]] = ..., is_alone: _Optional[bool] = ...) -> None: ...

class ChangePlacementRequest(_message.Message):
    __slots__ = ("move", "replication", "drain", "add", "rebalance", "dry_run")
    class Moves(_message.Message):
        __slots__ = ("moves",)
        class Move(_message.Message):
            __slots__ = ("topic", "partition", "replicas")
            TOPIC_FIELD_NUMBER: _ClassVar[int]
            PARTITION_FIELD_NUMBER: _ClassVar[int]
            REPLICAS_FIELD_NUMBER: _ClassVar[int]
            topic: str
            partition: int
            replicas: _containers.RepeatedScalarFieldContainer[int]
            def __init__(self, topic: _Optional[str] = ..., partition: _Optional[int] = ..., replicas: _Optional[_Iterable[int]] = ...) -> None: ...
        MOVES_FIELD_NUMBER: _ClassVar[int]
        moves: _containers.RepeatedCompositeFieldContainer[ChangePlacementRequest.Moves.Move]
        def __init__(self, moves: _Optional[_Iterable[_Union[ChangePlacementRequest.Moves.Move, _Mapping]]] = ...) -> None: ...
    class Replication(_message.Message):
        __slots__ = ("topic", "replicas")
        TOPIC_FIELD_NUMBER: _ClassVar[int]
        REPLICAS_FIELD_NUMBER: _ClassVar[int]
        topic: str
        replicas: int
        def __init__(self, topic: _Optional[str] = ..., replicas: _Optional[int] = ...) -> None: ...
    class Drain(_message.Message):
        __slots__ = ("broker", "onto")
        BROKER_FIELD_NUMBER: _ClassVar[int]
        ONTO_FIELD_NUMBER: _ClassVar[int]
        broker: int
        onto: int
        def __init__(self, broker: _Optional[int] = ..., onto: _Optional[int] = ...) -> None: ...
    class Add(_message.Message):
        __slots__ = ("broker",)
        BROKER_FIELD_NUMBER: _ClassVar[int]
        broker: int
        def __init__(self, broker: _Optional[int] = ...) -> None: ...
    class Rebalance(_message.Message):
        __slots__ = ()
        def __init__(self) -> None: ...
    MOVE_FIELD_NUMBER: _ClassVar[int]
    REPLICATION_FIELD_NUMBER: _ClassVar[int]
    DRAIN_FIELD_NUMBER: _ClassVar[int]
    ADD_FIELD_NUMBER: _ClassVar[int]
    REBALANCE_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    move: ChangePlacementRequest.Moves
    replication: ChangePlacementRequest.Replication
    drain: ChangePlacementRequest.Drain
    add: ChangePlacementRequest.Add
    rebalance: ChangePlacementRequest.Rebalance
    dry_run: bool
    def __init__(self, move: _Optional[_Union[ChangePlacementRequest.Moves, _Mapping]] = ..., replication: _Optional[_Union[ChangePlacementRequest.Replication, _Mapping]] = ..., drain: _Optional[_Union[ChangePlacementRequest.Drain, _Mapping]] = ..., add: _Optional[_Union[ChangePlacementRequest.Add, _Mapping]] = ..., rebalance: _Optional[_Union[ChangePlacementRequest.Rebalance, _Mapping]] = ..., dry_run: _Optional[bool] = ...) -> None: ...

class ChangePlacementResponse(_message.Message):
    __slots__ = ("moves",)
    class Move(_message.Message):
        __slots__ = ("topic", "partition", "before", "after")
        TOPIC_FIELD_NUMBER: _ClassVar[int]
        PARTITION_FIELD_NUMBER: _ClassVar[int]
        BEFORE_FIELD_NUMBER: _ClassVar[int]
        AFTER_FIELD_NUMBER: _ClassVar[int]
        topic: str
        partition: int
        before: _containers.RepeatedScalarFieldContainer[int]
        after: _containers.RepeatedScalarFieldContainer[int]
        def __init__(self, topic: _Optional[str] = ..., partition: _Optional[int] = ..., before: _Optional[_Iterable[int]] = ..., after: _Optional[_Iterable[int]] = ...) -> None: ...
    MOVES_FIELD_NUMBER: _ClassVar[int]
    moves: _containers.RepeatedCompositeFieldContainer[ChangePlacementResponse.Move]
    def __init__(self, moves: _Optional[_Iterable[_Union[ChangePlacementResponse.Move, _Mapping]]] = ...) -> None: ...

class ElectLeadersRequest(_message.Message):
    __slots__ = ("partitions", "max_wait_ms", "is_forwarded")
    class Partition(_message.Message):
        __slots__ = ("topic", "partition")
        TOPIC_FIELD_NUMBER: _ClassVar[int]
        PARTITION_FIELD_NUMBER: _ClassVar[int]
        topic: str
        partition: int
        def __init__(self, topic: _Optional[str] = ..., partition: _Optional[int] = ...) -> None: ...
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    MAX_WAIT_MS_FIELD_NUMBER: _ClassVar[int]
    IS_FORWARDED_FIELD_NUMBER: _ClassVar[int]
    partitions: _containers.RepeatedCompositeFieldContainer[ElectLeadersRequest.Partition]
    max_wait_ms: int
    is_forwarded: bool
    def __init__(self, partitions: _Optional[_Iterable[_Union[ElectLeadersRequest.Partition, _Mapping]]] = ..., max_wait_ms: _Optional[int] = ..., is_forwarded: _Optional[bool] = ...) -> None: ...

class ElectLeadersResponse(_message.Message):
    __slots__ = ("results",)
    class Outcome(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        ELECTED: _ClassVar[ElectLeadersResponse.Outcome]
        NOT_NEEDED: _ClassVar[ElectLeadersResponse.Outcome]
        NOT_AVAILABLE: _ClassVar[ElectLeadersResponse.Outcome]
        UNKNOWN: _ClassVar[ElectLeadersResponse.Outcome]
        TIMED_OUT: _ClassVar[ElectLeadersResponse.Outcome]
    ELECTED: ElectLeadersResponse.Outcome
    NOT_NEEDED: ElectLeadersResponse.Outcome
    NOT_AVAILABLE: ElectLeadersResponse.Outcome
    UNKNOWN: ElectLeadersResponse.Outcome
    TIMED_OUT: ElectLeadersResponse.Outcome
    class Result(_message.Message):
        __slots__ = ("topic", "partition", "outcome")
        TOPIC_FIELD_NUMBER: _ClassVar[int]
        PARTITION_FIELD_NUMBER: _ClassVar[int]
        OUTCOME_FIELD_NUMBER: _ClassVar[int]
        topic: str
        partition: int
        outcome: ElectLeadersResponse.Outcome
        def __init__(self, topic: _Optional[str] = ..., partition: _Optional[int] = ..., outcome: _Optional[_Union[ElectLeadersResponse.Outcome, str]] = ...) -> None: ...
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[ElectLeadersResponse.Result]
    def __init__(self, results: _Optional[_Iterable[_Union[ElectLeadersResponse.Result, _Mapping]]] = ...) -> None: ...

class DescribeBrokerRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class DescribeBrokerResponse(_message.Message):
    __slots__ = ("bytes", "learners", "offline", "disk")
    class Learner(_message.Message):
        __slots__ = ("topic", "partition", "broker", "offset", "bytes_left")
        TOPIC_FIELD_NUMBER: _ClassVar[int]
        PARTITION_FIELD_NUMBER: _ClassVar[int]
        BROKER_FIELD_NUMBER: _ClassVar[int]
        OFFSET_FIELD_NUMBER: _ClassVar[int]
        BYTES_LEFT_FIELD_NUMBER: _ClassVar[int]
        topic: str
        partition: int
        broker: int
        offset: int
        bytes_left: int
        def __init__(self, topic: _Optional[str] = ..., partition: _Optional[int] = ..., broker: _Optional[int] = ..., offset: _Optional[int] = ..., bytes_left: _Optional[int] = ...) -> None: ...
    class Offline(_message.Message):
        __slots__ = ("topic", "partition", "reason")
        TOPIC_FIELD_NUMBER: _ClassVar[int]
        PARTITION_FIELD_NUMBER: _ClassVar[int]
        REASON_FIELD_NUMBER: _ClassVar[int]
        topic: str
        partition: int
        reason: str
        def __init__(self, topic: _Optional[str] = ..., partition: _Optional[int] = ..., reason: _Optional[str] = ...) -> None: ...
    BYTES_FIELD_NUMBER: _ClassVar[int]
    LEARNERS_FIELD_NUMBER: _ClassVar[int]
    OFFLINE_FIELD_NUMBER: _ClassVar[int]
    DISK_FIELD_NUMBER: _ClassVar[int]
    bytes: int
    learners: _containers.RepeatedCompositeFieldContainer[DescribeBrokerResponse.Learner]
    offline: _containers.RepeatedCompositeFieldContainer[DescribeBrokerResponse.Offline]
    disk: str
    def __init__(self, bytes: _Optional[int] = ..., learners: _Optional[_Iterable[_Union[DescribeBrokerResponse.Learner, _Mapping]]] = ..., offline: _Optional[_Iterable[_Union[DescribeBrokerResponse.Offline, _Mapping]]] = ..., disk: _Optional[str] = ...) -> None: ...

class Filter(_message.Message):
    __slots__ = ("tags", "key", "key_prefix", "expression")
    TAGS_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    KEY_PREFIX_FIELD_NUMBER: _ClassVar[int]
    EXPRESSION_FIELD_NUMBER: _ClassVar[int]
    tags: _containers.RepeatedScalarFieldContainer[str]
    key: bytes
    key_prefix: bytes
    expression: str
    def __init__(self, tags: _Optional[_Iterable[str]] = ..., key: _Optional[bytes] = ..., key_prefix: _Optional[bytes] = ..., expression: _Optional[str] = ...) -> None: ...

class SharedSettings(_message.Message):
    __slots__ = ("ordered_by_key", "lease_ms", "attempts_max", "backoff_ms", "backoff_ms_max", "filter", "start_latest")
    ORDERED_BY_KEY_FIELD_NUMBER: _ClassVar[int]
    LEASE_MS_FIELD_NUMBER: _ClassVar[int]
    ATTEMPTS_MAX_FIELD_NUMBER: _ClassVar[int]
    BACKOFF_MS_FIELD_NUMBER: _ClassVar[int]
    BACKOFF_MS_MAX_FIELD_NUMBER: _ClassVar[int]
    FILTER_FIELD_NUMBER: _ClassVar[int]
    START_LATEST_FIELD_NUMBER: _ClassVar[int]
    ordered_by_key: bool
    lease_ms: int
    attempts_max: int
    backoff_ms: int
    backoff_ms_max: int
    filter: Filter
    start_latest: bool
    def __init__(self, ordered_by_key: _Optional[bool] = ..., lease_ms: _Optional[int] = ..., attempts_max: _Optional[int] = ..., backoff_ms: _Optional[int] = ..., backoff_ms_max: _Optional[int] = ..., filter: _Optional[_Union[Filter, _Mapping]] = ..., start_latest: _Optional[bool] = ...) -> None: ...

class OwnedTopic(_message.Message):
    __slots__ = ("topic", "partitions")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    topic: str
    partitions: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, topic: _Optional[str] = ..., partitions: _Optional[_Iterable[int]] = ...) -> None: ...

class GroupHeartbeatRequest(_message.Message):
    __slots__ = ("group", "member_id", "member_epoch", "shared", "instance_id", "rebalance_timeout_ms", "topics", "assignor", "claims", "owned", "is_full", "point_to_point", "settings", "client_name")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    MEMBER_ID_FIELD_NUMBER: _ClassVar[int]
    MEMBER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    SHARED_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_ID_FIELD_NUMBER: _ClassVar[int]
    REBALANCE_TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    ASSIGNOR_FIELD_NUMBER: _ClassVar[int]
    CLAIMS_FIELD_NUMBER: _ClassVar[int]
    OWNED_FIELD_NUMBER: _ClassVar[int]
    IS_FULL_FIELD_NUMBER: _ClassVar[int]
    POINT_TO_POINT_FIELD_NUMBER: _ClassVar[int]
    SETTINGS_FIELD_NUMBER: _ClassVar[int]
    CLIENT_NAME_FIELD_NUMBER: _ClassVar[int]
    group: str
    member_id: str
    member_epoch: int
    shared: bool
    instance_id: str
    rebalance_timeout_ms: int
    topics: _containers.RepeatedScalarFieldContainer[str]
    assignor: str
    claims: _containers.RepeatedCompositeFieldContainer[OwnedTopic]
    owned: _containers.RepeatedCompositeFieldContainer[OwnedTopic]
    is_full: bool
    point_to_point: bool
    settings: SharedSettings
    client_name: str
    def __init__(self, group: _Optional[str] = ..., member_id: _Optional[str] = ..., member_epoch: _Optional[int] = ..., shared: _Optional[bool] = ..., instance_id: _Optional[str] = ..., rebalance_timeout_ms: _Optional[int] = ..., topics: _Optional[_Iterable[str]] = ..., assignor: _Optional[str] = ..., claims: _Optional[_Iterable[_Union[OwnedTopic, _Mapping]]] = ..., owned: _Optional[_Iterable[_Union[OwnedTopic, _Mapping]]] = ..., is_full: _Optional[bool] = ..., point_to_point: _Optional[bool] = ..., settings: _Optional[_Union[SharedSettings, _Mapping]] = ..., client_name: _Optional[str] = ...) -> None: ...

class GroupHeartbeatResponse(_message.Message):
    __slots__ = ("member_epoch", "heartbeat_interval_ms", "has_assignment", "assignment", "session_timeout_ms", "lost_ms")
    MEMBER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_INTERVAL_MS_FIELD_NUMBER: _ClassVar[int]
    HAS_ASSIGNMENT_FIELD_NUMBER: _ClassVar[int]
    ASSIGNMENT_FIELD_NUMBER: _ClassVar[int]
    SESSION_TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    LOST_MS_FIELD_NUMBER: _ClassVar[int]
    member_epoch: int
    heartbeat_interval_ms: int
    has_assignment: bool
    assignment: _containers.RepeatedCompositeFieldContainer[OwnedTopic]
    session_timeout_ms: int
    lost_ms: int
    def __init__(self, member_epoch: _Optional[int] = ..., heartbeat_interval_ms: _Optional[int] = ..., has_assignment: _Optional[bool] = ..., assignment: _Optional[_Iterable[_Union[OwnedTopic, _Mapping]]] = ..., session_timeout_ms: _Optional[int] = ..., lost_ms: _Optional[int] = ...) -> None: ...

class DescribeGroupRequest(_message.Message):
    __slots__ = ("group",)
    GROUP_FIELD_NUMBER: _ClassVar[int]
    group: str
    def __init__(self, group: _Optional[str] = ...) -> None: ...

class DescribeGroupResponse(_message.Message):
    __slots__ = ("group", "kind", "state", "assignor", "epoch", "members", "places", "settings")
    class Member(_message.Message):
        __slots__ = ("member_id", "instance_id", "client_name", "client_host", "member_epoch", "topics", "assignment")
        MEMBER_ID_FIELD_NUMBER: _ClassVar[int]
        INSTANCE_ID_FIELD_NUMBER: _ClassVar[int]
        CLIENT_NAME_FIELD_NUMBER: _ClassVar[int]
        CLIENT_HOST_FIELD_NUMBER: _ClassVar[int]
        MEMBER_EPOCH_FIELD_NUMBER: _ClassVar[int]
        TOPICS_FIELD_NUMBER: _ClassVar[int]
        ASSIGNMENT_FIELD_NUMBER: _ClassVar[int]
        member_id: str
        instance_id: str
        client_name: str
        client_host: str
        member_epoch: int
        topics: _containers.RepeatedScalarFieldContainer[str]
        assignment: _containers.RepeatedCompositeFieldContainer[OwnedTopic]
        def __init__(self, member_id: _Optional[str] = ..., instance_id: _Optional[str] = ..., client_name: _Optional[str] = ..., client_host: _Optional[str] = ..., member_epoch: _Optional[int] = ..., topics: _Optional[_Iterable[str]] = ..., assignment: _Optional[_Iterable[_Union[OwnedTopic, _Mapping]]] = ...) -> None: ...
    class Place(_message.Message):
        __slots__ = ("topic", "partition", "offset", "acknowledged", "dead", "expired", "member_id", "high_watermark")
        TOPIC_FIELD_NUMBER: _ClassVar[int]
        PARTITION_FIELD_NUMBER: _ClassVar[int]
        OFFSET_FIELD_NUMBER: _ClassVar[int]
        ACKNOWLEDGED_FIELD_NUMBER: _ClassVar[int]
        DEAD_FIELD_NUMBER: _ClassVar[int]
        EXPIRED_FIELD_NUMBER: _ClassVar[int]
        MEMBER_ID_FIELD_NUMBER: _ClassVar[int]
        HIGH_WATERMARK_FIELD_NUMBER: _ClassVar[int]
        topic: str
        partition: int
        offset: int
        acknowledged: int
        dead: int
        expired: int
        member_id: str
        high_watermark: int
        def __init__(self, topic: _Optional[str] = ..., partition: _Optional[int] = ..., offset: _Optional[int] = ..., acknowledged: _Optional[int] = ..., dead: _Optional[int] = ..., expired: _Optional[int] = ..., member_id: _Optional[str] = ..., high_watermark: _Optional[int] = ...) -> None: ...
    GROUP_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    ASSIGNOR_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    PLACES_FIELD_NUMBER: _ClassVar[int]
    SETTINGS_FIELD_NUMBER: _ClassVar[int]
    group: str
    kind: str
    state: str
    assignor: str
    epoch: int
    members: _containers.RepeatedCompositeFieldContainer[DescribeGroupResponse.Member]
    places: _containers.RepeatedCompositeFieldContainer[DescribeGroupResponse.Place]
    settings: SharedSettings
    def __init__(self, group: _Optional[str] = ..., kind: _Optional[str] = ..., state: _Optional[str] = ..., assignor: _Optional[str] = ..., epoch: _Optional[int] = ..., members: _Optional[_Iterable[_Union[DescribeGroupResponse.Member, _Mapping]]] = ..., places: _Optional[_Iterable[_Union[DescribeGroupResponse.Place, _Mapping]]] = ..., settings: _Optional[_Union[SharedSettings, _Mapping]] = ...) -> None: ...

class DeleteGroupRequest(_message.Message):
    __slots__ = ("group",)
    GROUP_FIELD_NUMBER: _ClassVar[int]
    group: str
    def __init__(self, group: _Optional[str] = ...) -> None: ...

class DeleteGroupResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListSubscriptionsRequest(_message.Message):
    __slots__ = ("topic",)
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    topic: str
    def __init__(self, topic: _Optional[str] = ...) -> None: ...

class ListSubscriptionsResponse(_message.Message):
    __slots__ = ("subscriptions",)
    class Subscription(_message.Message):
        __slots__ = ("topic", "point_to_point", "groups")
        TOPIC_FIELD_NUMBER: _ClassVar[int]
        POINT_TO_POINT_FIELD_NUMBER: _ClassVar[int]
        GROUPS_FIELD_NUMBER: _ClassVar[int]
        topic: str
        point_to_point: bool
        groups: _containers.RepeatedScalarFieldContainer[str]
        def __init__(self, topic: _Optional[str] = ..., point_to_point: _Optional[bool] = ..., groups: _Optional[_Iterable[str]] = ...) -> None: ...
    SUBSCRIPTIONS_FIELD_NUMBER: _ClassVar[int]
    subscriptions: _containers.RepeatedCompositeFieldContainer[ListSubscriptionsResponse.Subscription]
    def __init__(self, subscriptions: _Optional[_Iterable[_Union[ListSubscriptionsResponse.Subscription, _Mapping]]] = ...) -> None: ...

class LeasedRange(_message.Message):
    __slots__ = ("first", "last", "attempt")
    FIRST_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    first: int
    last: int
    attempt: int
    def __init__(self, first: _Optional[int] = ..., last: _Optional[int] = ..., attempt: _Optional[int] = ...) -> None: ...

class LeaseRequest(_message.Message):
    __slots__ = ("group", "member_id", "topic", "partition", "messages_max", "bytes_max", "max_wait_ms")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    MEMBER_ID_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_MAX_FIELD_NUMBER: _ClassVar[int]
    BYTES_MAX_FIELD_NUMBER: _ClassVar[int]
    MAX_WAIT_MS_FIELD_NUMBER: _ClassVar[int]
    group: str
    member_id: str
    topic: str
    partition: int
    messages_max: int
    bytes_max: int
    max_wait_ms: int
    def __init__(self, group: _Optional[str] = ..., member_id: _Optional[str] = ..., topic: _Optional[str] = ..., partition: _Optional[int] = ..., messages_max: _Optional[int] = ..., bytes_max: _Optional[int] = ..., max_wait_ms: _Optional[int] = ...) -> None: ...

class LeaseResponse(_message.Message):
    __slots__ = ("leases", "lease_ms", "waited_ms")
    LEASES_FIELD_NUMBER: _ClassVar[int]
    LEASE_MS_FIELD_NUMBER: _ClassVar[int]
    WAITED_MS_FIELD_NUMBER: _ClassVar[int]
    leases: _containers.RepeatedCompositeFieldContainer[LeasedRange]
    lease_ms: int
    waited_ms: int
    def __init__(self, leases: _Optional[_Iterable[_Union[LeasedRange, _Mapping]]] = ..., lease_ms: _Optional[int] = ..., waited_ms: _Optional[int] = ...) -> None: ...

class SettleRequest(_message.Message):
    __slots__ = ("group", "member_id", "topic", "partition", "ranges", "leaves")
    class Kind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        KIND_UNSPECIFIED: _ClassVar[SettleRequest.Kind]
        KIND_ACKNOWLEDGE: _ClassVar[SettleRequest.Kind]
        KIND_RELEASE: _ClassVar[SettleRequest.Kind]
        KIND_REJECT: _ClassVar[SettleRequest.Kind]
        KIND_EXTEND: _ClassVar[SettleRequest.Kind]
        KIND_FAIL: _ClassVar[SettleRequest.Kind]
        KIND_ABANDON: _ClassVar[SettleRequest.Kind]
    KIND_UNSPECIFIED: SettleRequest.Kind
    KIND_ACKNOWLEDGE: SettleRequest.Kind
    KIND_RELEASE: SettleRequest.Kind
    KIND_REJECT: SettleRequest.Kind
    KIND_EXTEND: SettleRequest.Kind
    KIND_FAIL: SettleRequest.Kind
    KIND_ABANDON: SettleRequest.Kind
    class Range(_message.Message):
        __slots__ = ("first", "last", "kind", "reason", "delay_ms")
        FIRST_FIELD_NUMBER: _ClassVar[int]
        LAST_FIELD_NUMBER: _ClassVar[int]
        KIND_FIELD_NUMBER: _ClassVar[int]
        REASON_FIELD_NUMBER: _ClassVar[int]
        DELAY_MS_FIELD_NUMBER: _ClassVar[int]
        first: int
        last: int
        kind: SettleRequest.Kind
        reason: str
        delay_ms: int
        def __init__(self, first: _Optional[int] = ..., last: _Optional[int] = ..., kind: _Optional[_Union[SettleRequest.Kind, str]] = ..., reason: _Optional[str] = ..., delay_ms: _Optional[int] = ...) -> None: ...
    GROUP_FIELD_NUMBER: _ClassVar[int]
    MEMBER_ID_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    RANGES_FIELD_NUMBER: _ClassVar[int]
    LEAVES_FIELD_NUMBER: _ClassVar[int]
    group: str
    member_id: str
    topic: str
    partition: int
    ranges: _containers.RepeatedCompositeFieldContainer[SettleRequest.Range]
    leaves: bool
    def __init__(self, group: _Optional[str] = ..., member_id: _Optional[str] = ..., topic: _Optional[str] = ..., partition: _Optional[int] = ..., ranges: _Optional[_Iterable[_Union[SettleRequest.Range, _Mapping]]] = ..., leaves: _Optional[bool] = ...) -> None: ...

class SettleResponse(_message.Message):
    __slots__ = ("outcomes",)
    OUTCOMES_FIELD_NUMBER: _ClassVar[int]
    outcomes: _containers.RepeatedCompositeFieldContainer[Error]
    def __init__(self, outcomes: _Optional[_Iterable[_Union[Error, _Mapping]]] = ...) -> None: ...

class ReadShareRequest(_message.Message):
    __slots__ = ("group", "topic_id", "partition", "leader_term")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    LEADER_TERM_FIELD_NUMBER: _ClassVar[int]
    group: str
    topic_id: str
    partition: int
    leader_term: int
    def __init__(self, group: _Optional[str] = ..., topic_id: _Optional[str] = ..., partition: _Optional[int] = ..., leader_term: _Optional[int] = ...) -> None: ...

class ReadShareResponse(_message.Message):
    __slots__ = ("is_known", "state", "settings", "incarnation", "sequence", "start_ago_ms")
    IS_KNOWN_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    SETTINGS_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    START_AGO_MS_FIELD_NUMBER: _ClassVar[int]
    is_known: bool
    state: bytes
    settings: SharedSettings
    incarnation: str
    sequence: int
    start_ago_ms: int
    def __init__(self, is_known: _Optional[bool] = ..., state: _Optional[bytes] = ..., settings: _Optional[_Union[SharedSettings, _Mapping]] = ..., incarnation: _Optional[str] = ..., sequence: _Optional[int] = ..., start_ago_ms: _Optional[int] = ...) -> None: ...

class WriteShareRequest(_message.Message):
    __slots__ = ("group", "topic_id", "partition", "leader_term", "state", "incarnation", "sequence")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    LEADER_TERM_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    group: str
    topic_id: str
    partition: int
    leader_term: int
    state: bytes
    incarnation: str
    sequence: int
    def __init__(self, group: _Optional[str] = ..., topic_id: _Optional[str] = ..., partition: _Optional[int] = ..., leader_term: _Optional[int] = ..., state: _Optional[bytes] = ..., incarnation: _Optional[str] = ..., sequence: _Optional[int] = ...) -> None: ...

class WriteShareResponse(_message.Message):
    __slots__ = ("lease_ms", "attempts_max")
    LEASE_MS_FIELD_NUMBER: _ClassVar[int]
    ATTEMPTS_MAX_FIELD_NUMBER: _ClassVar[int]
    lease_ms: int
    attempts_max: int
    def __init__(self, lease_ms: _Optional[int] = ..., attempts_max: _Optional[int] = ...) -> None: ...

class AlterGroupSettingsRequest(_message.Message):
    __slots__ = ("group", "set", "reset", "replaces", "only_checked")
    class SetEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    GROUP_FIELD_NUMBER: _ClassVar[int]
    SET_FIELD_NUMBER: _ClassVar[int]
    RESET_FIELD_NUMBER: _ClassVar[int]
    REPLACES_FIELD_NUMBER: _ClassVar[int]
    ONLY_CHECKED_FIELD_NUMBER: _ClassVar[int]
    group: str
    set: _containers.ScalarMap[str, str]
    reset: _containers.RepeatedScalarFieldContainer[str]
    replaces: bool
    only_checked: bool
    def __init__(self, group: _Optional[str] = ..., set: _Optional[_Mapping[str, str]] = ..., reset: _Optional[_Iterable[str]] = ..., replaces: _Optional[bool] = ..., only_checked: _Optional[bool] = ...) -> None: ...

class AlterGroupSettingsResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GroupSettingsRequest(_message.Message):
    __slots__ = ("group",)
    GROUP_FIELD_NUMBER: _ClassVar[int]
    group: str
    def __init__(self, group: _Optional[str] = ...) -> None: ...

class GroupSettingsResponse(_message.Message):
    __slots__ = ("own", "defaults", "groups")
    class OwnEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class DefaultsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    OWN_FIELD_NUMBER: _ClassVar[int]
    DEFAULTS_FIELD_NUMBER: _ClassVar[int]
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    own: _containers.ScalarMap[str, str]
    defaults: _containers.ScalarMap[str, str]
    groups: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, own: _Optional[_Mapping[str, str]] = ..., defaults: _Optional[_Mapping[str, str]] = ..., groups: _Optional[_Iterable[str]] = ...) -> None: ...

class DeadLetterRequest(_message.Message):
    __slots__ = ("group", "topic", "partition", "offset", "reason", "attempts")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    group: str
    topic: str
    partition: int
    offset: int
    reason: str
    attempts: int
    def __init__(self, group: _Optional[str] = ..., topic: _Optional[str] = ..., partition: _Optional[int] = ..., offset: _Optional[int] = ..., reason: _Optional[str] = ..., attempts: _Optional[int] = ...) -> None: ...

class DeadLetterResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class OpenPushRequest(_message.Message):
    __slots__ = ("stream", "group", "member_id", "topic", "partition", "shared", "offset", "filter", "credit_messages", "credit_bytes", "member_epoch", "now_ms")
    STREAM_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    MEMBER_ID_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    SHARED_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    FILTER_FIELD_NUMBER: _ClassVar[int]
    CREDIT_MESSAGES_FIELD_NUMBER: _ClassVar[int]
    CREDIT_BYTES_FIELD_NUMBER: _ClassVar[int]
    MEMBER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    NOW_MS_FIELD_NUMBER: _ClassVar[int]
    stream: int
    group: str
    member_id: str
    topic: str
    partition: int
    shared: bool
    offset: int
    filter: Filter
    credit_messages: int
    credit_bytes: int
    member_epoch: int
    now_ms: int
    def __init__(self, stream: _Optional[int] = ..., group: _Optional[str] = ..., member_id: _Optional[str] = ..., topic: _Optional[str] = ..., partition: _Optional[int] = ..., shared: _Optional[bool] = ..., offset: _Optional[int] = ..., filter: _Optional[_Union[Filter, _Mapping]] = ..., credit_messages: _Optional[int] = ..., credit_bytes: _Optional[int] = ..., member_epoch: _Optional[int] = ..., now_ms: _Optional[int] = ...) -> None: ...

class OpenPushResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GiveCreditRequest(_message.Message):
    __slots__ = ("stream", "messages", "bytes")
    STREAM_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    stream: int
    messages: int
    bytes: int
    def __init__(self, stream: _Optional[int] = ..., messages: _Optional[int] = ..., bytes: _Optional[int] = ...) -> None: ...

class GiveCreditResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ClosePushRequest(_message.Message):
    __slots__ = ("stream",)
    STREAM_FIELD_NUMBER: _ClassVar[int]
    stream: int
    def __init__(self, stream: _Optional[int] = ...) -> None: ...

class ClosePushResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class DeliverRequest(_message.Message):
    __slots__ = ("stream", "delivery", "next_offset", "leases", "lease_ms", "high_watermark", "messages", "has_gaps", "leased_at_ms", "timeout_ms")
    STREAM_FIELD_NUMBER: _ClassVar[int]
    DELIVERY_FIELD_NUMBER: _ClassVar[int]
    NEXT_OFFSET_FIELD_NUMBER: _ClassVar[int]
    LEASES_FIELD_NUMBER: _ClassVar[int]
    LEASE_MS_FIELD_NUMBER: _ClassVar[int]
    HIGH_WATERMARK_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    HAS_GAPS_FIELD_NUMBER: _ClassVar[int]
    LEASED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    stream: int
    delivery: int
    next_offset: int
    leases: _containers.RepeatedCompositeFieldContainer[LeasedRange]
    lease_ms: int
    high_watermark: int
    messages: int
    has_gaps: bool
    leased_at_ms: int
    timeout_ms: int
    def __init__(self, stream: _Optional[int] = ..., delivery: _Optional[int] = ..., next_offset: _Optional[int] = ..., leases: _Optional[_Iterable[_Union[LeasedRange, _Mapping]]] = ..., lease_ms: _Optional[int] = ..., high_watermark: _Optional[int] = ..., messages: _Optional[int] = ..., has_gaps: _Optional[bool] = ..., leased_at_ms: _Optional[int] = ..., timeout_ms: _Optional[int] = ...) -> None: ...

class DeliverResponse(_message.Message):
    __slots__ = ("now_ms",)
    NOW_MS_FIELD_NUMBER: _ClassVar[int]
    now_ms: int
    def __init__(self, now_ms: _Optional[int] = ...) -> None: ...

class PushEndedRequest(_message.Message):
    __slots__ = ("stream", "is_parked", "error", "by_operator", "withdrawn")
    STREAM_FIELD_NUMBER: _ClassVar[int]
    IS_PARKED_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    BY_OPERATOR_FIELD_NUMBER: _ClassVar[int]
    WITHDRAWN_FIELD_NUMBER: _ClassVar[int]
    stream: int
    is_parked: bool
    error: Error
    by_operator: bool
    withdrawn: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, stream: _Optional[int] = ..., is_parked: _Optional[bool] = ..., error: _Optional[_Union[Error, _Mapping]] = ..., by_operator: _Optional[bool] = ..., withdrawn: _Optional[_Iterable[int]] = ...) -> None: ...

class PushEndedResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ResumePushRequest(_message.Message):
    __slots__ = ("stream", "is_automatic")
    STREAM_FIELD_NUMBER: _ClassVar[int]
    IS_AUTOMATIC_FIELD_NUMBER: _ClassVar[int]
    stream: int
    is_automatic: bool
    def __init__(self, stream: _Optional[int] = ..., is_automatic: _Optional[bool] = ...) -> None: ...

class ResumePushResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListClientsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListClientsResponse(_message.Message):
    __slots__ = ("clients", "broker")
    class Stream(_message.Message):
        __slots__ = ("group", "member_id", "topic", "partition", "shared", "state", "in_flight", "credit", "delivered", "timeouts", "reason", "parked_at_ms")
        GROUP_FIELD_NUMBER: _ClassVar[int]
        MEMBER_ID_FIELD_NUMBER: _ClassVar[int]
        TOPIC_FIELD_NUMBER: _ClassVar[int]
        PARTITION_FIELD_NUMBER: _ClassVar[int]
        SHARED_FIELD_NUMBER: _ClassVar[int]
        STATE_FIELD_NUMBER: _ClassVar[int]
        IN_FLIGHT_FIELD_NUMBER: _ClassVar[int]
        CREDIT_FIELD_NUMBER: _ClassVar[int]
        DELIVERED_FIELD_NUMBER: _ClassVar[int]
        TIMEOUTS_FIELD_NUMBER: _ClassVar[int]
        REASON_FIELD_NUMBER: _ClassVar[int]
        PARKED_AT_MS_FIELD_NUMBER: _ClassVar[int]
        group: str
        member_id: str
        topic: str
        partition: int
        shared: bool
        state: str
        in_flight: int
        credit: int
        delivered: int
        timeouts: int
        reason: str
        parked_at_ms: int
        def __init__(self, group: _Optional[str] = ..., member_id: _Optional[str] = ..., topic: _Optional[str] = ..., partition: _Optional[int] = ..., shared: _Optional[bool] = ..., state: _Optional[str] = ..., in_flight: _Optional[int] = ..., credit: _Optional[int] = ..., delivered: _Optional[int] = ..., timeouts: _Optional[int] = ..., reason: _Optional[str] = ..., parked_at_ms: _Optional[int] = ...) -> None: ...
    class Client(_message.Message):
        __slots__ = ("id", "name", "software", "address", "state", "connected_at_ms", "heard_at_ms", "streams", "protocol", "reason", "lost_at_ms", "groups")
        ID_FIELD_NUMBER: _ClassVar[int]
        NAME_FIELD_NUMBER: _ClassVar[int]
        SOFTWARE_FIELD_NUMBER: _ClassVar[int]
        ADDRESS_FIELD_NUMBER: _ClassVar[int]
        STATE_FIELD_NUMBER: _ClassVar[int]
        CONNECTED_AT_MS_FIELD_NUMBER: _ClassVar[int]
        HEARD_AT_MS_FIELD_NUMBER: _ClassVar[int]
        STREAMS_FIELD_NUMBER: _ClassVar[int]
        PROTOCOL_FIELD_NUMBER: _ClassVar[int]
        REASON_FIELD_NUMBER: _ClassVar[int]
        LOST_AT_MS_FIELD_NUMBER: _ClassVar[int]
        GROUPS_FIELD_NUMBER: _ClassVar[int]
        id: int
        name: str
        software: str
        address: str
        state: str
        connected_at_ms: int
        heard_at_ms: int
        streams: _containers.RepeatedCompositeFieldContainer[ListClientsResponse.Stream]
        protocol: str
        reason: str
        lost_at_ms: int
        groups: _containers.RepeatedScalarFieldContainer[str]
        def __init__(self, id: _Optional[int] = ..., name: _Optional[str] = ..., software: _Optional[str] = ..., address: _Optional[str] = ..., state: _Optional[str] = ..., connected_at_ms: _Optional[int] = ..., heard_at_ms: _Optional[int] = ..., streams: _Optional[_Iterable[_Union[ListClientsResponse.Stream, _Mapping]]] = ..., protocol: _Optional[str] = ..., reason: _Optional[str] = ..., lost_at_ms: _Optional[int] = ..., groups: _Optional[_Iterable[str]] = ...) -> None: ...
    CLIENTS_FIELD_NUMBER: _ClassVar[int]
    BROKER_FIELD_NUMBER: _ClassVar[int]
    clients: _containers.RepeatedCompositeFieldContainer[ListClientsResponse.Client]
    broker: int
    def __init__(self, clients: _Optional[_Iterable[_Union[ListClientsResponse.Client, _Mapping]]] = ..., broker: _Optional[int] = ...) -> None: ...

class SteerClientRequest(_message.Message):
    __slots__ = ("client", "park", "group", "only_remembers")
    CLIENT_FIELD_NUMBER: _ClassVar[int]
    PARK_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    ONLY_REMEMBERS_FIELD_NUMBER: _ClassVar[int]
    client: str
    park: bool
    group: str
    only_remembers: bool
    def __init__(self, client: _Optional[str] = ..., park: _Optional[bool] = ..., group: _Optional[str] = ..., only_remembers: _Optional[bool] = ...) -> None: ...

class SteerClientResponse(_message.Message):
    __slots__ = ("streams", "name", "groups")
    STREAMS_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    streams: int
    name: str
    groups: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, streams: _Optional[int] = ..., name: _Optional[str] = ..., groups: _Optional[_Iterable[str]] = ...) -> None: ...

class DelayRequest(_message.Message):
    __slots__ = ("topic", "partition", "due_ms", "is_relative", "ordered_by_key", "token")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    DUE_MS_FIELD_NUMBER: _ClassVar[int]
    IS_RELATIVE_FIELD_NUMBER: _ClassVar[int]
    ORDERED_BY_KEY_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    topic: str
    partition: int
    due_ms: _containers.RepeatedScalarFieldContainer[int]
    is_relative: bool
    ordered_by_key: bool
    token: bytes
    def __init__(self, topic: _Optional[str] = ..., partition: _Optional[int] = ..., due_ms: _Optional[_Iterable[int]] = ..., is_relative: _Optional[bool] = ..., ordered_by_key: _Optional[bool] = ..., token: _Optional[bytes] = ...) -> None: ...

class DelayResponse(_message.Message):
    __slots__ = ("due_ms", "numbers")
    DUE_MS_FIELD_NUMBER: _ClassVar[int]
    NUMBERS_FIELD_NUMBER: _ClassVar[int]
    due_ms: _containers.RepeatedScalarFieldContainer[int]
    numbers: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, due_ms: _Optional[_Iterable[int]] = ..., numbers: _Optional[_Iterable[int]] = ...) -> None: ...

class CancelDelayedRequest(_message.Message):
    __slots__ = ("due_ms", "numbers")
    DUE_MS_FIELD_NUMBER: _ClassVar[int]
    NUMBERS_FIELD_NUMBER: _ClassVar[int]
    due_ms: _containers.RepeatedScalarFieldContainer[int]
    numbers: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, due_ms: _Optional[_Iterable[int]] = ..., numbers: _Optional[_Iterable[int]] = ...) -> None: ...

class CancelDelayedResponse(_message.Message):
    __slots__ = ("cancelled",)
    CANCELLED_FIELD_NUMBER: _ClassVar[int]
    cancelled: _containers.RepeatedScalarFieldContainer[bool]
    def __init__(self, cancelled: _Optional[_Iterable[bool]] = ...) -> None: ...

class DescribeDelayedRequest(_message.Message):
    __slots__ = ("topic",)
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    topic: str
    def __init__(self, topic: _Optional[str] = ...) -> None: ...

class DescribeDelayedResponse(_message.Message):
    __slots__ = ("topics", "delivered", "cancelled", "dropped", "late_ms_max", "next_due_ms", "log_bytes")
    class Topic(_message.Message):
        __slots__ = ("topic", "pending", "pending_bytes")
        TOPIC_FIELD_NUMBER: _ClassVar[int]
        PENDING_FIELD_NUMBER: _ClassVar[int]
        PENDING_BYTES_FIELD_NUMBER: _ClassVar[int]
        topic: str
        pending: int
        pending_bytes: int
        def __init__(self, topic: _Optional[str] = ..., pending: _Optional[int] = ..., pending_bytes: _Optional[int] = ...) -> None: ...
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    DELIVERED_FIELD_NUMBER: _ClassVar[int]
    CANCELLED_FIELD_NUMBER: _ClassVar[int]
    DROPPED_FIELD_NUMBER: _ClassVar[int]
    LATE_MS_MAX_FIELD_NUMBER: _ClassVar[int]
    NEXT_DUE_MS_FIELD_NUMBER: _ClassVar[int]
    LOG_BYTES_FIELD_NUMBER: _ClassVar[int]
    topics: _containers.RepeatedCompositeFieldContainer[DescribeDelayedResponse.Topic]
    delivered: int
    cancelled: int
    dropped: int
    late_ms_max: int
    next_due_ms: int
    log_bytes: int
    def __init__(self, topics: _Optional[_Iterable[_Union[DescribeDelayedResponse.Topic, _Mapping]]] = ..., delivered: _Optional[int] = ..., cancelled: _Optional[int] = ..., dropped: _Optional[int] = ..., late_ms_max: _Optional[int] = ..., next_due_ms: _Optional[int] = ..., log_bytes: _Optional[int] = ...) -> None: ...

class AppendDueRequest(_message.Message):
    __slots__ = ("topic", "topic_id", "partition", "coordinator_term", "producer_id")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    COORDINATOR_TERM_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_ID_FIELD_NUMBER: _ClassVar[int]
    topic: str
    topic_id: str
    partition: int
    coordinator_term: int
    producer_id: int
    def __init__(self, topic: _Optional[str] = ..., topic_id: _Optional[str] = ..., partition: _Optional[int] = ..., coordinator_term: _Optional[int] = ..., producer_id: _Optional[int] = ...) -> None: ...

class AppendDueResponse(_message.Message):
    __slots__ = ("is_known", "producer_epoch", "last_sequence")
    IS_KNOWN_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    LAST_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    is_known: bool
    producer_epoch: int
    last_sequence: int
    def __init__(self, is_known: _Optional[bool] = ..., producer_epoch: _Optional[int] = ..., last_sequence: _Optional[int] = ...) -> None: ...

class Schedule(_message.Message):
    __slots__ = ("name", "cron", "time_zone", "topic", "key", "value", "headers", "next_due_ms", "published", "problem")
    class HeadersEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: bytes
        def __init__(self, key: _Optional[str] = ..., value: _Optional[bytes] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    CRON_FIELD_NUMBER: _ClassVar[int]
    TIME_ZONE_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    HEADERS_FIELD_NUMBER: _ClassVar[int]
    NEXT_DUE_MS_FIELD_NUMBER: _ClassVar[int]
    PUBLISHED_FIELD_NUMBER: _ClassVar[int]
    PROBLEM_FIELD_NUMBER: _ClassVar[int]
    name: str
    cron: str
    time_zone: str
    topic: str
    key: bytes
    value: bytes
    headers: _containers.ScalarMap[str, bytes]
    next_due_ms: int
    published: int
    problem: str
    def __init__(self, name: _Optional[str] = ..., cron: _Optional[str] = ..., time_zone: _Optional[str] = ..., topic: _Optional[str] = ..., key: _Optional[bytes] = ..., value: _Optional[bytes] = ..., headers: _Optional[_Mapping[str, bytes]] = ..., next_due_ms: _Optional[int] = ..., published: _Optional[int] = ..., problem: _Optional[str] = ...) -> None: ...

class PutScheduleRequest(_message.Message):
    __slots__ = ("schedule",)
    SCHEDULE_FIELD_NUMBER: _ClassVar[int]
    schedule: Schedule
    def __init__(self, schedule: _Optional[_Union[Schedule, _Mapping]] = ...) -> None: ...

class PutScheduleResponse(_message.Message):
    __slots__ = ("schedule",)
    SCHEDULE_FIELD_NUMBER: _ClassVar[int]
    schedule: Schedule
    def __init__(self, schedule: _Optional[_Union[Schedule, _Mapping]] = ...) -> None: ...

class DeleteScheduleRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class DeleteScheduleResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListSchedulesRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListSchedulesResponse(_message.Message):
    __slots__ = ("schedules",)
    SCHEDULES_FIELD_NUMBER: _ClassVar[int]
    schedules: _containers.RepeatedCompositeFieldContainer[Schedule]
    def __init__(self, schedules: _Optional[_Iterable[_Union[Schedule, _Mapping]]] = ...) -> None: ...

class ClaimTopicRequest(_message.Message):
    __slots__ = ("topic", "claimant", "client_name", "fence", "claim")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    CLAIMANT_FIELD_NUMBER: _ClassVar[int]
    CLIENT_NAME_FIELD_NUMBER: _ClassVar[int]
    FENCE_FIELD_NUMBER: _ClassVar[int]
    CLAIM_FIELD_NUMBER: _ClassVar[int]
    topic: str
    claimant: str
    client_name: str
    fence: bool
    claim: int
    def __init__(self, topic: _Optional[str] = ..., claimant: _Optional[str] = ..., client_name: _Optional[str] = ..., fence: _Optional[bool] = ..., claim: _Optional[int] = ...) -> None: ...

class ClaimTopicResponse(_message.Message):
    __slots__ = ("claim", "keep_within_ms")
    CLAIM_FIELD_NUMBER: _ClassVar[int]
    KEEP_WITHIN_MS_FIELD_NUMBER: _ClassVar[int]
    claim: int
    keep_within_ms: int
    def __init__(self, claim: _Optional[int] = ..., keep_within_ms: _Optional[int] = ...) -> None: ...

class ReleaseTopicRequest(_message.Message):
    __slots__ = ("topic", "claimant")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    CLAIMANT_FIELD_NUMBER: _ClassVar[int]
    topic: str
    claimant: str
    def __init__(self, topic: _Optional[str] = ..., claimant: _Optional[str] = ...) -> None: ...

class ReleaseTopicResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class CheckClaimRequest(_message.Message):
    __slots__ = ("topic_id",)
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    topic_id: str
    def __init__(self, topic_id: _Optional[str] = ...) -> None: ...

class CheckClaimResponse(_message.Message):
    __slots__ = ("claim", "client_name", "valid_ms")
    CLAIM_FIELD_NUMBER: _ClassVar[int]
    CLIENT_NAME_FIELD_NUMBER: _ClassVar[int]
    VALID_MS_FIELD_NUMBER: _ClassVar[int]
    claim: int
    client_name: str
    valid_ms: int
    def __init__(self, claim: _Optional[int] = ..., client_name: _Optional[str] = ..., valid_ms: _Optional[int] = ...) -> None: ...

class ReplyRequest(_message.Message):
    __slots__ = ("client", "correlation")
    CLIENT_FIELD_NUMBER: _ClassVar[int]
    CORRELATION_FIELD_NUMBER: _ClassVar[int]
    client: int
    correlation: str
    def __init__(self, client: _Optional[int] = ..., correlation: _Optional[str] = ...) -> None: ...

class ReplyResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...
