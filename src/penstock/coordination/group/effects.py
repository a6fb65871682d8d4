"""What a group machine asks its shell to do: append records, then give answers.

Not how either is done. The invariant of the contract: the records are appended in order, and the
answers of the same `Effects` are given once those records are durable; answers of one group never
overtake each other. A failed append throws the group's memory away, so the machines need no undo.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, TypeVar

from penstock.model.errors import PenstockError

AnswerT = TypeVar("AnswerT")
_AnswerT_contra = TypeVar("_AnswerT_contra", contravariant=True)


class Ticket(Protocol[_AnswerT_contra]):
    """Whom to answer, and with what: made by the shell. It is told once, by the shell, which must
    have written before: machines pass it on and never call it."""

    def __call__(self, what: _AnswerT_contra | PenstockError, /) -> None: ...


class Record(NamedTuple):
    """One record of the internal topic."""

    key: bytes
    value: bytes | None
    """None is a tombstone: what the key named is no more."""


@dataclass(slots=True)
class Effects:
    """Records to append and, after them, answers to give."""

    records: list[Record] = field(default_factory=list)
    answers: list[tuple[Ticket[Any], Any]] = field(default_factory=list)
    """An answer is what its ticket is for, or a PenstockError."""
    confirms: bool = False
    """The answers count only if nobody else has taken over by now: they are given when a record
    that was appended after they were decided is durable, whatever it is."""

    def record(self, record: Record) -> None:
        self.records.append(record)

    def answer(self, ticket: Ticket[AnswerT], what: AnswerT | PenstockError) -> None:
        self.answers.append((ticket, what))

    def extend(self, other: Effects) -> None:
        """What the other asks for comes after what this one asks for."""
        self.records.extend(other.records)
        self.answers.extend(other.answers)
        self.confirms |= other.confirms
