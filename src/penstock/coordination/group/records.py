"""What stands in the internal topic: whose record it is, and committed offsets as records.

JSON, so that a person can read the topic. A key names its group and, unless it is of an offset, its
kind; the group machines write the other kinds themselves. The invariant: a key is written alike by
every version, or compaction would keep two records of one thing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from json.encoder import encode_basestring_ascii as quote
from typing import Any, Final, NamedTuple

from penstock.coordination.group.effects import Record
from penstock.coordination.group.exclusivity import CLAIM_KIND
from penstock.coordination.group.offsets import CommittedOffset
from penstock.model.errors import CorruptLog

OFFSETS_TOPIC: Final = "__offsets"

OFFSET_KIND: Final = "offset"
CLASSIC_KIND: Final = "group"
SHARE_STATE_KIND: Final = "share-state"
CONFIRMATION_KIND: Final = "confirmation"
SETTINGS_KIND: Final = "group-settings"

CONFIRMATION: Final = Record(key=b'{"kind": "confirmation"}', value=None)
"""Says nothing: who could write it was the coordinator then."""


class RecordKey(NamedTuple):
    """What a record is about. That of a claim has the topic's id for its name."""

    kind: str
    group: str
    topic: str
    partition: int


def read_key(key: bytes) -> RecordKey:
    """Of a record in the topic. One of an offset has no kind: it was there first."""
    try:
        what = json.loads(key)
        kind = what.get("kind", OFFSET_KIND)
        if kind == CONFIRMATION_KIND:
            return RecordKey(kind, "", "", -1)
        if kind == CLAIM_KIND:
            return RecordKey(kind, "", str(what["topic_id"]), -1)
        if kind not in (OFFSET_KIND, SHARE_STATE_KIND):
            return RecordKey(str(kind), str(what["group"]), str(what.get("topic", "")), -1)
        return RecordKey(kind, str(what["group"]), str(what["topic"]), int(what["partition"]))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CorruptLog(
            f"A record of {OFFSETS_TOPIC} has a key that cannot be read: {error!r}."
        ) from error


def member_record(
    kind: str, group: str, member_id: str | None, value: Mapping[str, object] | None
) -> Record:
    """Of a group's machine: about one member or the group as a whole. No value: a tombstone."""
    key = {"kind": kind, "group": group} | ({} if member_id is None else {"member": member_id})
    return Record(key=_json(key), value=None if value is None else _json(value))


def _json(value: Mapping[str, object]) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def offset_key(group: str, topic: str, partition: int) -> bytes:
    # As json.dumps would, in a third of the time: a commit is the commonest thing a group does.
    return (
        f'{{"group": {quote(group)}, "topic": {quote(topic)}, "partition": {partition}}}'.encode()
    )


def encode_offset(group: str, committed: CommittedOffset) -> Record:
    expires = "null" if committed.expires_ms is None else committed.expires_ms
    value = (
        f'{{"offset": {committed.offset}, "metadata": {quote(committed.metadata)}, '
        f'"topic_id": {quote(committed.topic_id)}, "leader_epoch": {committed.leader_epoch}, '
        f'"committed_ms": {committed.committed_ms}, "expires_ms": {expires}}}'
    )
    return Record(key=offset_key(group, committed.topic, committed.partition), value=value.encode())


def read_offset(key: RecordKey, value: bytes, timestamp_ms: int) -> CommittedOffset:
    """The offset, committed at the record's own time where it does not say when."""
    try:
        what: dict[str, Any] = json.loads(value)
        expires_ms = what.get("expires_ms")
        return CommittedOffset(
            topic=key.topic,
            topic_id=str(what["topic_id"]),
            partition=key.partition,
            offset=int(what["offset"]),
            leader_epoch=int(what.get("leader_epoch", -1)),
            metadata=str(what["metadata"]),
            committed_ms=int(what.get("committed_ms", timestamp_ms)),
            expires_ms=None if expires_ms is None else int(expires_ms),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CorruptLog(
            f"An offset of group {key.group!r} cannot be read: {error!r}; delete the group."
        ) from error
