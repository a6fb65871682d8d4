"""Shared groups and handlers without an event loop: any thread settles.

R-DEL-3, R-DEL-6.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import threading
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

import penstock
from penstock.client.blocking import BlockingClient
from penstock.client.loop_thread import LoopThread
from penstock.model.errors import ClientClosed, InvalidRequest
from penstock.records import Message
from tests.support import batch, running


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


async def test_a_shared_group_counts_the_attempts_of_threads_too() -> None:
    """R-DEL-9: a handler that raises gets the message again from the group, and counted there."""
    attempts: list[int] = []
    is_done = threading.Event()

    def handle(message: Message) -> None:
        attempts.append(message.attempt)
        if len(attempts) < 3:
            raise ValueError("not yet")
        is_done.set()

    def work(mq: BlockingClient) -> threading.Thread:
        with pytest.raises(InvalidRequest, match="give a function that takes a message"):
            mq.serve(None, "jobs", group="workers")  # type: ignore[arg-type]

        def serve() -> None:
            with contextlib.suppress(ClientClosed):  # when the client ends
                mq.serve(handle, "jobs", group="workers", shared=True, backoff_ms=1)

        thread = threading.Thread(target=serve)
        thread.start()
        assert is_done.wait(10)
        return thread

    async with address_of_jobs(1) as address:
        thread = await in_thread(address, work)
        await asyncio.to_thread(thread.join)
    assert attempts == [1, 2, 3]
