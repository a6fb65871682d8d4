"""Shared groups and handlers for code without an event loop.

A facade: see `SharedConsumer` and `serving`. The invariant: any thread may say what became of a
message; it is in the hands of the consumer when the call returns. A message costs two changes of
thread, one to take it and one to settle it: what waits here would be kept from others.
"""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterator
from contextlib import ExitStack
from types import TracebackType
from typing import Any, ClassVar, Final, Self

from penstock.client.client import Client
from penstock.client.concurrency.loop_thread import INTERRUPT_CHECK_S, LoopThread
from penstock.client.producing.accumulator import Headers
from penstock.client.serving.serving import Ending, ServeConfig, Served, serve
from penstock.client.serving.stop_signals import asked_by_signals, told_before
from penstock.client.sharing.settings import SharedConsumerSettings
from penstock.model.ids import TopicPartition
from penstock.records import Message

# After an interrupt, beyond the time that handlers have to come to their end.
_LEAVE_S: Final = 10.0


class BlockingSharedConsumer:
    """See `SharedConsumer`. One thread reads; any may settle."""

    group_counts_attempts: ClassVar = True

    def __init__(
        self,
        thread: LoopThread,
        client: Client,
        topics: Collection[str],
        settings: SharedConsumerSettings,
    ) -> None:
        self._thread = thread
        self.consumer = thread.call(lambda: client.share(*topics, source=self, **settings))

    def __enter__(self) -> Self:
        self._thread.run(self.consumer.start())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Tell the outcomes that there are, give the rest back, and leave the group."""
        self._thread.run(self.consumer.close())

    def __iter__(self) -> Iterator[Message]:
        """Every message that is leased to this member, for ever."""
        while True:
            yield from self.fetch(1)

    def fetch(
        self, max_messages: int | None = None, timeout_s: float | None = None
    ) -> list[Message]:
        """The next messages: at least one, unless the time is over first."""
        return self._thread.run(self.consumer.fetch(max_messages, timeout_s))

    @property
    def partitions(self) -> list[TopicPartition]:
        """What is being leased from."""
        return self._thread.call(lambda: self.consumer.partitions)

    @property
    def lost_count(self) -> int:
        """Messages whose lease had run out when their outcome was told: others got them too."""
        return self._thread.call(lambda: self.consumer.lost_count)

    def resume(self) -> None:
        """Go on where a broker has parked what it pushes, whoever had it do so."""
        self._thread.call(self.consumer.resume)

    def commit(self) -> None:
        """Returns when every outcome so far is durable on the broker."""
        self._thread.run(self.consumer.commit())

    # --- what messages call --------------------------------------------------------------------

    def attempt(self, message: Message) -> int:
        return self.consumer.attempt(message)

    def acknowledge(self, message: Message) -> Awaitable[None] | None:
        return self._settle(lambda: self.consumer.acknowledge(message))

    def release(self, message: Message, delay_s: float = 0.0) -> Awaitable[None] | None:
        return self._settle(lambda: self.consumer.release(message, delay_s))

    def fail(self, message: Message, reason: str = "") -> Awaitable[None] | None:
        return self._settle(lambda: self.consumer.fail(message, reason))

    def reject(self, message: Message, reason: str = "") -> Awaitable[None] | None:
        return self._settle(lambda: self.consumer.reject(message, reason))

    def extend(self, message: Message) -> Coroutine[Any, Any, None] | None:
        """Returns when the lease is longer."""
        return self._thread.run_from_anywhere(self.consumer.extend(message))

    def reply(
        self, message: Message, value: bytes | None, headers: Headers = ()
    ) -> Coroutine[Any, Any, None] | None:
        return self._thread.run_from_anywhere(self.consumer.reply(message, value, headers))

    def _settle(self, settle: Callable[[], Awaitable[None]]) -> Awaitable[None] | None:
        """From the loop itself, where `serve` settles, what is to be awaited."""
        if self._thread.is_current:
            return settle()
        self._thread.call(settle)
        return None


def serve_in_threads(
    thread: LoopThread, consumer: Served, handler: Callable[[Message], object], config: ServeConfig
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
