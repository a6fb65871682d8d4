"""What stands in the two internal topics of staged writes.

`__staged` has a record for each staged batch: the key says whose it is and where it is to go, the
value is the batch as it came. `__writes` has the last decision of each write under the write's
name. Keys and decisions are JSON, so that a person can read the topics. The invariant: what is
read back equals what was written, and anything else is CorruptLog, never a guess.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from penstock.model.errors import CorruptLog, InvalidRequest
from penstock.model.limits import ATTEMPT_NAME_LENGTH_MAX, WRITE_NAME_LENGTH_MAX
from penstock.model.topic_config import INT64_MAX

STAGED_TOPIC: Final = "__staged"
WRITES_TOPIC: Final = "__writes"

# With the longest names, each of their characters of four bytes, a key has half of this.
STAGED_KEY_BYTES_MAX: Final = 4096
# In place of a batch's number: what the attempt had staged was dropped.
ABORTED: Final = -1


class StagedBatch(NamedTuple):
    """One staged batch: of which attempt it is which one, and where it is to go."""

    write: str
    epoch: int
    attempt: str
    sequence: int
    topic: str
    topic_id: str
    """A topic that was deleted and made again is another topic: what was meant for the first is
    not for the second."""
    partition: int
    records: int


class NamedAttempt(NamedTuple):
    """What a commit says of an attempt."""

    attempt: str
    batches: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """That an epoch counts, with these attempts in this order."""

    write: str
    epoch: int
    producer_id: int
    """Under it, and no other, the batches go to their partitions: so a partition can tell which
    of them it has."""
    attempts: tuple[NamedAttempt, ...]
    """Of a decision that is done: none, nobody needs them any more."""
    records: int
    decided_ms: int
    is_last: bool
    """The name of the write is not used again."""
    is_done: bool
    """All of it is in its partitions."""

    def done(self) -> Decision:
        return replace(self, attempts=(), is_done=True)


def check_write(write: str, epoch: int) -> None:
    """Refuse names and numbers that nobody should have to keep."""
    if not 0 < len(write) <= WRITE_NAME_LENGTH_MAX or not write.isprintable():
        raise InvalidRequest(
            f"A write is named {write[:80]!r}: give it 1 to {WRITE_NAME_LENGTH_MAX} characters "
            "that can be printed."
        )
    if not 0 <= epoch <= INT64_MAX:
        raise InvalidRequest(f"Epoch {epoch} of write {write!r}: an epoch is 0 or more.")


def check_attempt(attempt: str) -> None:
    if not 0 < len(attempt) <= ATTEMPT_NAME_LENGTH_MAX or not attempt.isprintable():
        raise InvalidRequest(
            f"An attempt is named {attempt[:80]!r}: give it 1 to {ATTEMPT_NAME_LENGTH_MAX} "
            "characters that can be printed."
        )


def aborted(write: str, epoch: int, attempt: str) -> StagedBatch:
    """The mark that what the attempt staged before does not count."""
    return StagedBatch(write, epoch, attempt, ABORTED, "", "", -1, 0)


def encode_staged(batch: StagedBatch) -> bytes:
    key = json.dumps(batch._asdict(), ensure_ascii=False).encode()
    assert len(key) <= STAGED_KEY_BYTES_MAX, len(key)
    return key


def decode_staged(key: bytes) -> StagedBatch:
    try:
        what = json.loads(key)
        return StagedBatch(
            write=str(what["write"]),
            epoch=int(what["epoch"]),
            attempt=str(what["attempt"]),
            sequence=int(what["sequence"]),
            topic=str(what["topic"]),
            topic_id=str(what["topic_id"]),
            partition=int(what["partition"]),
            records=int(what["records"]),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptLog(
            f"A record of {STAGED_TOPIC} has a key that cannot be read: {error!r}."
        ) from error


def encode_decision(decision: Decision) -> tuple[bytes, bytes]:
    """The key and the value of its record."""
    value = {
        "epoch": decision.epoch,
        "producer_id": decision.producer_id,
        "attempts": decision.attempts,
        "records": decision.records,
        "decided_ms": decision.decided_ms,
        "is_last": decision.is_last,
        "is_done": decision.is_done,
    }
    return decision_key(decision.write), json.dumps(value, ensure_ascii=False).encode()


def decision_key(write: str) -> bytes:
    return write.encode()


def decode_decision(key: bytes, value: bytes) -> Decision:
    try:
        what = json.loads(value)
        return Decision(
            write=key.decode(),
            epoch=int(what["epoch"]),
            producer_id=int(what["producer_id"]),
            attempts=tuple(
                NamedAttempt(str(attempt), int(batches)) for attempt, batches in what["attempts"]
            ),
            records=int(what["records"]),
            decided_ms=int(what["decided_ms"]),
            is_last=bool(what["is_last"]),
            is_done=bool(what["is_done"]),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptLog(f"The decision about a write cannot be read: {error!r}.") from error
