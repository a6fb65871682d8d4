"""The records a leader writes of its own: the first of its term, and who has a copy from now on.

They are control batches, which every client skips. Not what they mean: that is Raft's. The
invariant: a batch that says it is a membership is one, or reading it is an InvalidBatch.
"""

from __future__ import annotations

import json
import struct
from typing import Final

from penstock.model.errors import InvalidBatch
from penstock.model.limits import MIB
from penstock.raft.membership import Membership
from penstock.records import control_batch, decode_batch
from penstock.records.header import BatchHeader
from penstock.replication.replica.members import membership, plain

# Kafka's kind of control record for it.
_LEADER_CHANGE: Final = 2
# "PS": far from the kinds that Kafka has or will have.
_MEMBERSHIP: Final = 0x5053
_KEY: Final = struct.Struct(">hh")
_OPENED_BYTES_MAX: Final = 1 * MIB


def first_of_term(now_ms: int) -> bytearray:
    """Paper, 8: what a leader writes to learn what is committed."""
    return control_batch(_LEADER_CHANGE, b"", timestamp_ms=now_ms)


def membership_batch(changed: Membership, now_ms: int) -> bytearray:
    return control_batch(_MEMBERSHIP, json.dumps(plain(changed)).encode(), timestamp_ms=now_ms)


def read_membership(header: BatchHeader, batch: memoryview) -> Membership | None:
    """The membership that the batch records, if it does."""
    if not header.is_control or not header.record_count:
        return None
    record = decode_batch(header, batch, _OPENED_BYTES_MAX)[0]
    if record.key is None or len(record.key) != _KEY.size:
        raise InvalidBatch("A control batch has a key that is none.")
    _, kind = _KEY.unpack(record.key)
    if kind != _MEMBERSHIP:
        return None
    try:
        voters, learners = json.loads(record.value or b"")
        return membership(voters, learners)
    except (ValueError, TypeError) as error:
        raise InvalidBatch(f"A record of who has a copy cannot be understood: {error}.") from None
