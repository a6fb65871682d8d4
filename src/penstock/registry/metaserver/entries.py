"""What the log of the meta servers holds: changes of facts, each under an id, as JSON.

Beside the changes that every registry knows there are two: that there is a cluster, and one that
changes nothing and shows, by being committed, that its leader led at that moment. Not what becomes
of them (`metaserver.state`). The invariant: what is read back is what was written; anything else is
CorruptFacts.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from penstock.registry.changes_json import change_fields, read_change
from penstock.registry.facts import Change
from penstock.registry.facts_json import read_cluster_id
from penstock.registry.json_fields import Fields, decoded, document, hexadecimal

ID_BYTES: Final = 16
_MAKE_CLUSTER: Final = "make_cluster"
_CONFIRM: Final = "confirm"


@dataclass(frozen=True, slots=True, kw_only=True)
class MakeCluster:
    """Let there be a cluster of this id, unless there is one."""

    cluster_id: str


@dataclass(frozen=True, slots=True)
class Confirm:
    """Nothing: see above."""


Action: TypeAlias = Change | MakeCluster | Confirm


@dataclass(frozen=True, slots=True)
class Entry:
    """One record of the log. The id was chosen by whoever wants it, by chance: an entry that comes
    again under the same id is the same."""

    id: bytes
    action: Action


def new_entry(action: Action) -> bytes:
    """The action under an id of its own."""
    return encode_entry(Entry(secrets.token_bytes(ID_BYTES), action))


def encode_entry(entry: Entry) -> bytes:
    return document({"id": entry.id.hex(), **_action_fields(entry.action)})


def decode_entry(data: bytes, what: str) -> Entry:
    def read(fields: Fields) -> Entry:
        return Entry(bytes.fromhex(hexadecimal(fields["id"], 2 * ID_BYTES)), _action(fields))

    return decoded(data, what, read)


def _action_fields(action: Action) -> dict[str, Any]:
    match action:
        case MakeCluster():
            return {"kind": _MAKE_CLUSTER, "cluster_id": action.cluster_id}
        case Confirm():
            return {"kind": _CONFIRM}
        case _:
            # A topic has an id of its own, which must not take the place of the entry's.
            return {"kind": "change", "change": change_fields(action)}


def _action(fields: Fields) -> Action:
    kind = fields["kind"]
    if kind == _MAKE_CLUSTER:
        return MakeCluster(cluster_id=read_cluster_id(fields))
    if kind == _CONFIRM:
        return Confirm()
    if kind != "change":
        raise ValueError(f"there is no entry of the kind {kind!r}")
    return read_change(fields["change"])
