"""Which handlers run in threads, and what becomes of what they raise."""

from __future__ import annotations

import functools
from typing import Any, cast

import pytest

from penstock.client.handlers import Handlers, is_plain
from penstock.records import Message


class Called:
    async def __call__(self, message: Message) -> None:
        """A handler with something to remember."""

    async def method(self, message: Message) -> None:
        """Another."""

    def plain(self, message: Message) -> None:
        """One for a thread."""


async def handle(message: Message, more: int = 0) -> None:
    """A coroutine function."""


@pytest.mark.parametrize(
    ("handler", "expected"),
    [
        (handle, False),
        (functools.partial(handle, more=1), False),
        (Called(), False),
        (Called().method, False),
        (Called().plain, True),
        (lambda message: handle(message), True),
        (print, True),
    ],
)
def test_only_coroutine_functions_run_on_the_loop(handler: Any, expected: bool) -> None:
    assert is_plain(handler) is expected


async def test_what_a_plain_function_returns_is_awaited() -> None:
    awaited: list[object] = []

    async def later(message: object) -> None:
        awaited.append(message)

    handlers = Handlers(lambda message: later(message), 1)
    await handlers.call(cast(Message, "one"))
    handlers.close()
    assert awaited == ["one"]


async def test_a_stop_iteration_is_an_error_like_others() -> None:
    """A future would swallow it, and wait for ever."""

    def handler(message: Message) -> object:
        return next(iter(()))

    handlers = Handlers(handler, 1)
    with pytest.raises(RuntimeError, match="StopIteration"):
        await handlers.call(cast(Message, "one"))
    handlers.close()
