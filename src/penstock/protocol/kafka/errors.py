"""Kafka's error codes, and which of them stands for which of our errors.

The invariant: every PenstockError has a code that makes Kafka's clients do the right thing: retry,
refresh their metadata, join again, or tell their user.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from penstock.model import errors
from penstock.model.errors import PenstockError


class ErrorCode(IntEnum):
    """The codes we use, by Kafka's names."""

    UNKNOWN_SERVER_ERROR = -1
    NONE = 0
    OFFSET_OUT_OF_RANGE = 1
    CORRUPT_MESSAGE = 2
    UNKNOWN_TOPIC_OR_PARTITION = 3
    LEADER_NOT_AVAILABLE = 5
    NOT_LEADER_OR_FOLLOWER = 6
    REQUEST_TIMED_OUT = 7
    REPLICA_NOT_AVAILABLE = 9
    MESSAGE_TOO_LARGE = 10
    OFFSET_METADATA_TOO_LARGE = 12
    COORDINATOR_LOAD_IN_PROGRESS = 14
    COORDINATOR_NOT_AVAILABLE = 15
    NOT_COORDINATOR = 16
    INVALID_TOPIC_EXCEPTION = 17
    NOT_ENOUGH_REPLICAS = 19
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = 20
    INVALID_REQUIRED_ACKS = 21
    ILLEGAL_GENERATION = 22
    INCONSISTENT_GROUP_PROTOCOL = 23
    INVALID_GROUP_ID = 24
    UNKNOWN_MEMBER_ID = 25
    INVALID_SESSION_TIMEOUT = 26
    REBALANCE_IN_PROGRESS = 27
    TOPIC_AUTHORIZATION_FAILED = 29
    GROUP_AUTHORIZATION_FAILED = 30
    INVALID_TIMESTAMP = 32
    UNSUPPORTED_VERSION = 35
    TOPIC_ALREADY_EXISTS = 36
    INVALID_PARTITIONS = 37
    INVALID_REPLICATION_FACTOR = 38
    INVALID_REPLICA_ASSIGNMENT = 39
    INVALID_CONFIG = 40
    INVALID_REQUEST = 42
    POLICY_VIOLATION = 44
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45
    INVALID_PRODUCER_EPOCH = 47
    INVALID_PRODUCER_ID_MAPPING = 49
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53
    SECURITY_DISABLED = 54
    KAFKA_STORAGE_ERROR = 56
    LOG_DIR_NOT_FOUND = 57
    UNKNOWN_PRODUCER_ID = 59
    NON_EMPTY_GROUP = 68
    GROUP_ID_NOT_FOUND = 69
    FETCH_SESSION_ID_NOT_FOUND = 70
    INVALID_FETCH_SESSION_EPOCH = 71
    FENCED_LEADER_EPOCH = 74
    UNKNOWN_LEADER_EPOCH = 75
    MEMBER_ID_REQUIRED = 79
    PREFERRED_LEADER_NOT_AVAILABLE = 80
    GROUP_MAX_SIZE_REACHED = 81
    FENCED_INSTANCE_ID = 82
    ELIGIBLE_LEADERS_NOT_AVAILABLE = 83
    ELECTION_NOT_NEEDED = 84
    NO_REASSIGNMENT_IN_PROGRESS = 85
    GROUP_SUBSCRIBED_TO_TOPIC = 86
    INVALID_RECORD = 87
    INVALID_UPDATE_VERSION = 95
    UNKNOWN_TOPIC_ID = 100
    FETCH_SESSION_TOPIC_ID_ERROR = 106
    FENCED_MEMBER_EPOCH = 110
    UNRELEASED_INSTANCE_ID = 111
    UNSUPPORTED_ASSIGNOR = 112
    STALE_MEMBER_EPOCH = 113
    INVALID_RECORD_STATE = 121
    SHARE_SESSION_NOT_FOUND = 122
    INVALID_SHARE_SESSION_EPOCH = 123
    INVALID_REGULAR_EXPRESSION = 128
    SHARE_SESSION_LIMIT_REACHED = 133


