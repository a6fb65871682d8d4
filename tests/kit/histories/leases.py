"""What a shared group did with one partition, and what must hold of it (R-DEL-3, R-DEL-11).

Events as members saw them, on one clock, in seconds; the checkers are named after what they show.
Not who records. The invariant: what is called a violation is one, however the network and the
processes delayed what they told each other: of a time that is not known, the bound is taken that
speaks for the broker.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

ACKNOWLEDGE, RELEASE, REJECT, EXTEND, FAIL = "acknowledge", "release", "reject", "extend", "fail"
# With these a message is not the member's any more.
_ENDINGS = (ACKNOWLEDGE, RELEASE, REJECT, FAIL)


class Leased(NamedTuple):
    """A message came to a member."""

    offset: int
    member: str
    leased_s: float
    """The broker leased it then or later: when it was asked, and as long as it says it waited."""
    came_s: float
    until_s: float
    """As the member was told."""
    attempt: int = 1


class Settled(NamedTuple):
    """A member said what became of a message."""

    offset: int
    member: str
    kind: str
    said_s: float
    told_s: float | None = None
    """When it was told that this is durable; None: it was refused, or never heard of it."""
    until_s: float = 0.0
    """Of an extension: as the member was told."""


class Lost(NamedTuple):
    """A member's connection ended, on its own side, then or later: it holds nothing any more."""

    member: str
    at_s: float


@dataclass
class DeliveryHistory:
    """Of one group in one partition."""

    attempts_max: int
    is_ordered: bool = False
    published: dict[int, bytes | None] = field(default_factory=dict)
    """The keys of what was acknowledged to producers, by offset."""
    leases: list[Leased] = field(default_factory=list)
    settlements: list[Settled] = field(default_factory=list)
    losses: list[Lost] = field(default_factory=list)
    dead: set[int] = field(default_factory=set)
    """Those that are among the dead letters at the end."""

    def violations(self, *, is_over: bool = True) -> list[str]:
        """is_over: the group has had the time to deal with everything."""
        found = [
            *self.acknowledged_and_leased_again(),
            *self.acknowledged_and_dead(),
            *self.two_holders(),
            *self.out_of_order(),
            *self.too_many_attempts(),
        ]
        if is_over:
            found += [*self.never_leased(), *self.failed_and_not_dead()]
        return found

    # --- what must hold ------------------------------------------------------------------------

    def acknowledged_and_leased_again(self) -> Iterator[str]:
        acknowledged = self._acknowledged()
        for lease in self.leases:
            told_s = acknowledged.get(lease.offset)
            if told_s is not None and lease.leased_s > told_s:
                yield (
                    f"{lease.offset} was acknowledged at {told_s:.3f} and leased to "
                    f"{lease.member} after {lease.leased_s:.3f}"
                )

    def acknowledged_and_dead(self) -> Iterator[str]:
        for offset in sorted(self._acknowledged().keys() & self.dead):
            yield f"{offset} was acknowledged, and is among the dead letters"

    def two_holders(self) -> Iterator[str]:
        """A member holds a message from when it came until it said what became of it, the lease
        ran out as it was told, or its connection ended."""
        said: defaultdict[tuple[int, str], list[Settled]] = defaultdict(list)
        for one in sorted(self.settlements, key=lambda one: one.said_s):
            said[one.offset, one.member].append(one)
        for offset, leases in _by_offset(self.leases).items():
            last_s, last_member = 0.0, ""
            for lease in sorted(leases, key=lambda lease: lease.came_s):
                end_s = self._end_s(lease, said[offset, lease.member])
                if end_s <= lease.came_s:
                    continue
                if lease.came_s < last_s:
                    yield (
                        f"{offset} came to {lease.member} at {lease.came_s:.3f}, and was with "
                        f"{last_member} until {last_s:.3f}"
                    )
                if end_s > last_s:
                    last_s, last_member = end_s, lease.member

    def never_leased(self) -> Iterator[str]:
        leased = {lease.offset for lease in self.leases}
        for offset in sorted(self.published.keys() - leased - self.dead):
            yield f"{offset} was published and never leased"

    def out_of_order(self) -> Iterator[str]:
        """A message of an ordered group comes after all earlier ones of its key are done."""
        if not self.is_ordered:
            return
        leases = _by_offset(self.leases)
        done_s = self._done_s()
        for offsets in self._keys().values():
            for position, offset in enumerate(offsets):
                came_s = min((lease.came_s for lease in leases[offset]), default=None)
                for earlier in offsets[:position]:
                    if came_s is not None and done_s.get(earlier, float("inf")) > came_s:
                        yield f"{offset} came at {came_s:.3f}, before {earlier} of its key was done"

    def too_many_attempts(self) -> Iterator[str]:
        for lease in self.leases:
            if lease.attempt > self.attempts_max:
                yield f"{lease.offset} was leased for attempt {lease.attempt}"

    def failed_and_not_dead(self) -> Iterator[str]:
        failures = Counter(
            one.offset for one in self.settlements if one.kind == FAIL and one.told_s is not None
        )
        for offset, count in sorted(failures.items()):
            if count >= self.attempts_max and offset not in self.dead:
                yield f"{offset} failed {count} times, and is no dead letter"

    # --- helpers -------------------------------------------------------------------------------

    def _acknowledged(self) -> dict[int, float]:
        """When somebody was first told that it is."""
        told: dict[int, float] = {}
        for one in self.settlements:
            if one.kind == ACKNOWLEDGE and one.told_s is not None:
                told[one.offset] = min(one.told_s, told.get(one.offset, one.told_s))
        return told

    def _done_s(self) -> dict[int, float]:
        """From when on a message may have been done."""
        done: dict[int, float] = {}
        for one in self.settlements:
            if one.kind in (ACKNOWLEDGE, REJECT):
                done[one.offset] = min(one.said_s, done.get(one.offset, one.said_s))
        came = _by_offset(self.leases)
        for offset in self.dead:
            last_s = max((lease.came_s for lease in came[offset]), default=0.0)
            done[offset] = min(last_s, done.get(offset, last_s))
        return done

    def _end_s(self, lease: Leased, said: Sequence[Settled]) -> float:
        """said: what the member said of the message, in this order."""
        end_s = lease.until_s
        own = [one for one in said if one.said_s >= lease.came_s]
        for one in own:
            if one.kind == EXTEND and one.told_s is not None and one.said_s < end_s:
                end_s = max(end_s, one.until_s)
        said_s = [one.said_s for one in own if one.kind in _ENDINGS]
        lost_s = [
            one.at_s
            for one in self.losses
            if one.member == lease.member and one.at_s >= lease.leased_s
        ]
        return min([end_s, *said_s, *lost_s])

    def _keys(self) -> dict[bytes, list[int]]:
        keys: dict[bytes, list[int]] = defaultdict(list)
        for offset, key in sorted(self.published.items()):
            if key is not None:
                keys[key].append(offset)
        return keys


def _by_offset(leases: Iterable[Leased]) -> defaultdict[int, list[Leased]]:
    found: defaultdict[int, list[Leased]] = defaultdict(list)
    for lease in leases:
        found[lease.offset].append(lease)
    return found


def shown(violations: Sequence[str], most: int = 8) -> str:
    """For a failed test."""
    return "\n".join([f"{len(violations)} violations:", *violations[:most]])
