"""Where the shared groups stand in their partitions: what the leaders of those have written down.

Not what the bytes mean: whoever leads a partition makes them (`coordination.delivery`). The
invariants: a leader that was told its place is the only one that changes it until the next leader
asks, so what one of them was told is settled stays settled; and all states together are bounded.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from penstock.coordination.group.effects import Record
from penstock.coordination.group.offsets import Place
from penstock.coordination.group.records import SHARE_STATE_KIND, RecordKey
from penstock.coordination.group.shared.messages import SharePlace, ShareReset
from penstock.model.errors import Busy, CorruptLog, InvalidRequest, StaleTerm
from penstock.model.limits import (
    SHARE_STATE_BYTES_EACH,
    SHARE_STATE_BYTES_MAX,
    SHARE_STATES_BYTES_MAX,
)


class KeptState(NamedTuple):
    """Of one group in one partition."""

    topic: str
    topic_id: str
    """A topic that was deleted and made again is another topic, where nobody has read yet."""
    partition: int
    leader_term: int
    """Of the last leader that asked: nobody else writes."""
    state: bytes
    """Empty until the leader has written something."""
    sequence: int = 0
    """Of that leader's writes: a state that comes later than one made after it is refused."""


class ShareStates:
    """Of all groups, by their names."""

    def __init__(self) -> None:
        self._groups: dict[str, dict[Place, KeptState]] = {}
        self.size_bytes = 0
        """What all of them take in memory."""

    def __contains__(self, group: str) -> bool:
        return group in self._groups

    def __iter__(self) -> Iterator[tuple[str, KeptState]]:
        for group, states in self._groups.items():
            for state in states.values():
                yield group, state

    def of(self, group: str) -> list[KeptState]:
        return list(self._groups.get(group, {}).values())

    # --- what leaders do -----------------------------------------------------------------------

    def take_over(self, group: str, place: SharePlace) -> tuple[KeptState, list[Record]]:
        """The state, for whoever leads the partition in this term, and what to write down so that
        nobody of an earlier term changes it any more."""
        kept = self._find(group, place)
        if kept is not None and kept.leader_term == place.leader_term:
            return kept, []
        taken = _state(place, b"" if kept is None else kept.state)
        return taken, [self._put(group, taken)]

    def write(self, group: str, place: SharePlace, state: bytes) -> Record:
        """Only who has asked may write: it could not know what it replaces."""
        _check_size(place.topic, place.partition, state)
        kept = self._find(group, place)
        if kept is None or kept.leader_term != place.leader_term:
            raise StaleTerm(
                f"Group {group!r} was not asked where it stands in {place.topic}-"
                f"{place.partition} in term {place.leader_term}: read it first."
            )
        if place.sequence < kept.sequence:
            raise StaleTerm(
                f"Where group {group!r} stands in {place.topic}-{place.partition} was written "
                f"as number {kept.sequence}, and number {place.sequence} came after it."
            )
        return self._put(group, _state(place, state))

    def check_resets(self, resets: Sequence[ShareReset]) -> None:
        """Raise what would be wrong with them, before the first of them is made."""
        placed = [wanted for wanted in resets if wanted.state]
        for wanted in placed:
            _check_size(wanted.topic, wanted.partition, wanted.state)
        self._check_room(sum(SHARE_STATE_BYTES_EACH + len(wanted.state) for wanted in placed))

    def reset(self, group: str, wanted: ShareReset) -> Record | None:
        """What an operator decides. Whoever leads the partition has to ask again, which the group's
        new incarnation tells it."""
        if not wanted.state:
            return self.remove(group, wanted.topic, wanted.partition)
        kept = self._groups.get(group, {}).get((wanted.topic, wanted.partition))
        is_same = kept is not None and kept.topic_id == wanted.topic_id
        state = KeptState(
            topic=wanted.topic,
            topic_id=wanted.topic_id,
            partition=wanted.partition,
            leader_term=kept.leader_term if kept is not None and is_same else 0,
            state=wanted.state,
        )
        self._keep(group, state)
        return encode_state(group, state)

    def _find(self, group: str, place: SharePlace) -> KeptState | None:
        """What is kept of this very topic; StaleTerm if a later leader has asked."""
        kept = self._groups.get(group, {}).get((place.topic, place.partition))
        if kept is None or kept.topic_id != place.topic_id:
            return None
        if place.leader_term < kept.leader_term:
            raise StaleTerm(
                f"{place.topic}-{place.partition} has had a leader in term {kept.leader_term}, "
                f"and this is one of term {place.leader_term}."
            )
        return kept

    def _put(self, group: str, state: KeptState) -> Record:
        earlier = self._groups.get(group, {}).get((state.topic, state.partition))
        self._check_room(_size_bytes(state) - _size_bytes(earlier))
        self._keep(group, state)
        return encode_state(group, state)

    def _check_room(self, growth_bytes: int) -> None:
        """What does not grow is always taken."""
        if growth_bytes > 0 and self.size_bytes + growth_bytes > SHARE_STATES_BYTES_MAX:
            raise Busy(
                f"The broker keeps {SHARE_STATES_BYTES_MAX} bytes of where shared groups stand and "
                "no more: delete groups that nobody needs."
            )

    # --- the table -----------------------------------------------------------------------------

    def remove(self, group: str, topic: str, partition: int) -> Record | None:
        if not self._drop(group, topic, partition):
            return None
        return Record(key=state_key(group, topic, partition), value=None)

    def remove_group(self, group: str) -> list[Record]:
        return [
            Record(key=state_key(group, kept.topic, kept.partition), value=None)
            for kept in self.of(group)
            if self._drop(group, kept.topic, kept.partition)
        ]

    def apply(self, key: RecordKey, value: bytes | None) -> None:
        """Take in one record of the internal topic."""
        if value is None:
            self._drop(key.group, key.topic, key.partition)
        else:
            self._keep(key.group, _read(key, value))

    def _keep(self, group: str, state: KeptState) -> None:
        states = self._groups.setdefault(group, {})
        earlier = states.get((state.topic, state.partition))
        states[state.topic, state.partition] = state
        self.size_bytes += _size_bytes(state) - _size_bytes(earlier)

    def _drop(self, group: str, topic: str, partition: int) -> bool:
        states = self._groups.get(group, {})
        dropped = states.pop((topic, partition), None)
        if dropped is None:
            return False
        self.size_bytes -= _size_bytes(dropped)
        if not states:
            del self._groups[group]
        return True


