"""When a handler is taken to fail whatever it is given, and how its pauses grow. R-DEL-9."""

from __future__ import annotations

import asyncio
from collections import Counter

from penstock.client.serving.failing import FAILURES_MAX, MESSAGES_MIN, Failing
from penstock.records import Message
from tests.kit.client.serving import (
    CountingFacade,
    Facade,
    cancel,
    orders,
    serve_with,
    until,
)


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
    assert all(fail(failing, 1_000, MESSAGES_MIN - 1)), "of other messages than before"
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
    waiting = asyncio.create_task(failing.wait())
    await asyncio.sleep(0)
    assert not waiting.done()
    failing.handled()
    for _ in range(5):
        await asyncio.sleep(0)
    assert waiting.done()
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


async def test_a_group_that_counts_gets_messages_back_for_after_the_pause() -> None:
    """At once they would only fail again."""
    async with orders(FAILURES_MAX + 2) as (_, mq):
        facade = CountingFacade()

        async def handle(message: Message) -> None:
            raise OSError("gone")

        settings = {"concurrency": 1, "failing_pause_ms_max": 1}
        task = asyncio.create_task(serve_with(mq, facade, handle, **settings))
        await until(lambda: len(facade.outcomes) == FAILURES_MAX + 2)
        assert {outcome for outcome, *_ in facade.outcomes[:FAILURES_MAX]} == {"failed"}
        assert facade.outcomes[FAILURES_MAX:] == [
            ("released", FAILURES_MAX, "for 0.001 s"),
            ("released", FAILURES_MAX + 1, "for 0.001 s"),
        ]
        await cancel(task)


async def test_a_bad_message_has_all_its_attempts_beside_those_that_all_had() -> None:
    """Also afterwards, what failed while everything did was no attempt."""
    async with orders(MESSAGES_MIN) as (_, mq):
        facade, tries, attempts = Facade(), Counter[int](), FAILURES_MAX + 5

        async def handle(message: Message) -> None:
            tries[message.offset] += 1
            if message.offset == 1 or tries.total() < 5 * FAILURES_MAX:
                raise OSError("gone")

        settings = {"retry_backoff_ms": 1, "retry_backoff_ms_max": 1, "failing_pause_ms_max": 1}
        task = asyncio.create_task(serve_with(mq, facade, handle, attempts=attempts, **settings))
        await until(lambda: ("rejected", 1, "OSError: gone") in facade.outcomes)
        assert tries[1] > attempts
        assert facade.outcomes.count(("failed", 1, "OSError: gone")) == attempts
        await cancel(task)


async def test_what_waits_for_the_pause_keeps_nobody_who_is_to_end() -> None:
    """R-DEL-3: nothing is at work."""
    async with orders(MESSAGES_MIN) as (_, mq):
        facade = Facade()

        async def handle(message: Message) -> None:
            raise OSError("gone")

        settings = {"retry_backoff_ms": 1, "retry_backoff_ms_max": 1, "attempts": FAILURES_MAX}
        task = asyncio.create_task(
            serve_with(mq, facade, handle, finish_timeout_ms=3_600_000, **settings)
        )
        await until(lambda: len(facade.outcomes) == FAILURES_MAX)
        task.cancel()
        await until(task.done)
        assert task.cancelled()
        assert {outcome for outcome, *_ in facade.outcomes} == {"failed"}
