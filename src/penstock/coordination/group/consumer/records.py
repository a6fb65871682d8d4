"""The records of a consumer group in the internal topic: JSON, so that a person can read them.

Not when they are written. A record replaces the earlier one of its key; each key names one thing
(the group's epochs, or a member's membership, target or current assignment), so that compaction
keeps exactly the state. The invariant: `decode` gives back what was encoded, or CorruptLog.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Final, TypeVar

from penstock.coordination.group.assignors.assignment import Assignment, collect, partitions_of
from penstock.coordination.group.consumer.membership import Membership
from penstock.coordination.group.consumer.messages import ManualPartitions
from penstock.coordination.group.consumer.reconciliation import Current, MemberState
from penstock.coordination.group.effects import Record
from penstock.coordination.group.records import member_record
from penstock.model.errors import CorruptLog
from penstock.model.ids import TopicId

_STATES: Final = {state.value: state for state in MemberState}
_Kind = TypeVar("_Kind")


@dataclass(frozen=True, slots=True, kw_only=True)
class Epochs:
    """Where the group as a whole stands."""

    epoch: int = 0
    """Rises whenever members, their subscriptions or their topics change."""
    assignment_epoch: int = 0
    """The epoch that the targets were worked out for."""
    topics_digest: str = ""
    """Of the topics and the assignor that they were worked out from."""
    empty_since_ms: int | None = None


@dataclass(slots=True)
class SavedGroup:
    """What the records of a group say, taken together."""

    epochs: Epochs = field(default_factory=Epochs)
    memberships: dict[str, Membership] = field(default_factory=dict)
    targets: dict[str, Assignment] = field(default_factory=dict)
    currents: dict[str, Current] = field(default_factory=dict)


def encode_epochs(group: str, epochs: Epochs) -> Record:
    return member_record("consumer-group", group, None, _fields(epochs))


def encode_membership(group: str, member_id: str, membership: Membership) -> Record:
    value = _fields(membership) | {"topic_names": sorted(membership.topic_names)}
    return member_record("consumer-member", group, member_id, value)


def encode_target(group: str, member_id: str, target: Assignment) -> Record:
    return member_record("consumer-target", group, member_id, {"partitions": target})


def encode_current(group: str, member_id: str, current: Current) -> Record:
    value = _fields(current) | {"state": current.state.value}
    return member_record("consumer-current", group, member_id, value)


def member_tombstones(group: str, member_id: str) -> list[Record]:
    """What it owns goes first: a member without it is one that has to join again."""
    kinds = ("consumer-current", "consumer-target", "consumer-member")
    return [member_record(kind, group, member_id, None) for kind in kinds]


def decode(records: Iterable[tuple[bytes, bytes]]) -> SavedGroup:
    """The group whose records these are, in any order. Raises CorruptLog."""
    saved = SavedGroup()
    for key_bytes, value_bytes in records:
        key, value = _object(key_bytes), _object(value_bytes)
        match key.get("kind"):
            case "consumer-group":
                saved.epochs = _epochs(value)
            case "consumer-member":
                saved.memberships[_get(key, "member", str)] = _membership(value)
            case "consumer-target":
                saved.targets[_get(key, "member", str)] = _assignment(value, "partitions")
            case "consumer-current":
                saved.currents[_get(key, "member", str)] = _current(value)
            case other:
                raise CorruptLog(
                    f"A record of a consumer group is of the kind {str(other)[:80]!r}."
                )
    return saved


def _epochs(value: Mapping[str, object]) -> Epochs:
    return Epochs(
        epoch=_get(value, "epoch", int),
        assignment_epoch=_get(value, "assignment_epoch", int),
        topics_digest=_get(value, "topics_digest", str),
        empty_since_ms=_get_or_none(value, "empty_since_ms", int),
    )


def _membership(value: Mapping[str, object]) -> Membership:
    names = _get(value, "topic_names", list)
    return Membership(
        instance_id=_get_or_none(value, "instance_id", str),
        rack_id=_get_or_none(value, "rack_id", str),
        client_id=_get(value, "client_id", str),
        client_host=_get(value, "client_host", str),
        rebalance_timeout_ms=_get(value, "rebalance_timeout_ms", int),
        topic_names=frozenset(_check(name, "topic_names", str) for name in names),
        topic_pattern=_get_or_none(value, "topic_pattern", str),
        assignor=_get_or_none(value, "assignor", str),
        claims=_claims(value),
    )


def _claims(value: Mapping[str, object]) -> ManualPartitions | None:
    """Records of earlier versions have none."""
    found = _get_or_none(value, "claims", list)
    if found is None:
        return None
    claims = []
    for claim in found:
        match claim:
            case [str(topic), int(partition)]:
                claims.append((topic, partition))
            case _:
                raise CorruptLog(f"A record of a consumer group claims {str(claim)[:80]!r}.")
    return tuple(claims)


def _current(value: Mapping[str, object]) -> Current:
    state = _get(value, "state", str)
    if state not in _STATES:
        raise CorruptLog(f"A record of a consumer group has the member state {state[:80]!r}.")
    return Current(
        epoch=_get(value, "epoch", int),
        previous_epoch=_get(value, "previous_epoch", int),
        state=_STATES[state],
        assigned=_assignment(value, "assigned"),
        revoking=_assignment(value, "revoking"),
    )


def _object(data: bytes) -> dict[str, object]:
    try:
        return _check(json.loads(data), "object", dict)
    except ValueError as error:
        raise CorruptLog("A record of a consumer group is not JSON.") from error


def _fields(value: Epochs | Membership | Current) -> dict[str, object]:
    """Not `asdict`, which copies every partition's number."""
    return {one.name: getattr(value, one.name) for one in fields(value)}


def _assignment(value: Mapping[str, object], name: str) -> Assignment:
    topics = _get(value, name, dict)
    assignment: dict[TopicId, tuple[int, ...]] = {}
    for topic, partitions in topics.items():
        numbers = _check(partitions, name, list)
        assignment[TopicId(topic)] = tuple(_check(number, name, int) for number in numbers)
    return collect(partitions_of(assignment))


def _get_or_none(value: Mapping[str, object], name: str, kind: type[_Kind]) -> _Kind | None:
    return None if value.get(name) is None else _get(value, name, kind)


def _get(value: Mapping[str, object], name: str, kind: type[_Kind]) -> _Kind:
    return _check(value.get(name), name, kind)


def _check(found: object, name: str, kind: type[_Kind]) -> _Kind:
    if not isinstance(found, kind):
        raise CorruptLog(
            f"A record of a consumer group has {str(found)[:80]!r} where its {name} should be."
        )
    return found
