"""confluent-kafka: librdkafka, the client in C that most languages wrap."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, Consumer, Producer, TopicPartition
from confluent_kafka import Message as Received

from tests.system.kafka.drivers.driver import PATIENCE_S, Reading, WholeDriver
from tests.system.kafka.messages import Message, Record


class ConfluentDriver(WholeDriver):
    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap

    def produce(
        self,
        topic: str,
        messages: Sequence[Message],
        *,
        codec: str = "none",
        acks: str = "all",
        idempotent: bool = False,
    ) -> None:
        producer = Producer(
            {
                "bootstrap.servers": self._bootstrap,
                "compression.type": codec,
                "acks": acks,
                "enable.idempotence": idempotent,
                # One batch for all of them where they fit: a codec has something to do.
                "linger.ms": 20,
            }
        )
        refused: list[object] = []

        def delivered(error: object, _: Received) -> None:
            if error is not None:
                refused.append(error)

        for message in messages:
            more = {} if message.timestamp_ms is None else {"timestamp": message.timestamp_ms}
            producer.produce(
                topic,
                message.value,
                message.key,
                partition=0,
                headers=list(message.headers),
                on_delivery=delivered,
                **more,
            )
        assert producer.flush(PATIENCE_S) == 0, "not everything was acknowledged"
        assert not refused, refused

    def consume(self, counts: Mapping[str, int]) -> dict[str, list[Record]]:
        consumer = Consumer(
            {
                "bootstrap.servers": self._bootstrap,
                "group.id": "unused",
                "enable.auto.commit": False,
                "fetch.wait.max.ms": 20,
            }
        )
        reading = Reading(counts)
        try:
            consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING) for topic in counts])
            _read(consumer, reading)
        finally:
            consumer.close()
        return reading.records

    def consume_in_group(self, topic: str, group: str, count: int) -> list[Record]:
        consumer = Consumer(
            {
                "bootstrap.servers": self._bootstrap,
                "group.id": group,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "fetch.wait.max.ms": 20,
            }
        )
        reading = Reading({topic: count})
        try:
            consumer.subscribe([topic])
            _read(consumer, reading)
            after = reading.records[topic][-1].offset + 1
            consumer.commit(offsets=[TopicPartition(topic, 0, after)], asynchronous=False)
        finally:
            consumer.close()
        return reading.records[topic]

    def offset_at(self, topic: str, timestamp_ms: int) -> int | None:
        consumer = Consumer({"bootstrap.servers": self._bootstrap, "group.id": "unused"})
        try:
            asked = [TopicPartition(topic, 0, timestamp_ms)]
            [found] = consumer.offsets_for_times(asked, timeout=PATIENCE_S)
            assert found.error is None, found.error
            return None if found.offset == OFFSET_END else found.offset
        finally:
            consumer.close()


def _read(consumer: Consumer, reading: Reading) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not reading.is_complete:
        assert time.monotonic() < deadline, f"too few messages: {reading}"
        received = consumer.poll(1.0)
        if received is not None:
            assert received.error() is None, received.error()
            reading.add(received.topic(), to_record(received))


def to_record(received: Received) -> Record:
    return Record(
        partition=received.partition(),
        offset=received.offset(),
        key=received.key(),
        value=received.value(),
        headers=tuple(received.headers() or ()),
        timestamp_ms=received.timestamp()[1],
    )
