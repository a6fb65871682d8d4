"""What the system tests of the client share: reading with a bound, and a look at what is left."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator

import penstock
from penstock import Client, Consumer, Message

# Far more than anything here takes; a test that needs it has failed.
PATIENCE_S = 20.0


async def read(consumer: Consumer, count: int) -> list[Message]:
    """The next messages, one by one."""
    messages: list[Message] = []
    async with asyncio.timeout(PATIENCE_S):
        async for message in consumer:
            messages.append(message)
            if len(messages) == count:
                break
    return messages


async def read_numbers(consumer: Consumer, count: int) -> list[int]:
    """The next messages, whose values are numbers."""
    return [int(message.value or b"") for message in await read(consumer, count)]


async def publish_numbers(mq: Client, topic: str, numbers: range) -> None:
    async with mq.producer() as producer:
        for number in numbers:
            await producer.send(topic, b"%d" % number)


async def until(condition: Callable[[], bool]) -> None:
    """Wait until something has happened, and no longer."""
    async with asyncio.timeout(PATIENCE_S):
        while not condition():
            await asyncio.sleep(0.005)


@contextlib.contextmanager
def no_task_left() -> Iterator[None]:
    """Whatever was started within has ended when it ends."""
    before = asyncio.all_tasks()
    yield
    left = asyncio.all_tasks() - before
    assert not left, f"still running: {left}"


@contextlib.asynccontextmanager
async def tidy_client(address: str, route_refresh_ms: int = 300_000) -> AsyncIterator[Client]:
    """A client that leaves no task in the loop. Not for several at the same time."""
    with no_task_left():
        async with penstock.connect(address, route_refresh_ms=route_refresh_ms) as mq:
            yield mq
