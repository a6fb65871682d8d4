"""Who has a copy of a log: voters, whose majority commits, and learners, who only follow.

A membership is itself a record of the log (a control batch) and holds from the moment it is
written, committed or not; a log that is cut goes back to the one before (dissertation, 4.1). The
invariant that makes this safe: a change adds or removes at most one voter, so that any majority of
the old and any of the new have a member in common.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class Node(NamedTuple):
    """A broker's copy. One whose disk was lost comes back as another node, with another directory:
    it has forgotten its votes and what it acknowledged, and must not pass as the old one."""

    broker: int
    directory: int

    def __str__(self) -> str:
        return f"{self.broker}/{self.directory:x}"


@dataclass(frozen=True, slots=True)
class Membership:
    """Nobody is a voter and a learner at once."""

    voters: frozenset[Node]
    learners: frozenset[Node] = frozenset()

    @property
    def majority(self) -> int:
        return len(self.voters) // 2 + 1

    @property
    def nodes(self) -> frozenset[Node]:
        return self.voters | self.learners

    @property
    def is_sound(self) -> bool:
        """Whether somebody can commit, and nobody is in it twice."""
        return bool(self.voters) and self.voters.isdisjoint(self.learners)

    def is_step_to(self, other: Membership) -> bool:
        """Whether the other may follow this one: at most one voter comes or goes, one stays."""
        return other.is_sound and len(self.voters ^ other.voters) <= 1


class MembershipAt(NamedTuple):
    """A membership and its record's place in the log and term; -1 and 0 for the one that a log
    begins with. If it is not known better: a later place, a later term."""

    offset: int
    term: int
    membership: Membership


class MembershipHistory:
    """The latest membership of a log, and those that come back if it is cut."""

    __slots__ = ("_all",)

    def __init__(self, known: tuple[MembershipAt, ...], end_offset: int) -> None:
        """known: in order, the first of them certain; what is not in the log is left out."""
        self._all = [at for at in known if at.offset < end_offset]
        assert self._all, "a log without a membership"

    @property
    def latest(self) -> MembershipAt:
        return self._all[-1]

    @property
    def known(self) -> tuple[MembershipAt, ...]:
        return tuple(self._all)

    def add(self, latest: MembershipAt) -> None:
        assert latest.offset > self._all[-1].offset, (latest, self._all[-1])
        self._all.append(latest)

    def truncate(self, offset: int) -> None:
        """The log was cut there: the one before holds again."""
        while len(self._all) > 1 and self._all[-1].offset >= offset:
            self._all.pop()

    def settle(self, offset: int) -> None:
        """What is before the offset is never cut or lost: of those, the latest is enough."""
        while len(self._all) > 1 and self._all[1].offset < offset:
            del self._all[0]
