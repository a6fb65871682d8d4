"""What can go wrong, as typed errors with a code that travels on the wire.

    PenstockError
    ├── ProtocolError        MalformedFrame  UnsupportedVersion  UnknownCall  FrameTooLarge
    ├── TopicError           UnknownTopic  TopicExists  InvalidTopic  InvalidConfig
    │                        TooManyPartitions
    ├── BatchError           CorruptBatch  InvalidBatch  BatchTooLarge
    ├── ProducerError        OutOfOrderSequence  ProducerFenced  UnknownProducer
    ├── OffsetOutOfRange
    ├── NotLeader
    ├── StorageError         DiskFull  StorageFailed  CorruptLog
    ├── UnavailableError     TimedOut  Busy  ShuttingDown  ConnectionLost
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


# --- reading, routing --------------------------------------------------------------------------


class OffsetOutOfRange(PenstockError):
    """The offset is before the first or after the last message of the partition."""

    code = 50


class NotLeader(PenstockError):
    """This broker does not lead the partition: refresh the route and ask its leader."""

    code = 51
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


def _tree(error: type[PenstockError]) -> dict[int, type[PenstockError]]:
    classes = {error.code: error}
    for child in error.__subclasses__():
        classes |= _tree(child)
    return classes


BY_CODE = _tree(PenstockError)


def from_code(code: int, message: str, *, retriable: bool = False) -> PenstockError:
    """The error a peer reported. Of a code that only a newer peer knows, what is left is whether
    the call may be tried again."""
    unknown = UnavailableError if retriable else PenstockError
    return BY_CODE.get(code, unknown)(message)
