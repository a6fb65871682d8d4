"""What can go wrong, as typed errors with a code that travels on the wire.

    PenstockError
    ├── ProtocolError        MalformedFrame  UnsupportedVersion  UnknownCall  FrameTooLarge
    ├── TopicError           UnknownTopic  TopicExists  InvalidTopic  InvalidConfig
    │                        TooManyPartitions  InvalidPartitions  InvalidReplication
    │                        InvalidPlacement  UnknownTopicId  PolicyViolation
    ├── BatchError           CorruptBatch  InvalidBatch  BatchTooLarge  InvalidTimestamp
    ├── ProducerError        OutOfOrderSequence  ProducerFenced  UnknownProducer
    │                        TransactionsRefused
    ├── GroupError           UnknownGroup  GroupNotEmpty  InvalidGroup  GroupFull  UnknownMember
    │                        FencedInstance  UnreleasedInstance  IllegalGeneration
    │                        RebalanceInProgress  InconsistentProtocol  InvalidSessionTimeout
    │                        FencedMemberEpoch  StaleMemberEpoch  UnsupportedAssignor
    │                        GroupSubscribed  OffsetMetadataTooLarge  InvalidRegularExpression
    ├── StagedWriteError     StagedBatchesMissing      DeliveryError: `delivery_errors`
    ├── OffsetOutOfRange, StaleTerm, UnknownTerm
    ├── NotLeader, NotCoordinator, NotEnoughReplicas, NotEnoughReplicasAfterAppend
    ├── StorageError         DiskFull  StorageFailed  CorruptLog  CorruptFacts
    ├── UnavailableError     TimedOut  Busy  ShuttingDown  ConnectionLost
    │                        ChangedMeanwhile  RegistryUnavailable  CoordinatorLoading
    └── InvalidRequest, InternalError, ClientClosed

A message is one sentence that says what is wrong and what to do. `retriable` says whether the same
call may succeed later without anybody changing anything. A broken invariant of our own is an
assert, not one of these.
"""

from __future__ import annotations

from typing import ClassVar


class PenstockError(Exception):
    """The base of every error this package raises on purpose."""

    code: ClassVar[int] = 1
    retriable: ClassVar[bool] = False

    def __init__(self, message: str = "") -> None:
        super().__init__(message or (self.__doc__ or type(self).__name__).splitlines()[0])

    @property
    def message(self) -> str:
        return str(self)


class InternalError(PenstockError):
    """The broker hit a bug: its log has the traceback."""

    code = 2


class InvalidRequest(PenstockError):
    """The request contradicts itself or leaves out what it needs."""

    code = 3


class ClientClosed(PenstockError):
    """The client was closed: connect again to go on."""

    code = 4


# --- protocol ----------------------------------------------------------------------------------


class ProtocolError(PenstockError):
    """The peer's bytes do not follow the protocol."""

    code = 10


class MalformedFrame(ProtocolError):
    """The frame's bytes do not follow the protocol."""

    code = 11


class UnsupportedVersion(ProtocolError):
    """The frame has a protocol version that this side does not speak."""

    code = 12


class UnknownCall(ProtocolError):
    """The frame's type names no call of this side."""

    code = 13


class FrameTooLarge(ProtocolError):
    """The frame is longer than this side accepts."""

    code = 14


# --- topics ------------------------------------------------------------------------------------


class TopicError(PenstockError):
    """Something is wrong with a topic."""

    code = 20


class UnknownTopic(TopicError):
    """There is no such topic or partition."""

    code = 21


class TopicExists(TopicError):
    """A topic of this name exists already."""

    code = 22


class InvalidTopic(TopicError):
    """The name cannot name a topic."""

    code = 23


class InvalidConfig(TopicError):
    """A setting is unknown or has a value it cannot take."""

    code = 24


class TooManyPartitions(TopicError):
    """The topic would have more partitions than the broker allows."""

    code = 25


class InvalidReplication(TopicError):
    """The topic cannot have so many replicas: there are not enough brokers."""

    code = 26


class PolicyViolation(TopicError):
    """The topic's settings do not allow this."""

    code = 19


class UnknownTopicId(TopicError):
    """There is no topic of this id: it was deleted, or made anew under its name."""

    code = 27


class InvalidPartitions(TopicError):
    """The topic cannot have this number of partitions."""

    code = 28


class InvalidPlacement(TopicError):
    """The partitions cannot be placed on these brokers."""

    code = 29


# --- batches -----------------------------------------------------------------------------------


class BatchError(PenstockError):
    """Something is wrong with a record batch."""

    code = 30


class CorruptBatch(BatchError):
    """The batch does not have the checksum it says: it was damaged on the way."""

    code = 31
    retriable = True


class InvalidBatch(BatchError):
    """The batch's header contradicts itself."""

    code = 32


class BatchTooLarge(BatchError):
    """The batch is larger than the topic accepts."""

    code = 33


class InvalidTimestamp(BatchError):
    """A message's time is further from the broker's than the topic accepts."""

    code = 34


# --- producers ---------------------------------------------------------------------------------


class ProducerError(PenstockError):
    """Something is wrong with an idempotent producer."""

    code = 40


class OutOfOrderSequence(ProducerError):
    """A batch of this producer before this one is missing."""

    code = 41


