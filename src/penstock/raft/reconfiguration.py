"""The way from the membership that a log has to the one it should have, one step at a time.

Pure: whoever leads asks for the next step, takes it, and asks again when it is committed. A step
follows from what is there now and from nothing else, so whoever leads after a crash goes on where
the other stopped. Newcomers first learn; when all of them have everything, they vote, one after
another; when all vote, those who are to go leave, the dead before the living, and the leader last,
after another leads. Until the first of them votes the old membership is untouched, so that a move
that is called off leaves nothing behind.

The invariant: after every step a majority of the voters is in sync, if one was before it; and as
many voters as the target names stay until the target's own have taken their places.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from penstock.raft.membership import Membership, Node


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """What the leader knows."""

    me: Node
    target: tuple[int, ...]
    """The brokers that are to have a copy; the first is to lead."""
    membership: Membership
    """As it is in the log, and committed."""
    alive: Mapping[int, Node]
    """The brokers that are there, each with the data folder it has now."""
    in_sync: frozenset[Node]
    """Of the voters: those who have everything, the leader among them."""
    caught_up: frozenset[Node]
    """Of the learners: those who have everything."""


class Kind(Enum):
    """What is done with a node."""

    ADD = "let it learn"
    PROMOTE = "let it vote"
    REMOVE = "let it go"
    HAND_OVER = "let it lead instead"


class Step(NamedTuple):
    """One change."""

    kind: Kind
    node: Node

    def after(self, membership: Membership) -> Membership:
        """The membership with the step taken."""
        voters, learners = membership.voters, membership.learners
        match self.kind:
            case Kind.ADD:
                return Membership(voters, learners | {self.node})
            case Kind.PROMOTE:
                return Membership(voters | {self.node}, learners - {self.node})
            case Kind.REMOVE:
                return Membership(voters - {self.node}, learners - {self.node})
            case Kind.HAND_OVER:
                return membership


def next_step(situation: Situation) -> Step | None:
    """None if the target is reached, or something has to be waited for."""
    membership = situation.membership
    for learner in sorted(membership.learners):
        if not _is_wanted(situation, learner):
            return Step(Kind.REMOVE, learner)
    newcomers = [node for node in _wanted_alive(situation) if node not in membership.voters]
    for node in newcomers:
        if node not in membership.learners:
            return Step(Kind.ADD, node)
    if newcomers:
        are_ready = situation.caught_up.issuperset(newcomers)
        step = Step(Kind.PROMOTE, newcomers[0])
        return step if are_ready and _keeps_quorum(situation, step) else None
    return _departure(situation)


def is_reached(target: tuple[int, ...], membership: Membership, alive: Mapping[int, Node]) -> bool:
    """Whether the target's brokers, and they alone, have copies, each with the folder it has now;
    of one that is not there, with whichever it had."""
    voters = membership.voters
    return (
        not membership.learners
        and len(voters) == len(target)
        and {node.broker for node in voters} == set(target)
        and all(alive.get(node.broker, node) == node for node in voters)
    )


def _departure(situation: Situation) -> Step | None:
    """All that are to vote and are there do: let go who is not to."""
    voters = situation.membership.voters
    if len(voters) <= len(situation.target):
        return None
    leaving = [node for node in voters if not _is_wanted(situation, node)]
    if not leaving:
        return None
    me, in_sync = situation.me, situation.in_sync
    first = min(leaving, key=lambda node: (node == me, node in in_sync, node))
    staying = [node for node in _wanted_alive(situation) if node in voters]
    if first in in_sync and not in_sync.issuperset(staying):
        # It may be the only one besides the leader that has everything.
        return None
    if first == me:
        heirs = [node for node in staying if node in in_sync]
        return Step(Kind.HAND_OVER, heirs[0]) if heirs else None
    step = Step(Kind.REMOVE, first)
    return step if _keeps_quorum(situation, step) else None


def _wanted_alive(situation: Situation) -> list[Node]:
    """Who is to vote and is there, in the order of the target."""
    alive = situation.alive
    return [alive[broker] for broker in situation.target if broker in alive]


def _is_wanted(situation: Situation, node: Node) -> bool:
    """Whether a member is to stay one. A broker that is not there keeps its copy; one that is there
    with another folder has lost it."""
    return node.broker in situation.target and situation.alive.get(node.broker, node) == node


def _keeps_quorum(situation: Situation, step: Step) -> bool:
    after = step.after(situation.membership)
    in_sync = situation.in_sync | situation.caught_up
    return len(after.voters & in_sync) >= after.majority
