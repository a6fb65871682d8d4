"""Who a member of a shared group is and what it reads; and whether a heartbeat makes sense.

Not where its messages come from (`assignor`). The invariant: what `check_share_heartbeat`
lets through is within the limits, and a join says all that a member must say once.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from penstock.coordination.group.consumer.membership import check_names
from penstock.coordination.group.consumer.messages import JOIN_EPOCH, LEAVE_EPOCH
from penstock.coordination.group.shared.messages import ShareHeartbeat
from penstock.coordination.group.shared.settings import check_wanted
from penstock.model.errors import InvalidRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareMembership:
    """What a member said about itself, in all its heartbeats together."""

    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topic_names: frozenset[str] = frozenset()

    def updated(self, request: ShareHeartbeat) -> ShareMembership:
        """With what the heartbeat says; the same object where it says nothing new."""
        said = replace(
            self,
            rack_id=self.rack_id if request.rack_id is None else request.rack_id,
            client_id=request.client_id,
            client_host=request.client_host,
            topic_names=self.topic_names if request.topic_names is None else request.topic_names,
        )
        return self if said == self else said


def check_share_heartbeat(request: ShareHeartbeat) -> None:
    """Raises InvalidRequest or InvalidFilter."""
    if request.member_epoch < LEAVE_EPOCH:
        raise InvalidRequest(
            f"The member epoch is {request.member_epoch}: it is 0 to join, -1 to leave, or what "
            "the last answer said."
        )
    if not request.member_id:
        raise InvalidRequest("The member id is empty: a member makes its own.")
    if request.member_epoch == JOIN_EPOCH and not request.topic_names:
        raise InvalidRequest("A member that joins must name the topics that it reads.")
    if request.rack_id == "":
        raise InvalidRequest("The rack id is empty: leave it out instead.")
    names = (request.member_id, request.rack_id, request.client_id, request.client_host)
    check_names(names, request.topic_names or ())
    if request.settings is not None:
        check_wanted(request.settings)
