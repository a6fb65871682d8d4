"""Raft's term, vote, terms and memberships of one replica, in `raft.journal` of its folder.

A journal: written whole, flushed, renamed. Where there is none, the replica has never voted and
never heard of a term, or it is a lone voter that never needed to write one: data folders of earlier
versions are so. Beside it, `reset.journal`: where the log was last begun anew, and what the leader
sent along of what came before; it is there before the log is emptied. The invariant: what is read
back is what was last written, checked number by number; anything else is a CorruptLog, never a
guess.
"""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from struct import Struct
from typing import Any, Final

from penstock.model.errors import CorruptLog, StorageError, StorageFailed
from penstock.raft.core import Raft
from penstock.raft.membership import Membership, MembershipAt, Node
from penstock.raft.state import NodeState, SavedState
from penstock.raft.terms import TermHistory, TermStart
from penstock.replication.replica.members import membership, node, number, plain
from penstock.storage.files.files import Directory
from penstock.storage.files.journal import read_journal, write_journal

RAFT_JOURNAL: Final = "raft.journal"
RESET_JOURNAL: Final = "reset.journal"
_RESET_HEADER: Final = Struct(">q")
_VERSION: Final = 1


def read_saved(directory: Directory, me: Node, initial: Membership) -> SavedState:
    """What the replica knew when it last said anything. StorageError.

    initial: who had a copy when the partition was made.
    """
    payload = read_journal(directory, RAFT_JOURNAL)
    if payload is not None:
        try:
            return decode(payload)
        except (ValueError, KeyError, TypeError) as error:
            raise CorruptLog(
                f"{directory.path}/{RAFT_JOURNAL} cannot be understood ({error!r}): restore the "
                f"file, or empty the data folder, so that the broker comes back as a new one."
            ) from error
    return unsaved(me, initial)


def unsaved(me: Node, initial: Membership, first_term: int = 0) -> SavedState:
    """What a replica knows before it writes anything down. first_term: nobody was elected in it,
    and nobody of the partition is in an earlier one."""
    if initial.voters != {me}:
        first = MembershipAt(-1, 0, initial)
        return SavedState(term=first_term, vote=None, terms=(), memberships=(first,))
    # A lone voter elected itself in the term that a log begins with, before anybody could ask: so
    # it leads at once and writes in that term for ever, and a restart need not look for more.
    alone, begun = MembershipAt(-1, -1, initial), TermStart(first_term, 0)
    return SavedState(term=first_term, vote=me, terms=(begun,), memberships=(alone,))


def encode(saved: SavedState) -> bytes:
    return json.dumps(
        {
            "version": _VERSION,
            "term": saved.term,
            "vote": saved.vote,
            "terms": saved.terms,
            "memberships": [
                [at.offset, at.term, *plain(at.membership)] for at in saved.memberships
            ],
            "reset_offset": saved.reset_offset,
            "rejoin_offset": saved.rejoin_offset,
        }
    ).encode()


def decode(payload: bytes) -> SavedState:
    """What `encode` wrote; an error of Python's own if it is anything else."""
    facts = json.loads(payload)
    if facts["version"] != _VERSION:
        raise ValueError(f"version {facts['version']} is not {_VERSION}")
    vote = facts["vote"]
    saved = SavedState(
        term=number(facts["term"]),
        vote=None if vote is None else node(vote),
        terms=tuple(TermStart(number(term), number(offset)) for term, offset in facts["terms"]),
        memberships=tuple(_membership_at(*entry) for entry in facts["memberships"]),
        reset_offset=number(facts["reset_offset"]),
        rejoin_offset=number(facts.get("rejoin_offset", 0)),
    )
    if not is_consistent(saved):
        raise ValueError(f"{saved} contradicts itself")
    return saved


def read_reset(directory: Directory) -> tuple[int, bytes] | None:
    """Where the log was to begin anew when that was last asked for, and what came with it. It
    counts only if the log does not begin before. StorageError."""
    payload = read_journal(directory, RESET_JOURNAL)
    if payload is None or len(payload) < _RESET_HEADER.size:
        return None
    return _RESET_HEADER.unpack_from(payload)[0], payload[_RESET_HEADER.size :]


