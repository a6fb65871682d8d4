"""Share sessions (KIP-932): a member of a share group says once which partitions it fetches from
at a broker, and then only changes.

A session belongs to the connection that it was opened on, and ends with it. Not the fetching, nor
the leases. The invariant: the requests of a session are taken in the order of its epochs, each
once, so a member that missed an answer is refused and begins again.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from penstock.broker.delivery.shared.partition import Connected
from penstock.model.limits import SHARE_SESSION_PARTITIONS_MAX, SHARE_SESSIONS_MAX
from penstock.protocol.kafka.errors import ErrorCode

FINAL_EPOCH: Final = -1
INITIAL_EPOCH: Final = 0
_EPOCH_MAX: Final = 2**31 - 1

Key = tuple[bytes, int]
"""A topic's id and a partition."""


class Member(NamedTuple):
    """Who has a session."""

    group: str
    member_id: str


class ShareSession:
    """What one member fetches from, in the order in which it gets it."""

    __slots__ = ("connection", "epoch", "lease_ms", "member", "partitions")

    def __init__(self, member: Member, connection: Connected, partitions: dict[Key, None]) -> None:
        self.member = member
        self.connection = connection
        self.partitions = partitions
        self.epoch = 1
        # Of the group; 0 as long as it is not known.
        self.lease_ms = 0

    def move_to_end(self, key: Key) -> None:
        """It got messages: next time the others come first, so that none starves."""
        # Another request of the session may have forgotten it while this one waited.
        if key in self.partitions:
            del self.partitions[key]
            self.partitions[key] = None


class ShareSessions:
    """Those of all members at this broker."""

    def __init__(self) -> None:
        self._sessions: dict[Member, ShareSession] = {}
        self._partition_count = 0

    def __len__(self) -> int:
        return len(self._sessions)

    def of(self, member: Member) -> ShareSession | None:
        return self._sessions.get(member)

    def fetch(
        self,
        member: Member,
        epoch: int,
        connection: Connected,
        *,
        wanted: Iterable[Key],
        forgotten: Iterable[Key],
        settles: bool,
    ) -> ShareSession | ErrorCode:
        """The session that a ShareFetch is about. settles: whether it says what became of messages;
        a member that begins holds none. One that is closed is the caller's to `end`, once what it
        settles is settled."""
        if epoch == INITIAL_EPOCH:
            if settles:
                return ErrorCode.INVALID_REQUEST
            return self._begin(member, connection, dict.fromkeys(wanted))
        session = self.acknowledge(member, epoch, connection)
        if isinstance(session, ErrorCode) or epoch == FINAL_EPOCH:
            return session
        count = len(session.partitions)
        session.partitions.update(dict.fromkeys(wanted))
        # After the wanted ones: a partition that is settled for the last time is among both.
        for key in forgotten:
            session.partitions.pop(key, None)
        self._partition_count += len(session.partitions) - count
        if self._partition_count > SHARE_SESSION_PARTITIONS_MAX:
            self.end(session)
            return ErrorCode.SHARE_SESSION_LIMIT_REACHED
        return session

    def acknowledge(
        self, member: Member, epoch: int, connection: Connected
    ) -> ShareSession | ErrorCode:
        """The session that a ShareAcknowledge is about."""
        if epoch == INITIAL_EPOCH:
            return ErrorCode.INVALID_SHARE_SESSION_EPOCH
        session = self._sessions.get(member)
        if session is None or session.connection is not connection:
            return ErrorCode.SHARE_SESSION_NOT_FOUND
        if epoch == FINAL_EPOCH:
            return session
        if session.epoch != epoch:
            return ErrorCode.INVALID_SHARE_SESSION_EPOCH
        session.epoch = 1 if epoch == _EPOCH_MAX else epoch + 1
        return session

    def _begin(
        self, member: Member, connection: Connected, partitions: dict[Key, None]
    ) -> ShareSession | ErrorCode:
        earlier = self._sessions.get(member)
        if earlier is not None:
            self.end(earlier)
        if (
            len(self._sessions) >= SHARE_SESSIONS_MAX
            or self._partition_count + len(partitions) > SHARE_SESSION_PARTITIONS_MAX
        ):
            return ErrorCode.SHARE_SESSION_LIMIT_REACHED
        session = self._sessions[member] = ShareSession(member, connection, partitions)
        self._partition_count += len(partitions)
        connection.on_close(session, lambda: self.end(session))
        return session

    def end(self, session: ShareSession) -> None:
        """It was closed, or its connection is gone; perhaps another has taken its place."""
        if self._sessions.get(session.member) is session:
            del self._sessions[session.member]
            session.connection.forget(session)
            self._partition_count -= len(session.partitions)
