"""An event loop in a thread of its own, for code that does not have one.

The invariant: work given to `run` has ended, or is being cancelled, when `run` returns or raises,
and the thread ends with its `with`. Whoever waits for work at that moment gets ClientClosed. The
loop never waits for itself.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Final, Self, TypeVar

from penstock.model.errors import ClientClosed, InvalidRequest

ResultT = TypeVar("ResultT")

# An interrupt that comes just before a thread begins to wait for a lock does not end the wait: it
# is seen when the wait ends by itself.
INTERRUPT_CHECK_S: Final = 0.5


class LoopThread:
    """A thread that runs a loop. Other threads give it coroutines and wait for their results."""

    def __init__(self) -> None:
        self._runner = asyncio.Runner(loop_factory=loop_factory())
        self._thread = threading.Thread(target=self._work, name="penstock-client", daemon=True)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ready = threading.Event()
        # Between a look at `_is_ended` and giving the loop work it must not change.
        self._gate = threading.Lock()
        self._is_ended = False

    def __enter__(self) -> Self:
        self._thread.start()
        self._ready.wait()
        return self

    def __exit__(self, *_: object) -> None:
        with self._gate:
            self._is_ended = True
            self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        assert self._loop is not None, "the thread has not been started"
        return self._loop

    @property
    def is_current(self) -> bool:
        """Whether this is called by the loop itself: nothing may be waited for here."""
        return threading.current_thread() is self._thread  # idents of threads that ended come again

    def run(self, work: Coroutine[Any, Any, ResultT]) -> ResultT:
        """Run a coroutine in the loop and wait for it. Interrupted, it is cancelled."""
        if self.is_current:
            work.close()
            raise InvalidRequest(
                "This runs on the client's own event loop, which cannot wait for itself: call it "
                "from a plain function, which has a thread, or use the client of connect()."
            )
        with self._gate:
            if self._is_ended:
                work.close()
                raise ClientClosed
            future = asyncio.run_coroutine_threadsafe(work, self.loop)
        try:
            return _result(future)
        except concurrent.futures.CancelledError:
            raise ClientClosed from None  # the loop has ended, and all that ran in it
        except BaseException:
            future.cancel()
            raise

    def run_from_anywhere(
        self, work: Coroutine[Any, Any, ResultT]
    ) -> ResultT | Coroutine[Any, Any, ResultT]:
        """The same; called by the loop itself, where a handler may run, what is to be awaited."""
        return work if self.is_current else self.run(work)

    def call(self, function: Callable[[], ResultT]) -> ResultT:
        """Call a function in the loop's thread and wait for it."""

        async def work() -> ResultT:
            return function()

        return self.run(work())

    def post(self, function: Callable[[], None]) -> None:
        """Have a function called in the loop's thread, without waiting for it."""
        with self._gate:
            if self._is_ended:
                raise ClientClosed
            self.loop.call_soon_threadsafe(function)

    def _work(self) -> None:
        with self._runner:
            self._loop = self._runner.get_loop()
            self._ready.set()
            self._loop.run_forever()


def _result(future: concurrent.futures.Future[ResultT]) -> ResultT:
    """Wait for a result, and for an interrupt."""
    while not future.done():
        # Its own TimeoutError, if it has one, is raised by the last line.
        with contextlib.suppress(TimeoutError):
            return future.result(INTERRUPT_CHECK_S)
    return future.result()


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    """Of uvloop's, where there is one."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory
