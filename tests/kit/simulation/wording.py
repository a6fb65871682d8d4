"""Messages of nodes, and parcels of them, in words, for whoever reads a trace.

The invariant: whatever the bytes are, there is a line.
"""

from __future__ import annotations

from typing import assert_never

from penstock.model.errors import PenstockError
from penstock.raft.messages import (
    AppendAnswer,
    AppendRequest,
    CampaignRequest,
    Message,
    ResetRequest,
    VoteAnswer,
    VoteRequest,
)
from penstock.replication.parcels import wire


def describe_parcel(envelope: bytes, payload: bytes) -> str:
    try:
        parcel = wire.decode(envelope, memoryview(payload))
    except PenstockError as error:
        return f"a parcel that nobody understands: {error}"
    said = [
        f"{int(letter.partition.topic_id, 16) - 1}: {describe(letter.message, len(letter.payload))}"
        for letter in parcel.letters
    ]
    heartbeat = parcel.heartbeat
    if heartbeat is not None:
        claims = [f"{told.term}@{told.commit_offset}" for told in heartbeat.claims.values()]
        whole = " whole" if heartbeat.is_whole else ""
        said.append(f"heartbeat {heartbeat.version}{whole} {' '.join(claims)}".rstrip())
    return f"{parcel.sender} > {parcel.receiver}: {'; '.join(said)}"


def describe(message: Message, payload_bytes: int = 0) -> str:
    match message:
        case AppendRequest():
            what = "append" if message.batches else "is there"
            if payload_bytes:
                what = f"append {payload_bytes} bytes"
            place = f"{message.previous_term}@{message.previous_offset}"
            return f"{what} after {place} commit {message.commit_offset} term {message.term}"
        case AppendAnswer(is_matching=True):
            return f"has {message.end_offset} term {message.term}"
        case AppendAnswer():
            return f"has not {message.asked_offset}, {message.end_offset} term {message.term}"
        case VoteRequest():
            what = "would you vote" if message.is_trial else "vote"
            return f"{what} {message.last_term}@{message.end_offset} term {message.term}"
        case VoteAnswer():
            what = "would vote" if message.is_trial else "votes"
            return f"{what if message.is_granted else 'does not vote'} term {message.term}"
        case ResetRequest():
            return f"begin anew {message.start_term}@{message.start_offset} term {message.term}"
        case CampaignRequest():
            return f"campaign term {message.term}"
        case _:
            assert_never(message)
