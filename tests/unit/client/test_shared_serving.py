"""Handlers of a shared group: acknowledged, failed, released, kept while they work.

R-DEL-3, R-DEL-6, R-DEL-9.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Callable
from typing import Any, cast

import pytest

import penstock
from penstock import Client
from penstock.client.serving import ServeSettings, split_settings
from penstock.model.errors import InvalidConfig
from penstock.records import Message
from tests.support import RawClient, batch, running


@contextlib.asynccontextmanager
async def jobs(count: int) -> AsyncIterator[tuple[RawClient, Client]]:
    """A topic with so many messages, which are numbers."""
    async with running() as (broker, raw), penstock.connect(broker.addresses) as mq:
        await raw.create("jobs")
        await raw.produce("jobs", batch([b"%d" % number for number in range(count)]))
        yield raw, mq


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.001)


@contextlib.asynccontextmanager
async def serving(mq: Client, handler: Any, **settings: Any) -> AsyncIterator[asyncio.Task[None]]:
    task = asyncio.create_task(mq.serve(handler, "jobs", group="workers", shared=True, **settings))
    try:
        yield task
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def left(mq: Client) -> list[int]:
    """What a new member of the group is handed out."""
    async with mq.share("jobs", group="workers") as consumer:
        found = []
        while messages := await consumer.fetch(timeout_s=0.1):
            found += messages
        return sorted(int(message.value or b"") for message in found)


@pytest.mark.parametrize("push", [True, False])
async def test_handled_messages_are_acknowledged(push: bool) -> None:
    """R-DEL-3: each once, as many at a time as asked for."""
    async with jobs(50) as (_, mq):
        seen: Counter[bytes | None] = Counter()
        at_work = most = 0

        async def handle(message: Message) -> None:
            nonlocal at_work, most
            at_work += 1
            most = max(most, at_work)
            await asyncio.sleep(0.001)
            at_work -= 1
            seen[message.value] += 1

        async with serving(mq, handle, concurrency=4, push=push):
            await until(lambda: len(seen) == 50)
        assert most == 4
        assert set(seen.values()) == {1}
        assert await left(mq) == []


async def test_failed_messages_become_dead_letters() -> None:
    """R-DEL-9: after the group's attempts, with the reason."""
    async with jobs(3) as (raw, mq):
        attempts: Counter[bytes | None] = Counter()

        def handle(message: Message) -> None:
            attempts[message.value] += 1
            assert message.attempt == attempts[message.value]
            if message.value == b"1":
                raise ValueError("no such order")

        async with serving(mq, handle, attempts_max=3, backoff_ms=1):
            await until(lambda: attempts[b"1"] == 3)
            letters: list[Message] = []
            async with asyncio.timeout(10):
                while not letters:
                    with contextlib.suppress(penstock.PenstockError):
                        letters = await raw.fetch("dead-letters.workers")
        assert [letter.value for letter in letters] == [b"1"]
        reasons = dict(letters[0].headers)
        assert b"ValueError: no such order" in reasons.values()
        assert attempts == {b"0": 1, b"1": 3, b"2": 1}


async def test_a_handler_that_is_cut_off_releases_its_message() -> None:
    """R-DEL-3: others get it at once, with no attempt counted."""
    async with jobs(2) as (_, mq):
        begun = []

        async def handle(message: Message) -> None:
            begun.append(message)
            await asyncio.Event().wait()

        async with serving(mq, handle, finish_timeout_ms=0):
            await until(lambda: len(begun) == 2)
        async with mq.share("jobs", group="workers") as consumer:
            taken = await consumer.fetch(2, 5)
            assert [message.attempt for message in taken] == [1, 1]


async def test_what_waits_behind_a_slow_handler_goes_to_others() -> None:
    """R-DEL-3: at half of its lease, and without an attempt."""
    async with jobs(3) as (_, mq):
        begun = []

        async def handle(message: Message) -> None:
            begun.append(message.value)
            await asyncio.Event().wait()

        settings: dict[str, Any] = {"lease_ms": 1_000}
        async with serving(mq, handle, concurrency=1, prefetch=2, finish_timeout_ms=0, **settings):
            await until(lambda: begun == [b"0"])
            async with mq.share("jobs", group="workers", **settings) as consumer:
                found: dict[bytes | None, int] = {}
                async with asyncio.timeout(5):
                    while len(found) < 2:
                        for message in await consumer.fetch():
                            found[message.value] = message.attempt
                            await message.ack()
                assert found == {b"1": 1, b"2": 1}


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({"lease_ms": 5}, "lease_ms"),
        ({"ordered": True}, "ordered"),
        ({"shared": True, "attempts": 5}, "attempts"),
        ({"shared": True, "assignor": "ring"}, "assignor"),
    ],
)
def test_settings_of_the_other_kind_are_refused(settings: Any, name: str) -> None:
    with pytest.raises(InvalidConfig, match=f"^{name} is not a setting"):
        split_settings(cast(ServeSettings, {"group": "g", **settings}))


def test_settings_are_split() -> None:
    config, exclusive, shared = split_settings(
        {"group": "g", "shared": True, "concurrency": 3, "ordered": True, "lease_ms": 9}
    )
    assert config.concurrency == 3
    assert exclusive is None
    assert shared == {
        "group": "g",
        "push": True,
        "ordered": True,
        "lease_ms": 9,
        "auto_extend": True,
        "prefetch": 3,
    }