_CODES: Final[dict[type[PenstockError], ErrorCode]] = {
    errors.PenstockError: ErrorCode.UNKNOWN_SERVER_ERROR,
    errors.InvalidRequest: ErrorCode.INVALID_REQUEST,
    errors.ProtocolError: ErrorCode.INVALID_REQUEST,
    errors.UnsupportedVersion: ErrorCode.UNSUPPORTED_VERSION,
    errors.UnknownTopic: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    errors.TopicExists: ErrorCode.TOPIC_ALREADY_EXISTS,
    errors.InvalidTopic: ErrorCode.INVALID_TOPIC_EXCEPTION,
    errors.InvalidConfig: ErrorCode.INVALID_CONFIG,
    errors.TooManyPartitions: ErrorCode.INVALID_PARTITIONS,
    errors.InvalidPartitions: ErrorCode.INVALID_PARTITIONS,
    errors.InvalidPlacement: ErrorCode.INVALID_REPLICA_ASSIGNMENT,
    errors.InvalidReplication: ErrorCode.INVALID_REPLICATION_FACTOR,
    errors.PolicyViolation: ErrorCode.POLICY_VIOLATION,
    errors.UnknownTopicId: ErrorCode.UNKNOWN_TOPIC_ID,
    errors.CorruptBatch: ErrorCode.CORRUPT_MESSAGE,
    errors.BatchError: ErrorCode.INVALID_RECORD,
    errors.BatchTooLarge: ErrorCode.MESSAGE_TOO_LARGE,
    errors.InvalidTimestamp: ErrorCode.INVALID_TIMESTAMP,
    errors.OutOfOrderSequence: ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    errors.ProducerFenced: ErrorCode.INVALID_PRODUCER_EPOCH,
    errors.UnknownProducer: ErrorCode.UNKNOWN_PRODUCER_ID,
    # The only code of InitProducerId that every client reports at once instead of asking again.
    errors.TransactionsRefused: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    errors.GroupError: ErrorCode.INVALID_REQUEST,
    errors.UnknownGroup: ErrorCode.GROUP_ID_NOT_FOUND,
    errors.GroupNotEmpty: ErrorCode.NON_EMPTY_GROUP,
    errors.InvalidGroup: ErrorCode.INVALID_GROUP_ID,
    errors.GroupFull: ErrorCode.GROUP_MAX_SIZE_REACHED,
    errors.UnknownMember: ErrorCode.UNKNOWN_MEMBER_ID,
    errors.FencedInstance: ErrorCode.FENCED_INSTANCE_ID,
    errors.UnreleasedInstance: ErrorCode.UNRELEASED_INSTANCE_ID,
    errors.IllegalGeneration: ErrorCode.ILLEGAL_GENERATION,
    errors.RebalanceInProgress: ErrorCode.REBALANCE_IN_PROGRESS,
    errors.InconsistentProtocol: ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
    errors.InvalidSessionTimeout: ErrorCode.INVALID_SESSION_TIMEOUT,
    errors.FencedMemberEpoch: ErrorCode.FENCED_MEMBER_EPOCH,
    errors.StaleMemberEpoch: ErrorCode.STALE_MEMBER_EPOCH,
    errors.UnsupportedAssignor: ErrorCode.UNSUPPORTED_ASSIGNOR,
    errors.GroupSubscribed: ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,
    errors.OffsetMetadataTooLarge: ErrorCode.OFFSET_METADATA_TOO_LARGE,
    errors.InvalidRegularExpression: ErrorCode.INVALID_REGULAR_EXPRESSION,
    errors.DeliveryError: ErrorCode.INVALID_REQUEST,
    errors.UnknownLease: ErrorCode.INVALID_RECORD_STATE,
    # What one may not do, as long as somebody else does it: clients tell their user at once.
    errors.SubscriptionTaken: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    errors.TopicClaimed: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    # Not that the id is unknown, upon which some would send the batch again and again.
    errors.ReservedProducerId: ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    errors.OffsetOutOfRange: ErrorCode.OFFSET_OUT_OF_RANGE,
    errors.NotLeader: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    errors.NotCoordinator: ErrorCode.NOT_COORDINATOR,
    errors.NotEnoughReplicas: ErrorCode.NOT_ENOUGH_REPLICAS,
    errors.NotEnoughReplicasAfterAppend: ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    errors.StaleTerm: ErrorCode.FENCED_LEADER_EPOCH,
    errors.UnknownTerm: ErrorCode.UNKNOWN_LEADER_EPOCH,
    errors.StorageError: ErrorCode.KAFKA_STORAGE_ERROR,
    # A consumer tells its user of this one; the code above it would retry for ever.
    errors.CorruptLog: ErrorCode.CORRUPT_MESSAGE,
    # Nor is a topic whose facts are damaged any better when it is asked for again.
    errors.CorruptFacts: ErrorCode.INVALID_TOPIC_EXCEPTION,
    errors.UnavailableError: ErrorCode.REQUEST_TIMED_OUT,
    errors.CoordinatorLoading: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
}


def code_of(error: PenstockError) -> ErrorCode:
    """The code of the error's class, or of the nearest class above it that has one."""
    for kind in type(error).__mro__:
        code = _CODES.get(kind)
        if code is not None:
            return code
    raise AssertionError(f"{type(error).__name__} is no PenstockError")


def code_and_message(error: PenstockError | None) -> tuple[ErrorCode, str | None]:
    """As answers have them, where nothing may be wrong at all."""
    return (ErrorCode.NONE, None) if error is None else (code_of(error), error.message)
