"""What can go wrong, as typed errors with a code that travels on the wire.

    PenstockError
    ├── base          InvalidRequest  InternalError  ClientClosed
    ├── protocol      ProtocolError: MalformedFrame  UnsupportedVersion  UnknownCall  FrameTooLarge
    ├── topics        TopicError: UnknownTopic  UnknownTopicId  TopicExists  InvalidTopic
    │                 InvalidConfig  PolicyViolation  TooManyPartitions  InvalidPartitions
    │                 InvalidReplication  InvalidPlacement
    ├── batches       BatchError: CorruptBatch  InvalidBatch  BatchTooLarge  InvalidTimestamp
    ├── producers     ProducerError: OutOfOrderSequence  ProducerFenced  UnknownProducer
    │                 ReservedProducerId  TransactionsRefused
    │                 StagedWriteError: StagedBatchesMissing
    ├── partitions    OffsetOutOfRange  NotLeader  NotCoordinator  StaleTerm  UnknownTerm
    │                 NotEnoughReplicas  NotEnoughReplicasAfterAppend
    ├── storage       StorageError: DiskFull  StorageFailed  CorruptLog  CorruptFacts
    ├── availability  UnavailableError: TimedOut  Busy  ShuttingDown  ConnectionLost
    │                 ChangedMeanwhile  RegistryUnavailable  CoordinatorLoading
    ├── groups        GroupError: UnknownGroup  GroupNotEmpty  InvalidGroup  GroupFull
    │                 UnknownMember  FencedInstance  UnreleasedInstance  IllegalGeneration
    │                 RebalanceInProgress  InconsistentProtocol  InvalidSessionTimeout
    │                 FencedMemberEpoch  StaleMemberEpoch  UnsupportedAssignor  GroupSubscribed
    │                 OffsetMetadataTooLarge  InvalidRegularExpression
    └── delivery      DeliveryError: UnknownLease  PartitionClaimed  PartitionLost
                      SubscriptionTaken  InconsistentSubscription  TooManySubscriptions
                      InvalidFilter  InvalidDelay  InvalidSchedule  UnknownSchedule
                      InvalidCredit  UnknownStream  Parked  UnknownClient  TopicClaimed  NoReply

A message is one sentence that says what is wrong and what to do. `retriable` says whether the same
call may succeed later without anybody changing anything. A broken invariant of our own is an
assert, not one of these. What a program may want to catch is in `penstock.errors`.
"""

from __future__ import annotations

