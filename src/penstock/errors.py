"""The errors that a program may want to catch, by name.

    from penstock.errors import DeliveryFailed, UnknownTopic

    PenstockError                   one sentence in `str(error)`; `error.retriable`
    ├── topics                      UnknownTopic  TopicExists  InvalidTopic  InvalidConfig
    │                               PolicyViolation  BatchTooLarge  InvalidTimestamp
    ├── publishing                  DeliveryFailed, with a FailedDelivery for each partition
    │                               TopicClaimed  ProducerFenced  NotEnoughReplicas
    │                               StagedBatchesMissing  InvalidDelay  InvalidSchedule
    │                               UnknownSchedule  NoReply
    ├── reading                     OffsetOutOfRange  InvalidFilter  Parked
    │   └── CorruptBatch            DamagedBatch
    ├── groups                      UnknownGroup  GroupNotEmpty  GroupSubscribed
    │                               UnknownMember  FencedInstance
    │                               PartitionClaimed  PartitionLost  SubscriptionTaken
    │                               InconsistentSubscription  UnknownLease  UnknownClient
    ├── StorageError                DiskFull  StorageFailed  CorruptLog
    ├── UnavailableError            TimedOut  Busy  ShuttingDown  ConnectionLost
    │                               RegistryUnavailable
    └── InvalidRequest, ClientClosed

Not all there are (`penstock.model.errors`): what a client deals with by itself, as by asking the
partition's new leader, no program sees. The invariant: nothing is defined here.
"""

from __future__ import annotations

from penstock.client.errors import DamagedBatch as DamagedBatch
from penstock.client.errors import DeliveryFailed as DeliveryFailed
from penstock.client.errors import FailedDelivery as FailedDelivery
from penstock.model.errors import BatchTooLarge as BatchTooLarge
from penstock.model.errors import Busy as Busy
from penstock.model.errors import ClientClosed as ClientClosed
from penstock.model.errors import ConnectionLost as ConnectionLost
from penstock.model.errors import CorruptBatch as CorruptBatch
from penstock.model.errors import CorruptLog as CorruptLog
from penstock.model.errors import DiskFull as DiskFull
from penstock.model.errors import FencedInstance as FencedInstance
from penstock.model.errors import GroupNotEmpty as GroupNotEmpty
from penstock.model.errors import GroupSubscribed as GroupSubscribed
from penstock.model.errors import InconsistentSubscription as InconsistentSubscription
from penstock.model.errors import InvalidConfig as InvalidConfig
from penstock.model.errors import InvalidDelay as InvalidDelay
from penstock.model.errors import InvalidFilter as InvalidFilter
from penstock.model.errors import InvalidRequest as InvalidRequest
from penstock.model.errors import InvalidSchedule as InvalidSchedule
from penstock.model.errors import InvalidTimestamp as InvalidTimestamp
from penstock.model.errors import InvalidTopic as InvalidTopic
from penstock.model.errors import NoReply as NoReply
from penstock.model.errors import NotEnoughReplicas as NotEnoughReplicas
from penstock.model.errors import OffsetOutOfRange as OffsetOutOfRange
from penstock.model.errors import Parked as Parked
from penstock.model.errors import PartitionClaimed as PartitionClaimed
from penstock.model.errors import PartitionLost as PartitionLost
from penstock.model.errors import PenstockError as PenstockError
from penstock.model.errors import PolicyViolation as PolicyViolation
from penstock.model.errors import ProducerFenced as ProducerFenced
from penstock.model.errors import RegistryUnavailable as RegistryUnavailable
from penstock.model.errors import ShuttingDown as ShuttingDown
from penstock.model.errors import StagedBatchesMissing as StagedBatchesMissing
from penstock.model.errors import StorageError as StorageError
from penstock.model.errors import StorageFailed as StorageFailed
from penstock.model.errors import SubscriptionTaken as SubscriptionTaken
from penstock.model.errors import TimedOut as TimedOut
from penstock.model.errors import TopicClaimed as TopicClaimed
from penstock.model.errors import TopicExists as TopicExists
from penstock.model.errors import UnavailableError as UnavailableError
from penstock.model.errors import UnknownClient as UnknownClient
from penstock.model.errors import UnknownGroup as UnknownGroup
from penstock.model.errors import UnknownLease as UnknownLease
from penstock.model.errors import UnknownMember as UnknownMember
from penstock.model.errors import UnknownSchedule as UnknownSchedule
from penstock.model.errors import UnknownTopic as UnknownTopic
