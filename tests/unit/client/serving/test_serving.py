"""Handlers: as many at a time as asked for, acknowledged when done, tried again, cancelled well."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any, cast

import pytest

from penstock.client.client import Client, connect
from penstock.client.serving.serving import ServeSettings, split_settings
from penstock.model.errors import (
    InvalidConfig,
    InvalidRequest,
    PenstockError,
    StorageFailed,
    UnknownLease,
)
from penstock.records import Message
from tests.kit.broker.running import RawClient, batch, running
from tests.kit.client.serving import (
    CountingFacade,
    Facade,
    cancel,
    committed,
    orders,
    serve_with,
    until,
)


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


async def test_who_is_cancelled_once_more_leaves_no_handler_at_work() -> None:
    """As with two presses of Ctrl-C: the first waits for handlers, the second does not."""
    async with orders(3) as (_, mq):
        begun: list[int] = []
        ended: list[int] = []

        async def handle(message: Message) -> None:
            begun.append(message.offset)
            try:
                await asyncio.Event().wait()
            finally:
                ended.append(message.offset)

        task = asyncio.create_task(mq.serve(handle, "orders", group="billing"))
        await until(lambda: len(begun) == 3)
        task.cancel()
        await asyncio.wait([task], timeout=0.05)
        assert not ended
        await cancel(task)
        assert sorted(ended) == [0, 1, 2]


async def test_what_waits_to_be_tried_again_keeps_nobody_who_is_to_end() -> None:
    """R-DEL-3: nothing is at work; whoever has the partition next tries it."""
    async with orders(3) as (_, mq):
        facade = Facade()

        async def handle(message: Message) -> None:
            raise OSError("not now")

        settings = {"retry_backoff_ms": 3_600_000, "retry_backoff_ms_max": 3_600_000}
        task = asyncio.create_task(
            serve_with(mq, facade, handle, finish_timeout_ms=3_600_000, **settings)
        )
        await until(lambda: len(facade.outcomes) == 3)
        task.cancel()
        await until(task.done)
        assert task.cancelled()
        assert facade.outcomes == [("failed", offset, "OSError: not now") for offset in range(3)]


async def test_what_fails_when_it_is_to_end_is_not_tried_again() -> None:
    """R-DEL-3: who is at work comes to its end, and that is it."""
    async with orders(2) as (_, mq):
        facade, begun, may_end = Facade(), [0, 0], asyncio.Event()

        async def handle(message: Message) -> None:
            begun[message.offset] += 1
            await may_end.wait()
            if message.offset == 1:
                raise OSError("not now")

        settings = {"retry_backoff_ms": 1, "retry_backoff_ms_max": 1}
        task = asyncio.create_task(
            serve_with(mq, facade, handle, finish_timeout_ms=3_600_000, **settings)
        )
        await until(lambda: begun == [1, 1])
        task.cancel()
        await asyncio.wait([task], timeout=0.05)
        assert not task.done()
        may_end.set()
        await until(task.done)
        assert begun == [1, 1]
        assert facade.outcomes == [("acknowledged", 0, ""), ("failed", 1, "OSError: not now")]


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


@pytest.mark.parametrize("handler", [None, "orders"])
async def test_what_is_no_handler_is_refused(handler: Any) -> None:
    async with orders(1) as (_, mq):
        with pytest.raises(InvalidRequest, match="give a function that takes a message"):
            await mq.serve(handler, "orders", group="billing")


async def test_plain_functions_run_in_threads_and_settle_there() -> None:
    """R-DEL-6: a function that waits stops neither the others nor the loop."""
    async with orders(6) as (_, mq):
        together = threading.Barrier(3, timeout=10)
        names: set[str] = set()
        done: list[int] = []

        def handle(message: Message) -> None:
            together.wait()
            names.add(threading.current_thread().name)
            message.ack()
            done.append(message.offset)

        task = asyncio.create_task(mq.serve(handle, "orders", group="billing", concurrency=3))
        await until(lambda: len(done) == 6)
        await cancel(task)
        assert len(names) == 3
        assert all(name.startswith("penstock-handler") for name in names)
        assert await committed(mq) == 6


# --- shared groups -----------------------------------------------------------------------------


@contextlib.asynccontextmanager
async def jobs(count: int) -> AsyncIterator[tuple[RawClient, Client]]:
    """A topic with so many messages, which are numbers."""
    async with running() as (broker, raw), connect(broker.addresses) as mq:
        await raw.create("jobs")
        await raw.produce("jobs", batch([b"%d" % number for number in range(count)]))
        yield raw, mq


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
                    with contextlib.suppress(PenstockError):
                        letters = await raw.fetch("dead-letters.workers")
        assert [letter.value for letter in letters] == [b"1"]
        reasons = dict(letters[0].headers)
        assert b"ValueError: no such order" in reasons.values()
        assert attempts == {b"0": 1, b"1": 3, b"2": 1}


async def test_a_failure_is_logged_with_its_traceback_and_attempt(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """R-OPS-5: where it failed, and how often it was tried."""
    async with jobs(1) as (_, mq):
        attempts: list[int] = []

        async def handle(message: Message) -> None:
            attempts.append(message.attempt)
            raise ValueError("no such order")

        async with serving(mq, handle, attempts_max=3, backoff_ms=1):
            await until(lambda: attempts == [1, 2, 3])
    told = [record for record in caplog.records if record.name == "penstock.client.serving.serving"]
    assert [record.getMessage()[-9:] for record in told] == [f"attempt {n}" for n in (1, 2, 3)]
    assert all(record.exc_info and record.exc_info[0] is ValueError for record in told)


@pytest.mark.parametrize("shared", [True, False])
async def test_where_every_message_fails_none_is_buried(
    shared: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """R-DEL-9: a database that is gone for a moment costs no topic."""
    async with jobs(60) as (_, mq):
        works = False
        seen: set[bytes | None] = set()
        tries = 0

        async def handle(message: Message) -> None:
            nonlocal tries
            tries += 1
            if not works:
                raise ConnectionError("the database is gone")
            seen.add(message.value)

        settings: dict[str, Any] = {"shared": shared, "failing_pause_ms_max": 20}
        settings["backoff_ms" if shared else "retry_backoff_ms"] = 1
        task = asyncio.create_task(mq.serve(handle, "jobs", group="workers", **settings))
        await until(lambda: any("one after another" in each for each in caplog.messages))
        tries_before = tries
        await until(lambda: tries > tries_before + 10)
        works = True
        await until(lambda: len(seen) == 60)
        await cancel(task)
        assert "Messages are handled again." in caplog.messages
        assert not await mq.dead_letters.groups()


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


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize(
    ("name", "meant"), [("concurency", "concurrency"), ("grop", "group"), ("leases_ms", "lease_ms")]
)
def test_one_that_there_is_not_is_told_with_the_nearest(
    name: str, meant: str, shared: bool
) -> None:
    given: Any = {"group": "g", "shared": shared, name: 5}
    with pytest.raises(InvalidConfig, match=rf"^{name} is not a setting.* Did you mean {meant}\?"):
        split_settings(given)


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
