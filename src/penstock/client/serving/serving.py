"""`mq.serve`: a handler for every message, so many at a time.

A message is acknowledged when its handler has returned. One whose handler raises is failed where
its group keeps count of attempts (a shared group); elsewhere it is tried again here, after growing
waits, and rejected after the last attempt: to the group's dead letters. Where every message fails,
handlers are tried with pauses and no attempt is counted (`failing`). Not how messages come: that is
the consumer's affair; nor how a handler is called (`handlers`). While a handler works, the lease of
its message is extended, however long that takes, unless `auto_extend=False`.

The invariant: a message is acknowledged, failed or rejected only when its handler has ended, so one
that was cut off by a cancellation or a crash is delivered again. With more than one at a time the
order of handling is given up, of messages of one partition too.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Collection, Mapping
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, fields
from difflib import get_close_matches
from functools import partial
from typing import Any, Final, NamedTuple, TypedDict, cast

from penstock.client.concurrency.backoff import Backoff
from penstock.client.config import check_range
from penstock.client.consuming.settings import ConsumerConfig, ConsumerSettings
from penstock.client.reading.any_consumer import AnyConsumer
from penstock.client.serving.failing import Failing
from penstock.client.serving.handlers import Handlers, MessageHandler
from penstock.client.serving.stop_signals import asked_by_signals, is_main_task, told_before
from penstock.client.sharing.consumer import SharedConsumer
from penstock.client.sharing.settings import (
    LeaseSettings,
    SharedConsumerConfig,
    SharedConsumerSettings,
)
from penstock.model.errors import ClientClosed, InvalidConfig, InvalidRequest, NoReply, UnknownLease
from penstock.model.limits import SHARE_WINDOW_OFFSETS_MAX
from penstock.records import Message

logger = logging.getLogger(__name__)

CONCURRENCY_MAX: Final = 100_000
# A reason goes with a dead letter, in a header.
_REASON_CHARACTERS_MAX: Final = 1_000


class HandlingSettings(TypedDict, total=False):
    """The settings of `ServeConfig`."""

    concurrency: int
    attempts: int
    retry_backoff_ms: int
    retry_backoff_ms_max: int
    finish_timeout_ms: int
    failing_pause_ms_max: int
    stop_on_signals: bool


class ServeSettings(HandlingSettings, ConsumerSettings, LeaseSettings, total=False):
    """How messages are handled and by which consumer they come, of a shared group or not, as
    keywords of `Client.serve`."""

    shared: bool


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

    failing_pause_ms_max: int = 30_000
    """Where every message fails, the longest pause before the handler is tried with one more; no
    attempts are counted then. 0: never pause."""

    stop_on_signals: bool = True
    """SIGTERM and SIGINT end it as a cancellation does, and it returns; unless the program handles
    them itself, or this is not its main thread."""

    def __post_init__(self) -> None:
        for name, low, high in (
            ("concurrency", 1, CONCURRENCY_MAX),
            ("attempts", 1, 1_000_000),
            ("retry_backoff_ms", 1, 2**31),
            ("retry_backoff_ms_max", 1, 2**31),
            ("finish_timeout_ms", 0, 2**31),
            ("failing_pause_ms_max", 0, 2**31),
        ):
            check_range(name, getattr(self, name), low, high)


class SplitSettings(NamedTuple):
    """What `serve` was told: how to handle messages, and which consumer brings them."""

    config: ServeConfig
    exclusive: ConsumerSettings | None
    shared: SharedConsumerSettings | None
    """One of the two."""


def split_settings(settings: ServeSettings) -> SplitSettings:
    """What is for the handling, and what is for the consumer, which is pushed to unless it says
    otherwise. InvalidConfig names a setting that there is not, with the nearest, or that this
    consumer does not have."""
    for name in settings:
        if name not in ServeSettings.__annotations__:
            near = get_close_matches(name, ServeSettings.__annotations__, n=1)
            hint = f" Did you mean {near[0]}?" if near else ""
            raise InvalidConfig(f"{name} is not a setting of serve.{hint}")
    if settings.get("group") is None:
        raise InvalidRequest(
            "Handled messages are acknowledged for a group: give one, as in group='billing'."
        )
    given: dict[str, Any] = {"push": True, **settings}
    is_shared = given.pop("shared", False)
    for_handling = {name: given.pop(name) for name in _names(ServeConfig) if name in given}
    config = ServeConfig(**for_handling)
    if not is_shared:
        _check_names(given, _names(ConsumerConfig), "Only a shared group has it: say shared=True.")
        return SplitSettings(config, cast(ConsumerSettings, given), None)
    _check_names(
        for_handling,
        {"concurrency", "finish_timeout_ms", "failing_pause_ms_max", "stop_on_signals"},
        "A shared group counts attempts: say attempts_max, backoff_ms and backoff_ms_max.",
    )
    _check_names(given, _names(SharedConsumerConfig), "A shared group does not have it.")
    # What waits here is kept from others, who may be idle.
    defaults = {"auto_extend": True, "prefetch": min(config.concurrency, SHARE_WINDOW_OFFSETS_MAX)}
    return SplitSettings(config, None, cast(SharedConsumerSettings, {**defaults, **given}))


def _names(config: type[ServeConfig | ConsumerConfig | SharedConsumerConfig]) -> set[str]:
    return {field.name for field in fields(config)}


def _check_names(given: Mapping[str, object], known: Collection[str], advice: str) -> None:
    for name in given:
        if name not in known:
            raise InvalidConfig(f"{name} is not a setting of this consumer. {advice}")


class Ending:
    """The wish that a `serve` ends and returns, from whatever thread."""

    def __init__(self) -> None:
        self.is_asked = False
        self._task: asyncio.Task[Any] | None = None

    def begin(self) -> None:
        """This task is the one to end."""
        self._task = asyncio.current_task()
        if self.is_asked:
            self.ask()

    def ask(self) -> None:
        self.is_asked = True
        if self._task is not None:
            self._task.cancel()


async def serve(
    consumer: AnyConsumer,
    handler: MessageHandler,
    config: ServeConfig,
    ending: Ending | None = None,
) -> None:
    """Handle messages until this is cancelled or asked to end, or reading or acknowledging fails.

    Either takes nothing new and tries nothing again, lets handlers that are at work come to their
    end for a while, and cuts off the rest, whose messages a shared group gets back.
    """
    ending = ending or Ending()
    task, loop = asyncio.current_task(), asyncio.get_running_loop()
    assert task is not None
    async with AsyncExitStack() as stack:
        if config.stop_on_signals:
            is_main = is_main_task(task)
            if told_before(is_last_word=is_main):
                await asyncio.Event().wait()  # for the end of the program
            ask = partial(loop.call_soon_threadsafe, ending.ask)
            stack.enter_context(asked_by_signals(ask, is_last_word=is_main, interrupts=is_main))
        ending.begin()
        try:
            async with consumer:
                serving = _Serving(handler, config, is_shared=isinstance(consumer, SharedConsumer))
                try:
                    await serving.run(consumer)
                finally:
                    await serving.finish()
        except asyncio.CancelledError:
            if not ending.is_asked or task.uncancel() > 0:
                raise


class _Serving:
    """The handlers at work."""

    def __init__(self, handler: MessageHandler, config: ServeConfig, *, is_shared: bool) -> None:
        self._handlers = Handlers(handler, config.concurrency)
        self._is_shared = is_shared
        self._config = config
        self._backoff = Backoff(
            first_s=config.retry_backoff_ms / 1000, longest_s=config.retry_backoff_ms_max / 1000
        )
        self._failing = Failing(config.failing_pause_ms_max / 1000)
        self._tasks: set[asyncio.Task[None]] = set()
        # Those of them that are not at work, but wait to try their message again.
        self._resting: set[asyncio.Task[Any]] = set()
        self._has_room = asyncio.Event()
        self._has_room.set()
        # Who takes messages, as long as somebody does; and by what acknowledging failed, if it did.
        self._runner: asyncio.Task[Any] | None = None
        self._failure: BaseException | None = None

    async def run(self, consumer: AnyConsumer) -> None:
        self._runner = runner = asyncio.current_task()
        assert runner is not None
        try:
            while True:
                for message in await consumer.next_hand():
                    self._start(message)
                    # Before the next is taken: what is taken is at work.
                    if len(self._tasks) >= self._config.concurrency:
                        self._has_room.clear()
                        await self._has_room.wait()
                    await self._failing.wait()
        except asyncio.CancelledError:
            if self._failure is None or runner.uncancel() > 0:
                raise
            raise self._failure from None

    async def finish(self) -> None:
        self._runner = None
        for task in self._resting:
            task.cancel()
        try:
            if self._tasks:
                await asyncio.wait(self._tasks, timeout=self._config.finish_timeout_ms / 1000)
        finally:  # also when it is cancelled once more: nobody works on without a consumer
            late = list(self._tasks)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)
            self._handlers.close()

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
        is_counted_there = getattr(message.source, "group_counts_attempts", False)
        attempt = message.attempt if is_counted_there else 1
        place = message.topic, message.partition, message.offset
        while True:
            try:
                await self._handlers.call(message)
                break
            except NoReply as error:
                # Whoever asked has gone: to do it again would help nobody.
                logger.debug("Offset %d of %s: %s", message.offset, message.topic, error)
                break
            except asyncio.CancelledError:
                if self._is_shared:
                    # Where the consumer has ended before, as in the end of a whole loop, it has
                    # given everything back.
                    with suppress(ClientClosed):
                        await self._settle(message.release())
                raise
            except Exception as error:
                reason = f"{type(error).__name__}: {error}"[:_REASON_CHARACTERS_MAX]
                logger.warning(
                    "The handler failed for %s-%d at offset %d, attempt %d",
                    *place,
                    attempt,
                    exc_info=error,
                )
            now_s = asyncio.get_running_loop().time()
            is_attempt = self._failing.failed(place, reason, now_s)
            if is_counted_there:
                pause_s = self._failing.pause_s
                await self._settle(message.fail(reason) if is_attempt else message.release(pause_s))
                return
            if is_attempt:
                await self._settle(message.fail(reason))
                if attempt >= self._config.attempts:
                    await self._settle(message.reject(reason))
                    return
            if self._runner is None:
                return  # whoever has the partition next tries it
            await self._rest(attempt)
            attempt += is_attempt
        self._failing.handled()
        await self._settle(message.ack())

    async def _rest(self, attempt: int) -> None:
        """Between this attempt and the next; it is cancelled where there is to be none."""
        task = asyncio.current_task()
        assert task is not None
        self._resting.add(task)
        try:
            await asyncio.sleep(self._backoff.wait_s(attempt))
            await self._failing.wait()
        finally:
            self._resting.discard(task)

    async def _settle(self, settling: Awaitable[object]) -> None:
        try:
            await settling
        except UnknownLease as error:
            # Its handler took longer than the lease: somebody else has it, or will.
            logger.warning("A message was handled and is no longer this member's: %s", error)
