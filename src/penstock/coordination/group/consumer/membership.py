"""Who a member of a consumer group is and what it asks for; and whether a heartbeat makes sense.

Not where it stands (`reconciliation`). The invariant: what `check_heartbeat` lets through is
within the limits, and a join says all that a member must say once.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from typing import Final

from penstock.coordination.group.assignors.by_name import ASSIGNORS
from penstock.coordination.group.consumer.messages import (
    JOIN_EPOCH,
    TEMPORARY_LEAVE_EPOCH,
    ConsumerHeartbeat,
    ManualPartitions,
)
from penstock.model.errors import InvalidRequest, UnsupportedAssignor
from penstock.model.limits import (
    MEMBER_NAME_LENGTH_MAX,
    NAMES_PER_CALL_MAX,
    SUBSCRIPTION_CHARACTERS_MAX,
)

MANUAL: Final = "manual"
"""The assignor by which a member gets what it claims, and nothing else."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Membership:
    """What a member said about itself, in all its heartbeats together."""

    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = 0
    topic_names: frozenset[str] = frozenset()
    topic_pattern: str | None = None
    assignor: str | None = None
    claims: ManualPartitions | None = None
    """What it wants for itself; None unless its assignor is MANUAL."""

    def updated(self, request: ConsumerHeartbeat) -> Membership:
        """With what the heartbeat says; the same object where it says nothing new."""
        said = {
            "instance_id": request.instance_id,
            "rack_id": request.rack_id,
            "rebalance_timeout_ms": request.rebalance_timeout_ms,
            "topic_names": request.topic_names,
            "assignor": request.assignor,
            "client_id": request.client_id,
            "client_host": request.client_host,
            "claims": request.claims,
        }
        changes: dict[str, object] = {
            name: value
            for name, value in said.items()
            if value is not None and value != getattr(self, name)
        }
        if request.topic_pattern is not None and request.topic_pattern != self.topic_pattern:
            changes["topic_pattern"] = request.topic_pattern or None
        if self.claims is not None and request.assignor not in (None, MANUAL):
            changes["claims"] = None
        return replace(self, **changes) if changes else self  # type: ignore[arg-type]

    def subscribes_like(self, other: Membership) -> bool:
        ours = (self.topic_names, self.topic_pattern, self.claims)
        return ours == (other.topic_names, other.topic_pattern, other.claims)


def check_heartbeat(request: ConsumerHeartbeat) -> None:
    """Raises InvalidRequest or UnsupportedAssignor."""
    if request.member_epoch < TEMPORARY_LEAVE_EPOCH:
        raise InvalidRequest(
            f"The member epoch is {request.member_epoch}: it is 0 to join, -1 or -2 to leave, "
            "or what the last answer said."
        )
    if not (request.member_id or request.member_epoch == JOIN_EPOCH):
        raise InvalidRequest("The member id is empty: send the one the member joined with.")
    if request.member_epoch == TEMPORARY_LEAVE_EPOCH and request.instance_id is None:
        raise InvalidRequest("Only a member with an instance id can leave for a while.")
    if request.member_epoch == JOIN_EPOCH:
        _check_join(request)
    names = (request.member_id, request.instance_id, request.rack_id)
    check_names((*names, request.client_id, request.client_host), request.topic_names or ())
    if request.instance_id == "" or request.rack_id == "":
        raise InvalidRequest("An instance id or a rack id is empty: leave it out instead.")
    if request.rebalance_timeout_ms is not None and request.rebalance_timeout_ms < 0:
        raise InvalidRequest(
            f"The rebalance timeout is {request.rebalance_timeout_ms} ms: it cannot be negative."
        )
    _check_assignor(request)


def _check_join(request: ConsumerHeartbeat) -> None:
    if request.rebalance_timeout_ms is None:
        raise InvalidRequest("A member that joins must give its rebalance timeout.")
    if request.topic_names is None and request.topic_pattern is None:
        raise InvalidRequest("A member that joins must say what it subscribes to.")
    if request.owned is None or request.owned:
        raise InvalidRequest("A member that joins must say that it owns no partitions.")
    assert request.member_id or request.new_member_id, "the shell gives an id to who has none"


def _check_assignor(request: ConsumerHeartbeat) -> None:
    if (request.assignor == MANUAL) != (request.claims is not None):
        raise UnsupportedAssignor(
            f"Who claims partitions takes the assignor {MANUAL!r}, and who takes it claims some: "
            "Kafka's consumers cannot, and assign themselves instead."
        )
    if request.assignor is not None and request.assignor not in (MANUAL, *ASSIGNORS):
        raise UnsupportedAssignor(
            f"There is no assignor {request.assignor[:80]!r}: take one of {', '.join(ASSIGNORS)}, "
            f"or {MANUAL} to claim partitions."
        )
    claims = request.claims or ()
    if len(claims) > NAMES_PER_CALL_MAX:
        raise InvalidRequest(
            f"{len(claims)} partitions are claimed: at most {NAMES_PER_CALL_MAX} are possible."
        )
    for topic, partition in claims:
        if topic not in (request.topic_names or ()):
            raise InvalidRequest(
                f"Partition {partition} of {topic[:80]!r} is claimed without a subscription to it."
            )


def check_names(names: Iterable[str | None], topics: Collection[str]) -> None:
    """What a member calls itself and its client, and what it subscribes to. InvalidRequest."""
    for name in names:
        if name is not None and len(name) > MEMBER_NAME_LENGTH_MAX:
            raise InvalidRequest(
                f"A name of the member has {len(name)} characters: the limit is "
                f"{MEMBER_NAME_LENGTH_MAX}."
            )
    if len(topics) > NAMES_PER_CALL_MAX or sum(map(len, topics)) > SUBSCRIPTION_CHARACTERS_MAX:
        raise InvalidRequest(
            f"The subscription names {len(topics)} topics: at most {NAMES_PER_CALL_MAX}, of "
            f"{SUBSCRIPTION_CHARACTERS_MAX} characters together, are possible."
        )
