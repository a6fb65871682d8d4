"""Which meta server a folder belongs to, and whether it may vote: `identity.journal`.

A server whose folder was lost has forgotten what it acknowledged and whom it voted for. It must not
vote before it has the log again, or a leader could be elected that lacks what is committed. But
when the quorum is new, all folders are empty, and somebody must begin: a majority of empty logs has
lost nothing. Not how that is found out (`metaserver.server`). The invariant: a folder is used by
the server and with the servers it was made for, or not at all.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from penstock.model.errors import InvalidConfig
from penstock.model.limits import BROKER_ID_MAX
from penstock.registry.json_fields import (
    Fields,
    checked_number,
    decoded,
    document,
    flag,
    list_of,
    number,
)
from penstock.storage.files.files import Directory
from penstock.storage.files.journal import read_journal, write_journal

_JOURNAL: Final = "identity.journal"


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """A meta server's."""

    id: int
    voters: frozenset[int]
    may_vote: bool
    """False until the log is known not to lack anything."""


def read_or_make_identity(folder: Directory, me: int, voters: Iterable[int]) -> Identity:
    """The folder's; a new one gets one. InvalidConfig if it is another's."""
    wanted = frozenset(voters)
    payload = read_journal(folder, _JOURNAL)
    if payload is None:
        made = Identity(id=me, voters=wanted, may_vote=wanted == {me})
        write_identity(folder, made)
        return made
    found = decoded(payload, f"{folder.path}/{_JOURNAL}", _read)
    if (found.id, found.voters) != (me, wanted):
        raise InvalidConfig(
            f"The folder {folder.path} is of meta server {found.id} of {_list(found.voters)}, not "
            f"of {me} of {_list(wanted)}: start it with the same id and servers as before."
        )
    return found


def write_identity(folder: Directory, identity: Identity) -> None:
    """Durable when this returns."""
    fields = {
        "id": identity.id,
        "voters": sorted(identity.voters),
        "may_vote": identity.may_vote,
    }
    write_journal(folder, _JOURNAL, document(fields))


def _read(fields: Fields) -> Identity:
    voters = list_of(fields, "voters", BROKER_ID_MAX)
    return Identity(
        id=number(fields, "id", BROKER_ID_MAX),
        voters=frozenset(checked_number(each, "a voter", BROKER_ID_MAX) for each in voters),
        may_vote=flag(fields, "may_vote"),
    )


def _list(voters: frozenset[int]) -> str:
    return ", ".join(map(str, sorted(voters)))
