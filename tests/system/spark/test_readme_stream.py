"""README.md's block of Spark works as it is shown: it is run, out of the file itself.

Only the broker and the folder are others. `tests/system/test_readme.py` runs the other blocks.
"""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

import penstock
import penstock.testing
from penstock.records import Message
from tests.kit.runs.readme import python_block, replaced


def test_the_stream_shouts_each_message_once(spark: SparkSession, tmp_path: Path) -> None:
    """R-SPK-1, R-SPK-2: what comes after its start, in the session that the process has."""
    with penstock.testing.broker() as address, penstock.connect_blocking(address) as mq:
        mq.admin.create_topic("orders")
        mq.admin.create_topic("shouted", partitions=1)
        block = python_block("penstock.spark.session()", address)
        exec(replaced(block, '"checkpoint"', repr(str(tmp_path))), {"penstock": penstock})
        [query] = spark.streams.active
        query.processAllAvailable()
        for value in (b"tea", b"milk"):
            mq.publish("orders", value, key=b"alice")
        query.processAllAvailable()
        query.stop()
        [partition] = mq.admin.describe_topic("shouted").partitions
        assert partition.high_watermark == 2
        found: list[Message] = []
        with mq.consumer("shouted") as consumer:
            while len(found) < 2:
                found += consumer.fetch()
        assert [(message.key, message.value) for message in found] == [
            (b"alice", b"TEA"),
            (b"alice", b"MILK"),
        ]
