"""What a classic group is asked, what it answers, and how it is described and configured.

Not how it decides. Every message is frozen: the machine keeps what it was given, and the shell
encodes what it is answered, whenever its records are durable.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from penstock.model.errors import PenstockError


class GroupState(Enum):
    """As Kafka names them."""

    EMPTY = "Empty"
    """No members; perhaps offsets."""
    PREPARING_REBALANCE = "PreparingRebalance"
    """Members are asked to join again, and wait for the others to do so."""
    COMPLETING_REBALANCE = "CompletingRebalance"
    """The generation is complete, and its members wait for what the leader assigns them."""
    STABLE = "Stable"
    DEAD = "Dead"
    """Deleted: nothing may be asked of it any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupConfig:
    """What an operator decides about classic groups."""

    session_timeout_ms_min: int = 6_000
    session_timeout_ms_max: int = 30 * 60 * 1000
    initial_rebalance_delay_ms: int = 3_000
    """How long the first generation of a group waits for more members: without it a deployment
    of ten consumers would rebalance ten times. It is waited again while members keep coming."""
    members_max: int = 1_000


# --- join --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinRequest:
    """A member wants to be in the group's next generation."""

    member_id: str
    """Empty for one that has no id yet."""
    new_member_id: str
    """The id to take where it has none: unique, and short, since the shell makes it."""
    instance_id: str | None = None
    """Given by a static member (KIP-345): who it is across restarts."""
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    """How long the member may take to join again. Version 0 of JoinGroup has none: the session
    timeout stands for it."""
    protocol_type: str
    protocols: tuple[tuple[str, bytes], ...]
    """Names with metadata, the one it likes best first."""
    requires_known_member_id: bool = False
    """The member can be told its id first and join with it (KIP-394; JoinGroup from version 4)."""
    supports_skipping_assignment: bool = False
    """The leader can be told that nothing changes (KIP-814; JoinGroup from version 9)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinedMember:
    """One member, as its leader is told of it."""

    member_id: str
    instance_id: str | None
    metadata: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinAnswer:
    """The generation is complete."""

    member_id: str
    generation: int
    protocol_type: str
    protocol: str
    leader: str
    members: tuple[JoinedMember, ...] = ()
    """Told to the leader alone."""
    skip_assignment: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberIdGiven:
    """The member is to join again with this id: Kafka's MEMBER_ID_REQUIRED."""

    member_id: str


Joined: TypeAlias = JoinAnswer | MemberIdGiven


# --- sync --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncRequest:
    """A member asks for its part; the leader's request carries everybody's."""

    member_id: str
    generation: int
    instance_id: str | None = None
    protocol_type: str | None = None
    protocol: str | None = None
    """What the member believes the group agreed on, from version 5 of SyncGroup."""
    assignments: Mapping[str, bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncAnswer:
    protocol_type: str
    protocol: str
    assignment: bytes


# --- heartbeat and leave -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatRequest:
    member_id: str
    generation: int
    instance_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatAnswer:
    """All is well."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeavingMember:
    """Named by its member id, or (an operator removes a static member) by its instance id."""

    member_id: str = ""
    instance_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaveRequest:
    members: tuple[LeavingMember, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaveResult:
    member_id: str
    instance_id: str | None
    error: PenstockError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaveAnswer:
    """One result for each member that was named, in that order."""

    results: tuple[LeaveResult, ...]


# --- description -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberDescription:
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes
    """Of the protocol in use; empty unless the group is stable, as in Kafka."""
    assignment: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDescription:
    name: str
    state: GroupState
    protocol_type: str
    """Empty for a group that never had members."""
    protocol: str
    """Empty unless the group is stable, as in Kafka."""
    members: tuple[MemberDescription, ...]