class SaveJob:
    """Makes a state durable. Run once, on any thread, one at a time for a replica."""

    __slots__ = ("_directory", "error", "reset", "saved")

    def __init__(self, directory: Directory, saved: SavedState, reset: bytes | None = None) -> None:
        """reset: what came with a new start of the log, if that is news."""
        self.saved = saved
        self.reset = reset
        # Until the job has run to its end nothing of it counts as durable.
        self.error: StorageError | None = StorageFailed("The saving has not ended.")
        self._directory = directory

    def run(self) -> None:
        try:
            if self.reset is not None:
                # First: once the state tells of the new start, the log is emptied.
                write_journal(self._directory, RESET_JOURNAL, self.reset)
            write_journal(self._directory, RAFT_JOURNAL, encode(self.saved))
            self.error = None
        except StorageError as error:
            self.error = error


class Keeper:
    """What of a replica's state is durable, and what of it has yet to be.

    A new term is saved together with where it will begin if its leader writes at the end of this
    log, as it mostly does: or every election would have to be saved twice. It may never come true,
    and neither may what was saved of a write that failed or was cut. So as long as what is kept
    tells of more than the log has, it is compared before each write with what is about to be there.
    The invariant: what is kept is right about every offset that the log has or is about to have.
    """

    __slots__ = ("_directory", "_reset", "kept")

    def __init__(self, directory: Directory, kept: SavedState) -> None:
        self._directory = directory
        self.kept = kept
        # What came with a new start, until it is durable.
        self._reset: bytes | None = None

    def begin_anew(self, start_offset: int, payload: bytes) -> None:
        """The log is to begin there, which Raft was told; this comes with it."""
        self._reset = _RESET_HEADER.pack(start_offset) + payload

    def on_saved(self, job: SaveJob) -> None:
        self.kept = job.saved
        if self._reset is job.reset:
            self._reset = None

    def is_due(self, raft: Raft) -> bool:
        """Whether something must be saved before anything else is done."""
        state, begun = raft.state, self.kept.terms
        tells_of_more = bool(begun) and begun[-1].term > state.terms.last_term
        if not (state.is_unsaved or tells_of_more):
            return False
        if self._tells(state):
            state.is_unsaved = False
            return False
        return True

    def job(self, raft: Raft) -> SaveJob:
        state = raft.state
        state.is_unsaved = False
        saved, end_offset = state.saved, state.terms.end_offset
        is_new_term = saved.term > max(self.kept.term, state.terms.last_term)
        # What a leader writes is not told each time, so it must be before the first.
        if is_new_term or (raft.leading is not None and not saved.terms):
            saved = replace(saved, terms=(*saved.terms, TermStart(saved.term, end_offset)))
        assert is_consistent(saved), saved
        return SaveJob(self._directory, saved, self._reset)

    def _tells(self, state: NodeState) -> bool:
        """Whether what is kept says the same as far as the log goes. That of a lone voter does,
        though it was never written: it would be written for every new partition, and by every
        restart of an empty one."""
        kept, terms = self.kept, state.terms
        is_empty = terms.start_offset == terms.end_offset
        return (
            (kept.term, kept.vote, kept.reset_offset)
            == (state.term, state.vote, state.reset_offset)
            and kept.memberships == state.members.known
            and (is_empty or any(place.offset < terms.end_offset for place in kept.terms))
            and TermHistory.found(kept.terms, terms.start_offset, terms.end_offset).begun
            == terms.begun
        )


def _membership_at(offset: Any, term: Any, voters: Any, learners: Any) -> MembershipAt:
    return MembershipAt(number(offset, -1), number(term, -1), membership(voters, learners))


def is_consistent(saved: SavedState) -> bool:
    """Terms and places only rise, and none is beyond the term that was reached."""
    terms_rise = all(a.term < b.term and a.offset < b.offset for a, b in pairwise(saved.terms))
    places_rise = all(a.offset < b.offset for a, b in pairwise(saved.memberships))
    known = [*(place.term for place in saved.terms), *(at.term for at in saved.memberships)]
    return bool(saved.memberships) and terms_rise and places_rise and max(known) <= saved.term
