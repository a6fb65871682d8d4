"""Memberships to ask for, by chance. The invariant: some of them must be refused."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from penstock.raft.membership import Membership, Node


def draw_membership(random: Random, now: Membership, nodes: Sequence[Node]) -> Membership:
    """One node becomes something else: a voter, a learner, or nothing. Or anything at all, which
    must be refused unless it is a single step."""
    if random.random() < 0.2:
        return Membership(frozenset(random.sample(nodes, random.randint(0, len(nodes)))))
    node = random.choice(nodes)
    voters, learners = now.voters - {node}, now.learners - {node}
    match random.choice(("voter", "voter", "learner", "nothing")):
        case "voter":
            voters |= {node}
        case "learner":
            learners |= {node}
    return Membership(voters, learners)
