"""A topic as a table of Spark: asked, made into another topic exactly once, watched for its lag.

Needs `pip install 'penstock[spark]'` and a Java. Start a broker: `penstock up`.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

import penstock
import penstock.spark

ORDERS = 10_000
CUSTOMERS = ("alice", "bob", "carol")


def publish(mq: penstock.BlockingClient) -> None:
    with mq.producer() as producer:
        for number in range(ORDERS):
            customer = CUSTOMERS[number % 3]
            order = {"id": number, "customer": customer, "amount": number % 100}
            producer.send("orders", json.dumps(order).encode(), key=customer.encode())


def main(address: str) -> None:
    with penstock.connect_blocking(address) as mq:
        publish(mq)
        spark = penstock.spark.session("local[2]", config={"spark.sql.shuffle.partitions": "2"})
        broker = {"bootstrap": address}
        typed = {"valueFormat": "json", "valueSchema": "id BIGINT, customer STRING, amount INT"}

        # Batch: the topic as it is now, with typed columns.
        orders = spark.read.format("penstock").options(**broker, **typed, subscribe="orders").load()
        orders.groupBy("customer").agg({"amount": "sum"}).orderBy("customer").show()

        # Stream: large orders into a topic of their own, each exactly once, also after a crash;
        # the progress is visible as the lag of the group `large-orders`.
        source = spark.readStream.format("penstock").options(**broker, **typed, subscribe="orders")
        source = source.options(startingOffsets="earliest", groupId="large-orders")
        large = source.load().where("amount >= 90")
        messages = large.selectExpr("key", "to_json(struct(id, customer, amount)) AS value")
        with tempfile.TemporaryDirectory() as folder:
            sink = messages.writeStream.format("penstock").options(**broker, topic="large-orders")
            sink = sink.option("checkpointLocation", str(Path(folder, "checkpoint")))
            sink.trigger(availableNow=True).start().awaitTermination()

        written = spark.read.format("penstock").options(**broker, subscribe="large-orders").load()
        lag = sum(partition.lag for partition in mq.admin.group_lag("large-orders"))
        print(f"{written.count()} large orders, {lag} orders still to be looked at")
        spark.stop()


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9092")
