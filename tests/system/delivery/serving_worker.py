"""Handlers in a process of their own, to be killed: each writes when it begins and when it is done.

python -m tests.system.delivery.serving_worker ADDRESS TOPIC GROUP CONCURRENCY WORK_S
"""

from __future__ import annotations

import asyncio
import sys

import penstock
from penstock import Message


def write(word: str, message: Message) -> None:
    sys.stdout.write(f"{word} {(message.value or b'').decode()}\n")
    sys.stdout.flush()


async def main(address: str, topic: str, group: str, concurrency: str, work_s: str) -> None:
    async def handle(message: Message) -> None:
        write("begun", message)
        await asyncio.sleep(float(work_s))
        write("done", message)

    async with penstock.connect(address) as mq:
        await mq.serve(handle, topic, group=group, concurrency=int(concurrency))


asyncio.run(main(*sys.argv[1:]))
