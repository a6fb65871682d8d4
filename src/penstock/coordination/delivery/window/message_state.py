"""What a message of a shared group can be in, from the log to done.

    awaited -> available -> leased -> done                       (acknowledged)
                  ^ ^          |----> waiting ---> available     (released for later, failed)
                  | |          '----> dying -----> done          (rejected, or failed too often)
        blocked --' '-- in doubt                                 (perhaps leased by a former leader)

Not the transitions, which are `window`'s and `shared_partition`'s. The invariant: states compare
equal exactly if the same may become of both messages, so that neighbours can be told as one run.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

from penstock.model.message_headers import PRIORITY_DEFAULT


class Kind(IntEnum):
    """Where a message stands. Each is in exactly one of them."""

    DONE = 0
    """Acknowledged, dead and copied, expired, or not for this group: never handed out again."""
    AVAILABLE = 1
    LEASED = 2
    IN_DOUBT = 3
    """Perhaps leased by a former leader: whoever settles it is taken for its holder."""
    WAITING = 4
    """For the end of a backoff, or of the delay it was released with."""
    BLOCKED = 5
    """An earlier message of its key is not done."""
    AWAITED = 6
    """Nobody's, but the log was not read here yet, so its key and its expiry are not known."""
    DYING = 7
    """For the dead letters, until its copy is there."""


KINDS = len(Kind)


class State(NamedTuple):
    """One tuple for all kinds, so that two kinds never compare equal. Fields that do not matter
    for a kind have their defaults."""

    kind: Kind
    attempts: int = 0
    """Those that failed. The present one, of a leased message, is not among them."""
    member: str = ""
    until_ms: int = 0
    """When it changes by itself: leased, in doubt, waiting; dying, if it is to be copied later."""
    priority: int = PRIORITY_DEFAULT
    """Of available messages only: the others are not put in order."""
    is_doubtful: bool = False
    """Was in doubt, and was not handed out since: a settlement that comes late still counts."""
    reason: str = ""

    def is_settled_by(self, member: str) -> bool:
        """Whether the member may say what became of the message."""
        if self.kind is Kind.LEASED:
            return self.member == member
        return self.kind is Kind.IN_DOUBT or self.is_doubtful


DONE = State(Kind.DONE)
