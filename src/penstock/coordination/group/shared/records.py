"""The records of a shared group in the internal topic: JSON, so that a person can read them.

Not when they are written, nor where the group stands in its partitions (`states`). Each key
names one thing (the group's facts, a member, or what a member is to read), so that compaction keeps
exactly the state. The invariant: `decode_shared` gives back what was encoded, or CorruptLog.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from penstock.coordination.group.assignors.assignment import Assignment, collect
from penstock.coordination.group.effects import Record
from penstock.coordination.group.records import member_record
from penstock.coordination.group.shared.membership import ShareMembership
from penstock.coordination.group.shared.settings import SharedSettings, from_json, to_json
from penstock.model.errors import CorruptLog
from penstock.model.ids import TopicId

SHARED_KINDS: Final = frozenset({"share-group", "share-member", "share-target"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareFacts:
    """Where the group as a whole stands."""

    incarnation: str
    """What tells it from an earlier group of its name."""
    settings: SharedSettings
    epoch: int = 0
    """Rises whenever members, their subscriptions or their topics change."""
    assignment_epoch: int = 0
    """The epoch that the targets were worked out for."""
    topics_digest: str = ""
    """Of the topics that they were worked out from."""
    empty_since_ms: int | None = None

    @property
    def is_unused(self) -> bool:
        """Whether nobody was ever in it: an operator has said where it begins, and no more."""
        return self.epoch == 0


@dataclass(slots=True)
class SavedShareGroup:
    """What the records of a group say, taken together."""

    facts: ShareFacts | None = None
    members: dict[str, ShareMembership] = field(default_factory=dict)
    targets: dict[str, Assignment] = field(default_factory=dict)


def encode_facts(group: str, facts: ShareFacts) -> Record:
    value = {
        "incarnation": facts.incarnation,
        "settings": to_json(facts.settings),
        "epoch": facts.epoch,
        "assignment_epoch": facts.assignment_epoch,
        "topics_digest": facts.topics_digest,
        "empty_since_ms": facts.empty_since_ms,
    }
    return member_record("share-group", group, None, value)


def encode_member(group: str, member_id: str, membership: ShareMembership) -> Record:
    value = {
        "rack_id": membership.rack_id,
        "client_id": membership.client_id,
        "client_host": membership.client_host,
        "topic_names": sorted(membership.topic_names),
    }
    return member_record("share-member", group, member_id, value)


def encode_share_target(group: str, member_id: str, target: Assignment) -> Record:
    return member_record("share-target", group, member_id, {"partitions": target})


def shared_tombstones(group: str, member_id: str) -> list[Record]:
    kinds = ("share-target", "share-member")
    return [member_record(kind, group, member_id, None) for kind in kinds]


def decode_shared(records: Iterable[tuple[bytes, bytes]]) -> SavedShareGroup:
    """The group whose records these are, in any order. Raises CorruptLog."""
    saved = SavedShareGroup()
    for key_bytes, value_bytes in records:
        try:
            _take(saved, json.loads(key_bytes), json.loads(value_bytes))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise CorruptLog(f"A record of a shared group cannot be read: {error!r}.") from error
    return saved


def _take(saved: SavedShareGroup, key: dict[str, Any], value: dict[str, Any]) -> None:
    match key["kind"]:
        case "share-group":
            saved.facts = _facts(value)
        case "share-member":
            saved.members[str(key["member"])] = _membership(value)
        case "share-target":
            saved.targets[str(key["member"])] = collect(
                (TopicId(str(topic)), int(number))
                for topic, numbers in value["partitions"].items()
                for number in numbers
            )
        case other:
            raise ValueError(f"no kind {str(other)[:80]!r}")


def _facts(value: dict[str, Any]) -> ShareFacts:
    empty_since_ms = value["empty_since_ms"]
    return ShareFacts(
        incarnation=str(value["incarnation"]),
        settings=from_json(value["settings"]),
        epoch=int(value["epoch"]),
        assignment_epoch=int(value["assignment_epoch"]),
        topics_digest=str(value["topics_digest"]),
        empty_since_ms=None if empty_since_ms is None else int(empty_since_ms),
    )


def _membership(value: dict[str, Any]) -> ShareMembership:
    rack_id = value["rack_id"]
    return ShareMembership(
        rack_id=None if rack_id is None else str(rack_id),
        client_id=str(value["client_id"]),
        client_host=str(value["client_host"]),
        topic_names=frozenset(str(name) for name in value["topic_names"]),
    )
