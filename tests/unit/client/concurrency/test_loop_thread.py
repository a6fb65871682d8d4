"""A loop in a thread: results come back, interrupts go in, nothing is left."""

from __future__ import annotations

import asyncio
import signal
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from penstock.client.concurrency import loop_thread
from penstock.client.concurrency.loop_thread import LoopThread
from penstock.model.errors import ClientClosed, InvalidRequest


def test_an_interrupted_wait_cancels_the_work() -> None:
    with LoopThread() as thread:
        ended = threading.Event()

        async def work() -> None:
            main = threading.main_thread().ident
            assert main is not None
            signal.pthread_kill(main, signal.SIGINT)
            try:
                await asyncio.Event().wait()
            finally:
                ended.set()

        with pytest.raises(KeyboardInterrupt):
            thread.run(work())
        assert ended.wait(5)


def test_nothing_runs_after_the_end() -> None:
    with LoopThread() as thread:
        assert thread.call(lambda: 1) == 1
    with pytest.raises(ClientClosed):
        thread.call(lambda: 1)


def test_who_still_waits_at_the_end_is_told() -> None:
    """Not left to wait for a loop that no longer turns."""
    started = threading.Event()

    async def work() -> None:
        started.set()
        await asyncio.Event().wait()

    with ThreadPoolExecutor(1) as pool:
        with LoopThread() as thread:
            waiting = pool.submit(thread.run, work())
            assert started.wait(5)
        with pytest.raises(ClientClosed):
            waiting.result(5)
    with pytest.raises(ClientClosed):
        thread.post(lambda: None)


def test_a_timeout_of_the_work_is_not_taken_for_one_of_the_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(loop_thread, "INTERRUPT_CHECK_S", 0.001)

    async def work() -> None:
        await asyncio.sleep(0.01)
        raise TimeoutError("of the work")

    with LoopThread() as thread, pytest.raises(TimeoutError, match="of the work"):
        thread.run(work())


def test_the_loop_does_not_wait_for_itself() -> None:
    """As a coroutine would that calls the client it runs in: it would wait for ever."""

    async def work() -> int:
        return 1

    async def work_of_a_handler() -> int:
        handed = thread.run_from_anywhere(work())
        assert not isinstance(handed, int)
        return await handed

    with LoopThread() as thread:
        with pytest.raises(InvalidRequest, match="own event loop"):
            thread.call(lambda: thread.call(lambda: 1))
        assert thread.run(work_of_a_handler()) == 1
        assert thread.run_from_anywhere(work()) == 1
