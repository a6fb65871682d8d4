"""A consumer in a process of its own, to be stopped and killed: writes each value and acknowledges.

python -m tests.system.delivery.pushed_consumer ADDRESS TOPIC GROUP NAME
"""

from __future__ import annotations

import asyncio
import sys

import penstock


async def main(address: str, topic: str, group: str, name: str) -> None:
    async with (
        penstock.connect(address, client_name=name) as mq,
        mq.subscribe(topic, group=group, push=True) as consumer,
    ):
        async for message in consumer:
            sys.stdout.write(f"{(message.value or b'').decode()}\n")
            sys.stdout.flush()
            await message.ack()


asyncio.run(main(*sys.argv[1:]))