from penstock.model.errors.availability import Busy as Busy
from penstock.model.errors.availability import ChangedMeanwhile as ChangedMeanwhile
from penstock.model.errors.availability import ConnectionLost as ConnectionLost
from penstock.model.errors.availability import CoordinatorLoading as CoordinatorLoading
from penstock.model.errors.availability import RegistryUnavailable as RegistryUnavailable
from penstock.model.errors.availability import ShuttingDown as ShuttingDown
from penstock.model.errors.availability import TimedOut as TimedOut
from penstock.model.errors.availability import UnavailableError as UnavailableError
from penstock.model.errors.base import ClientClosed as ClientClosed
from penstock.model.errors.base import InternalError as InternalError
from penstock.model.errors.base import InvalidRequest as InvalidRequest
from penstock.model.errors.base import PenstockError as PenstockError
from penstock.model.errors.batches import BatchError as BatchError
from penstock.model.errors.batches import BatchTooLarge as BatchTooLarge
from penstock.model.errors.batches import CorruptBatch as CorruptBatch
from penstock.model.errors.batches import InvalidBatch as InvalidBatch
from penstock.model.errors.batches import InvalidTimestamp as InvalidTimestamp
from penstock.model.errors.delivery import DeliveryError as DeliveryError
from penstock.model.errors.delivery import InconsistentSubscription as InconsistentSubscription
from penstock.model.errors.delivery import InvalidCredit as InvalidCredit
from penstock.model.errors.delivery import InvalidDelay as InvalidDelay
from penstock.model.errors.delivery import InvalidFilter as InvalidFilter
from penstock.model.errors.delivery import InvalidSchedule as InvalidSchedule
from penstock.model.errors.delivery import NoReply as NoReply
from penstock.model.errors.delivery import Parked as Parked
from penstock.model.errors.delivery import PartitionClaimed as PartitionClaimed
from penstock.model.errors.delivery import PartitionLost as PartitionLost
from penstock.model.errors.delivery import SubscriptionTaken as SubscriptionTaken
from penstock.model.errors.delivery import TooManySubscriptions as TooManySubscriptions
from penstock.model.errors.delivery import TopicClaimed as TopicClaimed
from penstock.model.errors.delivery import UnknownClient as UnknownClient
from penstock.model.errors.delivery import UnknownLease as UnknownLease
from penstock.model.errors.delivery import UnknownSchedule as UnknownSchedule
from penstock.model.errors.delivery import UnknownStream as UnknownStream
from penstock.model.errors.groups import FencedInstance as FencedInstance
from penstock.model.errors.groups import FencedMemberEpoch as FencedMemberEpoch
from penstock.model.errors.groups import GroupError as GroupError
from penstock.model.errors.groups import GroupFull as GroupFull
from penstock.model.errors.groups import GroupNotEmpty as GroupNotEmpty
from penstock.model.errors.groups import GroupSubscribed as GroupSubscribed
from penstock.model.errors.groups import IllegalGeneration as IllegalGeneration
from penstock.model.errors.groups import InconsistentProtocol as InconsistentProtocol
from penstock.model.errors.groups import InvalidGroup as InvalidGroup
from penstock.model.errors.groups import InvalidRegularExpression as InvalidRegularExpression
from penstock.model.errors.groups import InvalidSessionTimeout as InvalidSessionTimeout
from penstock.model.errors.groups import OffsetMetadataTooLarge as OffsetMetadataTooLarge
from penstock.model.errors.groups import RebalanceInProgress as RebalanceInProgress
from penstock.model.errors.groups import StaleMemberEpoch as StaleMemberEpoch
from penstock.model.errors.groups import UnknownGroup as UnknownGroup
from penstock.model.errors.groups import UnknownMember as UnknownMember
from penstock.model.errors.groups import UnreleasedInstance as UnreleasedInstance
from penstock.model.errors.groups import UnsupportedAssignor as UnsupportedAssignor
from penstock.model.errors.partitions import NotCoordinator as NotCoordinator
from penstock.model.errors.partitions import NotEnoughReplicas as NotEnoughReplicas
from penstock.model.errors.partitions import (
    NotEnoughReplicasAfterAppend as NotEnoughReplicasAfterAppend,
)
from penstock.model.errors.partitions import NotLeader as NotLeader
from penstock.model.errors.partitions import OffsetOutOfRange as OffsetOutOfRange
from penstock.model.errors.partitions import StaleTerm as StaleTerm
from penstock.model.errors.partitions import UnknownTerm as UnknownTerm
from penstock.model.errors.producers import OutOfOrderSequence as OutOfOrderSequence
from penstock.model.errors.producers import ProducerError as ProducerError
from penstock.model.errors.producers import ProducerFenced as ProducerFenced
from penstock.model.errors.producers import ReservedProducerId as ReservedProducerId
from penstock.model.errors.producers import StagedBatchesMissing as StagedBatchesMissing
from penstock.model.errors.producers import StagedWriteError as StagedWriteError
from penstock.model.errors.producers import TransactionsRefused as TransactionsRefused
from penstock.model.errors.producers import UnknownProducer as UnknownProducer
from penstock.model.errors.protocol import FrameTooLarge as FrameTooLarge
from penstock.model.errors.protocol import MalformedFrame as MalformedFrame
from penstock.model.errors.protocol import ProtocolError as ProtocolError
from penstock.model.errors.protocol import UnknownCall as UnknownCall
from penstock.model.errors.protocol import UnsupportedVersion as UnsupportedVersion
from penstock.model.errors.storage import CorruptFacts as CorruptFacts
from penstock.model.errors.storage import CorruptLog as CorruptLog
from penstock.model.errors.storage import DiskFull as DiskFull
from penstock.model.errors.storage import StorageError as StorageError
from penstock.model.errors.storage import StorageFailed as StorageFailed
from penstock.model.errors.topics import InvalidConfig as InvalidConfig
from penstock.model.errors.topics import InvalidPartitions as InvalidPartitions
from penstock.model.errors.topics import InvalidPlacement as InvalidPlacement
from penstock.model.errors.topics import InvalidReplication as InvalidReplication
from penstock.model.errors.topics import InvalidTopic as InvalidTopic
from penstock.model.errors.topics import PolicyViolation as PolicyViolation
from penstock.model.errors.topics import TooManyPartitions as TooManyPartitions
from penstock.model.errors.topics import TopicError as TopicError
from penstock.model.errors.topics import TopicExists as TopicExists
from penstock.model.errors.topics import UnknownTopic as UnknownTopic
from penstock.model.errors.topics import UnknownTopicId as UnknownTopicId
