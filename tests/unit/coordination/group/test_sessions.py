"""Deadlines of members: who is late, and when to look."""

from __future__ import annotations

from penstock.coordination.group.sessions import Sessions


def test_nobody_has_a_deadline() -> None:
    sessions = Sessions()
    assert sessions.wake_ms is None
    assert sessions.expire(10**12) == []


def test_a_member_expires_at_its_deadline_and_once() -> None:
    sessions = Sessions()
    sessions.set("a", 100)
    sessions.set("b", 200)
    assert sessions.wake_ms == 100
    assert sessions.expire(99) == []
    assert sessions.expire(100) == ["a"]
    assert "a" not in sessions
    assert sessions.wake_ms == 200
    assert sessions.expire(100) == []


def test_a_heartbeat_moves_the_deadline_but_not_the_wake() -> None:
    """The wake may be early, never late: it is put right when it comes."""
    sessions = Sessions()
    sessions.set("a", 100)
    sessions.set("b", 150)
    sessions.set("a", 300)
    assert sessions.wake_ms == 100
    assert sessions.expire(100) == []
    assert sessions.wake_ms == 150


def test_the_last_to_go_leaves_nothing_to_wake_for() -> None:
    sessions = Sessions()
    sessions.set("a", 100)
    sessions.cancel("a")
    sessions.cancel("a")
    assert sessions.wake_ms is None
