"""Handlers: as many at a time as asked for, acknowledged when done, tried again, cancelled well."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from penstock.client.client import Client, connect
from penstock.client.serving import ServeConfig, serve
from penstock.model.delivery_errors import UnknownLease
from penstock.model.errors import InvalidConfig, InvalidRequest, StorageFailed
from penstock.records import Message
from tests.support import RawClient, batch, running


@contextlib.asynccontextmanager
async def orders(count: int) -> AsyncIterator[tuple[RawClient, Client]]:
    """A topic with so many messages, which are numbers."""
    async with running() as (broker, raw), connect(broker.addresses) as mq:
        await raw.create("orders")
        await raw.produce("orders", batch([b"%d" % number for number in range(count)]))
        yield raw, mq


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0)


async def committed(mq: Client) -> int:
    [lag] = await mq.admin.group_lag("billing")
    return lag.committed or 0


async def cancel(task: asyncio.Task[None]) -> None:
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


class Facade:
    """Takes what becomes of messages, instead of a consumer."""

    def __init__(self, error: Exception | None = None) -> None:
        self.outcomes: list[tuple[str, int, str]] = []
        self._error = error

    def _note(self, outcome: str, message: Message, reason: str = "") -> Awaitable[None]:
        self.outcomes.append((outcome, message.offset, reason))
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if self._error is not None:
            done.set_exception(self._error)
        else:
            done.set_result(None)
        return done

    def acknowledge(self, message: Message) -> Awaitable[None]:
        return self._note("acknowledged", message)

    def reject(self, message: Message, reason: str) -> Awaitable[None]:
        return self._note("rejected", message, reason)

    def fail(self, message: Message, reason: str) -> Awaitable[None]:
        return self._note("failed", message, reason)


class CountingFacade(Facade):
    """Of a group that counts attempts itself."""

    group_counts_attempts = True


async def serve_with(mq: Client, facade: Facade, handler: Any, **settings: Any) -> None:
    consumer = mq.consumer("orders", group="billing", source=facade)
    await serve(consumer, handler, ServeConfig(**settings))


@pytest.mark.parametrize("push", [True, False])
async def test_messages_are_acknowledged_when_they_are_handled(push: bool) -> None:
    """R-DEL-6: handlers with a concurrency limit, pushed or pulled."""
    async with orders(50) as (_, mq):
        at_work, most, done = 0, 0, 0

        async def handle(message: Message) -> None:
            nonlocal at_work, most, done
            at_work += 1
            most = max(most, at_work)
            await asyncio.sleep(0)
            at_work -= 1
            done += 1

        task = asyncio.create_task(
            mq.serve(handle, "orders", group="billing", concurrency=4, push=push)
        )
        await until(lambda: done == 50)
        await cancel(task)
        assert most == 4
        assert await committed(mq) == 50


async def test_one_at_a_time_keeps_the_order() -> None:
    async with orders(20) as (_, mq):
        seen: list[bytes | None] = []

        def handle(message: Message) -> None:
            seen.append(message.value)

        task = asyncio.create_task(mq.serve(handle, "orders", group="billing", concurrency=1))
        await until(lambda: len(seen) == 20)
        assert seen == [b"%d" % number for number in range(20)]
        await cancel(task)


async def test_a_cancelled_serve_finishes_what_is_at_work_and_loses_nothing() -> None:
    async with orders(10) as (_, mq):
        begun: list[int] = []
        may_end = asyncio.Event()

        async def handle(message: Message) -> None:
            begun.append(message.offset)
            await may_end.wait()

        task = asyncio.create_task(mq.serve(handle, "orders", group="billing", concurrency=3))
        await until(lambda: len(begun) == 3)
        task.cancel()
        for _ in range(10):
            await asyncio.sleep(0)
        assert not task.done()
        may_end.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert begun == [0, 1, 2]
        assert await committed(mq) == 3


async def test_handlers_that_do_not_end_are_cut_off_and_not_acknowledged() -> None:
    async with orders(10) as (_, mq):
        begun: list[int] = []
        cut_off: list[int] = []

        async def handle(message: Message) -> None:
            begun.append(message.offset)
            if message.offset != 1:
                return
            try:
                await asyncio.Event().wait()
            finally:
                cut_off.append(message.offset)

        serving = mq.serve(handle, "orders", group="billing", concurrency=2, finish_timeout_ms=1)
        task = asyncio.create_task(serving)
        await until(lambda: len(begun) == 10)
        await cancel(task)
        assert cut_off == [1]
        assert await committed(mq) == 1


async def test_a_handler_that_raises_is_tried_again_and_then_given_up() -> None:
    """R-DEL-9: after a number of tries, with the reason."""
    async with orders(3) as (_, mq):
        tries: list[int] = []
        facade = Facade()

        async def handle(message: Message) -> None:
            tries.append(message.offset)
            if message.offset == 1:
                raise ValueError("bad order")
            if message.offset == 2 and tries.count(2) < 2:
                raise OSError("not now")

        task = asyncio.create_task(
            serve_with(mq, facade, handle, concurrency=1, attempts=3, retry_backoff_ms=1)
        )
        await until(lambda: len(facade.outcomes) == 7)
        assert tries == [0, 1, 1, 1, 2, 2]
        assert facade.outcomes == [
            ("acknowledged", 0, ""),
            *[("failed", 1, "ValueError: bad order")] * 3,
            ("rejected", 1, "ValueError: bad order"),
            ("failed", 2, "OSError: not now"),
            ("acknowledged", 2, ""),
        ]
        await cancel(task)


async def test_where_the_group_counts_attempts_a_failure_is_told_at_once() -> None:
    async with orders(2) as (_, mq):
        facade = CountingFacade()

        async def handle(message: Message) -> None:
            if message.offset == 0:
                raise ValueError("bad order")

        task = asyncio.create_task(serve_with(mq, facade, handle, concurrency=1))
        await until(lambda: len(facade.outcomes) == 2)
        assert facade.outcomes == [("failed", 0, "ValueError: bad order"), ("acknowledged", 1, "")]
        await cancel(task)


async def test_a_lease_that_ran_out_is_no_reason_to_stop() -> None:
    async with orders(2) as (_, mq):
        facade = Facade(UnknownLease("Too late."))
        task = asyncio.create_task(serve_with(mq, facade, lambda _: None, concurrency=1))
        await until(lambda: len(facade.outcomes) == 2)
        await cancel(task)


@pytest.mark.parametrize("concurrency", [1, 8])
async def test_what_cannot_be_acknowledged_ends_it_with_the_error(concurrency: int) -> None:
    """Also where no further message comes."""
    async with orders(2) as (_, mq):
        facade = Facade(StorageFailed("The disk is full."))
        with pytest.raises(StorageFailed, match="The disk is full"):
            await serve_with(mq, facade, lambda _: None, concurrency=concurrency)
        task = asyncio.current_task()
        assert task is not None
        assert task.cancelling() == 0


async def test_settings_that_make_no_sense_are_refused() -> None:
    async with orders(1) as (_, mq):
        with pytest.raises(InvalidRequest, match="give one, as in group="):
            await mq.serve(lambda _: None, "orders")
        with pytest.raises(InvalidConfig, match="concurrency is 0"):
            await mq.serve(lambda _: None, "orders", group="billing", concurrency=0)
