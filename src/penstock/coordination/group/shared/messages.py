"""What a shared group is asked, what it answers, how it is described and configured.

Not how it decides. Every message is frozen: the machine keeps what it was given, and the shell
encodes what it is answered, whenever its records are durable.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from penstock.coordination.group.assignors.assignment import Assignment
from penstock.coordination.group.shared.settings import SharedSettings, WantedSettings


class ShareGroupState(Enum):
    """As Kafka names them."""

    EMPTY = "Empty"
    STABLE = "Stable"


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareGroupConfig:
    """What an operator decides about shared groups."""

    session_timeout_ms: int = 45_000
    """A member that is silent for longer is removed."""
    heartbeat_interval_ms: int = 5_000
    """How often members of large groups are told to call; of small ones more often."""
    keeps_interval: bool = False
    """Whether members are told that interval, however many they are: somebody has set it."""
    decided: Mapping[str, int | bool] = field(default_factory=dict)
    """What an operator has decided of its `SharedSettings`: no member has a say in it."""
    start_ago_ms: int | None = None
    """Where it begins in partitions it has no place in, before now; None: as its settings say."""
    members_max: int = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareHeartbeat:
    """A member joins, stays or leaves: ShareGroupHeartbeat. What is None has not changed."""

    member_id: str
    """Made by the client."""
    member_epoch: int
    """0 to join, -1 to leave, or what the last answer said."""
    new_incarnation: str = ""
    """What tells the group from others of its name, if this member is its first; the shell's."""
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topic_names: frozenset[str] | None = None
    settings: WantedSettings | None = None
    is_point_to_point: bool = False
    """The topics are to be this group's alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareHeartbeatAnswer:
    member_id: str
    member_epoch: int
    heartbeat_interval_ms: int
    assignment: Assignment | None
    """Where the member may ask for messages from now on; None where it has not changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareMemberDescription:
    member_id: str
    member_epoch: int
    """Of the last answer since this coordinator looks after the group; 0 before it."""
    rack_id: str | None
    client_id: str
    client_host: str
    topic_names: tuple[str, ...]
    assigned: Assignment


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareGroupDescription:
    name: str
    state: ShareGroupState
    epoch: int
    assignment_epoch: int
    assignor: str
    settings: SharedSettings
    members: tuple[ShareMemberDescription, ...]


# --- what the leaders of partitions ask --------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class SharePlace:
    """A partition, and in which term whoever asks leads it."""

    topic: str
    topic_id: str
    partition: int
    leader_term: int
    sequence: int = 0
    """Of a write: rises from one to the next of a leader."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareReset:
    """Somebody lets a group begin elsewhere in a partition."""

    topic: str
    topic_id: str
    partition: int
    state: bytes
    """Empty: as if it had never been there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareReadAnswer:
    state: bytes
    """As it was written last; empty where the group has no place in the partition yet."""
    settings: SharedSettings
    incarnation: str
    """To be given back with every write: a group made again under its name is another."""
    sequence: int
    """Of the last write in this term."""
    start_ago_ms: int | None = None
    """Where it begins if it has no place yet, before now; None: as its settings say."""
