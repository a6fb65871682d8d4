"""A loop in a thread: results come back, interrupts go in, nothing is left."""

from __future__ import annotations

import asyncio
import signal
import threading

import pytest

from penstock.client.loop_thread import LoopThread
from penstock.model.errors import ClientClosed


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
