"""What tests of handlers share: a topic of numbers, and who takes what becomes of messages."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from penstock.client.client import Client, connect
from penstock.client.serving.serving import ServeConfig, serve
from penstock.records import Message
from tests.kit.broker.running import RawClient, batch, running


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
    """Takes what becomes of messages, instead of a consumer's ledger."""

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

    def release(self, message: Message, delay_s: float) -> Awaitable[None]:
        return self._note("released", message, f"for {delay_s:g} s")


class CountingFacade(Facade):
    """Of a group that counts attempts itself."""

    group_counts_attempts = True

    def attempt(self, message: Message) -> int:
        return 1


async def serve_with(mq: Client, facade: Facade, handler: Any, **settings: Any) -> None:
    consumer = mq.consumer("orders", group="billing", facade=lambda _: facade)
    await serve(consumer, handler, ServeConfig(**settings))
