"""How long a node waits for a leader before it campaigns, and for the answers to a campaign.

Not the time itself, which Raft is told. The invariant: not all nodes wait equally long, and none
gives up a campaign again and again before it can be answered.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from penstock.raft.campaign import Campaign

# The delay before a campaign is divided by this when the leader seems to be gone.
_SUSPICION: Final = 4
# A campaign is given so many times as long as the first at most.
_TIMES_MAX: Final = 8


class Patience:
    """Of one node."""

    __slots__ = ("_draw_delay_ms", "_election_ms", "_times")

    def __init__(self, election_ms: int, draw_delay_ms: Callable[[], int]) -> None:
        """draw_delay_ms: by chance; what a node waits longer than it must."""
        self._election_ms = election_ms
        self._draw_delay_ms = draw_delay_ms
        # How many times as long as usual a campaign in earnest is given.
        self._times = 1

    def wait_ms(self, part: object) -> int:
        """How long to play the part before something else is tried."""
        delay_ms = self._election_ms + self._draw_delay_ms()
        return delay_ms * (self._times if _is_in_earnest(part) else 1)

    def soon_ms(self) -> int:
        """How long to wait for a leader that seems to be gone: only so that not all try at once."""
        return self._draw_delay_ms() // _SUSPICION

    def learn(self, part: object) -> None:
        """The next campaign is given longer if the last one ended before it was even answered:
        votes are saved before they are given, and with many logs on a slow disk that may take
        longer than an election. To begin again each time would never end. (As KRaft backs off,
        but not where votes were split: those who said no were fast enough.)"""
        if isinstance(part, Campaign) and not part.is_trial:
            self._times = 1 if part.is_answered else min(2 * self._times, _TIMES_MAX)

    def forget(self) -> None:
        """A campaign was won."""
        self._times = 1


def _is_in_earnest(part: object) -> bool:
    return isinstance(part, Campaign) and not part.is_trial
