"""What a consumer group (KIP-848) is asked, what it answers, how it is described and configured.

Not how it decides. Every message is frozen: the machine keeps what it was given, and the shell
encodes what it is answered, whenever its records are durable.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple, Protocol

from penstock.coordination.group.assignors.assignment import Assignment
from penstock.coordination.group.assignors.by_name import DEFAULT_ASSIGNOR
from penstock.model.ids import TopicId

ManualPartitions = tuple[tuple[str, int], ...]
"""Partitions by the names of their topics, each once, in order."""

JOIN_EPOCH: Final = 0
LEAVE_EPOCH: Final = -1
TEMPORARY_LEAVE_EPOCH: Final = -2
"""A static member goes and will be back: what it owns is kept for it."""


class TopicFacts(NamedTuple):
    """What a group has to know of a topic."""

    topic_id: TopicId
    partition_count: int


class Topics(Protocol):
    """The topics that exist, by name; a dict will do."""

    def __iter__(self) -> Iterator[str]: ...
    def get(self, name: str, /) -> TopicFacts | None: ...


class ConsumerGroupState(Enum):
    """As Kafka names them."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    """Something changed, and the next heartbeat works out who is to own what."""
    RECONCILING = "Reconciling"
    """Who is to own what is clear; some members still have to give up or take over partitions."""
    STABLE = "Stable"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupConfig:
    """What an operator decides about consumer groups; the defaults are Kafka's."""

    session_timeout_ms: int = 45_000
    """A member that is silent for longer is removed."""
    heartbeat_interval_ms: int = 5_000
    """How often members are told to call: a change reaches them within this time."""
    members_max: int = 1_000
    default_assignor: str = DEFAULT_ASSIGNOR
    """For groups whose members ask for none."""


# --- heartbeat ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerHeartbeat:
    """A member joins, stays or leaves: ConsumerGroupHeartbeat. What is None has not changed."""

    member_id: str
    """Made by the client (KIP-1082); one of version 0 may leave it empty when it joins."""
    member_epoch: int
    new_member_id: str = ""
    """The id to take where it has none, made by the shell."""
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int | None = None
    """How long the member may take to give up a partition. On the wire -1 stands for None."""
    topic_names: frozenset[str] | None = None
    topic_pattern: str | None = None
    """An empty one takes back an earlier one."""
    assignor: str | None = None
    claims: ManualPartitions | None = None
    """For the assignor "manual": what the member wants for itself. Kafka's protocol has none."""
    owned: Assignment | None = None
    is_point_to_point: bool = False
    """The topics named here are to be the group's alone. The coordinator sees to it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerHeartbeatAnswer:
    member_id: str
    member_epoch: int
    heartbeat_interval_ms: int
    assignment: Assignment | None
    """What the member may use from now on; None where it has not changed."""
    is_settled: bool = True
    """Whether the member has all that it is to have, and nothing that others wait for."""
    member_count: int = 0
    """Of the group."""


# --- description -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerMemberDescription:
    member_id: str
    member_epoch: int
    instance_id: str | None
    rack_id: str | None
    client_id: str
    client_host: str
    topic_names: tuple[str, ...]
    topic_pattern: str | None
    assigned: Assignment
    target: Assignment


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupDescription:
    name: str
    state: ConsumerGroupState
    epoch: int
    assignment_epoch: int
    assignor: str
    members: tuple[ConsumerMemberDescription, ...]
