"""What the leader of a partition knows of who may write to its topic (R-CORE-6).

Not how it asks, and not what is decided (`group.exclusivity`). The invariant: nobody is let in
by an answer that is older than it says it is valid, counted from when it was asked. A producer is
refused only by an answer that cannot be older than its claim.
"""

from __future__ import annotations

from enum import Enum, auto
from math import inf
from typing import Final

from penstock.model.errors import TopicClaimed
from penstock.model.limits import CLAIM_VALID_MS

# A leader with traffic asks again when so much of an answer's time is over.
_RENEW_PART: Final = 0.5


class Verdict(Enum):
    """What is to become of a batch."""

    MAY_WRITE = auto()
    REFUSED = auto()
    UNKNOWN = auto()
    """It waits for an answer that was asked for after it came."""


class ClaimView:
    """Of one topic. Times are those of one clock that never goes back, in seconds."""

    def __init__(self) -> None:
        self._claim = 0
        self._client_name = ""
        self._asked_s = -inf
        self._valid_until_s = -inf
        self._renew_at_s = -inf

    def learn(self, claim: int, client_name: str, valid_ms: int, asked_s: float) -> None:
        """The coordinator's answer to what was asked then."""
        valid_s = min(valid_ms, CLAIM_VALID_MS) / 1000
        self._claim = claim
        self._client_name = client_name
        self._asked_s = asked_s
        self._valid_until_s = asked_s + valid_s
        self._renew_at_s = asked_s + valid_s * _RENEW_PART

    def judge(self, claim: int, came_s: float, now_s: float) -> Verdict:
        """May a batch be written now that came then, by the producer who has this claim? 0: by one
        who has none."""
        if now_s >= self._valid_until_s:
            return Verdict.UNKNOWN
        if claim == self._claim and claim:
            return Verdict.MAY_WRITE
        # Numbers grow: one that is lower is gone, and one that is higher may be newer than this.
        if claim < self._claim or not claim or came_s <= self._asked_s:
            return Verdict.REFUSED
        return Verdict.UNKNOWN

    def is_due(self, now_s: float) -> bool:
        """Whether to ask again before the answer has run out."""
        return now_s >= self._renew_at_s

    def refusal(self, topic: str, claim: int) -> TopicClaimed:
        if claim:
            who = f"was taken over by {self._client_name!r}" if self._claim else "was given up"
            return TopicClaimed(f"Topic {topic!r} {who}: claim {claim} is no more.")
        if self._claim:
            who = f"and {self._client_name!r} has claimed it"
        else:
            who = "and nobody has claimed it"
        return TopicClaimed(
            f"Topic {topic!r} takes messages of one producer alone, {who}. {ADVICE}"
        )


ADVICE: Final = (
    'Claim it with mq.producer(exclusive="refuse"), or exclusive="fence" to take it over.'
)
