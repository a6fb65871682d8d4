"""Fetch sessions: what a client asked for is remembered, and nothing is held back by mistake."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest

from penstock.broker.kafka import fetch_sessions
from penstock.broker.kafka.fetch_sessions import FetchSessions, Opened
from penstock.protocol.kafka.errors import ErrorCode
from penstock.protocol.kafka.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
)
from tests.kit.broker.running import ManualClock

BY_NAME = 12
BY_ID = 13


def request(
    partitions: dict[int, int] | None = None,
    *,
    session: tuple[int, int] = (0, 0),
    forget: tuple[int, ...] = (),
    topic: str | bytes = "orders",
) -> FetchRequest:
    """Offsets by partition; the session's id and epoch."""
    named: dict[str, Any] = {"topic_id" if isinstance(topic, bytes) else "topic": topic}
    wanted = [FetchPartition(number, fetch_offset=at) for number, at in (partitions or {}).items()]
    return FetchRequest(
        session_id=session[0],
        session_epoch=session[1],
        topics=[FetchTopic(partitions=wanted, **named)] if wanted else [],
        forgotten_topics_data=[ForgottenTopic(partitions=forget, **named)] if forget else [],
    )


def opened(answer: Opened | ErrorCode) -> Opened:
    assert isinstance(answer, Opened)
    return answer


def offsets(answer: Opened | ErrorCode) -> dict[int, int]:
    return {interest.partition: interest.offset for interest in opened(answer).interests}


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def sessions(clock: ManualClock) -> FetchSessions:
    numbers = count(1)
    return FetchSessions(clock.now_ms, lambda: next(numbers))


def test_a_session_remembers_what_was_asked(sessions: FetchSessions) -> None:
    """KIP-227: then only changes are sent."""
    first = opened(sessions.open(request({0: 10, 1: 20}), BY_NAME))
    assert first.session_id == 1
    assert not first.is_incremental
    second = opened(sessions.open(request({1: 25, 2: 5}, session=(1, 1)), BY_NAME))
    assert second.is_incremental
    assert offsets(second) == {0: 10, 1: 25, 2: 5}
    third = sessions.open(request(session=(1, 2), forget=(0, 7)), BY_NAME)
    assert offsets(third) == {1: 25, 2: 5}


def test_a_fetch_without_a_session(sessions: FetchSessions) -> None:
    """As all were before version 7."""
    answer = opened(sessions.open(request({0: 1}, session=(0, -1)), BY_NAME))
    assert (answer.session_id, answer.is_incremental) == (0, False)
    assert offsets(answer) == {0: 1}


def test_an_unknown_session_and_a_wrong_epoch_are_refused(sessions: FetchSessions) -> None:
    sessions.open(request({0: 0}), BY_NAME)
    assert sessions.open(request(session=(9, 1)), BY_NAME) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    for epoch in (2, 7, -2):
        answer = sessions.open(request(session=(1, epoch)), BY_NAME)
        assert answer is ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert offsets(sessions.open(request(session=(1, 1)), BY_NAME)) == {0: 0}
    repeated = sessions.open(request(session=(1, 1)), BY_NAME)
    assert repeated is ErrorCode.INVALID_FETCH_SESSION_EPOCH, "an epoch is used once"


def test_names_and_ids_are_not_mixed_in_a_session(sessions: FetchSessions) -> None:
    sessions.open(request({0: 0}), BY_NAME)
    sessions.open(request({0: 0}, topic=b"i" * 16), BY_ID)
    for session, version in ((1, BY_ID), (2, BY_NAME)):
        answer = sessions.open(request(session=(session, 1)), version)
        assert answer is ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
    answer = sessions.open(request(session=(2, 1), topic=b"i" * 16, forget=(0,)), BY_ID)
    assert opened(answer).interests == []


