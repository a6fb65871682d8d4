"""A member of a shared group in a process of its own, to be stopped and killed: writes each value
and acknowledges.

python -m tests.system.delivery.shared_consumer ADDRESS TOPIC GROUP NAME LEASE_MS WORK_S
"""

from __future__ import annotations

import asyncio
import sys

import penstock


async def main(address: str, topic: str, group: str, name: str, lease_ms: str, work_s: str) -> None:
    async with (
        penstock.connect(address, client_name=name) as mq,
        mq.share(topic, group=group, push=True, lease_ms=int(lease_ms), prefetch=20) as consumer,
    ):
        async for message in consumer:
            sys.stdout.write(f"{(message.value or b'').decode()}\n")
            sys.stdout.flush()
            await asyncio.sleep(float(work_s))
            await message.ack()


asyncio.run(main(*sys.argv[1:]))
