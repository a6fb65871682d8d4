"""Publish orders and bill them, with asyncio. Start a broker first: `penstock up`."""

from __future__ import annotations

import asyncio
import sys

import penstock
from penstock.client.client import Client

ORDERS = 1_000


async def sell(mq: Client) -> None:
    """One message with a receipt, then many in batches."""
    receipt = await mq.publish("orders", b"the first", key=b"alice")
    print(f"the first order is at offset {receipt.offset} of partition {receipt.partition}")
    async with mq.producer(compression="zstd") as producer:
        for number in range(ORDERS - 1):
            customer = b"customer-%d" % (number % 50)
            await producer.send("orders", b"order %d" % number, key=customer)
    # Leaving the `async with` has flushed: every order is acknowledged.


async def bill(mq: Client) -> None:
    """Read as the group "billing", which goes on where it was after a restart."""
    billed = 0
    async for message in mq.subscribe("orders", group="billing"):
        await message.ack()
        billed += 1
        if billed == ORDERS:
            break
    print(f"{billed} orders billed")


async def main(address: str) -> None:
    async with penstock.connect(address, client_name="shop") as mq, asyncio.TaskGroup() as group:
        group.create_task(sell(mq))
        group.create_task(bill(mq))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9092"))
