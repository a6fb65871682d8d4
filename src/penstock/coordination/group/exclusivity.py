"""Which producer has a topic for itself (R-CORE-6), as the coordinator of groups keeps it.

Not who is let in: that is the partition's leader, who asks and believes the answer for a while
(`coordination.producers.exclusivity`). The invariants: a topic has one holder at most; the numbers
of claims grow, those of all topics together, so that a topic that is made again has none that was
used for the one before it; and a claim is granted only when every answer that named somebody else
has run out. Answers tell what is decided, so they run out CLAIM_VALID_MS after a decision, and this
waits CLAIM_SETTLE_MS from it. A coordinator that begins cannot know what the one before it answered
until then: it waits as long from its beginning.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from penstock.coordination.group.effects import Effects, Record, Ticket
from penstock.model.errors import Busy, CorruptLog, TopicClaimed
from penstock.model.limits import CLAIM_KEEP_MS, CLAIM_SETTLE_MS, CLAIMS_MAX

CLAIM_KIND: Final = "claim"
NO_CLAIM: Final = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimRequest:
    """A producer wants a topic for itself, or wants to keep it."""

    topic: str
    topic_id: str
    claimant: str
    """A word that only this producer knows."""
    client_name: str
    is_fencing: bool = False
    """Whether to take it from whoever has it."""
    claim: int = NO_CLAIM
    """The claim to keep; NO_CLAIM for a new one."""


@dataclass(frozen=True, slots=True)
class ClaimGranted:
    """The topic is the claimant's."""

    claim: int
    wait_ms: int
    """It may be told when so much time has passed, from the decision on."""


@dataclass(frozen=True, slots=True)
class ClaimHolder:
    """Who may write."""

    claim: int
    client_name: str


NOBODY: Final = ClaimHolder(NO_CLAIM, "")


@dataclass(slots=True, kw_only=True)
class _Claim:
    """The last claim of a topic."""

    topic: str
    claim: int
    claimant: str
    """Empty when it was released: the number is kept, so that the next one is higher."""
    client_name: str
    changed_ms: int
    """When answers began to say this."""
    settled_ms: int
    """When no answer says anything else."""
    keep_until_ms: int


