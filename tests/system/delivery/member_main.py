"""One member of a group in a process of its own, so that it can be killed: it tells what it is
given, what it gives up and what it reads, a line of JSON each.

    python -m tests.system.delivery.member_main ADDRESS TOPIC GROUP NAME
"""

from __future__ import annotations

import asyncio
import json
import sys

import penstock
from penstock.model.ids import TopicPartition


def tell(**event: object) -> None:
    print(json.dumps(event), flush=True)


async def main(address: str, topic: str, group: str, name: str) -> None:
    def assigned(partitions: list[TopicPartition]) -> None:
        tell(event="assigned", partitions=[each.partition for each in partitions])

    def revoked(partitions: list[TopicPartition]) -> None:
        tell(event="revoked", partitions=[each.partition for each in partitions])

    async with (
        penstock.connect(address) as mq,
        mq.subscribe(
            topic, group=group, name=name, on_assigned=assigned, on_revoked=revoked
        ) as consumer,
    ):
        async for message in consumer:
            tell(event="read", partition=message.partition, offset=message.offset)
            await message.ack()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
