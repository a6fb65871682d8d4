"""The language of the scenarios in `claims/`: producers that want topics, and what they are told.

    claim A orders [fence]     A has no claim and wants one
    keep A orders              A claims again, with the number it was told
    release A orders
    check orders               what a leader is told
    wait 5000                  time passes
    delete orders              the topic is deleted and made again, with another id
    sweep                      the claims of topics that are gone are let go of
    restart                    another coordinator reads the records

An answer reads `claim 2` and, where it must wait, `claim 2, told after 625 ms`. The records written
follow in brackets.
"""

from __future__ import annotations

import json
from collections import Counter

from penstock.coordination.group.effects import Effects, Record
from penstock.coordination.group.exclusivity import (
    ClaimGranted,
    ClaimHolder,
    ClaimRequest,
    ExclusiveTopics,
)
from penstock.coordination.group.records import read_key
from penstock.model.errors import PenstockError
from tests.kit.models.tickets import Named


class ClaimsScript:
    """The claims of one coordinator after the other."""

    def __init__(self) -> None:
        self._claims = ExclusiveTopics()
        self._log: list[Record] = []
        self._now_ms = 1_000_000
        self._told: dict[tuple[str, str], int] = {}
        self._lives: Counter[str] = Counter()

    def interpret(self, command: str) -> str:
        verb, *words = command.split()
        match verb, words:
            case "claim" | "keep", [who, topic, *how]:
                claim = self._told[who, topic] if verb == "keep" else 0
                return self._claim(who, topic, claim, is_fencing=how == ["fence"])
            case "release", [who, topic]:
                return self._answer(
                    self._claims.release(Named("t"), self._id(topic), who, self._now_ms)
                )
            case "check", [topic]:
                return self._answer(self._claims.check(Named("t"), self._id(topic)))
            case "wait", [milliseconds]:
                self._now_ms += int(milliseconds)
                return "ok"
            case "delete", [topic]:
                self._lives[topic] += 1
                return "ok"
            case "sweep", []:
                return self._answer(Effects(records=self._claims.forget_gone(self._id)))
            case "restart", []:
                return self._restart()
        raise AssertionError(f"no command {command!r}")

    def _id(self, topic: str) -> str:
        return f"{topic}#{self._lives[topic]}"

    def _claim(self, who: str, topic: str, claim: int, *, is_fencing: bool) -> str:
        request = ClaimRequest(
            topic=topic,
            topic_id=self._id(topic),
            claimant=who,
            client_name=f"client {who}",
            is_fencing=is_fencing,
            claim=claim,
        )
        effects = self._claims.claim(Named("t"), request, self._now_ms)
        for _, what in effects.answers:
            if isinstance(what, ClaimGranted):
                self._told[who, topic] = what.claim
        return self._answer(effects)

    def _restart(self) -> str:
        """From the log, and from a checkpoint: both lead to the same."""
        claims, copy = ExclusiveTopics(), ExclusiveTopics()
        for record in self._log:
            claims.apply(read_key(record.key).topic, record.value)
        for key, value in self._claims.records():
            copy.apply(read_key(key).topic, value)
        assert list(claims.records()) == list(copy.records()) or len(claims) > 1
        claims.restored(self._now_ms)
        self._claims = claims
        return "ok"

    def _answer(self, effects: Effects) -> str:
        self._log += effects.records
        parts = []
        for _, what in effects.answers:
            match what:
                case ClaimGranted(claim, wait_ms):
                    wait = f", told after {wait_ms} ms" if wait_ms else ""
                    parts.append(f"claim {claim}{wait}")
                case ClaimHolder(claim, client_name):
                    parts.append(f"claim {claim} of {client_name!r}" if claim else "nobody")
                case PenstockError():
                    parts.append(f"{type(what).__name__}: {what}")
                case None:
                    parts.append("done")
        if effects.confirms:
            parts.append("if it is still the coordinator")
        for record in effects.records:
            value = None if record.value is None else json.loads(record.value)
            what = "gone" if value is None else f"{value['claim']} {value['claimant'] or 'free'}"
            parts.append(f"[{read_key(record.key).topic}: {what}]")
        return "\n".join(parts) or "nothing"
