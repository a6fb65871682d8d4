"""Nodes and memberships as plain lists of numbers, for what is written down and sent as JSON.

The invariant: what is read back is checked number by number; a ValueError or a TypeError is all
that comes of anything else.
"""

from __future__ import annotations

from typing import Any, Final

from penstock.raft.membership import Membership, Node

NUMBER_MAX: Final = 2**63 - 1


def number(value: Any, minimum: int = 0) -> int:
    if type(value) is not int or not minimum <= value <= NUMBER_MAX:
        raise ValueError(f"{value!r} is no number from {minimum} on")
    return value


def node(value: Any) -> Node:
    broker, directory = value
    return Node(number(broker), number(directory))


def plain(membership: Membership) -> list[list[Node]]:
    """Voters, and learners."""
    return [sorted(membership.voters), sorted(membership.learners)]


def membership(voters: Any, learners: Any) -> Membership:
    found = Membership(frozenset(map(node, voters)), frozenset(map(node, learners)))
    if not found.is_sound:
        raise ValueError(f"{found} is no membership")
    return found
