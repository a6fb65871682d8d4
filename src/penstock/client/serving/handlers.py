"""Calls a user's handler: a coroutine function on the loop, a plain function in a thread.

A plain function that waits, for a database or a file, would stop the loop and with it every other
handler and the heartbeats of the group. The invariants: no more threads than handlers at a time,
and none that keeps a program from ending; what a handler says of its message in a thread is said on
the loop, and has been when it returns.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import inspect
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from queue import SimpleQueue
from typing import Any, Final

from penstock.model.errors import ClientClosed, InvalidRequest
from penstock.records import Message

# How often a thread that waits for the loop looks whether there still is one.
_LOOP_CHECK_S: Final = 0.5

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
        self._threads = _Threads(concurrency) if is_plain(handler) else None

    async def call(self, message: Message) -> None:
        """Returns when the message has been dealt with; raises what the handler raises."""
        if self._threads is None:
            outcome = self._handler(message)
        else:
            work = partial(copy_context().run, _in_thread, self._handler, message)
            outcome = await self._threads.run(work)
        if inspect.isawaitable(outcome):
            await outcome

    def close(self) -> None:
        """A thread cannot be cut off: one that is at work ends by itself, and settles nothing."""
        if self._threads is not None:
            self._threads.close()


_Job = tuple[concurrent.futures.Future[object], Callable[[], object]]


class _Threads:
    """So many threads at the most, each started when there is work for it and no other is idle.

    Daemons: the interpreter waits at its end for the threads of a ThreadPoolExecutor, and so a
    handler that hangs would keep a process that was told to end.
    """

    def __init__(self, threads_max: int) -> None:
        self._threads_max = threads_max
        self._started = 0
        self._idle = threading.Semaphore(0)
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()

    async def run(self, work: Callable[[], object]) -> object:
        if not self._idle.acquire(blocking=False) and self._started < self._threads_max:
            name = f"penstock-handler-{self._started}"
            threading.Thread(target=self._work, name=name, daemon=True).start()
            self._started += 1
        future: concurrent.futures.Future[object] = concurrent.futures.Future()
        self._jobs.put((future, work))
        return await asyncio.wrap_future(future)

    def close(self) -> None:
        for _ in range(self._started):
            self._jobs.put(None)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            future, work = job
            is_wanted = future.set_running_or_notify_cancel()
            try:
                tell = partial(future.set_result, work() if is_wanted else None)
            except BaseException as error:  # who waits for it raises it again
                tell = partial(future.set_exception, error)
            self._idle.release()  # before who waits hears of it, and has more work
            if is_wanted:
                tell()
            del job, future, work, tell  # what is idle holds no message


def _in_thread(handler: MessageHandler, message: Message) -> object:
    try:
        return handler(message)
    except StopIteration as error:
        # No future takes one: whoever awaits it would think that it has returned.
        raise RuntimeError("The handler raised StopIteration.") from error


class FromThreads:
    """Takes what is said of messages instead of a ledger whose loop runs in another thread: who
    says something in a handler's thread waits until it is said."""

    def __init__(self, ledger: Any) -> None:
        self._ledger = ledger
        self._loop = asyncio.get_running_loop()

    @property
    def group_counts_attempts(self) -> bool:
        return bool(self._ledger.group_counts_attempts)

    def attempt(self, message: Message) -> int:
        return int(self._ledger.attempt(message))

    def acknowledge(self, message: Message) -> Any:
        return self._say(self._ledger.acknowledge, message)

    def release(self, message: Message, delay_s: float = 0.0) -> Any:
        return self._say(self._ledger.release, message, delay_s)

    def fail(self, message: Message, reason: str = "") -> Any:
        return self._say(self._ledger.fail, message, reason)

    def reject(self, message: Message, reason: str = "") -> Any:
        return self._say(self._ledger.reject, message, reason)

    def extend(self, message: Message) -> Any:
        return self._say(self._ledger.extend, message)

    def reply(self, message: Message, value: bytes | None, headers: Any = ()) -> Any:
        return self._say(self._ledger.reply, message, value, headers)

    def _say(self, method: Callable[..., Awaitable[Any]], *arguments: Any) -> Any:
        async def say() -> Any:
            return await method(*arguments)

        if asyncio._get_running_loop() is self._loop:  # noqa: SLF001 - none is no error here
            return method(*arguments)
        saying = say()
        future = None
        with suppress(RuntimeError):  # the loop is closed
            future = asyncio.run_coroutine_threadsafe(saying, self._loop)
        while future is None or not concurrent.futures.wait([future], _LOOP_CHECK_S).done:
            # What comes after the last turn of a loop and before its end is never begun.
            if self._loop.is_closed():
                saying.close()
                raise ClientClosed
        try:
            return future.result()
        except concurrent.futures.CancelledError:
            raise ClientClosed from None  # the loop has ended, and all that ran in it
