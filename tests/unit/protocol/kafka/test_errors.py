"""Every error of ours has a code of Kafka's, and the codes are Kafka's."""

from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode as KioErrorCode

from penstock.model import errors
from penstock.model.error_codes import BY_CODE
from penstock.model.errors import PenstockError
from penstock.protocol.kafka.errors import ErrorCode, code_of

# Where our clients and Kafka's do not agree on whether the same call may succeed later.
KAFKA_TRIES_AGAIN = {
    # A topic may be known to another broker already, or is being made: Kafka's clients ask for
    # new metadata. Ours has the same in its routes, for calls where it makes sense.
    errors.UnknownTopic,
    errors.UnknownTopicId,
    # Kafka's clients look for another leader. Until there are replicas they find the same one.
    errors.StorageError,
    errors.StorageFailed,
    # A producer's batch damaged on the way is what the code is made for; a consumer, which is
    # where ours comes from, reports it.
    errors.CorruptLog,
}
KAFKA_DOES_SOMETHING_FIRST = {
    # Join again, or heartbeat, then call again: Kafka's clients do so by name, not by this flag.
    errors.RebalanceInProgress,
    errors.StaleMemberEpoch,
}


@pytest.mark.parametrize("code", ErrorCode, ids=lambda code: code.name)
def test_codes_are_kafkas(code: ErrorCode) -> None:
    assert KioErrorCode(code).name == code.name.lower()


@pytest.mark.parametrize("kind", BY_CODE.values(), ids=lambda kind: kind.__name__)
def test_every_error_has_a_code(kind: type[PenstockError]) -> None:
    code = code_of(kind("What is wrong."))
    assert code is not ErrorCode.NONE


@pytest.mark.parametrize("kind", BY_CODE.values(), ids=lambda kind: kind.__name__)
def test_kafkas_clients_try_again_when_ours_would(kind: type[PenstockError]) -> None:
    is_retriable = KioErrorCode(code_of(kind())).retriable
    if kind in KAFKA_TRIES_AGAIN:
        assert is_retriable
        assert not kind.retriable
    elif kind in KAFKA_DOES_SOMETHING_FIRST:
        assert not is_retriable
        assert kind.retriable
    else:
        assert is_retriable == kind.retriable


def test_only_what_nobody_foresaw_is_an_unknown_error() -> None:
    """An error that says something has a code that says it too."""
    unforeseen = {
        kind for kind in BY_CODE.values() if code_of(kind()) is ErrorCode.UNKNOWN_SERVER_ERROR
    }
    assert unforeseen == {
        errors.PenstockError,
        errors.InternalError,
        errors.ClientClosed,  # of our own client: no broker says it
        errors.TopicError,  # bases, of which there are no instances
        errors.ProducerError,
        errors.StagedWriteError,  # Kafka's protocol has no call for these
        errors.StagedBatchesMissing,
    }


def test_a_subclass_has_the_code_of_the_nearest_class_that_has_one() -> None:
    assert code_of(errors.DiskFull()) is ErrorCode.KAFKA_STORAGE_ERROR
    assert code_of(errors.CorruptLog()) is ErrorCode.CORRUPT_MESSAGE
    assert code_of(errors.InvalidBatch()) is ErrorCode.INVALID_RECORD
    assert code_of(errors.InvalidTimestamp()) is ErrorCode.INVALID_TIMESTAMP
    assert code_of(errors.MalformedFrame()) is ErrorCode.INVALID_REQUEST
    assert code_of(errors.UnsupportedVersion()) is ErrorCode.UNSUPPORTED_VERSION