class ExclusiveTopics:
    """Who has which topic for itself. What is refused is an answer."""

    def __init__(self) -> None:
        self._claims: dict[str, _Claim] = {}
        # Of all claims there ever were.
        self._highest = NO_CLAIM
        self._began_ms = 0

    def __len__(self) -> int:
        return len(self._claims)

    def claim(self, ticket: Ticket[ClaimGranted], request: ClaimRequest, now_ms: int) -> Effects:
        """Answered with ClaimGranted, or TopicClaimed that names who has the topic."""
        effects = Effects()
        last = self._claims.get(request.topic_id)
        if (
            last is not None
            and last.claimant == request.claimant
            and request.claim in (NO_CLAIM, last.claim)
        ):
            last.keep_until_ms = now_ms + CLAIM_KEEP_MS
            effects.answer(ticket, ClaimGranted(last.claim, max(last.settled_ms - now_ms, 0)))
        elif request.claim != NO_CLAIM:
            effects.answer(ticket, _lost(request, last))
        elif last is not None and _is_kept(last, now_ms) and not request.is_fencing:
            effects.answer(ticket, _taken(last))
        else:
            granted = self._grant(request, last, now_ms)
            effects.record(_record(request.topic_id, granted))
            effects.answer(ticket, ClaimGranted(granted.claim, granted.settled_ms - now_ms))
        return effects

    def release(self, ticket: Ticket[None], topic_id: str, claimant: str, now_ms: int) -> Effects:
        """Answered with None, also where the claim was another's already."""
        effects = Effects()
        last = self._claims.get(topic_id)
        if last is not None and last.claimant and last.claimant == claimant:
            last.claimant = last.client_name = ""
            last.changed_ms = now_ms
            effects.record(_record(topic_id, last))
        effects.answer(ticket, None)
        return effects

    def check(self, ticket: Ticket[ClaimHolder], topic_id: str) -> Effects:
        """Answered with the ClaimHolder. A coordinator that was replaced must not answer it: it
        does not know what its successor granted."""
        effects = Effects(confirms=True)
        last = self._claims.get(topic_id)
        if last is None or not last.claimant:
            effects.answer(ticket, NOBODY)
        else:
            effects.answer(ticket, ClaimHolder(last.claim, last.client_name))
        return effects

    def forget_gone(self, topic_id_of: Callable[[str], str | None]) -> list[Record]:
        """Let go of the claims of topics that are deleted; not of the last, whose number tells
        which comes next."""
        gone = [
            topic_id
            for topic_id, claim in self._claims.items()
            if claim.claim < self._highest and topic_id_of(claim.topic) != topic_id
        ]
        for topic_id in gone:
            del self._claims[topic_id]
        return [Record(key=claim_key(topic_id), value=None) for topic_id in gone]

    def _grant(self, request: ClaimRequest, last: _Claim | None, now_ms: int) -> _Claim:
        if last is None and len(self._claims) >= CLAIMS_MAX:
            raise Busy(f"The broker keeps {CLAIMS_MAX} claims of topics and no more.")
        # Until when answers may have been given that name somebody else.
        if last is None:
            named_ms = self._began_ms
        else:
            named_ms = now_ms if last.claimant else max(last.changed_ms, self._began_ms)
        self._highest += 1
        granted = _Claim(
            topic=request.topic,
            claim=self._highest,
            claimant=request.claimant,
            client_name=request.client_name,
            changed_ms=now_ms,
            settled_ms=max(named_ms + CLAIM_SETTLE_MS, now_ms),
            keep_until_ms=now_ms + CLAIM_KEEP_MS,
        )
        self._claims[request.topic_id] = granted
        return granted

    # --- records -------------------------------------------------------------------------------

    def apply(self, topic_id: str, value: bytes | None) -> None:
        """Take in one record of the internal topic. After the last one: `restored`."""
        if value is None:
            self._claims.pop(topic_id, None)
            return
        try:
            what: dict[str, Any] = json.loads(value)
            claim = int(what["claim"])
            self._claims[topic_id] = _Claim(
                topic=str(what["topic"]),
                claim=claim,
                claimant=str(what["claimant"]),
                client_name=str(what["client_name"]),
                changed_ms=0,
                settled_ms=0,
                keep_until_ms=0,
            )
            self._highest = max(self._highest, claim)
        except (ValueError, KeyError, TypeError) as error:
            raise CorruptLog(f"The claim of topic {topic_id} cannot be read: {error!r}.") from error

    def restored(self, now_ms: int) -> None:
        """All records are applied: every holder has a whole period to claim again."""
        self._began_ms = now_ms
        for claim in self._claims.values():
            claim.changed_ms = now_ms
            claim.settled_ms = now_ms + CLAIM_SETTLE_MS
            claim.keep_until_ms = now_ms + CLAIM_KEEP_MS

    def records(self) -> Iterator[tuple[bytes, bytes]]:
        """Keys and values that lead here from nothing."""
        for topic_id, claim in self._claims.items():
            record = _record(topic_id, claim)
            assert record.value is not None
            yield record.key, record.value


def claim_key(topic_id: str) -> bytes:
    return json.dumps({"kind": CLAIM_KIND, "topic_id": topic_id}).encode()


def _record(topic_id: str, claim: _Claim) -> Record:
    value = {
        "topic": claim.topic,
        "claim": claim.claim,
        "claimant": claim.claimant,
        "client_name": claim.client_name,
    }
    return Record(key=claim_key(topic_id), value=json.dumps(value).encode())


def _is_kept(claim: _Claim, now_ms: int) -> bool:
    return bool(claim.claimant) and now_ms < claim.keep_until_ms


def _taken(last: _Claim) -> TopicClaimed:
    return TopicClaimed(
        f"Topic {last.topic!r} is claimed by {last.client_name!r} (claim {last.claim}): stop that "
        'producer, or take the topic from it with exclusive="fence".'
    )


def _lost(request: ClaimRequest, last: _Claim | None) -> TopicClaimed:
    if last is None or not last.claimant:
        who = "was given up"
    else:
        who = f"was taken over by {last.client_name!r} (claim {last.claim})"
    return TopicClaimed(f"Topic {request.topic!r} {who}: claim {request.claim} is no more.")
