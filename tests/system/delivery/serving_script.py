"""A worker as users write them, ended by a signal: `python serving_script.py ADDRESS KIND MODE`."""

from __future__ import annotations

import asyncio
import signal
import sys
import threading
import time

import uvloop

import penstock
from penstock.records import Message


async def handle(message: Message) -> None:
    print("begun", flush=True)
    await asyncio.sleep(0.5)
    print("done", flush=True)


async def handle_and_interrupt(message: Message) -> None:
    signal.raise_signal(signal.SIGINT)
    await handle(message)


def work(message: Message) -> None:
    print("begun", flush=True)
    time.sleep(0.5)
    print("done", flush=True)


def hang(message: Message) -> None:
    print("begun", flush=True)
    threading.Event().wait()


async def serve(address: str, *, shared: bool, is_child: bool = False) -> None:
    async with penstock.connect(address) as mq:
        serving = mq.serve(handle, "jobs", group="workers", concurrency=3, shared=shared)
        if is_child:
            async with asyncio.TaskGroup() as group:
                group.create_task(serving)
                group.create_task(asyncio.Event().wait())
        await serving
    print("returned")


async def serve_beside_a_loop(address: str, *, shared: bool) -> None:
    """Which has nothing to finish, and begins again while the program goes on to its end."""
    async with penstock.connect(address) as mq:

        async def keep_serving() -> None:
            while True:
                await mq.serve(handle, "idle", group="idlers", shared=shared)

        loop = asyncio.create_task(keep_serving())
        await mq.serve(handle, "jobs", group="workers", concurrency=3, shared=shared)
        await asyncio.wait([loop], timeout=0.2)
    print("returned")


async def serve_until_interrupted(address: str, *, shared: bool) -> None:
    async with penstock.connect(address) as mq:
        handler = handle_and_interrupt
        await mq.serve(handler, "jobs", group="workers", concurrency=1, shared=shared)
    print("returned")


async def serve_again_and_again(address: str, *, shared: bool) -> None:
    """As those do who go on after an error."""
    async with penstock.connect(address) as mq:
        while True:
            await mq.serve(handle, "jobs", group="workers", concurrency=3, shared=shared)


async def serve_two_again_and_again(address: str, *, shared: bool) -> None:
    """Of which the second has nothing to finish, and begins again before the first has ended."""
    async with penstock.connect(address) as mq:

        async def keep_serving(topic: str, group: str) -> None:
            while True:
                await mq.serve(handle, topic, group=group, concurrency=3, shared=shared)

        await asyncio.gather(keep_serving("jobs", "workers"), keep_serving("idle", "idlers"))


async def hang_in_a_thread(address: str, *, shared: bool) -> None:
    async with penstock.connect(address) as mq:
        await mq.serve(hang, "jobs", group="workers", shared=shared, finish_timeout_ms=100)
    print("returned")


async def leave(address: str, *, shared: bool) -> None:
    """Ends without waiting for what it has started."""
    mq = penstock.connect(address)
    await mq.__aenter__()
    begun = asyncio.Event()

    async def wait(message: Message) -> None:
        begun.set()
        await asyncio.Event().wait()

    serving = mq.serve(wait, "jobs", group="workers", shared=shared, finish_timeout_ms=0)
    task = asyncio.create_task(serving)
    await begun.wait()
    print("begun", flush=True)
    await mq.__aexit__(None, None, None)
    task.cancel()


def serve_blocking(address: str, kind: str, *, shared: bool) -> None:
    with penstock.connect_blocking(address) as mq:
        if kind == "blocking, hangs":
            mq.serve(hang, "jobs", group="workers", shared=shared, finish_timeout_ms=100)
        else:
            mq.serve(work, "jobs", group="workers", concurrency=3, shared=shared)
        while kind == "blocking, again":
            mq.serve(work, "jobs", group="workers", concurrency=3, shared=shared)
    print("returned")


def main(address: str, kind: str, mode: str) -> None:
    shared = mode == "shared"
    match kind:
        case "main" | "child":
            asyncio.run(serve(address, shared=shared, is_child=kind == "child"))
        case "main, uvloop":
            uvloop.run(serve(address, shared=shared))
        case "beside a loop":
            asyncio.run(serve_beside_a_loop(address, shared=shared))
        case "runs":
            asyncio.run(serve(address, shared=shared))
            asyncio.run(serve_until_interrupted(address, shared=shared))
        case "again":
            asyncio.run(serve_again_and_again(address, shared=shared))
        case "children, again":
            asyncio.run(serve_two_again_and_again(address, shared=shared))
        case "hangs":
            asyncio.run(hang_in_a_thread(address, shared=shared))
        case "leave":
            asyncio.run(leave(address, shared=shared))
        case _:
            serve_blocking(address, kind, shared=shared)


if __name__ == "__main__":
    main(*sys.argv[1:])
