"""When a handler is taken to fail whatever it is given, and how its pauses grow. R-DEL-9."""

from __future__ import annotations

from penstock.client.failing import FAILURES_MAX, MESSAGES_MIN, Failing


def fail(failing: Failing, times: int, messages: int, now_s: float = 0.0) -> list[bool]:
    """Which of the failures counted."""
    return [
        failing.failed(("jobs", 0, number % messages), "ValueError: no", now_s)
        for number in range(times)
    ]


def test_many_failures_of_many_messages_make_a_pause() -> None:
    failing = Failing(longest_s=30.0)
    assert all(fail(failing, FAILURES_MAX - 1, MESSAGES_MIN))
    assert failing.pause_s == 0
    assert fail(failing, 1, MESSAGES_MIN) == [True]
    assert failing.pause_s == 1


def test_a_few_bad_messages_are_given_up_like_others() -> None:
    failing = Failing(longest_s=30.0)
    assert all(fail(failing, 1_000, MESSAGES_MIN - 1))
    assert failing.pause_s == 0


def test_one_success_begins_anew() -> None:
    failing = Failing(longest_s=30.0)
    fail(failing, FAILURES_MAX - 1, MESSAGES_MIN)
    failing.handled()
    assert all(fail(failing, FAILURES_MAX - 1, MESSAGES_MIN))
    assert failing.pause_s == 0
    fail(failing, 1, MESSAGES_MIN)
    failing.handled()
    assert failing.pause_s == 0


def test_pauses_double_once_for_all_that_were_tried_together() -> None:
    failing = Failing(longest_s=3.0)
    fail(failing, FAILURES_MAX, MESSAGES_MIN)
    assert not any(fail(failing, 8, 8, now_s=0.5))
    assert failing.pause_s == 1
    assert not any(fail(failing, 8, 8, now_s=1.0))
    assert failing.pause_s == 2
    assert not any(fail(failing, 8, 8, now_s=4.0))
    assert failing.pause_s == 3


async def test_waiting_ends_when_a_message_is_handled() -> None:
    failing = Failing(longest_s=3_600.0)
    fail(failing, FAILURES_MAX, MESSAGES_MIN)
    failing.handled()
    await failing.wait()


def test_it_can_be_turned_off() -> None:
    failing = Failing(longest_s=0.0)
    assert all(fail(failing, 10 * FAILURES_MAX, 100))
    assert failing.pause_s == 0


def test_a_trickle_that_fails_loses_a_few_and_is_then_held_until_a_success() -> None:
    """One message after another, given up after five attempts each; however late the next comes."""
    failing = Failing(longest_s=30.0)
    counted = [failing.failed(("jobs", 0, n // 5), "ValueError: no", 60.0 * n) for n in range(100)]
    assert counted == [True] * 21 + [False] * 79
