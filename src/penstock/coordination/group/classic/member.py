"""The members of a classic group, and which protocol they agree on.

Not what they wait for. The invariants: there is a protocol that every member supports (callers
ask `supports` first); an instance id belongs to one member; and the counts (supporters of a
protocol, bytes) are those of the members, so that a join costs the same in a large group.
"""

from __future__ import annotations

import base64
import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One member, as it last joined."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]
    record_bytes: int = field(init=False)
    """What it takes of the group's record, without its assignment."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "record_bytes", len(json.dumps(self.to_json())))

    def metadata(self, protocol: str) -> bytes | None:
        """Its metadata for the protocol, if it supports it."""
        for name, metadata in self.protocols:
            if name == protocol:
                return metadata
        return None

    def to_json(self) -> dict[str, object]:
        """All of its protocols, not only the one in use as Kafka does: after a restart of the
        broker the group can still choose among them."""
        return {
            "member": self.member_id,
            "instance": self.instance_id,
            "client": self.client_id,
            "host": self.client_host,
            "session_timeout_ms": self.session_timeout_ms,
            "rebalance_timeout_ms": self.rebalance_timeout_ms,
            "protocols": [
                [name, base64.b64encode(metadata).decode()] for name, metadata in self.protocols
            ],
        }


class Members:
    """The members by id, in the order in which they came."""

    def __init__(self) -> None:
        self._by_id: dict[str, Member] = {}
        self._ids_by_instance: dict[str, str] = {}
        self._supporters: Counter[str] = Counter()
        self.record_bytes = 0

    def __len__(self) -> int:
        return len(self._by_id)

    def __iter__(self) -> Iterator[Member]:
        return iter(self._by_id.values())

    def __contains__(self, member_id: str) -> bool:
        return member_id in self._by_id

    def __getitem__(self, member_id: str) -> Member:
        return self._by_id[member_id]

    def of_instance(self, instance_id: str | None) -> Member | None:
        """The static member of this instance id."""
        if instance_id is None:
            return None
        member_id = self._ids_by_instance.get(instance_id)
        return None if member_id is None else self._by_id[member_id]

    def put(self, member: Member) -> None:
        """Add the member, or take what it says now in place of what it said."""
        earlier = self._by_id.get(member.member_id)
        if earlier is not None:
            self._uncount(earlier)
        if member.instance_id is not None:
            holder = self._ids_by_instance.setdefault(member.instance_id, member.member_id)
            assert holder == member.member_id, f"{holder} and {member.member_id} are one instance"
        self._by_id[member.member_id] = member
        self._supporters.update(name for name, _ in member.protocols)
        self.record_bytes += member.record_bytes

    def remove(self, member_id: str) -> Member:
        member = self._by_id.pop(member_id)
        self._uncount(member)
        if member.instance_id is not None:
            del self._ids_by_instance[member.instance_id]
        return member

    def supports(self, protocols: Iterable[str], besides: Member | None) -> bool:
        """Whether all members, `besides` not counted, support one of these protocols."""
        own = {name for name, _ in besides.protocols} if besides is not None else set()
        others = len(self) - (besides is not None)
        return any(self._supporters[name] - (name in own) == others for name in protocols)

    def select_protocol(self) -> str:
        """The protocol most members like best of those that all support; among equals the one
        that the longest member likes."""
        votes: Counter[str] = Counter()
        for member in self:
            names = (name for name, _ in member.protocols)
            votes[next(name for name in names if self._supporters[name] == len(self))] += 1
        return max(votes, key=votes.__getitem__)

    def rebalance_timeout_ms(self) -> int:
        """As long as the most patient of them asks for."""
        return max((member.rebalance_timeout_ms for member in self), default=0)

    def _uncount(self, member: Member) -> None:
        for name, _ in member.protocols:
            self._supporters[name] -= 1
            if not self._supporters[name]:
                del self._supporters[name]
        self.record_bytes -= member.record_bytes
