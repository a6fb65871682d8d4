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
# In one campaign, those who say nothing are asked so often at most.
_ROUNDS_MAX: Final = 8


class Patience:
    """Of one node."""

    __slots__ = ("_draw_delay_ms", "_election_ms", "_rounds")

    def __init__(self, election_ms: int, draw_delay_ms: Callable[[], int]) -> None:
        """draw_delay_ms: by chance; what a node waits longer than it must."""
        self._election_ms = election_ms
        self._draw_delay_ms = draw_delay_ms
        # How often a campaign in earnest may ask.
        self._rounds = 1

    def wait_ms(self) -> int:
        """How long to wait before something else is tried."""
        return self._election_ms + self._draw_delay_ms()

    def soon_ms(self) -> int:
        """How long to wait for a leader that seems to be gone: only so that not all try at once."""
        return self._draw_delay_ms() // _SUSPICION

    def is_enough_for(self, campaign: Campaign) -> bool:
        """Whether to go on with it, and ask those again who said nothing."""
        return not campaign.is_trial and campaign.rounds < self._rounds and not campaign.is_answered

    def learn(self, part: object) -> None:
        """The next campaign is given longer if the last one ended before it was even answered:
        votes are saved before they are given, and with many logs on a slow disk that may take
        longer than an election. To begin again each time would never end. (As KRaft backs off,
        but not where votes were split: those who said no were fast enough.)"""
        if isinstance(part, Campaign) and not part.is_trial:
            self._rounds = 1 if part.is_answered else min(2 * self._rounds, _ROUNDS_MAX)

    def forget(self) -> None:
        """A campaign was won."""
        self._rounds = 1