@pytest.mark.parametrize("epoch", [0, -1], ids=["a new one", "none"])
def test_a_full_fetch_ends_the_session_that_it_names(sessions: FetchSessions, epoch: int) -> None:
    sessions.open(request({0: 0}), BY_NAME)
    answer = opened(sessions.open(request({0: 0}, session=(1, epoch)), BY_NAME))
    assert answer.session_id == (2 if epoch == 0 else 0)
    assert sessions.open(request(session=(1, 1)), BY_NAME) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_an_empty_session_ends(sessions: FetchSessions) -> None:
    assert opened(sessions.open(request(), BY_NAME)).session is None
    sessions.open(request({0: 0}), BY_NAME)
    answer = opened(sessions.open(request(session=(1, 1), forget=(0,)), BY_NAME))
    assert answer.session_id == 0
    assert sessions.open(request(session=(1, 2)), BY_NAME) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_epochs_go_round(sessions: FetchSessions) -> None:
    """After the largest comes 1: 0 and -1 mean something else."""
    session = opened(sessions.open(request({0: 0}), BY_NAME)).session
    assert session is not None
    session.epoch = 2**31 - 1
    sessions.open(request(session=(1, 2**31 - 1)), BY_NAME)
    assert offsets(sessions.open(request(session=(1, 1)), BY_NAME)) == {0: 0}


def test_what_got_records_comes_last(sessions: FetchSessions) -> None:
    """KIP-74: so that none starves."""
    session = opened(sessions.open(request({0: 0, 1: 0, 2: 0}), BY_NAME)).session
    assert session is not None
    session.move_to_end(("orders", 0))
    again = sessions.open(request(session=(1, 1)), BY_NAME)
    assert list(offsets(again)) == [1, 2, 0]


def test_what_was_forgotten_meanwhile_does_not_come_back(sessions: FetchSessions) -> None:
    """A fetch waits on one connection while another changes the session."""
    session = opened(sessions.open(request({0: 0, 1: 0}), BY_NAME)).session
    assert session is not None
    sessions.open(request(session=(1, 1), forget=(0,)), BY_NAME)
    session.move_to_end(("orders", 0))
    assert offsets(sessions.open(request(session=(1, 2)), BY_NAME)) == {1: 0}


def test_only_an_idle_session_makes_room(
    sessions: FetchSessions, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetch_sessions, "FETCH_SESSIONS_MAX", 2)
    for _ in range(2):
        sessions.open(request({0: 0}), BY_NAME)
    assert opened(sessions.open(request({0: 0}), BY_NAME)).session_id == 0, "no room"
    clock.time_ms += 100_000
    sessions.open(request(session=(1, 1)), BY_NAME)
    clock.time_ms += 30_000
    assert opened(sessions.open(request({0: 0}), BY_NAME)).session_id == 3
    assert offsets(sessions.open(request(session=(1, 2)), BY_NAME)) == {0: 0}
    assert sessions.open(request(session=(2, 1)), BY_NAME) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_the_partitions_of_all_sessions_are_bounded(
    sessions: FetchSessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where a session grows: its client then begins again, without one."""
    monkeypatch.setattr(fetch_sessions, "FETCH_SESSION_PARTITIONS_MAX", 10)
    many = dict.fromkeys(range(8), 0)
    assert opened(sessions.open(request(many), BY_NAME)).session_id == 1
    assert opened(sessions.open(request(many), BY_NAME)).session_id == 0
    grown = sessions.open(request({8: 0, 9: 0, 10: 0}, session=(1, 1)), BY_NAME)
    assert grown is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert opened(sessions.open(request(many), BY_NAME)).session_id == 2, "its room is free"


def test_ids_that_are_taken_are_not_given_again(clock: ManualClock) -> None:
    numbers = iter([5, 5, 5, 6])
    sessions = FetchSessions(clock.now_ms, lambda: next(numbers))
    assert opened(sessions.open(request({0: 0}), BY_NAME)).session_id == 5
    assert opened(sessions.open(request({0: 0}), BY_NAME)).session_id == 6
