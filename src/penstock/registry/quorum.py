"""The quorum that keeps a cluster's facts, for people. Not the facts (`registry.facts`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class Voter(NamedTuple):
    """A server with a vote, and up to where it has what the leader has."""

    id: int
    address: str
    end_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Quorum:
    """As its leader sees it."""

    leader: int
    term: int
    commit_offset: int
    voters: tuple[Voter, ...]
