"""A consumer in a process of its own, to be stopped and killed: writes each value and acknowledges.

python -m tests.system.delivery.pushed_consumer ADDRESS TOPIC GROUP NAME [pull]
"""

from __future__ import annotations

import asyncio
import sys

import penstock


async def main(address: str, topic: str, group: str, name: str, how: str = "push") -> None:
    async with (
        penstock.connect(address, client_name=name) as mq,
        mq.subscribe(topic, group=group, push=how == "push") as consumer,
    ):
        async for message in consumer:
            sys.stdout.write(f"{(message.value or b'').decode()}\n")
            sys.stdout.flush()
            await message.ack()


asyncio.run(main(*sys.argv[1:]))
