"""Shared groups and handlers without an event loop: any thread settles.

R-DEL-3, R-DEL-6.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import threading
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

import penstock
from penstock.client.blocking.client import BlockingClient
from penstock.client.concurrency.loop_thread import LoopThread
from penstock.model.errors import ClientClosed, InvalidRequest
from penstock.records import Message
from tests.kit.broker.running import batch, running


@contextlib.asynccontextmanager
async def address_of_jobs(count: int) -> AsyncIterator[str]:
    async with running() as (broker, raw):
        await raw.create("jobs")
        await raw.produce("jobs", batch([b"%d" % number for number in range(count)]))
        yield broker.addresses[0]


async def in_thread(address: str, work: Callable[[BlockingClient], Any]) -> Any:
    """The test's loop is the broker's."""

    def run() -> Any:
        with penstock.connect_blocking(address, client_name="blocking") as mq:
            return work(mq)

    async with asyncio.timeout(20):
        return await asyncio.to_thread(run)


@pytest.mark.parametrize("push", [True, False])
async def test_messages_are_shared_and_settled_from_any_thread(push: bool) -> None:
    """R-DEL-3: acknowledged, failed, released, rejected, extended."""

    def work(mq: BlockingClient) -> list[tuple[bytes | None, int]]:
        with mq.share("jobs", group="workers", push=push, backoff_ms=1) as consumer:
            first = list(itertools.islice(consumer, 5))
            assert [message.value for message in first] == [b"0", b"1", b"2", b"3", b"4"]
            first[0].extend()
            calls: list[Callable[[], Any]] = [
                first[0].ack,
                first[1].ack,
                lambda: first[2].fail("later"),
                first[3].release,
                lambda: first[4].reject("never"),
            ]
            threads = [threading.Thread(target=call) for call in calls]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            consumer.commit()
            again = [*consumer.fetch(1, 5), *consumer.fetch(1, 5)]
            assert consumer.lost_count == 0
            assert len(consumer.partitions) == 1
            found = sorted((message.value, message.attempt) for message in again)
            for message in again:
                message.ack()
            return found

    async with address_of_jobs(5) as address:
        assert await in_thread(address, work) == [(b"2", 2), (b"3", 1)]


async def test_what_a_closed_consumer_handed_out_cannot_be_settled() -> None:
    def work(mq: BlockingClient) -> None:
        with mq.share("jobs", group="workers") as consumer:
            [message] = consumer.fetch(1)
        with pytest.raises(ClientClosed):
            message.ack()
        with pytest.raises(InvalidRequest, match="no topic"):
            mq.share(group="workers")

    async with address_of_jobs(1) as address:
        await in_thread(address, work)


@pytest.mark.parametrize("shared", [True, False])
async def test_handlers_run_in_threads(shared: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """R-DEL-6: as many as asked for; an interrupt lets them come to their end."""
    done: list[bytes | None] = []
    names: set[str] = set()
    together = threading.Barrier(3, timeout=10)
    may_end = threading.Event()

    def handle(message: Message) -> None:
        names.add(threading.current_thread().name)
        if message.offset < 3:
            together.wait()
        done.append(message.value)
        if len(done) == 20:
            may_end.set()

    def work(mq: BlockingClient) -> int:
        assert [client.name for client in mq.clients.list().clients if client.name] == ["blocking"]
        with monkeypatch.context() as patched:
            run = LoopThread.run

            def run_serve(thread: LoopThread, coroutine: Any) -> Any:
                if coroutine.__name__ != "serving":
                    return run(thread, coroutine)
                future = asyncio.run_coroutine_threadsafe(coroutine, thread.loop)
                may_end.wait(10)
                future.cancel()
                raise KeyboardInterrupt

            patched.setattr(LoopThread, "run", run_serve)
            with pytest.raises(KeyboardInterrupt):
                mq.serve(handle, "jobs", group="workers", shared=shared, concurrency=3)
        if shared:
            with mq.share("jobs", group="workers") as consumer:
                return len(consumer.fetch(timeout_s=0.2))
        return sum(lag.lag or 0 for lag in mq.admin.group_lag("workers"))

    async with address_of_jobs(20) as address:
        assert await in_thread(address, work) == 0
    assert sorted(done, key=bytes.__str__) == sorted(
        (b"%d" % n for n in range(20)), key=bytes.__str__
    )
    assert len(names) == 3
    assert all(name.startswith("penstock-handler") for name in names)


def start_serving(
    mq: BlockingClient, handle: Callable[[Message], object], **settings: Any
) -> Future[None]:
    """Handles `jobs` in another thread, until the client ends."""

    def serve() -> None:
        with contextlib.suppress(ClientClosed):
            mq.serve(handle, "jobs", group="workers", **settings)

    pool = ThreadPoolExecutor(1)
    serving = pool.submit(serve)
    pool.shutdown(wait=False)
    return serving


@pytest.mark.parametrize("is_async", [True, False])
async def test_failures_are_tried_again_here_and_given_up(is_async: bool) -> None:
    """R-DEL-9: in a group that counts no attempts; then the next message has its turn."""
    seen: list[bytes | None] = []
    is_done = threading.Event()

    def handle(message: Message) -> None:
        seen.append(message.value)
        if message.value == b"0":
            raise ValueError("never")
        is_done.set()

    async def handle_on_the_loop(message: Message) -> None:
        handle(message)

    def work(mq: BlockingClient) -> Future[None]:
        handler = handle_on_the_loop if is_async else handle
        serving = start_serving(mq, handler, concurrency=1, attempts=3, retry_backoff_ms=1)
        assert is_done.wait(10)
        [letter] = mq.dead_letters.list("workers")
        assert letter.reason == "ValueError: never"
        return serving

    async with address_of_jobs(2) as address:
        await asyncio.wrap_future(await in_thread(address, work))
    assert seen == [b"0"] * 3 + [b"1"]


@pytest.mark.parametrize("shared", [True, False])
async def test_a_handler_on_the_loop_says_what_becomes_of_messages(shared: bool) -> None:
    """R-DEL-3, R-DEL-6: it awaits that, and the loop does not wait for itself."""
    said: list[bytes | None] = []
    clients: list[BlockingClient] = []

    async def handle(message: Message) -> None:
        match message.value:
            case b"0":
                await message.ack()
            case b"1":
                await message.reject("never")
            case b"2":
                await message.fail("once")
                await message.ack()
            case b"3" if shared:
                await message.extend()
            case b"answer me":
                await message.reply(b"an answer")
            case b"ask yourself":
                with pytest.raises(InvalidRequest, match="own event loop"):
                    clients[0].publish("jobs", b"one more")
                await message.reply(b"refused")
        said.append(message.value)

    def work(mq: BlockingClient) -> Future[None]:
        clients.append(mq)
        serving = start_serving(mq, handle, concurrency=1, shared=shared)
        assert mq.request("jobs", b"answer me").value == b"an answer"
        assert mq.request("jobs", b"ask yourself").value == b"refused"
        return serving

    async with address_of_jobs(4) as address:
        await asyncio.wrap_future(await in_thread(address, work))
    assert said == [b"0", b"1", b"2", b"3", b"answer me", b"ask yourself"]


async def test_a_shared_group_counts_the_attempts_of_threads_too() -> None:
    """R-DEL-9: a handler that raises gets the message again from the group, and counted there."""
    attempts: list[int] = []
    is_done = threading.Event()

    def handle(message: Message) -> None:
        attempts.append(message.attempt)
        if len(attempts) < 3:
            raise ValueError("not yet")
        is_done.set()

    def work(mq: BlockingClient) -> Future[None]:
        with pytest.raises(InvalidRequest, match="give a function that takes a message"):
            mq.serve(None, "jobs", group="workers")  # type: ignore[arg-type]
        serving = start_serving(mq, handle, shared=True, backoff_ms=1)
        assert is_done.wait(10)
        return serving

    async with address_of_jobs(1) as address:
        await asyncio.wrap_future(await in_thread(address, work))
    assert attempts == [1, 2, 3]
