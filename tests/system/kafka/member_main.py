"""A member of a consumer group as a process of its own, with one of Python's clients: it can be
killed and stopped like any other. `members.py` starts it and reads what it tells.

It speaks the lines of JSON of the clients in other languages: one request on standard input, events
on standard output, and it leaves its group in order when another line or the end of input comes.
"""

from __future__ import annotations

import asyncio
import json
import sys
import threading
import time
import warnings
from collections.abc import Iterable
from typing import Any

import confluent_kafka
from aiokafka import AIOKafkaConsumer
from aiokafka import ConsumerRebalanceListener as AiokafkaListener

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import ConsumerRebalanceListener as KafkaPythonListener
    from kafka import KafkaConsumer

_POLL_S = 0.2
# No member of these tests is without partitions for so long, but one that is stuck.
_STUCK_S = 10.0
_closing = threading.Event()


def main() -> None:
    client = sys.argv[1]
    request = json.loads(sys.stdin.readline())
    threading.Thread(target=_wait_for_the_next_line, daemon=True).start()
    if client == "confluent-kafka":
        run_confluent(request)
    elif client == "aiokafka":
        asyncio.run(run_aiokafka(request))
    else:
        run_kafka_python(request)


def run_confluent(request: dict[str, Any]) -> None:
    settings = {
        "bootstrap.servers": request["bootstrap"],
        "group.id": request["group"],
        "auto.offset.reset": "earliest",
        "auto.commit.interval.ms": 200,
    }
    if request["protocol"] == "consumer":
        settings["group.protocol"] = "consumer"
    else:
        settings["partition.assignment.strategy"] = request["protocol"]
        settings["session.timeout.ms"] = request["session_timeout_ms"]
        settings["heartbeat.interval.ms"] = 500
    if request["instance"] is not None:
        settings["group.instance.id"] = request["instance"]
    consumer = confluent_kafka.Consumer(settings)
    consumer.subscribe(
        request["topics"],
        on_assign=lambda _, partitions: tell_partitions("assigned", partitions),
        on_revoke=lambda _, partitions: tell_partitions("revoked", partitions),
        on_lost=lambda _, partitions: tell_partitions("revoked", partitions),
    )
    while not _closing.is_set():
        message = consumer.poll(_POLL_S)
        if message is not None and message.error() is None:
            tell_read(message.value())
    consumer.close()


async def run_aiokafka(request: dict[str, Any]) -> None:
    consumer = AIOKafkaConsumer(
        bootstrap_servers=request["bootstrap"],
        group_id=request["group"],
        group_instance_id=request["instance"],
        auto_offset_reset="earliest",
        auto_commit_interval_ms=200,
        session_timeout_ms=request["session_timeout_ms"],
        heartbeat_interval_ms=500,
    )

    class Telling(AiokafkaListener):  # type: ignore[misc]
        async def on_partitions_assigned(self, assigned: Iterable[Any]) -> None:
            tell_partitions("assigned", assigned)

        async def on_partitions_revoked(self, revoked: Iterable[Any]) -> None:
            tell_partitions("revoked", revoked)

    consumer.subscribe(request["topics"], listener=Telling())
    await consumer.start()
    while not _closing.is_set():
        for messages in (await consumer.getmany(timeout_ms=int(_POLL_S * 1000))).values():
            for message in messages:
                tell_read(message.value)
    tell_partitions("revoked", consumer.assignment())
    await consumer.stop()


def run_kafka_python(request: dict[str, Any]) -> None:
    consumer = _kafka_python_consumer(request)
    assigned_at_s = time.monotonic()
    while not _closing.is_set():
        for messages in consumer.poll(timeout_ms=int(_POLL_S * 1000)).values():
            for message in messages:
                tell_read(message.value)
        if consumer.assignment():
            assigned_at_s = time.monotonic()
        elif time.monotonic() - assigned_at_s > _STUCK_S:
            # kafka-python 3.0.12 forgets the answer to its SyncGroup when its poll ends just before
            # that comes, and neither joins again nor sends heartbeats. So it does with Kafka.
            consumer.close()
            consumer = _kafka_python_consumer(request)
            assigned_at_s = time.monotonic()
    tell_partitions("revoked", consumer.assignment())
    consumer.close()


def _kafka_python_consumer(request: dict[str, Any]) -> Any:
    consumer = KafkaConsumer(
        bootstrap_servers=request["bootstrap"],
        group_id=request["group"],
        auto_offset_reset="earliest",
        auto_commit_interval_ms=200,
        session_timeout_ms=request["session_timeout_ms"],
        heartbeat_interval_ms=500,
    )

    class Telling(KafkaPythonListener):  # type: ignore[misc]
        def on_partitions_assigned(self, assigned: Iterable[Any]) -> None:
            tell_partitions("assigned", assigned)

        def on_partitions_revoked(self, revoked: Iterable[Any]) -> None:
            tell_partitions("revoked", revoked)

    consumer.subscribe(request["topics"], listener=Telling())
    return consumer


def tell_partitions(event: str, partitions: Iterable[Any]) -> None:
    listed = [(partition.topic, partition.partition) for partition in partitions]
    _tell(event=event, partitions=listed)


def tell_read(value: bytes) -> None:
    _tell(event="read", value=value.decode())


def _tell(**event: object) -> None:
    # The same clock in every process of the machine, so that events of several can be ordered.
    print(json.dumps({**event, "at_ns": str(time.monotonic_ns())}), flush=True)


def _wait_for_the_next_line() -> None:
    sys.stdin.readline()
    _closing.set()


if __name__ == "__main__":
    main()
