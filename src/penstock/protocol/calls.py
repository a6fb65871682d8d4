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


_calls: dict[int, CallType[Any, Any]] = {}
CALLS: Final[Mapping[int, CallType[Any, Any]]] = MappingProxyType(_calls)
"""All that are defined here, by their types."""


def _call(
    number: int, request: type[RequestT], response: type[ResponseT]
) -> CallType[RequestT, ResponseT]:
    name = request.__name__.removesuffix("Request")
    assert number not in _calls, f"{name} has the type of {_calls[number].name}"
    _calls[number] = call = CallType(number, name, request, response)
    return call


HELLO: Final = _call(pb.CALL_HELLO, pb.HelloRequest, pb.HelloResponse)
PING: Final = _call(pb.CALL_PING, pb.PingRequest, pb.PingResponse)
METADATA: Final = _call(pb.CALL_METADATA, pb.MetadataRequest, pb.MetadataResponse)
PRODUCE: Final = _call(pb.CALL_PRODUCE, pb.ProduceRequest, pb.ProduceResponse)
FETCH: Final = _call(pb.CALL_FETCH, pb.FetchRequest, pb.FetchResponse)
FIND_OFFSET: Final = _call(pb.CALL_FIND_OFFSET, pb.FindOffsetRequest, pb.FindOffsetResponse)
INIT_PRODUCER: Final = _call(pb.CALL_INIT_PRODUCER, pb.InitProducerRequest, pb.InitProducerResponse)
CREATE_TOPIC: Final = _call(pb.CALL_CREATE_TOPIC, pb.CreateTopicRequest, pb.CreateTopicResponse)
DELETE_TOPIC: Final = _call(pb.CALL_DELETE_TOPIC, pb.DeleteTopicRequest, pb.DeleteTopicResponse)
DESCRIBE_TOPIC: Final = _call(
    pb.CALL_DESCRIBE_TOPIC, pb.DescribeTopicRequest, pb.DescribeTopicResponse
)
ALTER_TOPIC: Final = _call(pb.CALL_ALTER_TOPIC, pb.AlterTopicRequest, pb.AlterTopicResponse)
ADD_PARTITIONS: Final = _call(
    pb.CALL_ADD_PARTITIONS, pb.AddPartitionsRequest, pb.AddPartitionsResponse
)
COMMIT_OFFSETS: Final = _call(
    pb.CALL_COMMIT_OFFSETS, pb.CommitOffsetsRequest, pb.CommitOffsetsResponse
)
FETCH_OFFSETS: Final = _call(pb.CALL_FETCH_OFFSETS, pb.FetchOffsetsRequest, pb.FetchOffsetsResponse)
LIST_GROUPS: Final = _call(pb.CALL_LIST_GROUPS, pb.ListGroupsRequest, pb.ListGroupsResponse)
STAGE: Final = _call(pb.CALL_STAGE, pb.StageRequest, pb.StageResponse)
COMMIT_STAGED: Final = _call(pb.CALL_COMMIT_STAGED, pb.CommitStagedRequest, pb.CommitStagedResponse)
ABORT_STAGED: Final = _call(pb.CALL_ABORT_STAGED, pb.AbortStagedRequest, pb.AbortStagedResponse)
COMMITTED_EPOCH: Final = _call(
    pb.CALL_COMMITTED_EPOCH, pb.CommittedEpochRequest, pb.CommittedEpochResponse
)
LIST_REMOVALS: Final = _call(pb.CALL_LIST_REMOVALS, pb.ListRemovalsRequest, pb.ListRemovalsResponse)
LIST_DELETED_TOPICS: Final = _call(
    pb.CALL_LIST_DELETED_TOPICS, pb.ListDeletedTopicsRequest, pb.ListDeletedTopicsResponse
)
RAFT: Final = _call(pb.CALL_RAFT, pb.RaftRequest, pb.RaftResponse)
FIND_COORDINATOR: Final = _call(
    pb.CALL_FIND_COORDINATOR, pb.FindCoordinatorRequest, pb.FindCoordinatorResponse
)
COPY: Final = _call(pb.CALL_COPY, pb.CopyRequest, pb.CopyResponse)
META_CHANGE: Final = _call(pb.CALL_META_CHANGE, pb.MetaChangeRequest, pb.MetaChangeResponse)
META_FETCH: Final = _call(pb.CALL_META_FETCH, pb.MetaFetchRequest, pb.MetaFetchResponse)
META_HEARTBEAT: Final = _call(
    pb.CALL_META_HEARTBEAT, pb.MetaHeartbeatRequest, pb.MetaHeartbeatResponse
)
META_LEADER: Final = _call(pb.CALL_META_LEADER, pb.MetaLeaderRequest, pb.MetaLeaderResponse)
META_SNAPSHOT: Final = _call(pb.CALL_META_SNAPSHOT, pb.MetaSnapshotRequest, pb.MetaSnapshotResponse)
DESCRIBE_CLUSTER: Final = _call(
    pb.CALL_DESCRIBE_CLUSTER, pb.DescribeClusterRequest, pb.DescribeClusterResponse
)
CHANGE_PLACEMENT: Final = _call(
    pb.CALL_CHANGE_PLACEMENT, pb.ChangePlacementRequest, pb.ChangePlacementResponse
)
ELECT_LEADERS: Final = _call(pb.CALL_ELECT_LEADERS, pb.ElectLeadersRequest, pb.ElectLeadersResponse)
DESCRIBE_BROKER: Final = _call(
    pb.CALL_DESCRIBE_BROKER, pb.DescribeBrokerRequest, pb.DescribeBrokerResponse
)
GROUP_HEARTBEAT: Final = _call(
    pb.CALL_GROUP_HEARTBEAT, pb.GroupHeartbeatRequest, pb.GroupHeartbeatResponse
)
DESCRIBE_GROUP: Final = _call(
    pb.CALL_DESCRIBE_GROUP, pb.DescribeGroupRequest, pb.DescribeGroupResponse
)
DELETE_GROUP: Final = _call(pb.CALL_DELETE_GROUP, pb.DeleteGroupRequest, pb.DeleteGroupResponse)
LIST_SUBSCRIPTIONS: Final = _call(
    pb.CALL_LIST_SUBSCRIPTIONS, pb.ListSubscriptionsRequest, pb.ListSubscriptionsResponse
)
LEASE: Final = _call(pb.CALL_LEASE, pb.LeaseRequest, pb.LeaseResponse)
SETTLE: Final = _call(pb.CALL_SETTLE, pb.SettleRequest, pb.SettleResponse)
READ_SHARE: Final = _call(pb.CALL_READ_SHARE, pb.ReadShareRequest, pb.ReadShareResponse)
WRITE_SHARE: Final = _call(pb.CALL_WRITE_SHARE, pb.WriteShareRequest, pb.WriteShareResponse)
DEAD_LETTER: Final = _call(pb.CALL_DEAD_LETTER, pb.DeadLetterRequest, pb.DeadLetterResponse)
ALTER_GROUP_SETTINGS: Final = _call(
    pb.CALL_ALTER_GROUP_SETTINGS, pb.AlterGroupSettingsRequest, pb.AlterGroupSettingsResponse
)
GROUP_SETTINGS: Final = _call(
    pb.CALL_GROUP_SETTINGS, pb.GroupSettingsRequest, pb.GroupSettingsResponse
)
OPEN_PUSH: Final = _call(pb.CALL_OPEN_PUSH, pb.OpenPushRequest, pb.OpenPushResponse)
GIVE_CREDIT: Final = _call(pb.CALL_GIVE_CREDIT, pb.GiveCreditRequest, pb.GiveCreditResponse)
CLOSE_PUSH: Final = _call(pb.CALL_CLOSE_PUSH, pb.ClosePushRequest, pb.ClosePushResponse)
DELIVER: Final = _call(pb.CALL_DELIVER, pb.DeliverRequest, pb.DeliverResponse)
PUSH_ENDED: Final = _call(pb.CALL_PUSH_ENDED, pb.PushEndedRequest, pb.PushEndedResponse)
RESUME_PUSH: Final = _call(pb.CALL_RESUME_PUSH, pb.ResumePushRequest, pb.ResumePushResponse)
LIST_CLIENTS: Final = _call(pb.CALL_LIST_CLIENTS, pb.ListClientsRequest, pb.ListClientsResponse)
STEER_CLIENT: Final = _call(pb.CALL_STEER_CLIENT, pb.SteerClientRequest, pb.SteerClientResponse)
DELAY: Final = _call(pb.CALL_DELAY, pb.DelayRequest, pb.DelayResponse)
CANCEL_DELAYED: Final = _call(
    pb.CALL_CANCEL_DELAYED, pb.CancelDelayedRequest, pb.CancelDelayedResponse
)
DESCRIBE_DELAYED: Final = _call(
    pb.CALL_DESCRIBE_DELAYED, pb.DescribeDelayedRequest, pb.DescribeDelayedResponse
)
PUT_SCHEDULE: Final = _call(pb.CALL_PUT_SCHEDULE, pb.PutScheduleRequest, pb.PutScheduleResponse)
DELETE_SCHEDULE: Final = _call(
    pb.CALL_DELETE_SCHEDULE, pb.DeleteScheduleRequest, pb.DeleteScheduleResponse
)
LIST_SCHEDULES: Final = _call(
    pb.CALL_LIST_SCHEDULES, pb.ListSchedulesRequest, pb.ListSchedulesResponse
)
APPEND_DUE: Final = _call(pb.CALL_APPEND_DUE, pb.AppendDueRequest, pb.AppendDueResponse)
CLAIM_TOPIC: Final = _call(pb.CALL_CLAIM_TOPIC, pb.ClaimTopicRequest, pb.ClaimTopicResponse)
RELEASE_TOPIC: Final = _call(pb.CALL_RELEASE_TOPIC, pb.ReleaseTopicRequest, pb.ReleaseTopicResponse)
CHECK_CLAIM: Final = _call(pb.CALL_CHECK_CLAIM, pb.CheckClaimRequest, pb.CheckClaimResponse)
REPLY: Final = _call(pb.CALL_REPLY, pb.ReplyRequest, pb.ReplyResponse)


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