class ProducerFenced(ProducerError):
    """A newer producer has taken over this producer's id."""

    code = 42


class UnknownProducer(ProducerError):
    """The broker does not remember this producer."""

    code = 43


class TransactionsRefused(ProducerError):
    """Transactions are not supported yet: leave transactional.id out."""

    code = 44


# --- groups ------------------------------------------------------------------------------------


class GroupError(PenstockError):
    """Something is wrong with a group of consumers."""

    code = 80


class UnknownGroup(GroupError):
    """There is no group of this name."""

    code = 81


class GroupNotEmpty(GroupError):
    """The group has members: stop its consumers first."""

    code = 82


class InvalidGroup(GroupError):
    """The name cannot name a group."""

    code = 83


class GroupFull(GroupError):
    """The group has as many members as the broker allows."""

    code = 84


class UnknownMember(GroupError):
    """The group has no such member: it was removed, or never joined; join again."""

    code = 85


class FencedInstance(GroupError):
    """Another member has taken over this group instance id."""

    code = 87


class UnreleasedInstance(GroupError):
    """A member that is still there holds this group instance id."""

    code = 88


class IllegalGeneration(GroupError):
    """The group has moved on to another generation: join again."""

    code = 89


class RebalanceInProgress(GroupError):
    """The group is rebalancing: join again."""

    code = 90
    retriable = True


class InconsistentProtocol(GroupError):
    """The member shares no protocol with the other members of its group."""

    code = 91


class InvalidSessionTimeout(GroupError):
    """The session timeout is outside what the broker allows."""

    code = 92


class FencedMemberEpoch(GroupError):
    """The member's epoch is not the one the group gave it: join again with epoch 0."""

    code = 93


class StaleMemberEpoch(GroupError):
    """The member's epoch is out of date: take it from the next heartbeat's answer."""

    code = 94
    retriable = True


class UnsupportedAssignor(GroupError):
    """The broker has no assignor of this name."""

    code = 95


class GroupSubscribed(GroupError):
    """The group is subscribed to the topic: its offsets cannot be deleted now."""

    code = 96


class OffsetMetadataTooLarge(GroupError):
    """The metadata of a committed offset is longer than the broker keeps."""

    code = 97


class InvalidRegularExpression(GroupError):
    """The expression that names the topics of a subscription cannot be used."""

    code = 98


# --- staged writes -----------------------------------------------------------------------------


class StagedWriteError(PenstockError):
    """Something is wrong with a staged write."""

    code = 100


class StagedBatchesMissing(StagedWriteError):
    """Not everything that is named was staged, or it was dropped since: stage it again."""

    code = 101


# --- reading, routing --------------------------------------------------------------------------


class OffsetOutOfRange(PenstockError):
    """The offset is before the first or after the last message of the partition."""

    code = 50
    # Where the partition begins and ends, if whoever raised it knows.
    log_start_offset: int | None = None
    log_end_offset: int | None = None


class NotLeader(PenstockError):
    """This broker does not lead the partition: refresh the route and ask its leader."""

    code = 51
    retriable = True


class NotCoordinator(PenstockError):
    """This broker does not look after this now: ask again which one does."""

    code = 56
    retriable = True


class NotEnoughReplicas(PenstockError):
    """Fewer replicas are in sync than the topic's min_insync_replicas asks for."""

    code = 52
    retriable = True


class NotEnoughReplicasAfterAppend(PenstockError):
    """It was written, but fewer replicas have it than min_insync_replicas asks for."""

    code = 55
    retriable = True


class StaleTerm(PenstockError):
    """The partition has a newer leader than the client knows: refresh the route."""

    code = 53
    retriable = True


class UnknownTerm(PenstockError):
    """The client knows of a newer leader than this broker does: ask again."""

    code = 54
    retriable = True


# --- storage -----------------------------------------------------------------------------------


class StorageError(PenstockError):
    """The broker's disk did not do what was asked."""

    code = 60


class DiskFull(StorageError):
    """The broker's disk is full: free some room or shorten the retention."""

    code = 61
    retriable = True


class StorageFailed(StorageError):
    """The partition is read-only since its disk failed: see the broker's log."""

    code = 62


class CorruptLog(StorageError):
    """The bytes on the broker's disk do not have the checksum they were written with."""

    code = 63


class CorruptFacts(StorageError):
    """What the registry keeps of the cluster cannot be understood."""

    code = 64


# --- availability ------------------------------------------------------------------------------


class UnavailableError(PenstockError):
    """The other side cannot answer now."""

    code = 70
    retriable = True


class TimedOut(UnavailableError):
    """No answer came in time."""

    code = 71


class Busy(UnavailableError):
    """The broker is at one of its limits: try again later."""

    code = 72


class ShuttingDown(UnavailableError):
    """The broker is shutting down."""

    code = 73


class ConnectionLost(UnavailableError):
    """The connection broke before the answer came."""

    code = 74


class ChangedMeanwhile(UnavailableError):
    """Somebody else changed the same thing first: look at it again."""

    code = 75


class RegistryUnavailable(UnavailableError):
    """The registry cannot be reached: what is there is served, nothing can be changed."""

    code = 76


class CoordinatorLoading(UnavailableError):
    """The broker has just begun to look after this, and is reading what there is: try again."""

    code = 77
