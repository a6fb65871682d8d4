"""The calls of the protocol as a table, and the errors that answer them.

Not here: how a call travels (`protocol.frame`, `net.channel`) or what it does (the broker).
Invariant: every value of the published enum Call but the unspecified one has exactly one row, so
a type that is not in `CALLS` is a call that this side does not know.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, Generic, TypeVar

from google.protobuf.message import DecodeError, Message

from penstock.model.error_codes import from_code
from penstock.model.errors import MalformedFrame, PenstockError
from penstock.protocol import penstock_pb2 as pb
from penstock.protocol.frame import ANSWER_BIT, ERROR_TYPE

MessageT = TypeVar("MessageT", bound=Message)
RequestT = TypeVar("RequestT", bound=Message)
ResponseT = TypeVar("ResponseT", bound=Message)


@dataclass(frozen=True, slots=True)
class CallType(Generic[RequestT, ResponseT]):
    """One call: its type on the wire, what is asked and what is answered."""

    number: int
    name: str
    request: type[RequestT]
    response: type[ResponseT]


HELLO: Final = CallType(pb.CALL_HELLO, "Hello", pb.HelloRequest, pb.HelloResponse)
PING: Final = CallType(pb.CALL_PING, "Ping", pb.PingRequest, pb.PingResponse)
METADATA: Final = CallType(pb.CALL_METADATA, "Metadata", pb.MetadataRequest, pb.MetadataResponse)
PRODUCE: Final = CallType(pb.CALL_PRODUCE, "Produce", pb.ProduceRequest, pb.ProduceResponse)
FETCH: Final = CallType(pb.CALL_FETCH, "Fetch", pb.FetchRequest, pb.FetchResponse)
FIND_OFFSET: Final = CallType(
    pb.CALL_FIND_OFFSET, "FindOffset", pb.FindOffsetRequest, pb.FindOffsetResponse
)
INIT_PRODUCER: Final = CallType(
    pb.CALL_INIT_PRODUCER, "InitProducer", pb.InitProducerRequest, pb.InitProducerResponse
)
CREATE_TOPIC: Final = CallType(
    pb.CALL_CREATE_TOPIC, "CreateTopic", pb.CreateTopicRequest, pb.CreateTopicResponse
)
DELETE_TOPIC: Final = CallType(
    pb.CALL_DELETE_TOPIC, "DeleteTopic", pb.DeleteTopicRequest, pb.DeleteTopicResponse
)
DESCRIBE_TOPIC: Final = CallType(
    pb.CALL_DESCRIBE_TOPIC, "DescribeTopic", pb.DescribeTopicRequest, pb.DescribeTopicResponse
)
ALTER_TOPIC: Final = CallType(
    pb.CALL_ALTER_TOPIC, "AlterTopic", pb.AlterTopicRequest, pb.AlterTopicResponse
)
ADD_PARTITIONS: Final = CallType(
    pb.CALL_ADD_PARTITIONS, "AddPartitions", pb.AddPartitionsRequest, pb.AddPartitionsResponse
)
COMMIT_OFFSETS: Final = CallType(
    pb.CALL_COMMIT_OFFSETS, "CommitOffsets", pb.CommitOffsetsRequest, pb.CommitOffsetsResponse
)
FETCH_OFFSETS: Final = CallType(
    pb.CALL_FETCH_OFFSETS, "FetchOffsets", pb.FetchOffsetsRequest, pb.FetchOffsetsResponse
)
LIST_GROUPS: Final = CallType(
    pb.CALL_LIST_GROUPS, "ListGroups", pb.ListGroupsRequest, pb.ListGroupsResponse
)
STAGE: Final = CallType(pb.CALL_STAGE, "Stage", pb.StageRequest, pb.StageResponse)
COMMIT_STAGED: Final = CallType(
    pb.CALL_COMMIT_STAGED, "CommitStaged", pb.CommitStagedRequest, pb.CommitStagedResponse
)
ABORT_STAGED: Final = CallType(
    pb.CALL_ABORT_STAGED, "AbortStaged", pb.AbortStagedRequest, pb.AbortStagedResponse
)
COMMITTED_EPOCH: Final = CallType(
    pb.CALL_COMMITTED_EPOCH, "CommittedEpoch", pb.CommittedEpochRequest, pb.CommittedEpochResponse
)
LIST_REMOVALS: Final = CallType(
    pb.CALL_LIST_REMOVALS, "ListRemovals", pb.ListRemovalsRequest, pb.ListRemovalsResponse
)
LIST_DELETED_TOPICS: Final = CallType(
    pb.CALL_LIST_DELETED_TOPICS,
    "ListDeletedTopics",
    pb.ListDeletedTopicsRequest,
    pb.ListDeletedTopicsResponse,
)
RAFT: Final = CallType(pb.CALL_RAFT, "Raft", pb.RaftRequest, pb.RaftResponse)
FIND_COORDINATOR: Final = CallType(
    pb.CALL_FIND_COORDINATOR,
    "FindCoordinator",
    pb.FindCoordinatorRequest,
    pb.FindCoordinatorResponse,
)
COPY: Final = CallType(pb.CALL_COPY, "Copy", pb.CopyRequest, pb.CopyResponse)
META_CHANGE: Final = CallType(
    pb.CALL_META_CHANGE, "MetaChange", pb.MetaChangeRequest, pb.MetaChangeResponse
)
META_FETCH: Final = CallType(
    pb.CALL_META_FETCH, "MetaFetch", pb.MetaFetchRequest, pb.MetaFetchResponse
)
META_HEARTBEAT: Final = CallType(
    pb.CALL_META_HEARTBEAT, "MetaHeartbeat", pb.MetaHeartbeatRequest, pb.MetaHeartbeatResponse
)
META_LEADER: Final = CallType(
    pb.CALL_META_LEADER, "MetaLeader", pb.MetaLeaderRequest, pb.MetaLeaderResponse
)
META_SNAPSHOT: Final = CallType(
    pb.CALL_META_SNAPSHOT, "MetaSnapshot", pb.MetaSnapshotRequest, pb.MetaSnapshotResponse
)

DESCRIBE_CLUSTER: Final = CallType(
    pb.CALL_DESCRIBE_CLUSTER,
    "DescribeCluster",
    pb.DescribeClusterRequest,
    pb.DescribeClusterResponse,
)
CHANGE_PLACEMENT: Final = CallType(
    pb.CALL_CHANGE_PLACEMENT,
    "ChangePlacement",
    pb.ChangePlacementRequest,
    pb.ChangePlacementResponse,
)
ELECT_LEADERS: Final = CallType(
    pb.CALL_ELECT_LEADERS, "ElectLeaders", pb.ElectLeadersRequest, pb.ElectLeadersResponse
)
DESCRIBE_BROKER: Final = CallType(
    pb.CALL_DESCRIBE_BROKER, "DescribeBroker", pb.DescribeBrokerRequest, pb.DescribeBrokerResponse
)

META_CALLS: Final[tuple[CallType[Any, Any], ...]] = (
    META_CHANGE,
    META_FETCH,
    META_HEARTBEAT,
    META_LEADER,
    META_SNAPSHOT,
)
"""What meta servers answer."""

GROUP_HEARTBEAT: Final = CallType(
    pb.CALL_GROUP_HEARTBEAT, "GroupHeartbeat", pb.GroupHeartbeatRequest, pb.GroupHeartbeatResponse
)
DESCRIBE_GROUP: Final = CallType(
    pb.CALL_DESCRIBE_GROUP, "DescribeGroup", pb.DescribeGroupRequest, pb.DescribeGroupResponse
)
DELETE_GROUP: Final = CallType(
    pb.CALL_DELETE_GROUP, "DeleteGroup", pb.DeleteGroupRequest, pb.DeleteGroupResponse
)
LIST_SUBSCRIPTIONS: Final = CallType(
    pb.CALL_LIST_SUBSCRIPTIONS,
    "ListSubscriptions",
    pb.ListSubscriptionsRequest,
    pb.ListSubscriptionsResponse,
)
LEASE: Final = CallType(pb.CALL_LEASE, "Lease", pb.LeaseRequest, pb.LeaseResponse)
SETTLE: Final = CallType(pb.CALL_SETTLE, "Settle", pb.SettleRequest, pb.SettleResponse)
READ_SHARE: Final = CallType(
    pb.CALL_READ_SHARE, "ReadShare", pb.ReadShareRequest, pb.ReadShareResponse
)
WRITE_SHARE: Final = CallType(
    pb.CALL_WRITE_SHARE, "WriteShare", pb.WriteShareRequest, pb.WriteShareResponse
)
DEAD_LETTER: Final = CallType(
    pb.CALL_DEAD_LETTER, "DeadLetter", pb.DeadLetterRequest, pb.DeadLetterResponse
)
ALTER_GROUP_SETTINGS: Final = CallType(
    pb.CALL_ALTER_GROUP_SETTINGS,
    "AlterGroupSettings",
    pb.AlterGroupSettingsRequest,
    pb.AlterGroupSettingsResponse,
)
GROUP_SETTINGS: Final = CallType(
    pb.CALL_GROUP_SETTINGS, "GroupSettings", pb.GroupSettingsRequest, pb.GroupSettingsResponse
)
OPEN_PUSH: Final = CallType(pb.CALL_OPEN_PUSH, "OpenPush", pb.OpenPushRequest, pb.OpenPushResponse)
GIVE_CREDIT: Final = CallType(
    pb.CALL_GIVE_CREDIT, "GiveCredit", pb.GiveCreditRequest, pb.GiveCreditResponse
)
CLOSE_PUSH: Final = CallType(
    pb.CALL_CLOSE_PUSH, "ClosePush", pb.ClosePushRequest, pb.ClosePushResponse
)
DELIVER: Final = CallType(pb.CALL_DELIVER, "Deliver", pb.DeliverRequest, pb.DeliverResponse)
PUSH_ENDED: Final = CallType(
    pb.CALL_PUSH_ENDED, "PushEnded", pb.PushEndedRequest, pb.PushEndedResponse
)
RESUME_PUSH: Final = CallType(
    pb.CALL_RESUME_PUSH, "ResumePush", pb.ResumePushRequest, pb.ResumePushResponse
)
LIST_CLIENTS: Final = CallType(
    pb.CALL_LIST_CLIENTS, "ListClients", pb.ListClientsRequest, pb.ListClientsResponse
)
STEER_CLIENT: Final = CallType(
    pb.CALL_STEER_CLIENT, "SteerClient", pb.SteerClientRequest, pb.SteerClientResponse
)
DELAY: Final = CallType(pb.CALL_DELAY, "Delay", pb.DelayRequest, pb.DelayResponse)
CANCEL_DELAYED: Final = CallType(
    pb.CALL_CANCEL_DELAYED, "CancelDelayed", pb.CancelDelayedRequest, pb.CancelDelayedResponse
)
DESCRIBE_DELAYED: Final = CallType(
    pb.CALL_DESCRIBE_DELAYED,
    "DescribeDelayed",
    pb.DescribeDelayedRequest,
    pb.DescribeDelayedResponse,
)
PUT_SCHEDULE: Final = CallType(
    pb.CALL_PUT_SCHEDULE, "PutSchedule", pb.PutScheduleRequest, pb.PutScheduleResponse
)
DELETE_SCHEDULE: Final = CallType(
    pb.CALL_DELETE_SCHEDULE, "DeleteSchedule", pb.DeleteScheduleRequest, pb.DeleteScheduleResponse
)
LIST_SCHEDULES: Final = CallType(
    pb.CALL_LIST_SCHEDULES, "ListSchedules", pb.ListSchedulesRequest, pb.ListSchedulesResponse
)
APPEND_DUE: Final = CallType(
    pb.CALL_APPEND_DUE, "AppendDue", pb.AppendDueRequest, pb.AppendDueResponse
)
CLAIM_TOPIC: Final = CallType(
    pb.CALL_CLAIM_TOPIC, "ClaimTopic", pb.ClaimTopicRequest, pb.ClaimTopicResponse
)
RELEASE_TOPIC: Final = CallType(
    pb.CALL_RELEASE_TOPIC, "ReleaseTopic", pb.ReleaseTopicRequest, pb.ReleaseTopicResponse
)
CHECK_CLAIM: Final = CallType(
    pb.CALL_CHECK_CLAIM, "CheckClaim", pb.CheckClaimRequest, pb.CheckClaimResponse
)
REPLY: Final = CallType(pb.CALL_REPLY, "Reply", pb.ReplyRequest, pb.ReplyResponse)

_ALL: Final[tuple[CallType[Any, Any], ...]] = (
    HELLO,
    PING,
    METADATA,
    PRODUCE,
    FETCH,
    FIND_OFFSET,
    INIT_PRODUCER,
    CREATE_TOPIC,
    DELETE_TOPIC,
    DESCRIBE_TOPIC,
    ALTER_TOPIC,
    ADD_PARTITIONS,
    COMMIT_OFFSETS,
    FETCH_OFFSETS,
    LIST_GROUPS,
    STAGE,
    COMMIT_STAGED,
    ABORT_STAGED,
    COMMITTED_EPOCH,
    LIST_REMOVALS,
    LIST_DELETED_TOPICS,
    RAFT,
    FIND_COORDINATOR,
    COPY,
    META_CHANGE,
    META_FETCH,
    META_HEARTBEAT,
    META_LEADER,
    META_SNAPSHOT,
    DESCRIBE_CLUSTER,
    CHANGE_PLACEMENT,
    ELECT_LEADERS,
    DESCRIBE_BROKER,
    GROUP_HEARTBEAT,
    DESCRIBE_GROUP,
    DELETE_GROUP,
    LIST_SUBSCRIPTIONS,
    LEASE,
    SETTLE,
    READ_SHARE,
    WRITE_SHARE,
    DEAD_LETTER,
    ALTER_GROUP_SETTINGS,
    GROUP_SETTINGS,
    OPEN_PUSH,
    GIVE_CREDIT,
    CLOSE_PUSH,
    DELIVER,
    PUSH_ENDED,
    RESUME_PUSH,
    LIST_CLIENTS,
    STEER_CLIENT,
    DELAY,
    CANCEL_DELAYED,
    DESCRIBE_DELAYED,
    PUT_SCHEDULE,
    DELETE_SCHEDULE,
    LIST_SCHEDULES,
    APPEND_DUE,
    CLAIM_TOPIC,
    RELEASE_TOPIC,
    CHECK_CLAIM,
    REPLY,
)
CALLS: Final[Mapping[int, CallType[Any, Any]]] = MappingProxyType(
    {call.number: call for call in _ALL}
)


def parse(message_class: type[MessageT], envelope: bytes | memoryview) -> MessageT:
    """The message in an envelope, or MalformedFrame. Unknown fields are ignored (R-NET-3)."""
    try:
        # The generated stubs ask for bytes; the parser takes any buffer.
        return message_class.FromString(envelope)  # type: ignore[arg-type]
    except DecodeError as error:
        raise MalformedFrame(
            f"The envelope of {len(envelope)} bytes is not a {message_class.__name__}: {error}."
        ) from None


def error_envelope(error: PenstockError) -> bytes:
    """The envelope of an answer of type ERROR_TYPE."""
    # A message may quote foreign bytes; protobuf refuses text that is not valid UTF-8.
    message = error.message.encode(errors="replace").decode()
    return pb.Error(code=error.code, message=message, retriable=error.retriable).SerializeToString()


def error_from(envelope: bytes | memoryview) -> PenstockError:
    """The error that a peer answered with."""
    answered = parse(pb.Error, envelope)
    return from_code(answered.code, answered.message, retriable=answered.retriable)


def type_name(kind: int) -> str:
    """What a frame's type is called in a log line: "Produce", "answer to Produce", "type 99"."""
    if kind == ERROR_TYPE:
        return "error answer"
    call = CALLS.get(kind & ~ANSWER_BIT)
    name = call.name if call is not None else f"type {kind & ~ANSWER_BIT}"
    return f"answer to {name}" if kind & ANSWER_BIT else name
