"""The state machine of the meta servers: entries in the order of the log, and what became of each.

Pure: no clock, no chance, no disk. Every server applies every committed entry, and refuses alike
what contradicts the facts: so the leader need not foresee what will hold when an entry is
committed, and a refusal is as final as a change. Not the log (`metaserver.machine`).

The invariants: the same entries give the same state and the same outcomes on every server; a
refused entry leaves the facts as they are; an entry whose id is remembered is not applied again,
and has the outcome that it had. The controller stays controller as long as it is alive.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from penstock.model.error_codes import from_code
from penstock.model.errors import InvalidRequest, PenstockError
from penstock.model.ids import BrokerId
from penstock.model.limits import BROKER_ID_MAX, META_OUTCOMES_MAX, TOPICS_MAX
from penstock.model.topic_config import INT64_MAX
from penstock.registry.facts import Facts, apply
from penstock.registry.facts_json import facts_fields, read_facts
from penstock.registry.json_fields import (
    Fields,
    checked_number,
    decoded,
    document,
    hexadecimal,
    list_of,
    number,
)
from penstock.registry.metaserver.entries import ID_BYTES, Confirm, Entry, MakeCluster

NO_VERSION = -1
NOBODY = -1


class Outcome(NamedTuple):
    """What became of an entry."""

    version: int = NO_VERSION
    """Of the facts after it."""
    next_producer_id: int = 0
    """Before it."""
    controller: int = NOBODY
    """After it."""
    code: int = 0
    """Of the error that it was refused with; 0 if it was not."""
    message: str = ""

    @property
    def refusal(self) -> PenstockError | None:
        return from_code(self.code, self.message) if self.code else None


class MetaState:
    """What one server has applied."""

    def __init__(
        self,
        facts: Facts | None = None,
        controller: BrokerId | None = None,
        outcomes: Iterable[tuple[bytes, Outcome]] = (),
    ) -> None:
        self.facts = facts
        self.controller = controller
        self._outcomes = dict(outcomes)

    @property
    def version(self) -> int:
        return NO_VERSION if self.facts is None else self.facts.version

    def apply(self, entry: Entry) -> tuple[Outcome, bool]:
        """What became of the entry; and whether the facts are others since."""
        if isinstance(entry.action, Confirm):
            return self._outcome(), False
        known = self._outcomes.get(entry.id)
        if known is not None:
            return known, False
        before = self.facts
        try:
            self.facts = self._after(entry)
        except PenstockError as error:
            outcome = self._outcome()._replace(code=error.code, message=error.message)
        else:
            self._choose_controller()
            outcome = self._outcome()._replace(
                next_producer_id=0 if before is None else before.next_producer_id
            )
        self._outcomes[entry.id] = outcome
        if len(self._outcomes) > META_OUTCOMES_MAX:
            del self._outcomes[next(iter(self._outcomes))]
        return outcome, self.facts is not before

    def _after(self, entry: Entry) -> Facts:
        action = entry.action
        assert not isinstance(action, Confirm)
        if isinstance(action, MakeCluster):
            return Facts(cluster_id=action.cluster_id) if self.facts is None else self.facts
        if self.facts is None:
            raise InvalidRequest("There is no cluster yet: the first broker to come makes it.")
        after = apply(self.facts, action)
        if len(after.topics) > TOPICS_MAX:
            raise InvalidRequest(f"{TOPICS_MAX} topics are the limit: delete some first.")
        return after

    def _choose_controller(self) -> None:
        """Whoever is it stays it, since it may hold itself for it until it is known to be gone."""
        brokers = {} if self.facts is None else self.facts.brokers
        alive = [broker.id for broker in brokers.values() if broker.is_alive]
        if self.controller not in alive:
            self.controller = min(alive, default=None)

    def _outcome(self) -> Outcome:
        return Outcome(version=self.version, controller=plain_controller(self.controller))

    def snapshot(self, offset: int) -> Snapshot:
        """The state as it is, for good."""
        return Snapshot(offset, self.facts, self.controller, tuple(self._outcomes.items()))


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The state after all entries before the offset."""

    offset: int
    facts: Facts | None
    controller: BrokerId | None
    outcomes: tuple[tuple[bytes, Outcome], ...]

    def restore(self) -> MetaState:
        return MetaState(self.facts, self.controller, self.outcomes)


def encode_snapshot(snapshot: Snapshot) -> bytes:
    return document(
        {
            "offset": snapshot.offset,
            "facts": None if snapshot.facts is None else facts_fields(snapshot.facts),
            "controller": snapshot.controller,
            "outcomes": [[entry_id.hex(), *outcome] for entry_id, outcome in snapshot.outcomes],
        }
    )


def decode_snapshot(data: bytes, what: str) -> Snapshot:
    def read(fields: Fields) -> Snapshot:
        facts, controller = fields["facts"], fields["controller"]
        return Snapshot(
            number(fields, "offset", INT64_MAX),
            None if facts is None else read_facts(facts),
            None if controller is None else _broker_id(controller),
            tuple(map(_read_outcome, list_of(fields, "outcomes", META_OUTCOMES_MAX))),
        )

    return decoded(data, what, read)


def plain_controller(controller: BrokerId | None) -> int:
    """As envelopes have it."""
    return NOBODY if controller is None else controller


def _broker_id(value: object) -> BrokerId:
    return BrokerId(checked_number(value, "a broker id", BROKER_ID_MAX))


def _read_outcome(entry: Any) -> tuple[bytes, Outcome]:
    entry_id, version, next_producer_id, controller, code, message = entry
    outcome = Outcome(
        version if version == NO_VERSION else checked_number(version, "version", INT64_MAX),
        checked_number(next_producer_id, "next_producer_id", INT64_MAX),
        controller if controller == NOBODY else _broker_id(controller),
        checked_number(code, "an error's code", INT64_MAX),
        str(message),
    )
    return bytes.fromhex(hexadecimal(entry_id, 2 * ID_BYTES)), outcome
