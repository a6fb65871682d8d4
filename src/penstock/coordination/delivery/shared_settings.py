"""How a shared group hands out messages, and what its members may say of them.

Not the check of what a client asks for, which is the group's. The invariant: settings make sense
here, and the wait before an attempt never exceeds its limit nor falls below half of what it is
without jitter.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Final, NamedTuple

from penstock.model.limits import SHARE_ATTEMPTS_MAX, SHARE_WINDOW_OFFSETS_MAX

# Doubled so often, any backoff has reached its limit.
_DOUBLINGS_MAX: Final = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareSettings:
    """Of one group, the same in all of its partitions."""

    lease_ms: int = 30_000
    attempts_max: int = 5
    """After so many that failed the message is dead. Where it is lowered, those that have failed so
    often already are handed out once more."""
    backoff_ms: int = 1_000
    """Before the second attempt; twice as long before each further one. 0: at once."""
    backoff_ms_max: int = 5 * 60 * 1000
    is_ordered_by_key: bool = False
    window_max: int = SHARE_WINDOW_OFFSETS_MAX
    """Offsets from the first that is not done to the last that is looked at."""

    def __post_init__(self) -> None:
        assert self.lease_ms > 0, self.lease_ms
        assert 1 <= self.attempts_max <= SHARE_ATTEMPTS_MAX, self.attempts_max
        assert 0 <= self.backoff_ms <= self.backoff_ms_max, (self.backoff_ms, self.backoff_ms_max)
        assert 1 <= self.window_max <= SHARE_WINDOW_OFFSETS_MAX, self.window_max

    def backoff_after_ms(self, attempts: int, jitter: float) -> int:
        """How long a message waits that failed so often. Jitter, from 0 to 1, is for the upper
        half: those that failed together are not all tried again together, and none at once."""
        assert attempts > 0, attempts
        assert 0 <= jitter <= 1, jitter
        whole_ms = min(self.backoff_ms << min(attempts - 1, _DOUBLINGS_MAX), self.backoff_ms_max)
        return (whole_ms + int(whole_ms * jitter)) // 2


class Settlement(IntEnum):
    """What a member says of messages it holds; the numbers are the protocol's."""

    ACKNOWLEDGE = 1
    RELEASE = 2
    """For somebody else, at once or later. It does not count as an attempt."""
    REJECT = 3
    """For the dead letters."""
    EXTEND = 4
    """The member keeps it for a whole lease more."""
    FAIL = 5
    """Again after the backoff, or for the dead letters after the last attempt."""
    ABANDON = 6
    """The member leaves, and had begun with it: an attempt more, and for the others at once."""


class Lease(NamedTuple):
    """Messages that a member holds, and nobody else."""

    first: int
    last: int
    attempt: int
    """1: no attempt failed before, and no former leader can have leased it."""


class DeadMessage(NamedTuple):
    """One to copy to the dead letters."""

    offset: int
    attempts: int
    reason: str
