"""`mq.serve`: a handler for every message, so many at a time.

A message is acknowledged when its handler has returned. One whose handler raises is failed where
its group keeps count of attempts (a shared group); elsewhere it is tried again here, after growing
waits, and rejected after the last attempt: to the group's dead letters. Not how messages come: that
is the consumer's affair.

The invariant: a message is acknowledged, failed or rejected only when its handler has ended, so one
that was cut off by a cancellation or a crash is delivered again. With more than one at a time the
order of handling is given up, of messages of one partition too.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, fields
from inspect import isawaitable
from typing import Any, Final, cast

from penstock.client.backoff import Backoff
from penstock.client.consumer import Consumer, ConsumerSettings
from penstock.model.delivery_errors import UnknownLease
from penstock.model.errors import InvalidConfig, InvalidRequest
from penstock.records import Message

logger = logging.getLogger(__name__)

MessageHandler = Callable[[Message], Awaitable[object] | object]
"""Given a message; a coroutine is awaited. What it returns does not matter, what it raises does."""

CONCURRENCY_MAX: Final = 100_000
# A reason goes with a dead letter, in a header.
_REASON_CHARACTERS_MAX: Final = 1_000


class ServeSettings(ConsumerSettings, total=False):
    """The settings of `ServeConfig` and of the consumer, as keywords of `Client.serve`."""

    concurrency: int
    attempts: int
    retry_backoff_ms: int
    retry_backoff_ms_max: int
    finish_timeout_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeConfig:
    """How messages are handled."""

    concurrency: int = 8
    """How many at the same time; 1: one after another, in the order of each partition."""

    attempts: int = 5
    """How often a message is tried before it is rejected, where its group does not count."""

    retry_backoff_ms: int = 100
    """The wait before the second attempt; it doubles from there."""

    retry_backoff_ms_max: int = 30_000
    """The longest wait between two attempts."""

    finish_timeout_ms: int = 10_000
    """How long a cancelled `serve` waits for handlers that are at work."""

    def __post_init__(self) -> None:
        for name, low, high in (
            ("concurrency", 1, CONCURRENCY_MAX),
            ("attempts", 1, 1_000_000),
            ("retry_backoff_ms", 1, 2**31),
            ("retry_backoff_ms_max", 1, 2**31),
            ("finish_timeout_ms", 0, 2**31),
        ):
            value = getattr(self, name)
            if not low <= value <= high:
                raise InvalidConfig(f"{name} is {value}: it must be from {low} to {high}.")


def split_settings(settings: ServeSettings) -> tuple[ServeConfig, ConsumerSettings]:
    """What is for the handling, and what is for the consumer, which is pushed to unless it says
    otherwise."""
    if settings.get("group") is None:
        raise InvalidRequest(
            "Handled messages are acknowledged for a group: give one, as in group='billing'."
        )
    for_consumer: dict[str, Any] = {"push": True, **settings}
    for_handling = {
        name: for_consumer.pop(name)
        for name in (field.name for field in fields(ServeConfig))
        if name in for_consumer
    }
    return ServeConfig(**for_handling), cast(ConsumerSettings, for_consumer)


async def serve(consumer: Consumer, handler: MessageHandler, config: ServeConfig) -> None:
    """Handle messages until this is cancelled, or reading or acknowledging fails.

    A cancellation takes nothing new, lets handlers that are at work come to their end for a while,
    and cuts off the rest.
    """
    async with consumer:
        serving = _Serving(handler, config)
        try:
            await serving.run(consumer)
        finally:
            await serving.finish()


class _Serving:
    """The handlers at work."""

    def __init__(self, handler: MessageHandler, config: ServeConfig) -> None:
        self._handler = handler
        self._config = config
        self._backoff = Backoff(
            first_s=config.retry_backoff_ms / 1000, longest_s=config.retry_backoff_ms_max / 1000
        )
        self._tasks: set[asyncio.Task[None]] = set()
        self._has_room = asyncio.Event()
        self._has_room.set()
        # Who takes messages, as long as somebody does; and by what acknowledging failed, if it did.
        self._runner: asyncio.Task[Any] | None = None
        self._failure: BaseException | None = None

    async def run(self, consumer: Consumer) -> None:
        self._runner = runner = asyncio.current_task()
        assert runner is not None
        try:
            while True:
                for message in await consumer.next_hand():
                    self._start(message)
                    if len(self._tasks) >= self._config.concurrency:
                        # Before the next is taken: what is taken is at work.
                        self._has_room.clear()
                        await self._has_room.wait()
        except asyncio.CancelledError:
            if self._failure is None or runner.uncancel() > 0:
                raise
            raise self._failure from None

    async def finish(self) -> None:
        self._runner = None
        if self._tasks:
            timeout_s = self._config.finish_timeout_ms / 1000
            _, late = await asyncio.wait(self._tasks, timeout=timeout_s)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)

    def _start(self, message: Message) -> None:
        task = asyncio.get_running_loop().create_task(self._handle(message))
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._has_room.set()
        if task.cancelled() or (error := task.exception()) is None:
            return
        if self._runner is not None and self._failure is None:
            self._failure = error
            self._runner.cancel()
        else:
            logger.warning("A message could not be settled, and is delivered again: %s", error)

    async def _handle(self, message: Message) -> None:
        attempt = 1
        while True:
            try:
                outcome = self._handler(message)
                if isawaitable(outcome):
                    await outcome
                break
            except Exception as error:
                reason = f"{type(error).__name__}: {error}"[:_REASON_CHARACTERS_MAX]
                logger.warning(
                    "The handler failed for %s-%d at offset %d, attempt %d: %s",
                    message.topic,
                    message.partition,
                    message.offset,
                    attempt,
                    reason,
                )
            await self._settle(message.fail(reason))
            if getattr(message.source, "group_counts_attempts", False):
                return
            if attempt >= self._config.attempts:
                await self._settle(message.reject(reason))
                return
            await asyncio.sleep(self._backoff.wait_s(attempt))
            attempt += 1
        await self._settle(message.ack())

    async def _settle(self, settling: Awaitable[object]) -> None:
        try:
            await settling
        except UnknownLease as error:
            # Its handler took longer than the lease: somebody else has it, or will.
            logger.warning("A message was handled and is no longer this member's: %s", error)
