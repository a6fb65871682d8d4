"""Calls a user's handler: a coroutine function on the loop, a plain function in a thread.

A plain function that waits, for a database or a file, would stop the loop and with it every other
handler and the heartbeats of the group. The invariants: no more threads than handlers at a time;
what a handler says of its message in a thread is said on the loop, and has been when it returns.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from typing import Any

from penstock.model.errors import InvalidRequest
from penstock.records import Message

MessageHandler = Callable[[Message], Awaitable[object] | object]
"""Given a message; an awaitable is awaited. What it raises matters, what it returns does not."""


def check_handler(handler: object) -> None:
    """InvalidRequest for what cannot be called with a message."""
    if not callable(handler):
        raise InvalidRequest(
            f"The handler is {handler!r}: give a function that takes a message, without calling it."
        )


def is_plain(handler: MessageHandler) -> bool:
    """Whether it runs in a thread: it is no coroutine function, nor an object that is called like
    one."""
    call = type(handler).__call__ if not inspect.isroutine(handler) else None
    return not (inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(call))


class Handlers:
    """The handler of one `serve`, with its threads if it needs any."""

    def __init__(self, handler: MessageHandler, concurrency: int) -> None:
        self._handler = handler
        # A thread is started when there is work for it and no other is idle.
        self._pool = (
            ThreadPoolExecutor(concurrency, thread_name_prefix="penstock-handler")
            if is_plain(handler)
            else None
        )

    async def call(self, message: Message) -> None:
        """Returns when the message has been dealt with; raises what the handler raises."""
        if self._pool is None:
            outcome = self._handler(message)
        else:
            work = partial(copy_context().run, _in_thread, self._handler, message)
            outcome = await asyncio.get_running_loop().run_in_executor(self._pool, work)
        if inspect.isawaitable(outcome):
            await outcome

    def close(self) -> None:
        """A thread cannot be cut off: one that is at work ends by itself, and settles nothing."""
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)


def _in_thread(handler: MessageHandler, message: Message) -> object:
    try:
        return handler(message)
    except StopIteration as error:
        # No future takes one: whoever awaits it would think that it has returned.
        raise RuntimeError("The handler raised StopIteration.") from error


class FromThreads:
    """Takes what becomes of messages instead of a consumer whose loop runs in another thread: who
    says something in a handler's thread waits until it is said."""

    def __init__(self) -> None:
        self.consumer: Any = None
        """Set before there is a message."""
        self._loop = asyncio.get_running_loop()

    @property
    def group_counts_attempts(self) -> bool:
        return bool(self.consumer.group_counts_attempts)

    def attempt(self, message: Message) -> int:
        return int(self.consumer.attempt(message))

    def acknowledge(self, message: Message) -> Any:
        return self._say(self.consumer.acknowledge, message)

    def release(self, message: Message, delay_s: float = 0.0) -> Any:
        return self._say(self.consumer.release, message, delay_s)

    def fail(self, message: Message, reason: str = "") -> Any:
        return self._say(self.consumer.fail, message, reason)

    def reject(self, message: Message, reason: str = "") -> Any:
        return self._say(self.consumer.reject, message, reason)

    def extend(self, message: Message) -> Any:
        return self._say(self.consumer.extend, message)

    def reply(self, message: Message, value: bytes | None, headers: Any = ()) -> Any:
        return self._say(self.consumer.reply, message, value, headers)

    def _say(self, method: Callable[..., Awaitable[Any]], *arguments: Any) -> Any:
        async def say() -> Any:
            return await method(*arguments)

        if asyncio._get_running_loop() is self._loop:  # noqa: SLF001 - none is no error here
            return method(*arguments)
        return asyncio.run_coroutine_threadsafe(say(), self._loop).result()
