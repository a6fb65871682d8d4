"""Who is silent for too long: only what this server was there to hear counts (R-REP-5)."""

from __future__ import annotations

from penstock.raft.membership import Node
from penstock.registry.metaserver.sessions import Sessions

ONE, TWO = Node(1, 7), Node(2, 7)


def test_whoever_is_silent_for_a_session_is_overdue_once() -> None:
    sessions = Sessions(1_000)
    sessions.begin([ONE, TWO], 0)
    late = []
    for now_ms in range(100, 2_500, 100):
        sessions.hear(ONE, now_ms)
        late += [(now_ms, node) for node in sessions.overdue(now_ms)]
    assert late == [(1_000, TWO), (2_000, TWO)], "again, since the expiry may have failed"
    sessions.forget(TWO)
    sessions.hear(ONE, 2_500)
    assert [sessions.overdue(now_ms) for now_ms in (2_600, 3_000, 3_400)] == [[], [], []]


def test_a_server_that_stood_still_begins_anew() -> None:
    sessions = Sessions(1_000)
    sessions.begin([ONE], 0)
    assert sessions.overdue(400) == []
    assert sessions.overdue(5_000) == [], "it was not there to hear"
    assert [sessions.overdue(now_ms) for now_ms in (5_400, 5_800, 6_000)] == [[], [], [ONE]]
