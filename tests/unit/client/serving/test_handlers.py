"""Which handlers run in threads, and what becomes of what they raise."""

from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import Context
from typing import Any, TypeVarTuple, cast

import pytest

from penstock.client.serving import handlers as handlers_module
from penstock.client.serving.handlers import FromThreads, Handlers, is_plain
from penstock.model.errors import ClientClosed
from penstock.records import Message

Args = TypeVarTuple("Args")


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


async def test_as_many_threads_as_handlers_at_work() -> None:
    """And none that the interpreter would wait for at its end."""
    together = threading.Barrier(3, timeout=10)
    seen: set[threading.Thread] = set()

    def handler(message: Message) -> None:
        seen.add(threading.current_thread())
        if message is not None:
            together.wait()

    handlers = Handlers(handler, 3)
    nothing = cast(Message, None)
    for _ in range(3):
        await handlers.call(nothing)
    assert len(seen) == 1, "the idle one is taken before another is started"
    for _ in range(2):
        await asyncio.gather(*[handlers.call(cast(Message, "one")) for _ in range(3)])
    assert len(seen) == 3
    assert all(thread.daemon for thread in seen)
    handlers.close()
    for thread in seen:
        await asyncio.to_thread(thread.join, 10)
        assert not thread.is_alive()


async def test_what_has_not_begun_when_it_is_cancelled_never_does() -> None:
    begun: list[object] = []
    may_end = threading.Event()

    def handler(message: Message) -> None:
        begun.append(message)
        may_end.wait(10)

    handlers = Handlers(handler, 1)
    tasks = [asyncio.create_task(handlers.call(cast(Message, name))) for name in ("one", "two")]
    while not begun:
        await asyncio.sleep(0)
    tasks[1].cancel()
    with pytest.raises(asyncio.CancelledError):
        await tasks[1]
    may_end.set()
    await tasks[0]
    await handlers.call(cast(Message, "three"))
    assert begun == ["one", "three"]
    handlers.close()


class Consumer:
    """One whose loop is about to end."""

    async def acknowledge(self, message: Message) -> None:
        await asyncio.Event().wait()


class TellingLoop(asyncio.SelectorEventLoop):
    """Says when another thread has given it something to do."""

    def __init__(self) -> None:
        super().__init__()
        self.was_called = threading.Event()

    def call_soon_threadsafe(
        self, callback: Callable[[*Args], object], *args: *Args, context: Context | None = None
    ) -> asyncio.Handle:
        handle = super().call_soon_threadsafe(callback, *args, context=context)
        self.was_called.set()
        return handle


@pytest.fixture
def loop() -> Iterator[TellingLoop]:
    loop = TellingLoop()
    yield loop
    loop.close()


@pytest.fixture
def source(loop: TellingLoop) -> FromThreads:
    async def make() -> FromThreads:
        return FromThreads(Consumer())

    source = loop.run_until_complete(make())
    loop.was_called.clear()
    return source


@pytest.mark.parametrize("when", ["before", "between", "after"])
def test_who_speaks_when_the_loop_ends_is_told(
    loop: TellingLoop, source: FromThreads, when: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not left to wait for ever: cancelled by the end, or never begun, or too late."""
    monkeypatch.setattr(handlers_module, "_LOOP_CHECK_S", 0.001)
    if when == "after":
        loop.close()
    with ThreadPoolExecutor(1) as pool:
        speaking = pool.submit(source.acknowledge, cast(Message, "one"))
        if when != "after":
            assert loop.was_called.wait(10)
        if when == "before":
            loop.run_until_complete(asyncio.sleep(0))
            tasks = asyncio.all_tasks(loop)
            for task in tasks:
                task.cancel()
            loop.run_until_complete(asyncio.wait(tasks))
        loop.close()
        with pytest.raises(ClientClosed):
            speaking.result(10)
