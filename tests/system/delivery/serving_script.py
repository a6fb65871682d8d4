"""A worker as users write them, ended by a signal: `python serving_script.py ADDRESS KIND`."""

from __future__ import annotations

import asyncio
import sys
import time

import penstock
from penstock.records import Message


async def handle(message: Message) -> None:
    print("begun", flush=True)
    await asyncio.sleep(0.5)
    print("done", flush=True)


def work(message: Message) -> None:
    print("begun", flush=True)
    time.sleep(0.5)
    print("done", flush=True)


async def serve(address: str, *, is_child: bool = False) -> None:
    async with penstock.connect(address) as mq:
        serving = mq.serve(handle, "jobs", group="workers", concurrency=3, shared=True)
        if is_child:
            async with asyncio.TaskGroup() as group:
                group.create_task(serving)
                group.create_task(asyncio.Event().wait())
        await serving
    print("returned")


async def leave(address: str) -> None:
    """Ends without waiting for what it has started."""
    mq = penstock.connect(address)
    await mq.__aenter__()
    begun = asyncio.Event()

    async def hang(message: Message) -> None:
        begun.set()
        await asyncio.Event().wait()

    serving = mq.serve(hang, "jobs", group="workers", shared=True, finish_timeout_ms=0)
    task = asyncio.create_task(serving)
    await begun.wait()
    print("begun", flush=True)
    await mq.__aexit__(None, None, None)
    task.cancel()


def main(address: str, kind: str) -> None:
    if kind == "blocking":
        with penstock.connect_blocking(address) as mq:
            mq.serve(work, "jobs", group="workers", concurrency=3, shared=True)
        print("returned")
    elif kind == "leave":
        asyncio.run(leave(address))
    else:
        asyncio.run(serve(address, is_child=kind == "child"))


if __name__ == "__main__":
    main(*sys.argv[1:])
