"""A classic group as one record of the internal topic, and back.

Not when it is written: that is when a generation has its assignments, when a static member was
replaced without a rebalance, and when the last member is gone. JSON, so that a person can read it.
The invariant: `decode_group(encode_group(name, snapshot).value)` is the snapshot.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from penstock.coordination.group.classic.member import Member
from penstock.coordination.group.effects import Record
from penstock.model.errors import CorruptLog


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSnapshot:
    """What outlives the broker's process."""

    generation: int
    protocol_type: str | None
    protocol: str | None
    leader: str | None
    empty_since_ms: int | None
    members: tuple[Member, ...]
    assignments: Mapping[str, bytes]


def group_key(name: str) -> bytes:
    return json.dumps({"kind": "group", "group": name}).encode()


def encode_group(name: str, snapshot: GroupSnapshot) -> Record:
    value = {
        "generation": snapshot.generation,
        "protocol_type": snapshot.protocol_type,
        "protocol": snapshot.protocol,
        "leader": snapshot.leader,
        "empty_since_ms": snapshot.empty_since_ms,
        "members": [
            member.to_json() | {"assignment": _text(snapshot.assignments[member.member_id])}
            for member in snapshot.members
        ],
    }
    return Record(key=group_key(name), value=json.dumps(value).encode())


def decode_group(name: str, value: bytes) -> GroupSnapshot:
    """What the record says. The record comes from a disk: it may be damaged."""
    try:
        what = json.loads(value)
        snapshot = GroupSnapshot(
            generation=int(what["generation"]),
            protocol_type=what["protocol_type"],
            protocol=what["protocol"],
            leader=what["leader"],
            empty_since_ms=what["empty_since_ms"],
            members=tuple(_member(member) for member in what["members"]),
            assignments={
                member["member"]: _bytes(member["assignment"]) for member in what["members"]
            },
        )
        _check(snapshot)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CorruptLog(
            f"The record of group {name!r} cannot be read ({error!r}): delete the group."
        ) from error
    return snapshot


def _member(what: Mapping[str, Any]) -> Member:
    return Member(
        member_id=what["member"],
        instance_id=what["instance"],
        client_id=what["client"],
        client_host=what["host"],
        session_timeout_ms=what["session_timeout_ms"],
        rebalance_timeout_ms=what["rebalance_timeout_ms"],
        protocols=tuple((name, _bytes(metadata)) for name, metadata in what["protocols"]),
    )


def _check(snapshot: GroupSnapshot) -> None:
    """Whether the parts agree, as far as the machine relies on it."""
    instances = [member.instance_id for member in snapshot.members if member.instance_id]
    if len(snapshot.assignments) < len(snapshot.members) or len(set(instances)) < len(instances):
        raise ValueError("a member is there twice")
    agreement = (snapshot.protocol_type, snapshot.protocol, snapshot.leader)
    if snapshot.members and None in agreement:
        raise ValueError("it has members and no protocol or leader")
    for member in snapshot.members:
        if member.metadata(str(snapshot.protocol)) is None:
            raise ValueError(f"{member.member_id!r} does not support {snapshot.protocol!r}")


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _bytes(text: str) -> bytes:
    return base64.b64decode(text, validate=True)