def state_key(group: str, topic: str, partition: int) -> bytes:
    what = {"kind": SHARE_STATE_KIND, "group": group, "topic": topic, "partition": partition}
    return json.dumps(what, separators=(",", ":")).encode()


def encode_state(group: str, kept: KeptState) -> Record:
    # As json.dumps would, which looks at each of some ten thousand letters that need no escape.
    head = (
        f'{{"topic_id":{json.dumps(kept.topic_id)},"leader_term":{kept.leader_term},'
        f'"sequence":{kept.sequence},"state":"'
    )
    return Record(
        key=state_key(group, kept.topic, kept.partition),
        value=head.encode() + b64encode(kept.state) + b'"}',
    )


def _size_bytes(kept: KeptState | None) -> int:
    return 0 if kept is None else SHARE_STATE_BYTES_EACH + len(kept.state)


def _check_size(topic: str, partition: int, state: bytes) -> None:
    if not 0 < len(state) <= SHARE_STATE_BYTES_MAX:
        raise InvalidRequest(
            f"The state of a shared group in {topic}-{partition} has {len(state)} bytes: it must "
            f"have 1 to {SHARE_STATE_BYTES_MAX}."
        )


def _state(place: SharePlace, state: bytes) -> KeptState:
    return KeptState(
        topic=place.topic,
        topic_id=place.topic_id,
        partition=place.partition,
        leader_term=place.leader_term,
        state=state,
        sequence=place.sequence,
    )


def _read(key: RecordKey, value: bytes) -> KeptState:
    try:
        what = json.loads(value)
        return KeptState(
            topic=key.topic,
            topic_id=str(what["topic_id"]),
            partition=key.partition,
            leader_term=int(what["leader_term"]),
            state=b64decode(what["state"], validate=True),
            sequence=int(what.get("sequence", 0)),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CorruptLog(
            f"Where shared group {key.group!r} stands in {key.topic}-{key.partition} cannot be "
            f"read: {error!r}; delete the group."
        ) from error
