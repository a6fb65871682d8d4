"""Handlers for code without an event loop: each message in a thread of a pool, until an interrupt.

See `client.serving`. The invariant: when `serve_in_threads` returns or raises, no handler takes
another message, and each had its time to come to its end.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import ExitStack
from typing import Final

from penstock.client.concurrency.loop_thread import INTERRUPT_CHECK_S, LoopThread
from penstock.client.reading.any_consumer import AnyConsumer
from penstock.client.serving.serving import Ending, ServeConfig, serve
from penstock.client.serving.stop_signals import asked_by_signals, told_before
from penstock.records import Message

# After an interrupt, beyond the time that handlers have to come to their end.
_LEAVE_S: Final = 10.0


def serve_in_threads(
    thread: LoopThread,
    consumer: AnyConsumer,
    handler: Callable[[Message], object],
    config: ServeConfig,
) -> None:
    """Handle messages, each in a thread of a pool, until an interrupt, SIGTERM or an error.

    Then handlers have their time to come to an end, as with `serve`. A thread cannot be cut off:
    one that works on after that settles nothing.
    """
    is_over = threading.Event()
    ending = Ending()

    async def serving() -> None:
        try:
            await serve(consumer, handler, config, ending)
        finally:
            is_over.set()

    def ask() -> None:
        thread.loop.call_soon_threadsafe(ending.ask)

    with ExitStack() as stack:
        if config.stop_on_signals:
            told_before(is_last_word=True)
            stack.enter_context(asked_by_signals(ask, is_last_word=True, interrupts=False))
        try:
            thread.run(serving())
        except KeyboardInterrupt:
            left_s = config.finish_timeout_ms / 1000 + _LEAVE_S
            while not is_over.wait(INTERRUPT_CHECK_S) and left_s > 0:
                left_s -= INTERRUPT_CHECK_S
            raise
