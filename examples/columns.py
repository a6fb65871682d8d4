"""Read messages as columns, without an object for any of them. Start a broker: `penstock up`."""

from __future__ import annotations

import asyncio
import sys

import penstock

READINGS = 100_000


async def main(address: str) -> None:
    async with penstock.connect(address) as mq:
        async with mq.producer() as producer:
            for number in range(READINGS):
                sensor = b"sensor-%d" % (number % 10)
                await producer.send("readings", b"%d" % (number % 100), key=sensor)

        rows = value_bytes = 0
        async with mq.consumer("readings") as consumer:
            while rows < READINGS:
                for fetched in await consumer.fetch_columns():
                    rows += fetched.columns.record_count
                    value_bytes += len(fetched.columns.values.data)
                    # With pyarrow: pa.py_buffer(fetched.columns.values.data), without a copy.
        print(f"{rows} readings, {value_bytes} bytes of values")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9092"))
