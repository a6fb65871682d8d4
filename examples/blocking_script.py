"""A script without asyncio: load lines, read them by time. Start a broker: `penstock up`."""

from __future__ import annotations

import sys
from datetime import UTC, datetime, timedelta

import penstock

LINES = 100_000


def main(address: str) -> None:
    began = datetime.now(UTC) - timedelta(seconds=1)
    with penstock.connect_blocking(address) as mq:
        with mq.producer() as producer:
            for number in range(LINES):
                producer.send("lines", b"line %d" % number)
        # Leaving the `with` has flushed: every line is acknowledged.

        with mq.subscribe("lines", start=began) as consumer:
            seen = 0
            for messages in consumer.batches():
                seen += len(messages)
                if seen >= LINES:
                    break
        print(f"{seen} lines since {began:%H:%M:%S}")

        for topic in mq.admin.list_topics():
            print(f"{topic.name}: {topic.partition_count} partitions")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9092")
