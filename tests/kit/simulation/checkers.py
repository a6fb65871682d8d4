"""What must hold in a cluster, whatever happens to it: one function for each promise.

Each is told what it needs and raises a Violation that says who and where. They know nothing of the
world that calls them, so each can be shown a history made by hand that breaks its promise. Not when
they are called: that is each world's own. The invariant: a checker changes nothing but what it is
given to remember.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import combinations, pairwise
from typing import NamedTuple, Protocol

from penstock.raft.membership import Membership, Node
from penstock.raft.terms import TermHistory
from tests.kit.simulation.messages import is_message, origin


class Violation(AssertionError):
    """A promise was broken."""


class Fact(NamedTuple):
    """What stands at an offset: the term it was written in, and the record."""

    term: int
    key: bytes | None
    value: bytes | None


class Held(Protocol):
    """A batch of a copy."""

    @property
    def base_offset(self) -> int: ...
    @property
    def end_offset(self) -> int: ...
    @property
    def term(self) -> int: ...
    @property
    def facts(self) -> tuple[tuple[int, Fact], ...]:
        """By offset. Compaction leaves fewer than there are offsets."""
        ...


class Copy(Protocol):
    """What one node has of a log."""

    @property
    def node(self) -> Node: ...
    @property
    def is_compacted(self) -> bool: ...
    @property
    def start_offset(self) -> int: ...
    @property
    def end_offset(self) -> int: ...
    @property
    def held(self) -> Sequence[Held]: ...
    def facts(self) -> dict[int, Fact]: ...


class StoredCopy(Copy, Protocol):
    """One that is in files."""

    def stored_bytes(self, end_offset: int) -> bytes: ...


class Truth:
    """All that was ever committed of one partition, as the first copy that knew it had it."""

    def __init__(self) -> None:
        self.facts: dict[int, Fact] = {}
        self.end_offset = 0

    @property
    def messages(self) -> dict[int, Fact]:
        """Without what leaders write of their own."""
        return {offset: fact for offset, fact in self.facts.items() if is_message(fact.value)}


# --- consensus -----------------------------------------------------------------------------------


def one_leader_per_term(leaders: dict[int, Node], term: int, node: Node) -> None:
    """Election safety (paper, 5.2). leaders: by term; the node is added."""
    first = leaders.setdefault(term, node)
    if first != node:
        raise Violation(f"two leaders in term {term}: {first} and {node}")


def terms_of_a_name_never_go_back(led: dict[int, tuple[int, int]], topic: int, term: int) -> None:
    """Clients take older terms for outdated, though the topic is another of its name. led: in which
    terms each was led, the least and the latest, by the order that they were made in; the term is
    added."""
    least, latest = led.get(topic, (term, term))
    led[topic] = min(least, term), max(latest, term)
    for former, later in pairwise(sorted(led)):
        if led[former][1] > led[later][0]:
            raise Violation(
                f"a topic was led in term {led[former][1]}, and the next of its name is in term "
                f"{led[later][0]}"
            )


def leader_is_complete(truth: Truth, copy: Copy) -> None:
    """Paper, 5.4: who leads has everything that was ever committed and not deleted since."""
    held = copy.facts()
    missing = _missing(
        {at: fact for at, fact in truth.facts.items() if at >= copy.start_offset},
        held,
        is_compacted=copy.is_compacted,
    )
    if missing is not None:
        raise Violation(
            f"{copy.node} leads with {held.get(missing)} at offset {missing}, where "
            f"{truth.facts[missing]} is committed"
        )


def terms_are_those_stamped(copy: Copy, terms: TermHistory) -> None:
    """What was saved of a log's terms before it was written is so: elections and log matching rest
    on it. terms: as a start found them."""
    for batch in copy.held:
        # What a crash brought back from before the start is dropped again.
        is_known = terms.start_offset < batch.end_offset <= terms.end_offset
        if is_known and terms.term_before(batch.end_offset) != batch.term:
            raise Violation(f"{copy.node} takes {batch} for one of another term: {terms}")


def logs_match(copies: Sequence[Copy]) -> None:
    """Paper, 5.3: logs that have a position in common are the same up to it."""
    for one, other in combinations(copies, 2):
        ends = {(batch.end_offset, batch.term): at for at, batch in enumerate(other.held)}
        for at in range(len(one.held) - 1, -1, -1):
            same = ends.get((one.held[at].end_offset, one.held[at].term))
            if same is not None:
                _compare(one, one.held[: at + 1], other, other.held[: same + 1])
                break


def _compare(one: Copy, ours: Sequence[Held], other: Copy, theirs: Sequence[Held]) -> None:
    if not one.is_compacted:
        for our, their in zip(reversed(ours), reversed(theirs), strict=False):
            if our != their:
                raise Violation(f"{one.node} has {our} where {other.node} has {their}")
        return
    facts = {offset: fact for batch in theirs for offset, fact in batch.facts}
    for batch in ours:
        for offset, fact in batch.facts:
            if facts.get(offset, fact) != fact:
                raise Violation(
                    f"{one.node} has {fact} at offset {offset}, {other.node} {facts[offset]}"
                )


def committed_never_changes(truth: Truth, copy: Copy, before: int, after: int) -> None:
    """State machine safety (paper, 5.4.3): what a copy takes for committed, from one offset to the
    other, is what everybody before took for it. What nobody knew yet is added to the truth."""
    if after > copy.end_offset:
        raise Violation(f"{copy.node} has {after} for committed, and a log to {copy.end_offset}")
    fresh = _between(copy, before, after)
    if not copy.is_compacted:
        _without_a_gap(truth, copy, fresh, before)
    for batch in fresh:
        for offset, fact in batch.facts:
            if truth.facts.setdefault(offset, fact) != fact:
                raise Violation(
                    f"{copy.node} has {fact} for committed at offset {offset}, where "
                    f"{truth.facts[offset]} was"
                )
    truth.end_offset = max(truth.end_offset, after)


def _between(copy: Copy, before: int, after: int) -> list[Held]:
    found = []
    for batch in reversed(copy.held):
        if batch.end_offset <= before:
            break
        if batch.end_offset <= after:
            found.append(batch)
    return found[::-1]


def _without_a_gap(truth: Truth, copy: Copy, fresh: Sequence[Held], before: int) -> None:
    offset = min(max(before, copy.start_offset), truth.end_offset)
    for batch in fresh:
        if batch.base_offset > offset or len(batch.facts) != batch.end_offset - batch.base_offset:
            raise Violation(f"{copy.node} has nothing at offset {offset}, and {batch} after it")
        offset = max(offset, batch.end_offset)


def high_watermark_is_monotone(node: Node, before: int, after: int) -> None:
    """While a broker lives, what could be read stays readable."""
    if after < before:
        raise Violation(f"the high watermark of {node} went back from {before} to {after}")


# --- what was promised to producers --------------------------------------------------------------


def acknowledged_is_on_enough_disks(
    value: bytes | None,
    holders: Collection[Node],
    memberships: Iterable[Membership],
    min_insync_replicas: int,
) -> None:
    """R-REP-3, R-PRO-1: when a producer that waits for all is answered, a majority of the voters
    has it durably, and so many as the topic asks for. memberships: those that may be in force, the
    latest last."""
    memberships = list(memberships)
    has_majority = any(
        len(membership.voters.intersection(holders)) >= membership.majority
        for membership in memberships
    )
    has_minimum = len(memberships[-1].voters.intersection(holders)) >= min_insync_replicas
    if not (has_majority and has_minimum):
        raise Violation(
            f"{value!r} is acknowledged and on the disks of {sorted(holders)}; voters are "
            f"{sorted(memberships[-1].voters)}, and {min_insync_replicas} of them must have it"
        )


def acknowledged_is_committed(acknowledged: Mapping[int, bytes], truth: Truth) -> None:
    """R-REP-2: it was acknowledged at this offset, and stands there for ever."""
    for offset, value in acknowledged.items():
        fact = truth.facts.get(offset)
        if fact is None or fact.value != value:
            raise Violation(f"{value!r} was acknowledged at offset {offset}, where {fact} is")


def acknowledged_is_readable(
    acknowledged: Mapping[int, bytes], truth: Truth, copy: Copy, end_offset: int
) -> None:
    """R-REP-2: a reader of the copy finds all that was acknowledged and not deleted since. With
    compaction it, or a later message of its key."""
    promised = {
        offset: truth.facts[offset]
        for offset in acknowledged
        if copy.start_offset <= offset < end_offset
    }
    held = copy.facts()
    missing = _missing(promised, held, is_compacted=copy.is_compacted)
    if missing is not None:
        raise Violation(
            f"{acknowledged[missing]!r} was acknowledged at offset {missing}, and {copy.node} has "
            f"{held.get(missing)} there"
        )
    late = [offset for offset in acknowledged if offset >= end_offset]
    if late:
        raise Violation(f"{copy.node} can be read up to {end_offset}; {late} were acknowledged")


def idempotent_producers_are_exact(
    truth: Truth, idempotent: Collection[int], *, is_compacted: bool
) -> None:
    """R-PRO-2: what an idempotent producer sent stands there once, in its order and without a
    gap, though it was sent again and again."""
    latest: dict[int, int] = {}
    for offset, fact in sorted(truth.messages.items()):
        assert fact.value is not None
        producer, number = origin(fact.value)
        if producer in idempotent:
            expected = latest.get(producer, -1) + 1
            is_right = number >= expected if is_compacted else number == expected
            if not is_right:
                raise Violation(
                    f"producer {producer} has message {number} at offset {offset}, where "
                    f"{expected} is next"
                )
            latest[producer] = number


def sent_once_stands_once(truth: Truth) -> None:
    """Who never sends again finds nothing twice, idempotent or not."""
    seen: dict[bytes, int] = {}
    for offset, fact in truth.messages.items():
        assert fact.value is not None
        first = seen.setdefault(fact.value, offset)
        if first != offset:
            raise Violation(f"{fact.value!r} stands at offset {first} and at {offset}")


# --- what readers see ----------------------------------------------------------------------------


def offsets_are_functional(seen: dict[int, bytes], offset: int, value: bytes) -> None:
    """One offset, one value, whoever reads it whenever and wherever. seen: the value is added."""
    first = seen.setdefault(offset, value)
    if first != value:
        raise Violation(f"offset {offset} was read as {first!r}, and now as {value!r}")


def no_phantom(sent: Collection[bytes], offset: int, value: bytes) -> None:
    """Nothing is read that nobody sent."""
    if value not in sent:
        raise Violation(f"{value!r} was read at offset {offset}, and nobody sent it")


def read_is_committed(truth: Truth, offset: int, value: bytes) -> None:
    """Nothing is read that is not committed: it could be another value tomorrow."""
    fact = truth.facts.get(offset)
    if fact is None or fact.value != value:
        raise Violation(f"{value!r} was read at offset {offset}, and {fact} is committed there")


def reading_skips_nothing(position: int, batch: Held, *, is_compacted: bool) -> None:
    """R-STO-2: reading goes on where it was to go on."""
    is_next = batch.base_offset <= position < batch.end_offset
    if not is_next and not (is_compacted and position < batch.end_offset):
        raise Violation(f"offset {position} was asked for, and {batch} was read")


# --- copies, and time ----------------------------------------------------------------------------


def only_the_deleted_is_gone(node: Node, start_offset: int, deleted_offset: int) -> None:
    """A copy begins where something was deleted, by retention or on request, and not later."""
    if start_offset > deleted_offset:
        raise Violation(
            f"{node} begins at offset {start_offset}, and nothing after {deleted_offset} was to go"
        )


def copies_are_equal(one: StoredCopy, other: StoredCopy, end_offset: int) -> None:
    """At the end, byte for byte, as far as both reach back; with compaction, which each does when
    it likes, the latest of every key."""
    if one.is_compacted:
        ours, theirs = _latest(one, end_offset), _latest(other, end_offset)
        start_offset = max(one.start_offset, other.start_offset)
        for key in ours.keys() | theirs.keys():
            pair = ours.get(key), theirs.get(key)
            if pair[0] != pair[1] and any(at is not None and at[0] >= start_offset for at in pair):
                raise Violation(f"{one.node} has {pair[0]} for {key!r}, {other.node} {pair[1]}")
        return
    ours_bytes, their_bytes = one.stored_bytes(end_offset), other.stored_bytes(end_offset)
    length = min(len(ours_bytes), len(their_bytes))
    if ours_bytes[-length:] != their_bytes[-length:]:
        raise Violation(f"the copies of {one.node} and {other.node} differ")


def every_call_is_answered(node: Node, name: object, waiting: int) -> None:
    """Whoever still waits for a copy that is gone would wait for ever."""
    if waiting:
        raise Violation(f"{node} lets {name} go, and {waiting} calls have no answer")


def available_within(limit_ms: int, what: str, run_while: Callable[[int], bool]) -> None:
    """Once nothing fails any more, it comes true in time. run_while: runs until it does, for so
    long at most; whether it did."""
    if not run_while(limit_ms):
        raise Violation(f"{limit_ms} ms after everything was mended: {what}")


def _latest(copy: Copy, end_offset: int) -> dict[bytes | None, tuple[int, Fact]]:
    return {
        fact.key: (offset, fact)
        for offset, fact in sorted(copy.facts().items())
        if offset < end_offset and is_message(fact.value)
    }


def _missing(
    promised: Mapping[int, Fact], held: Mapping[int, Fact], *, is_compacted: bool
) -> int | None:
    """The first offset whose fact is not held, nor, with compaction, a later one of its key."""
    latest = {fact.key: offset for offset, fact in sorted(held.items())} if is_compacted else {}
    for offset, fact in promised.items():
        if held.get(offset) == fact:
            continue
        # What a leader wrote of its own may go as well.
        is_superseded = not is_message(fact.value) or latest.get(fact.key, -1) > offset
        if not (is_compacted and offset not in held and is_superseded):
            return offset
    return None
