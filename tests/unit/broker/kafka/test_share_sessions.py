"""Share sessions (KIP-932): opened, changed, closed, refused, bounded."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest

from penstock.broker.kafka import share_sessions
from penstock.broker.kafka.share_sessions import Key, Member, ShareSession, ShareSessions
from penstock.protocol.kafka.errors import ErrorCode

ME = Member("g", "m")


class Connection:
    """As far as sessions need one."""

    is_open = True

    def __init__(self) -> None:
        self.waiting: dict[object, Callable[[], None]] = {}

    def on_close(self, waiter: object, then: Callable[[], None]) -> None:
        self.waiting[waiter] = then

    def forget(self, waiter: object) -> None:
        self.waiting.pop(waiter, None)


HERE = Connection()
A, B, C = ((b"a" * 16, 0), (b"a" * 16, 1), (b"b" * 16, 0))


def fetch(
    sessions: ShareSessions,
    epoch: int,
    wanted: Iterable[Key] = (),
    forgotten: Iterable[Key] = (),
    *,
    member: Member = ME,
    connection: Connection = HERE,
    settles: bool = False,
) -> ShareSession | ErrorCode:
    return sessions.fetch(
        member, epoch, connection, wanted=wanted, forgotten=forgotten, settles=settles
    )


def opened(sessions: ShareSessions, *wanted: Key, member: Member = ME) -> ShareSession:
    session = fetch(sessions, 0, wanted, member=member)
    assert isinstance(session, ShareSession), session
    return session


def test_a_session_remembers_its_partitions() -> None:
    sessions = ShareSessions()
    session = opened(sessions, A, B, A)
    assert list(session.partitions) == [A, B]
    assert fetch(sessions, 1) is session
    assert list(session.partitions) == [A, B]
    assert fetch(sessions, 2, wanted=[C], forgotten=[A, C]) is session
    assert list(session.partitions) == [B], "what is forgotten is so after what is named"
    assert sessions.acknowledge(ME, 3, HERE) is session
    assert fetch(sessions, 4) is session


def test_who_missed_an_answer_begins_again() -> None:
    sessions = ShareSessions()
    opened(sessions, A)
    assert fetch(sessions, 2) is ErrorCode.INVALID_SHARE_SESSION_EPOCH
    assert fetch(sessions, 1) is not ErrorCode.INVALID_SHARE_SESSION_EPOCH
    assert fetch(sessions, 1, [B]) is ErrorCode.INVALID_SHARE_SESSION_EPOCH, "each is taken once"
    assert sessions.acknowledge(ME, 1, HERE) is ErrorCode.INVALID_SHARE_SESSION_EPOCH
    again = opened(sessions, B)
    assert (list(again.partitions), len(sessions)) == ([B], 1)


def test_nobody_has_a_session_that_was_not_opened() -> None:
    sessions = ShareSessions()
    for epoch in (1, -1, 7, -5):
        assert fetch(sessions, epoch) is ErrorCode.SHARE_SESSION_NOT_FOUND
        assert sessions.acknowledge(ME, epoch, HERE) is ErrorCode.SHARE_SESSION_NOT_FOUND
    assert sessions.acknowledge(ME, 0, HERE) is ErrorCode.INVALID_SHARE_SESSION_EPOCH
    opened(sessions, A)
    assert fetch(sessions, 1, member=Member("g", "n")) is ErrorCode.SHARE_SESSION_NOT_FOUND
    assert fetch(sessions, -5) is ErrorCode.INVALID_SHARE_SESSION_EPOCH


def test_a_session_is_of_its_connection() -> None:
    sessions = ShareSessions()
    opened(sessions, A)
    assert fetch(sessions, 1, connection=Connection()) is ErrorCode.SHARE_SESSION_NOT_FOUND


def test_who_begins_holds_nothing_to_settle() -> None:
    sessions = ShareSessions()
    assert fetch(sessions, 0, [A], settles=True) is ErrorCode.INVALID_REQUEST
    assert len(sessions) == 0


@pytest.mark.parametrize("by", ["fetch", "acknowledge"])
def test_closing(by: str) -> None:
    sessions = ShareSessions()
    session = opened(sessions, A)
    if by == "fetch":
        assert fetch(sessions, -1, [B], settles=True) is session
        assert list(session.partitions) == [A]
    else:
        assert sessions.acknowledge(ME, -1, HERE) is session
    sessions.end(session)
    sessions.end(session)
    assert len(sessions) == 0
    assert fetch(sessions, 1) is ErrorCode.SHARE_SESSION_NOT_FOUND


def test_the_end_of_an_earlier_connection_does_not_end_the_next_session() -> None:
    sessions = ShareSessions()
    earlier = opened(sessions, A)
    later = opened(sessions, B)
    sessions.end(earlier)
    assert fetch(sessions, 1) is later


def test_a_session_ends_with_its_connection_and_leaves_nothing_there() -> None:
    sessions, here = ShareSessions(), Connection()
    for _ in range(3):
        fetch(sessions, 0, [A], connection=here)
        assert len(here.waiting) == 1
    for gone in list(here.waiting.values()):
        gone()
    assert (len(sessions), here.waiting) == (0, {})


def test_epochs_begin_again_after_the_last() -> None:
    sessions = ShareSessions()
    session = opened(sessions, A)
    session.epoch = 2**31 - 1
    assert fetch(sessions, 2**31 - 1) is session
    assert session.epoch == 1


def test_there_are_only_so_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(share_sessions, "SHARE_SESSIONS_MAX", 2)
    sessions = ShareSessions()
    first = opened(sessions, A, member=Member("g", "1"))
    opened(sessions, A, member=Member("g", "2"))
    assert fetch(sessions, 0, [A]) is ErrorCode.SHARE_SESSION_LIMIT_REACHED
    opened(sessions, B, member=Member("g", "2"))
    sessions.end(first)
    opened(sessions, A)


def test_so_are_their_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(share_sessions, "SHARE_SESSION_PARTITIONS_MAX", 3)
    sessions = ShareSessions()
    opened(sessions, A, B)
    assert fetch(sessions, 0, [A, B], member=Member("g", "n")) is (
        ErrorCode.SHARE_SESSION_LIMIT_REACHED
    )
    opened(sessions, A, member=Member("g", "n"))
    assert fetch(sessions, 1, [C]) is ErrorCode.SHARE_SESSION_LIMIT_REACHED
    opened(sessions, A, B)


def test_partitions_take_turns() -> None:
    session = opened(ShareSessions(), A, B)
    session.move_to_end(A)
    session.move_to_end(C)
    assert list(session.partitions) == [B, A]
